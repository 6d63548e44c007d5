"""One kernel from many of the same structure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from .kernel import Kernel


def pool(kernels: Sequence[Kernel], weights: Sequence[float]) -> Kernel:
    """The weighted median of every entry of θ: a mean would be wrecked by degenerate modules.

    Tiny data sets learn lengthscales from 1e-8 to 1e5, so each kernel counts with the rows behind it.
    """
    table = torch.stack([k.theta for k in kernels]).cpu().numpy()
    middle = [weighted_median(column, weights) for column in table.T]
    return kernels[0].with_theta(torch.tensor(middle, dtype=torch.float64))


def weighted_median(values: Sequence[float] | np.ndarray, weights: Sequence[float]) -> float:
    """The middle of the total weight; half-way between two values where it falls on their border."""
    order = np.argsort(values, kind="stable")
    v, w = np.asarray(values, dtype=float)[order], np.asarray(weights, dtype=float)[order]
    share = np.cumsum(w) / w.sum()
    low, high = int(np.searchsorted(share, 0.5 - 1e-12)), int(np.searchsorted(share, 0.5 + 1e-12))
    return float(0.5 * (v[low] + v[min(high, len(v) - 1)]))

"""Modules for timing: what they say does not matter to the clock, only how many there are and how large."""

from __future__ import annotations

from typing import NamedTuple

import gpytorch
import numpy as np

import recyclegp as rgp

MEBIBYTES_KEPT = 31  # less than glibc's largest threshold, which is 32
SIDE = 5.5  # the region is [0, SIDE]^D


class TimingCase(NamedTuple):
    """Modules with a kernel and points Z_* to merge them at."""

    modules: list[rgp.Module]
    kernel: gpytorch.kernels.Kernel
    Z: np.ndarray


def rbf(lengthscale: float, variance: float) -> gpytorch.kernels.Kernel:
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.base_kernel.lengthscale = lengthscale
    kernel.outputscale = variance
    return kernel


def keep_memory() -> None:
    """From here on malloc gives out again what it was given back, as in every process that has once held some data.

    Before it was given back a large block, it returns blocks of a megabyte to the system, and zeroing their pages
    anew takes as long as what is timed.
    """
    np.zeros(MEBIBYTES_KEPT * 2**17)


def timing_case(K: int, M: int, D: int, seed: int) -> TimingCase:
    """K copies of one fitted module (M_k = 3), each moved elsewhere; Z_* among their points, as `merge` chooses."""
    keep_memory()
    rng = np.random.default_rng(seed)
    # M points at this distance describe the region: well conditioned, as greedily chosen points are
    kernel = rbf(1.5 * SIDE / M ** (1 / D), 4.0)
    X = rng.uniform(0, 0.5, (200, D))
    y = np.sin(3 * X.sum(1)) + rng.normal(size=200)
    one = rgp.fit(X, y, kernel=kernel, noise=1.0, learn=False, publish=3)
    places = rng.uniform(0, SIDE - 0.5, (K, D))
    modules = [one.transform(input_shift=place).rename(f"module-{k}") for k, place in enumerate(places)]
    points = np.concatenate([m.inducing for m in modules])
    return TimingCase(modules, kernel, points[rng.choice(len(points), M, replace=False)])


def merged(case: TimingCase, K: int) -> rgp.Ensemble:
    """The first K of them, with nothing left to learn or choose."""
    return rgp.merge(case.modules[:K], kernel=case.kernel, inducing=case.Z, learn=False)

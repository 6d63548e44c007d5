"""Modules that agree about one function without any data behind them: cheap, and as many as one likes."""

from __future__ import annotations

import numpy as np
import torch

import recyclegp as rgp
from changed import with_latent
from recyclegp.core.sites import Site


def truth(Z):
    return 1.3 + np.sin(3 * Z[:, 0]) - 0.5 * Z[:, 1] ** 2


def make(count, sizes=(3, 5, 4), D=2, seed=0):
    """Modules that agree about one function, each at its own points."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 2, (25, D))
    first = rgp.fit(X, truth(X) + 0.1 * rng.normal(size=25), publish=3, learn=False, noise=0.01, name="first")
    for i in range(count):
        M = sizes[i % len(sizes)]
        Z = rng.uniform(-1, 2, (M, D))
        Rt = 3 * np.eye(M) + 0.4 * rng.normal(size=(M, M))
        site = Site(*(torch.tensor(t) for t in (Z, Rt, Rt @ truth(Z) + rng.normal(size=M), np.array(rng.normal()))))
        kernel = first.kernel_spec.with_theta(first.kernel_spec.theta + 0.1 * rng.normal())
        yield with_latent(first, site=site, kernel=kernel, mean=float(rng.normal())).rename(f"m{i:04}")

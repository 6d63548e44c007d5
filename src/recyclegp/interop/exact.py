"""A model that keeps its rows → a module: Gaussian observations of f, published by exact marginalisation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays, blocks, inducing, kernels, linalg, sites
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..posterior import Basis, basis
from ..sites import Site


class Observations(NamedTuple):
    """log t(f) = constant + Σ_i log N(value_i; f(x_i), variance_i)."""

    X: Tensor  # (n, D)
    value: Tensor  # (n,)
    variance: Tensor  # (n,)
    constant: Tensor  # ()


class Published(NamedTuple):
    site: Site
    jitter: float


def publish(
    data: Observations, kernel: Kernel, mean: float, where: Any, columns: arrays.Columns, seed: int
) -> Published:
    """The exact posterior of f ~ GP(mean, kernel) given the observations, at so many points or at given ones."""
    if where is None:
        raise RecycleGPError(
            "publish=None: this model has no inducing points to publish at; pass a number or points (its own rows "
            "are never shared unless you pass them)"
        )
    data = _distinct(data)
    X, theta = data.X, kernel.tensor()
    points = arrays.count_or_points(where, "publish", X.shape[1], columns, "cpu")
    if isinstance(points, int):
        rng = np.random.default_rng(inducing.entropy(arrays.seed(seed), X))
        points = inducing.over(X, points, kernel.tree, theta, rng)
        base = basis(kernel.tree, theta, points, 0.0)  # placed so that they need no jitter
    else:
        K = kernels.diagonal(kernel.tree, theta, points)
        smallest = min(linalg.RELATIVE_JITTER * float(K.mean()), 0.5 * float(data.variance.min()))
        base = basis(kernel.tree, theta, points, smallest)
    rows = blocks.observe(base, _site(data, base), mean, marginal=True)
    return Published(sites.from_rows(base.Z, base.L, rows, mean), float(base.jitter))


def _site(data: Observations, base: Basis) -> Site:
    """Rᵀ = diag(1/s), ρ = value/s. The jitter is part of f at a point, so the noise s² is less by as much."""
    if float(base.jitter) >= float(data.variance.min()):
        raise RecycleGPError(
            f"publish: {len(base.Z)} points so close together need a jitter of {float(base.jitter):.2g}, above the "
            f"noise of {float(data.variance.min()):.2g}; publish at fewer points, or fit with a larger noise"
        )
    root = (data.variance - base.jitter).rsqrt()
    e = data.constant + (root.log() - 0.5 * math.log(2 * math.pi)).sum()
    return Site(data.X, torch.diag(root), root * data.value, e)


def _distinct(data: Observations) -> Observations:
    """Several observations of one f(x) as one: precisions add, and what they disagree by goes into the constant."""
    X, place = torch.unique(data.X, dim=0, return_inverse=True)
    if len(X) == len(data.X):
        return data

    def total(t: Tensor) -> Tensor:
        return t.new_zeros(len(X)).index_add(0, place, t)

    variance = 1 / total(1 / data.variance)
    value = variance * total(data.value / data.variance)
    apart = _log_normal(data.value - value[place], data.variance).sum() - _log_normal(0 * value, variance).sum()
    return Observations(X, value, variance, data.constant + apart)


def _log_normal(difference: Tensor, variance: Tensor) -> Tensor:
    return -0.5 * ((2 * math.pi * variance).log() + difference.square() / variance)

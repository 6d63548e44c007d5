"""Models that keep their rows: Gaussian observations of f, published by exact marginalisation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..core import publishing
from ..core.linalg import RELATIVE_JITTER
from ..core.publishing import Published
from ..core.sites import Site
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..likelihoods.gaussian import log_normal
from ..local import placement


class Observations(NamedTuple):
    """log t(f) = constant + Σ_i log N(value_i; f(x_i), variance_i)."""

    X: Tensor  # (n, D)
    value: Tensor  # (n,)
    variance: Tensor  # (n,)
    constant: Tensor  # ()


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
    noise = float(data.variance.min())
    points = arrays.count_or_points(where, "publish", data.X.shape[1], columns, "cpu")
    if isinstance(points, int):
        rng = np.random.default_rng(placement.entropy(arrays.seed(seed), data.X, data.value))
        points = placement.over(data.X, points, kernel, rng)
        jitter = 0.0  # they are placed so that they need none, and the new points begin with that of the rows
    else:
        jitter = min(RELATIVE_JITTER * float(kernel.diagonal(data.X).mean()), 0.5 * noise)
    published = publishing.publish(_site(data, jitter), jitter, kernel, mean, points)
    if published.jitter >= noise:
        raise RecycleGPError(
            f"publish: {len(points)} points so close together need a jitter of {published.jitter:.2g}, above the "
            f"noise of {noise:.2g}; publish at fewer points, or fit with a larger noise"
        )
    return published


def _site(data: Observations, jitter: float) -> Site:
    """The observations as a site at their own rows: Rᵀ = diag(1/s), ρ = value/s.

    The jitter of a row is part of f there, so the noise s² is less by as much.
    """
    root = (data.variance - jitter).rsqrt()
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
    apart = log_normal(data.value - value[place], data.variance).sum() - log_normal(0 * value, variance).sum()
    return Observations(X, value, variance, data.constant + apart)

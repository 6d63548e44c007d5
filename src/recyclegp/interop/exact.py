"""Models that keep their rows: Gaussian observations of f, published by exact marginalisation."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..core import linalg, publishing
from ..core.linalg import RELATIVE_JITTER
from ..core.posterior import basis
from ..core.publishing import PublishedSite
from ..core.sites import Site, to_rows
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..likelihoods.gaussian import log_normal
from ..local import placement
from ..local.options import PublishLike
from ..local.planning import share
from ..local.summary import information


class Observations(NamedTuple):
    """log t(f) = constant + Σ_i log N(value_i; f(x_i), variance_i)."""

    X: Tensor  # (n, D)
    value: Tensor  # (n,)
    variance: Tensor  # (n,)
    constant: Tensor  # ()


class PublishedExactly(NamedTuple):
    site: Site
    jitter: float
    kept: float  # of what the observations say about f


def publish(
    data: Observations, kernel: Kernel, mean: float, where: PublishLike, columns: arrays.Columns, seed: int
) -> PublishedExactly:
    """The exact posterior of f ~ GP(mean, kernel) given the observations, at so many points or at given ones."""
    if where is None:
        raise RecycleGPError(
            "publish=None: this model has no inducing points to publish at; pass a number or points (its own rows "
            "are never shared unless you pass them)"
        )
    wanted = share(where, len(data.X))
    data = _distinct(data)
    noise = float(data.variance.min())
    total = _information(data, kernel)
    points = wanted.most if wanted else arrays.count_or_points(where, "publish", data.X.shape[1], columns, "cpu")
    if isinstance(points, int):
        rng = np.random.default_rng(placement.entropy(arrays.seed(seed), data.X, data.value))
        points = placement.over(data.X, points, kernel, rng)
        jitter = 0.0  # they are placed so that they need none, and the new points begin with that of the rows
    else:
        jitter = min(RELATIVE_JITTER * float(kernel.diagonal(data.X).mean()), 0.5 * noise)
    observed = _site(data, jitter)
    published = publishing.publish(observed, jitter, kernel, mean, points)
    if wanted is not None:
        enough = _enough(published, kernel, mean, total, wanted.kept)
        published = publishing.publish(observed, jitter, kernel, mean, points[:enough])
    if published.jitter >= noise:
        raise RecycleGPError(
            f"publish: {len(points)} points so close together need a jitter of {published.jitter:.2g}, above the "
            f"noise of {noise:.2g}; publish at fewer points, or fit with a larger noise"
        )
    kept = published.information / total if total > 1e-12 else 1.0
    return PublishedExactly(published.site, published.jitter, min(1.0, max(1e-12, kept)))


def _information(data: Observations, kernel: Kernel) -> float:
    """½logdet(I + K_XX/s²): nats that the observations say about f."""
    root = data.variance.rsqrt()
    K = root[:, None] * kernel.matrix(data.X, data.X) * root[None, :]
    return float(linalg.logdet(linalg.cholesky(torch.eye(len(root), dtype=K.dtype) + K).L))


def _enough(published: PublishedSite, kernel: Kernel, mean: float, total: float, kept: float) -> int:
    """How many of the points, in their order, keep such a share of all nats."""
    site = published.site
    rows = to_rows(site, basis(kernel, site.Z, published.jitter).L, mean)
    left = torch.tensor(total - published.information, dtype=torch.float64)
    return int(information(rows, left).needed(kept))


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

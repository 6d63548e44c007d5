"""What learning maximises beside the prior: the (bound on the) evidence, one for each method.

Each is a function (φ (b, p), index (b,)) → values (b,); for a joint likelihood one value for each C functions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import bounds
from ..core.optimiser import Objective
from ..core.posterior import features
from ..kernels import entries
from ..likelihoods import SeveralFunctions, gaussian_noise
from . import dual
from .constants import SEARCH
from .dual import PseudoObservations
from .placement import Points
from .samples import Samples
from .search_space import SearchSpace


def exact_objective(space: SearchSpace, data: Samples) -> Objective:
    """log p(y)."""

    def objective(phi: Tensor, index: Tensor) -> Tensor:
        h, own = space.unpack(phi, index), data.select(index)
        noise, K = gaussian_noise(h.likelihood), h.kernel.matrix(own.X, own.X)
        return bounds.log_marginal(K, own.y, h.mean, noise, own.w) + own.log_multiplicity(noise)

    return objective


def rough_objective(space: SearchSpace, data: Samples) -> Objective:
    """The same in single precision, about half the work: right to a few hundredths of a nat where there is noise."""
    X, w = _about_their_middle(space, data).to(torch.float32), data.w.to(torch.float32)

    def objective(phi: Tensor, index: Tensor) -> Tensor:
        h, own = space.unpack(phi, index), data.select(index)
        noise, kernel = gaussian_noise(h.likelihood), h.kernel.with_theta(h.kernel.theta.to(torch.float32))
        K, away = kernel.matrix(X[index], X[index]), (own.y - h.mean[:, None]).to(torch.float32)
        value = bounds.log_marginal(K, away, torch.zeros_like(away[:, 0]), noise.to(torch.float32), w[index])
        return value.to(torch.float64) + own.log_multiplicity(noise)

    return objective


def can_be_rough(space: SearchSpace, data: Samples) -> bool:
    """Is it worth while, and are differences of inputs as good in single precision as a kernel needs them?"""
    if data.y.shape[1] < SEARCH.rough_from:
        return False
    X = _about_their_middle(space, data)
    return bool((X.abs().amax(1) <= SEARCH.rough_within * X.std(1)).all())


def _about_their_middle(space: SearchSpace, data: Samples) -> Tensor:
    """Inputs (B, n, D), moved where that is all the same to a kernel: not codes, nor where it has a centre."""
    if space.structure.discrete or any(p.name == "centre" for p in entries(space.structure)):
        return data.X
    return data.X - data.X.mean(1, keepdim=True)


def collapsed_objective(space: SearchSpace, points: Points, data: Samples) -> Objective:
    """Titsias' bound."""

    def objective(phi: Tensor, index: Tensor) -> Tensor:
        h, own = space.unpack(phi, index), data.select(index)
        noise, V = gaussian_noise(h.likelihood), features(points.select(index).basis(h.kernel), own.X)
        bound = bounds.collapsed(V, h.kernel.diagonal(own.X), own.y, h.mean, noise, own.w)
        return bound + own.log_multiplicity(noise)

    return objective


def dual_objective(space: SearchSpace, points: Points, data: Samples, functions: int) -> Objective:
    """The bound at its own fixed point for each φ; a model's fixed point starts from the last one it found."""
    joint = isinstance(space.likelihood, SeveralFunctions)
    warm = PseudoObservations(torch.full_like(data.y, torch.nan), torch.full_like(data.y, torch.nan))

    def objective(phi: Tensor, index: Tensor) -> Tensor:
        h, (X, y, w, _) = space.unpack(phi, index), data.select(index)
        base = points.select(index).basis(h.kernel)
        seen = dual.whiten(base, X, y, h.likelihood, h.mean, w.square())
        begin = PseudoObservations(*(t[index] for t in warm))
        if joint:
            seen, begin = seen.together(functions), begin.map(lambda t: t.unflatten(0, (-1, functions)))
        found = dual.fixed_points(seen.map(torch.Tensor.detach), begin).observed
        for kept, new in zip(warm, found, strict=True):
            kept[index] = new.reshape(len(index), -1)
        return dual.evaluate(seen, found)

    return objective

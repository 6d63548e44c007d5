"""What learning maximises: the (bound on the) evidence plus the prior, one objective for each method.

Each is a function (φ (b, p), lanes (b,)) → values (b,).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import bounds
from ..core.optimiser import Objective
from ..core.posterior import features
from ..likelihoods import gaussian_noise
from . import dual
from .dual import PseudoObservations
from .placement import Points
from .samples import Samples
from .search_space import SearchSpace


def exact_objective(space: SearchSpace, data: Samples) -> Objective:
    """log p(y)."""

    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = space.unpack(phi, lanes), data.lanes(lanes)
        K = h.kernel.matrix(X, X)
        return bounds.log_marginal(K, y, h.mean, gaussian_noise(h.likelihood), w) + space.log_prior(phi, lanes)

    return objective


def collapsed_objective(space: SearchSpace, points: Points, data: Samples) -> Objective:
    """Titsias' bound."""

    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = space.unpack(phi, lanes), data.lanes(lanes)
        V = features(points.lanes(lanes).basis(h.kernel), X)
        bound = bounds.collapsed(V, h.kernel.diagonal(X), y, h.mean, gaussian_noise(h.likelihood), w)
        return bound + space.log_prior(phi, lanes)

    return objective


def dual_objective(space: SearchSpace, points: Points, data: Samples) -> Objective:
    """The bound at its own fixed point for each φ; a lane's fixed point starts from the last one it found."""
    warm = PseudoObservations(torch.full_like(data.y, torch.nan), torch.full_like(data.y, torch.nan))

    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = space.unpack(phi, lanes), data.lanes(lanes)
        base = points.lanes(lanes).basis(h.kernel)
        seen = dual.whiten(base, X, y, h.likelihood, h.mean, w)
        found = dual.fixed_points(seen.detach(), PseudoObservations(*(t[lanes] for t in warm))).observed
        for kept, new in zip(warm, found, strict=True):
            kept[lanes] = new
        return dual.evaluate(seen, found) + space.log_prior(phi, lanes)

    return objective

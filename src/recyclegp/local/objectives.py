"""What learning maximises beside the prior: the (bound on the) evidence, one for each method.

Each is a function (φ (b, p), lanes (b,)) → values (b,); for a joint likelihood one value for each C lanes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import bounds
from ..core.optimiser import Objective
from ..core.posterior import features
from ..likelihoods import JointLikelihood, gaussian_noise
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
        return bounds.log_marginal(K, y, h.mean, gaussian_noise(h.likelihood), w)

    return objective


def collapsed_objective(space: SearchSpace, points: Points, data: Samples) -> Objective:
    """Titsias' bound."""

    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = space.unpack(phi, lanes), data.lanes(lanes)
        V = features(points.lanes(lanes).basis(h.kernel), X)
        return bounds.collapsed(V, h.kernel.diagonal(X), y, h.mean, gaussian_noise(h.likelihood), w)

    return objective


def dual_objective(space: SearchSpace, points: Points, data: Samples, functions: int) -> Objective:
    """The bound at its own fixed point for each φ; a lane's fixed point starts from the last one it found."""
    joint = isinstance(space.likelihood, JointLikelihood)
    warm = PseudoObservations(torch.full_like(data.y, torch.nan), torch.full_like(data.y, torch.nan))

    def objective(phi: Tensor, lanes: Tensor) -> Tensor:
        h, (X, y, w) = space.unpack(phi, lanes), data.lanes(lanes)
        base = points.lanes(lanes).basis(h.kernel)
        seen = dual.whiten(base, X, y, h.likelihood, h.mean, w.square())
        begin = PseudoObservations(*(t[lanes] for t in warm))
        if joint:
            seen, begin = seen.together(functions), begin.map(lambda t: t.unflatten(0, (-1, functions)))
        found = dual.fixed_points(seen.detach(), begin).observed
        for kept, new in zip(warm, found, strict=True):
            kept[lanes] = new.reshape(len(lanes), -1)
        return dual.evaluate(seen, found)

    return objective

"""What learning maximises beside the prior: the (bound on the) evidence, one for each method.

Each is a function (φ (b, p), index (b,)) → values (b,); for a joint likelihood one value for each C functions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import bounds, stationary_evidence
from ..core.optimiser import Objective
from ..core.posterior import features
from ..kernels import Node
from ..kernels.nodes import Scale, Stationary, seen
from ..likelihoods import SeveralFunctions, gaussian_noise
from . import dual
from .dual import PseudoObservations
from .placement import Points
from .samples import Samples
from .search_space import SearchSpace


def exact_objective(space: SearchSpace, data: Samples) -> Objective:
    """log p(y)."""
    node = only_correlation(space.structure)

    def objective(phi: Tensor, index: Tensor) -> Tensor:
        h, own = space.unpack(phi, index), data.select(index)
        noise = gaussian_noise(h.likelihood)
        if node is not None:
            v, length, X = h.kernel.theta[:, :1], h.kernel.theta[:, 1:], seen(own.X, node.columns)
            value = stationary_evidence.log_marginal(node.form, v, length, X, own.y, h.mean, noise, own.w)
        else:
            value = bounds.log_marginal(h.kernel.matrix(own.X, own.X), own.y, h.mean, noise, own.w)
        return value + own.log_multiplicity(noise)

    return objective


def only_correlation(structure: Node) -> Stationary | None:
    """Of a kernel that is a variance times one correlation: its derivatives need no autograd."""
    return structure.base if isinstance(structure, Scale) and isinstance(structure.base, Stationary) else None


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

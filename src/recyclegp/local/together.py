"""Functions that are learned together: C neighbouring models of a batch are one problem and share hyperparameters."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.optimiser import Objective
from ..kernels import entries
from ..likelihoods import SeveralFunctions, Sharing
from .placement import Points
from .samples import Scales
from .search_space import SearchSpace


class Group(NamedTuple):
    """How many functions are one problem, and what they share."""

    functions: int
    sharing: Sharing

    def models_of(self, problems: Tensor) -> Tensor:
        """Where the functions of these problems are."""
        own = torch.arange(self.functions, device=problems.device)
        return (problems[:, None] * self.functions + own).flatten()

    def scales(self, data: Scales) -> Scales:
        """The same for the inputs of all functions of a problem, so that what is shared means the same for all."""

        def alike(t: Tensor) -> Tensor:
            return t.unflatten(0, (-1, self.functions)).mean(1).repeat_interleave(self.functions, 0)

        return data._replace(x=alike(data.x), x_centre=alike(data.x_centre))

    def points(self, points: Points) -> Points:
        """The same points for all functions of a problem: those of the one that has most."""
        count = points.real.sum(-1).reshape(-1, self.functions)
        most = self.functions * torch.arange(len(count), device=count.device) + count.argmax(-1)
        return points.select(most.repeat_interleave(self.functions))


ALONE = Group(1, Sharing.NOTHING)


class GroupSpace:
    """φ of problems (B, P) ↔ φ of their functions (B·C, p): what is shared first, then what is each one's own."""

    def __init__(self, space: SearchSpace, group: Group) -> None:
        self.space, self.group = space, group
        table = entries(space.structure)
        shared = torch.zeros_like(space.free)
        if group.sharing is not Sharing.NOTHING:
            everything = group.sharing is Sharing.KERNEL
            shared[: len(table)] = torch.tensor([everything or not p.carries for p in table], device=shared.device)
        self.shared = shared[space.free]

    def pack(self, phi: Tensor) -> Tensor:
        """(B·C, p) → (B, P), with the mean of what is shared."""
        each = phi.unflatten(0, (-1, self.group.functions))
        return torch.cat([each[..., self.shared].mean(1), each[..., ~self.shared].flatten(1)], -1)

    def unpack_functions(self, phi: Tensor) -> Tensor:
        """(B, P) → (B·C, p)."""
        if self.group.functions == 1:
            return phi
        C, width = self.group.functions, int(self.shared.sum())
        each = phi.new_empty(len(phi), C, len(self.shared))
        each[..., self.shared] = phi[:, None, :width].expand(-1, C, -1)
        each[..., ~self.shared] = phi[:, width:].unflatten(-1, (C, -1))
        return each.flatten(0, 1)

    def box(self, ends: Tensor) -> Tensor:
        """Bounds (p,) → (P,)."""
        return self.pack(ends.expand(self.group.functions, -1))[0]

    def metric(self, rows: Tensor) -> Tensor:
        """(B, P, P)  a first guess of the inverse curvature: that of what is shared adds up."""
        diagonal = self.pack(self.space.metric(rows).diagonal(dim1=-2, dim2=-1))
        diagonal[:, : int(self.shared.sum())] /= self.group.functions
        return torch.diag_embed(diagonal)

    def curvature(self, each: Tensor) -> Tensor:
        """(B, P, P)  of problems, from that of their functions (B·C, p, p): JᵀFJ, with φ = Jx for all functions."""
        C = self.group.functions
        if C == 1:
            return each
        J = self.unpack_functions(torch.eye(self.size, dtype=each.dtype, device=each.device)).unflatten(0, (-1, C))
        return torch.einsum("icp,bcpq,jcq->bij", J, each.unflatten(0, (-1, C)), J)

    @property
    def size(self) -> int:
        """P."""
        shared = int(self.shared.sum())
        return shared + self.group.functions * (len(self.shared) - shared)

    def objective(self, bound: Objective) -> Objective:
        """The evidence of problems with its prior, from a bound for their functions' φ and places in the batch.

        The bound has one value for each function, or one for each problem.
        """

        def objective(phi: Tensor, problems: Tensor) -> Tensor:
            free, index = self.unpack_functions(phi), self.group.models_of(problems)
            value = bound(free, index).reshape(len(problems), -1).sum(-1)
            return value + self._log_prior(free, index)

        return objective

    def _log_prior(self, free: Tensor, index: Tensor) -> Tensor:
        """What is shared counts once: it is taken away again from all functions but one."""
        each = self.space.log_prior(free, index).reshape(-1, self.group.functions) + self._of_amplitudes(free)
        if not bool(self.shared.any()):
            return each.sum(-1)
        alone = torch.where(self.shared, free, self.space.centre[self.space.free])
        again = self.space.log_prior(alone, index).reshape(each.shape)
        return each.sum(-1) - again[:, 1:].sum(-1)

    def _of_amplitudes(self, free: Tensor) -> Tensor:
        """(B, C)  what a joint likelihood expects of its functions' sizes."""
        each = free.unflatten(0, (-1, self.group.functions))
        value = torch.zeros_like(each[..., 0])
        likelihood = self.space.likelihood
        if not isinstance(likelihood, SeveralFunctions) or not likelihood.amplitudes:
            return value
        carries = torch.tensor([p.carries for p in entries(self.space.structure)], device=free.device)
        rest = torch.zeros(len(self.space.free) - len(carries), dtype=torch.bool, device=free.device)
        size = torch.cat([carries, rest])[self.space.free]
        for c, prior in enumerate(likelihood.amplitudes):
            if prior is not None:
                own = -0.5 * ((each[:, c, size] - prior.centre) / prior.sd).square().sum(-1)
                value = value.index_add(1, torch.tensor([c], device=free.device), own[:, None])
        return value

"""All sites at once, as pseudo-observations of one function: ρ = Rᵀf(Z) + ε with unit noise, R block-diagonal.

Nothing is projected anywhere, so nothing is lost. The prior of ρ is a Gaussian with covariance

    A = I + RᵀK_ZZR

which is never near singular: no jitter, no K_ZZ⁻¹. Cost n³ for n rows of ρ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..kernels import Kernel
from . import linalg
from .effects import Effects, stacked_covariance
from .packing import PackedSites

SMALL = 2**20  # numbers


class Block(NamedTuple):
    """Sites of one size: K of them with M points and r rows each; those with fewer rows have zeros behind them."""

    Rt: Tensor  # (K, r, M)
    points: slice  # of Z
    rows: slice  # of ρ


class Stacked(NamedTuple):
    Z: Tensor  # (N, D)
    blocks: tuple[Block, ...]
    rho: Tensor  # (n,)
    ones: Tensor  # (n,)  Rᵀ1: what a constant function would be observed as
    e: Tensor  # ()  Σ e_k
    member: Tensor  # (n,) whose each row is: position of the site in the list it came from; −1 for padding
    owner: Tensor  # (n,) the number of its owner
    point_owner: Tensor  # (N,) the same for points
    one_each: bool  # has every owner one site? Known beforehand: a GPU would be waited for at every question

    def observe(self, Y: Tensor) -> Tensor:
        """RᵀY, (n, c), for values Y (N, c) of c functions at the points."""
        parts = []
        for b in self.blocks:
            K, _, M = b.Rt.shape
            parts.append((b.Rt @ Y[b.points].reshape(K, M, -1)).flatten(0, 1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def spread(self, W: Tensor) -> Tensor:
        """RW, (N, c), for W (n, c)."""
        parts = []
        for b in self.blocks:
            K, r, _ = b.Rt.shape
            parts.append((b.Rt.mT @ W[b.rows].reshape(K, r, -1)).flatten(0, 1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def map(self, change: Callable[[Tensor], Tensor]) -> Stacked:
        """Every tensor in it changed in the same way."""
        blocks = tuple(b._replace(Rt=change(b.Rt)) for b in self.blocks)
        rho, ones, e, member, owner, point_owner = map(change, self[2:8])  # all tensors but Z
        return Stacked(change(self.Z), blocks, rho, ones, e, member, owner, point_owner, self.one_each)

    def gram(self, kernel: Kernel, missed: Tensor | None = None) -> Tensor:
        """RᵀK_ZZR, (n, n), differentiable in the kernel's parameters; with Rᵀ(K_ZZ + diag g)R for g (N,)."""
        K = kernel.matrix(self.Z, self.Z)
        return _gram(K if missed is None else K + torch.diag_embed(missed), self)

    def own_gram(self, kernel: Kernel) -> Tensor:
        """RᵀK_ZZR within sites of one owner; what it is between owners is not said."""
        if not self.one_each:  # there is something between sites of one owner
            return self.gram(kernel)
        parts = []
        for b in self.blocks:
            K, r, M = b.Rt.shape
            Z = self.Z[b.points].reshape(K, M, -1)
            each = b.Rt @ kernel.matrix(Z, Z) @ b.Rt.mT  # (K, r, r)
            parts.append(torch.diag_embed(each.permute(1, 2, 0), dim1=0, dim2=2).reshape(K * r, K * r))
        return parts[0] if len(parts) == 1 else torch.block_diag(*parts)

    def covariance(
        self, kernel: Kernel, effects: Effects, noise: Tensor | None = None, missed: Tensor | None = None
    ) -> Tensor:
        """A; `noise` (n,) where that of pseudo-observations is not one, `missed` (N,) where f(Z) is not quite meant."""
        gram = self.gram(kernel, missed)
        stretched = effects.stretch is not None or (missed is not None and effects.present)
        own = self.own_gram(effects.kernel(kernel)) if stretched else None
        return stacked_covariance(gram, self.ones, self.owner, effects, noise, own)

    def append(self, more: Stacked) -> Stacked:
        """More sites behind these; their members and owners are already numbered."""
        points, rows = len(self.Z), len(self.rho)
        moved = tuple(
            Block(
                b.Rt,
                slice(points + b.points.start, points + b.points.stop),
                slice(rows + b.rows.start, rows + b.rows.stop),
            )
            for b in more.blocks
        )
        common = bool(torch.isin(more.point_owner, self.point_owner).any())
        return Stacked(
            Z=torch.cat([self.Z, more.Z]),
            blocks=self.blocks + moved,
            rho=torch.cat([self.rho, more.rho]),
            ones=torch.cat([self.ones, more.ones]),
            e=self.e + more.e,
            member=torch.cat([self.member, more.member]),
            owner=torch.cat([self.owner, more.owner]),
            point_owner=torch.cat([self.point_owner, more.point_owner]),
            one_each=self.one_each and more.one_each and not common,
        )


def stack(packs: Iterable[PackedSites], owners: Sequence[int], first: int = 0) -> Stacked:
    """Packed sites behind one another; `owners` is for each member its owner's number, counted from `first` member."""
    blocks, held = list[Block](), list[PackedSites]()
    points = rows = 0
    for alike in _neighbours(packs):
        Rt = alike[0].Rt if len(alike) == 1 else torch.cat([p.Rt for p in alike])
        K, r, M = Rt.shape
        blocks.append(Block(Rt, slice(points, points + K * M), slice(rows, rows + K * r)))
        held += alike
        points, rows = points + K * M, rows + K * r
    member, owner, point_owner = list[int](), list[int](), list[int]()
    of_sites = [owners[m] for p in held for m in p.members]
    for p in held:
        _, r, M = p.Rt.shape
        for m, count in zip(p.members, p.counts, strict=True):
            member += [first + m] * count + [-1] * (r - count)
            owner += [owners[m]] * r
            point_owner += [owners[m]] * M
    return Stacked(
        Z=torch.cat([p.Z.flatten(0, 1) for p in held]),
        blocks=tuple(blocks),
        rho=torch.cat([p.rho.flatten() for p in held]),
        ones=torch.cat([p.Rt.sum(-1).flatten() for p in held]),
        e=torch.cat([p.e for p in held]).sum(),
        member=torch.tensor(member),
        owner=torch.tensor(owner),
        point_owner=torch.tensor(point_owner),
        one_each=len(set(of_sites)) == len(of_sites),
    )


def _neighbours(packs: Iterable[PackedSites]) -> Iterator[list[PackedSites]]:
    """Neighbouring packs of sites of one size, together: what is done with each block is done less often.

    Large ones stay apart: they would be copied, and many calls are nothing beside them.
    """
    alike: list[PackedSites] = []
    for p in packs:
        if alike and (p.Rt.shape[1:] != alike[0].Rt.shape[1:] or sum(q.Rt.numel() for q in (*alike, p)) > SMALL):
            yield alike
            alike = []
        alike.append(p)
    if alike:
        yield alike


class _Gram(torch.autograd.Function):
    """RᵀKR of a symmetric K. Its derivative R(·)Rᵀ needs no matrix to be remembered."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, stacked: Stacked) -> Tensor:
        ctx.stacked = stacked
        return stacked.observe(stacked.observe(K).mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        stacked: Stacked = ctx.stacked
        return stacked.spread(stacked.spread(gradients[0]).mT).mT, None


_gram: Callable[[Tensor, Stacked], Tensor] = _Gram.apply


class Evidence(NamedTuple):
    value: Tensor  # log N(ρ; m·ones, A), up to the constant that belongs to e
    mean: Tensor  # m, as given or the best


def log_evidence(A: Tensor, rho: Tensor, ones: Tensor, mean: float | None = None) -> Evidence:
    """−½ρ̃ᵀA⁻¹ρ̃ − ½logdet A with ρ̃ = ρ − m·ones; without a mean at the best one."""
    value, best = _log_evidence(A, rho, ones, mean)
    return Evidence(value, best)


def best_mean(L: Tensor, rho: Tensor, ones: Tensor) -> Tensor:
    """m̂, the constant mean that maximises the evidence, where LLᵀ = A."""
    return _best_mean(linalg.solve_lower(L, torch.stack([rho, ones], 1)))


def _best_mean(half: Tensor) -> Tensor:
    """m̂ = 1ᵀA⁻¹ρ / 1ᵀA⁻¹1, from L⁻¹[ρ 1]."""
    return half[:, 0] @ half[:, 1] / (half[:, 1] @ half[:, 1]).clamp_min(1e-300)


class _LogEvidence(torch.autograd.Function):
    """∂/∂A = ½(ααᵀ − A⁻¹) with α = A⁻¹ρ̃, from the factor that gave the value: twice as fast as through Cholesky.

    The best mean is where the derivative by it is zero, so that it need not be differentiated.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, rho: Tensor, ones: Tensor, mean: float | None) -> tuple[Tensor, Tensor]:
        L = linalg.cholesky(A).L
        half = linalg.solve_lower(L, torch.stack([rho, ones], 1))
        best = _best_mean(half) if mean is None else half.new_tensor(mean)
        z = half[:, 0] - best * half[:, 1]
        if ctx.needs_input_grad[0]:
            alpha = linalg.solve_upper(L, z[:, None])
            slope = linalg.inverse(L).neg_().addmm_(alpha, alpha.mT).mul_(0.5)
            ctx.save_for_backward(slope)
        ctx.mark_non_differentiable(best)
        return -0.5 * z.square().sum() - linalg.logdet(L), best

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (slope,) = ctx.saved_tensors
        return gradients[0] * slope, None, None, None


_log_evidence: Callable[..., tuple[Tensor, Tensor]] = _LogEvidence.apply

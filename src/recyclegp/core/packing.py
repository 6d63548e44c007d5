"""Many sites at once: sites of one size are packed into one set of tensors, and become rows about one basis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..devices import memory_factor
from . import linalg
from .effects import Effects
from .least_squares import Rows, gather
from .posterior import Basis, SharedPoints, features
from .sites import Site, weighted

FEATURES = 2**21  # numbers in the features worked on at once: 16 MiB, a few times over under autograd


class PackedSites(NamedTuple):
    """K sites of M_k points each; sites of fewer rows are padded with zero rows, which is exact."""

    Z: Tensor  # (K, M_k, D)
    Rt: Tensor  # (K, r, M_k)
    rho: Tensor  # (K, r)
    e: Tensor  # (K,)
    members: tuple[int, ...]  # positions of these sites in the list they came from
    counts: tuple[int, ...]  # rows each has of its own

    def at(self, some: slice) -> PackedSites:
        """Some of its sites."""
        Z, Rt, rho, e, members, counts = self
        return PackedSites(Z[some], Rt[some], rho[some], e[some], members[some], counts[some])

    def to(self, device: torch.device) -> PackedSites:
        Z, Rt, rho, e = (t.to(device) for t in self[:4])
        return PackedSites(Z, Rt, rho, e, self.members, self.counts)

    def only(self, wanted: frozenset[int]) -> PackedSites:
        """The sites of these members; itself if it has no others."""
        return self._taken([i for i, member in enumerate(self.members) if member in wanted])

    def without(self, gone: frozenset[int]) -> PackedSites:
        """All but the sites of these members; itself if it has none of them."""
        return self._taken([i for i, member in enumerate(self.members) if member not in gone]) if gone else self

    def _taken(self, left: list[int]) -> PackedSites:
        if len(left) == len(self.members):
            return self
        *tensors, members, counts = self
        which = torch.tensor(left, dtype=torch.long, device=self.Z.device)
        Z, Rt, rho, e = (t[which] for t in tensors)
        return PackedSites(Z, Rt, rho, e, tuple([members[i] for i in left]), tuple([counts[i] for i in left]))


def pack(sites: Sequence[Site], members: Sequence[int], weights: Sequence[float] | None = None) -> PackedSites:
    """Sites with equally many points side by side, each to the power of its weight."""
    Z, Rt, rho, e = zip(*sites, strict=True)
    counts = tuple([x.numel() for x in rho])  # quicker than to look at shapes
    tallest = max(counts)

    def side_by_side(parts: Sequence[Tensor]) -> Tensor:
        # faster than to stack them, which makes a view of each
        return torch.cat(list(parts)).reshape(len(parts), *parts[0].shape)

    def tall(parts: Sequence[Tensor]) -> Tensor:
        if min(counts) < tallest:
            parts = [torch.cat([x, x.new_zeros((tallest - len(x), *x.shape[1:]))]) for x in parts]
        return side_by_side(parts)

    stacked = Site(side_by_side(Z), tall(Rt), tall(rho), torch.stack(e))
    if weights is not None and any([w != 1 for w in weights]):
        stacked = weighted(stacked, stacked.e.new_tensor(weights))
    return PackedSites(*stacked, tuple(members), counts)


def split(whole: PackedSites, inducing: int) -> Iterator[PackedSites]:
    """The sites in chunks whose features on `inducing` points fit."""
    K, size, _ = whole.Z.shape
    most = max(1, int(memory_factor(whole.Z.device) * FEATURES / (size * max(inducing, size))))
    if most >= K:
        yield whole
        return
    step = -(-K // -(-K // most))  # as few chunks as fit, of one size: no crumb at the end
    for start in range(0, K, step):
        yield whole.at(slice(start, start + step))


def shared_points(A: Tensor, B: Tensor) -> SharedPoints:
    """Which rows of B (n, D) are rows of A (m, D), to the last bit, which is how a copied point comes back."""
    A, B = A.detach(), B.detach()
    first, order = A[:, 0].contiguous().sort()
    if bool((first[1:] == first[:-1]).any()):
        return _shared_points(A, B)
    near = torch.searchsorted(first, B[:, 0].contiguous()).clamp_max(len(A) - 1)
    j = (first[near] == B[:, 0]).nonzero()[:, 0]  # few share even one coordinate
    i = order[near[j]]
    same = (A[i] == B[j]).all(-1)
    return SharedPoints(i[same], j[same])


def _shared_points(A: Tensor, B: Tensor) -> SharedPoints:
    """The same where points of A share their first coordinate: compared as bytes."""
    a, b = _keys(A), _keys(B)
    order = np.argsort(a)
    nearest = order[np.searchsorted(a[order], b).clip(max=len(a) - 1)]
    j = np.flatnonzero(a[nearest] == b)
    return SharedPoints(torch.as_tensor(nearest[j], device=A.device), torch.as_tensor(j, device=A.device))


def _keys(X: Tensor) -> np.ndarray:
    """Each row as one opaque value; adding zero makes −0 and 0 the same."""
    rows = np.ascontiguousarray((X.detach() + 0.0).cpu().numpy())
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]


def added(one: Site, other: Site) -> Site:
    """Both statements as one, t₁t₂: at the points of the first, and those that only the second has."""
    shared = shared_points(one.Z, other.Z)
    place = torch.full((len(other.Z),), -1, device=one.Z.device)
    place[shared.j] = shared.i
    new = place < 0
    place[new] = len(one.Z) + torch.arange(int(new.sum()), device=one.Z.device)
    Z = torch.cat([one.Z, other.Z[new]])
    Rt = one.Rt.new_zeros(len(one.rho) + len(other.rho), len(Z))
    Rt[: len(one.rho), : len(one.Z)] = one.Rt
    Rt[len(one.rho) :].index_add_(1, place, other.Rt)
    # ‖Rᵀu − ρ‖² = ‖Tu − c‖² + residual: no more rows than points, however many statements are added
    T, c, residual = linalg.compress(linalg.Equations(Rt, torch.cat([one.rho, other.rho])))
    return Site(Z, T, c, one.e + other.e - 0.5 * residual)


class Projection(NamedTuple):
    """What sites say about the basis' values, before their residual is kept or integrated out."""

    H: Tensor  # (K, r, M)  R_kᵀV_kᵀ
    RKR: Tensor  # (K, r, r)  R_kᵀK_kkR_k
    rho: Tensor
    ones: Tensor
    e: Tensor

    def rows(self, *, marginal: bool) -> Rows:
        """With their slack (the ensemble bound), or with each site's residual integrated out (the evidence)."""
        return gather(*self, marginal=marginal)

    def through(self, effects: Effects, own: Tensor) -> Projection:
        """What they say about the shared f, once what is each owner's own is integrated out: one site is one owner.

        `own` (K, r, r) are R_kᵀK'_kkR_k.

        B_kB_kᵀ = I + R_kᵀD_kR_k;  R_k ← R_kB_k⁻ᵀ,  ρ_k ← B_k⁻¹ρ_k,  e_k ← e_k − logdet B_k
        """
        identity = torch.eye(self.RKR.shape[-1], dtype=self.H.dtype, device=self.H.device)
        B = linalg.cholesky(identity + effects.observed(own, self.ones)).L
        columns = linalg.solve_lower(B, torch.cat([self.H, self.rho[..., None], self.ones[..., None]], dim=-1))
        RKR = linalg.solve_lower(B, linalg.solve_lower(B, self.RKR).mT)
        return Projection(columns[..., :-2], RKR, columns[..., -2], columns[..., -1], self.e - linalg.logdet(B))


def project(
    base: Basis, packed: PackedSites, jitter: Tensor | None = None, shared: SharedPoints | None = None
) -> Projection:
    """Both products at the basis' kernel, from one evaluation of the features.

    `jitter` is that of the sites' own points; the basis' own, unless given. Points they have in common share the
    smaller of the two; they are looked for, unless it is known which (`shared`). Where the basis has effects, they are
    integrated out.
    """
    points, own = packed.Z.flatten(0, 1), base.jitter if jitter is None else jitter
    shared = shared_points(base.Z, points) if shared is None else shared
    V = features(base, points, shared, torch.minimum(own, base.jitter))  # (M, K·M_k)
    return _said(base, packed, V.mT, own)


def observe(base: Basis, packed: PackedSites) -> Projection:
    """The same before it is whitened: G_k = R_kᵀK_k* stands where H_k = G_kL⁻ᵀ would."""
    points = packed.Z.flatten(0, 1)
    i, j = shared_points(base.Z, points)
    K = base.kernel.matrix(points, base.Z)  # (K·M_k, M)
    return _said(base, packed, K.index_put_((j, i), base.jitter, accumulate=True), base.jitter)


def _said(base: Basis, packed: PackedSites, at_points: Tensor, jitter: Tensor) -> Projection:
    """From what every point says, (K·M_k, M), what sites say."""
    K, M_k, _ = packed.Z.shape
    gram = base.kernel.matrix(packed.Z, packed.Z)
    gram = gram + jitter * torch.eye(M_k, dtype=gram.dtype, device=gram.device)
    said = Projection(
        packed.Rt @ at_points.reshape(K, M_k, -1),
        packed.Rt @ gram @ packed.Rt.mT,
        packed.rho,
        packed.Rt.sum(-1),
        packed.e,
    )
    effects = base.effects
    if not effects.present:
        return said
    if effects.stretch is None:
        return said.through(effects, said.RKR)
    own = effects.kernel(base.kernel).matrix(packed.Z, packed.Z)
    return said.through(effects, packed.Rt @ own @ packed.Rt.mT)

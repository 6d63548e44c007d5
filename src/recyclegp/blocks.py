"""Many sites at once: sites of one size are a block, and a block becomes rows about one basis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import kernels
from .least_squares import Rows, centre, gather
from .posterior import Basis, Same, features
from .sites import Site, weighted

CHUNK = 2**21  # numbers in the features of one block: 16 MiB, a few times over under autograd


class Block(NamedTuple):
    """K sites of M_k points each; sites of fewer rows are padded with zero rows, which is exact."""

    Z: Tensor  # (K, M_k, D)
    Rt: Tensor  # (K, r, M_k)
    rho: Tensor  # (K, r)
    e: Tensor  # (K,)
    members: tuple[int, ...]  # positions of these sites in the list they came from
    counts: tuple[int, ...]  # rows each has of its own

    def at(self, some: slice) -> Block:
        """Some of its sites."""
        Z, Rt, rho, e, members, counts = self
        return Block(Z[some], Rt[some], rho[some], e[some], members[some], counts[some])


def block(sites: Sequence[Site], members: Sequence[int], weights: Sequence[float] | None = None) -> Block:
    """Sites with equally many points as one block, each to the power of its weight."""
    counts = tuple(s.rho.shape[0] for s in sites)
    tallest = max(counts)

    def tall(parts: list[Tensor]) -> Tensor:
        if min(counts) < tallest:
            parts = [torch.cat([x, x.new_zeros((tallest - len(x), *x.shape[1:]))]) for x in parts]
        return torch.stack(parts)

    stacked = Site(
        torch.stack([s.Z for s in sites]),
        tall([s.Rt for s in sites]),
        tall([s.rho for s in sites]),
        torch.stack([s.e for s in sites]),
    )
    if weights is not None and any(w != 1 for w in weights):
        stacked = weighted(stacked, stacked.e.new_tensor(weights))
    return Block(*stacked, tuple(members), counts)


def split(whole: Block, inducing: int) -> Iterator[Block]:
    """The block in chunks whose features on `inducing` points fit."""
    K, size, _ = whole.Z.shape
    most = max(1, CHUNK // (size * max(inducing, size)))
    step = -(-K // -(-K // most))  # as few chunks as fit, of one size: no crumb at the end
    for start in range(0, K, step):
        yield whole.at(slice(start, start + step))


def meeting(base_points: Tensor, block: Block) -> Same:
    """Where the block's points are the basis' own: as bytes, which is how a copied point comes back."""
    A, B = _keys(base_points), _keys(block.Z.flatten(0, 1))
    order = np.argsort(A)
    nearest = order[np.searchsorted(A[order], B).clip(max=len(A) - 1)]
    j = np.flatnonzero(A[nearest] == B)
    device = base_points.device
    return Same(torch.as_tensor(nearest[j], device=device), torch.as_tensor(j, device=device))


def _keys(X: Tensor) -> np.ndarray:
    """Each row as one opaque value; adding zero makes −0 and 0 the same."""
    rows = np.ascontiguousarray((X.detach() + 0.0).cpu().numpy())
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]


class Projection(NamedTuple):
    """What a block says about the basis' values, before its residual is kept or integrated out."""

    H: Tensor  # (K, r, M)  R_kᵀV_kᵀ
    RKR: Tensor  # (K, r, r)  R_kᵀK_kkR_k
    rho: Tensor
    ones: Tensor
    e: Tensor


def project(base: Basis, block: Block) -> Projection:
    """Both products at the basis' kernel, from one evaluation of the features."""
    K, M_k, D = block.Z.shape
    V = features(base, block.Z.reshape(-1, D), meeting(base.Z, block))  # (M, K·M_k)
    gram = kernels.matrix(base.tree, base.theta, block.Z, block.Z)
    gram = gram + base.jitter * torch.eye(M_k, dtype=gram.dtype, device=gram.device)
    return Projection(
        block.Rt @ V.mT.reshape(K, M_k, -1),
        block.Rt @ gram @ block.Rt.mT,
        block.rho,
        block.Rt.sum(-1),
        block.e,
    )


def observe(base: Basis, site: Site, mean: Tensor | float, *, marginal: bool) -> Rows:
    """One site as centred rows about another basis."""
    return centre(gather(*project(base, block([site], [0])), marginal=marginal), mean)

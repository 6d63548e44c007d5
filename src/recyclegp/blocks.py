"""Many sites at once: equal sizes are batched, and each batch becomes rows about one basis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from . import kernels
from .least_squares import Rows, centre, gather
from .posterior import Basis, Same, features, same_points
from .sites import Site

CHUNK = 2**24  # numbers in the features of one block: 128 MiB


class Block(NamedTuple):
    """K sites of M_k points each; sites of fewer rows are padded with zero rows, which is exact."""

    Z: Tensor  # (K, M_k, D)
    Rt: Tensor  # (K, r, M_k)
    rho: Tensor  # (K, r)
    e: Tensor  # (K,)
    members: tuple[int, ...]  # positions of these sites in the list they came from


def blocks(sites: Sequence[Site], inducing: int) -> Iterator[Block]:
    """Sites grouped by their number of points, in chunks whose features on `inducing` points fit."""
    by_size: dict[int, list[int]] = {}
    for i, site in enumerate(sites):
        by_size.setdefault(len(site.Z), []).append(i)
    for size, members in by_size.items():
        step = max(1, CHUNK // (size * max(inducing, size)))
        for start in range(0, len(members), step):
            yield _pad([sites[i] for i in members[start : start + step]], members[start : start + step])


def _pad(sites: Sequence[Site], members: Sequence[int]) -> Block:
    tallest = max(len(s.rho) for s in sites)

    def tall(x: Tensor) -> Tensor:
        missing = tallest - len(x)
        return x if not missing else torch.cat([x, x.new_zeros((missing, *x.shape[1:]))])

    return Block(
        torch.stack([s.Z for s in sites]),
        torch.stack([tall(s.Rt) for s in sites]),
        torch.stack([tall(s.rho) for s in sites]),
        torch.stack([s.e for s in sites]),
        tuple(members),
    )


def meeting(base_points: Tensor, block: Block) -> Same:
    """Where the block's points are the basis' own: found once, used at every kernel."""
    return same_points(base_points, block.Z.flatten(0, 1))


class Projection(NamedTuple):
    """What a block says about the basis' values, before its residual is kept or integrated out."""

    H: Tensor  # (K, r, M)  R_kᵀV_kᵀ
    RKR: Tensor  # (K, r, r)  R_kᵀK_kkR_k
    rho: Tensor
    ones: Tensor
    e: Tensor


def project(base: Basis, block: Block, same: Same) -> Projection:
    """Both products at the basis' kernel, from one evaluation of the features."""
    K, M_k, D = block.Z.shape
    V = features(base, block.Z.reshape(-1, D), same)  # (M, K·M_k)
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
    block = _pad([site], [0])
    rows = gather(*project(base, block, meeting(base.Z, block)), marginal=marginal)
    return centre(rows, mean)

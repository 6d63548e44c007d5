"""The sites of a shelf on one basis: folded into a triangle of rows, and compared with one another."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import blocks, linalg
from .least_squares import Rows, Solution, centre, compress, gather, stack
from .posterior import Basis
from .shelf import Shelf

TALL = 2**17  # numbers in rows folded at once, unless that is few rows: more overflow the caches


@torch.no_grad()
def fold(base: Basis, shelf: Shelf, mean: float, start: Rows | None = None, *, marginal: bool) -> Rows:
    """Centred rows of every site, under those of `start`: with their slack, or their residuals integrated out."""
    M = len(base.Z)
    most = max(16 * M, TALL // M)  # rows
    parts, height = ([], 0) if start is None else ([start], len(start.rho))
    for block in shelf.blocks(M):
        rows = centre(gather(*blocks.project(base, block), marginal=marginal), mean)
        if parts and height + len(rows.rho) > most:
            parts = [_folded(parts)]
            height = len(parts[0].rho)
        parts.append(rows)
        height += len(rows.rho)
    return _folded(parts)


def _folded(parts: list[Rows]) -> Rows:
    return compress(parts[0] if len(parts) == 1 else stack(parts))


class Agreement(NamedTuple):
    """How one site fits the rest: about 1 where it does, and the probability of more."""

    surprise: float
    agreement: float


@torch.no_grad()
def agreements(base: Basis, shelf: Shelf, mean: float, solution: Solution) -> dict[int, Agreement]:
    """z_k² = r_kᵀ(I − S_k)⁻¹r_k with S_k = H_k(I+P)⁻¹H_kᵀ: leave-one-out without leaving one out."""
    found: dict[int, Agreement] = {}
    for block in shelf.blocks(len(base.Z)):
        p = blocks.project(base, block)
        K, r, M = p.H.shape
        rows = centre(gather(*p, marginal=True), mean)
        H, rho = rows.H.reshape(K, r, M), rows.rho.reshape(K, r)
        misfit = rho - H @ solution.v
        A = linalg.solve_lower(solution.C, rows.H.mT).mT.reshape(K, r, M)
        rest = torch.eye(r, dtype=A.dtype) - A @ A.mT
        z = linalg.solve_lower(linalg.cholesky(rest).L, misfit[..., None]).square().sum((-2, -1))
        counts = torch.tensor(block.counts, dtype=z.dtype)
        surprise = z / counts.clamp_min(1)
        pairs = zip(surprise.tolist(), _upper_tail(z, counts).tolist(), strict=True)
        found |= dict(zip(block.members, (Agreement(*pair) for pair in pairs), strict=True))
    return found


def _upper_tail(value: Tensor, count: Tensor) -> Tensor:
    """P(χ²_count > value)."""
    return torch.special.gammaincc(count / 2, value / 2)

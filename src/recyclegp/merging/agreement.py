"""How well each site agrees with the rest, without leaving any of them out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.least_squares import Solution, centre
from ..core.packing import project
from ..core.posterior import Basis
from .site_store import SiteStore


class Agreement(NamedTuple):
    """How one site fits the rest: about 1 where it does, and the probability of more."""

    surprise: float
    agreement: float


@torch.no_grad()
def agreements(base: Basis, store: SiteStore, mean: float, solution: Solution) -> dict[int, Agreement]:
    """z_k² = r_kᵀ(I − S_k)⁻¹r_k with S_k = H_k(I+P)⁻¹H_kᵀ: leave-one-out without leaving one out."""
    found: dict[int, Agreement] = {}
    for packed in store.packs(len(base.Z)):
        p = project(base, packed)
        K, r, M = p.H.shape
        rows = centre(p.rows(marginal=True), mean)
        H, rho = rows.H.reshape(K, r, M), rows.rho.reshape(K, r)
        misfit = rho - H @ solution.v
        A = linalg.solve_lower(solution.C, rows.H.mT).mT.reshape(K, r, M)
        rest = torch.eye(r, dtype=A.dtype) - A @ A.mT
        z = linalg.solve_lower(linalg.cholesky(rest).L, misfit[..., None]).square().sum((-2, -1))
        counts = torch.tensor(packed.counts, dtype=z.dtype)
        surprise = z / counts.clamp_min(1)
        pairs = zip(surprise.tolist(), _upper_tail(z, counts).tolist(), strict=True)
        found |= dict(zip(packed.members, (Agreement(*pair) for pair in pairs), strict=True))
    return found


def _upper_tail(value: Tensor, count: Tensor) -> Tensor:
    """P(χ²_count > value)."""
    return torch.special.gammaincc(count / 2, value / 2)

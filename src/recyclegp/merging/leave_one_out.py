"""How well each site agrees with the rest, without leaving any of them out."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.least_squares import Solution, centre
from ..core.packing import PackedSites, project
from ..core.posterior import Basis
from .site_source import SiteSource


class Agreement(NamedTuple):
    """How one site fits the rest: about 1 where it does, and the probability of more."""

    surprise: float
    agreement: float


@torch.no_grad()
def agreements(base: Basis, store: SiteSource, mean: float, solution: Solution) -> dict[int, Agreement]:
    """z_k² = r_kᵀ(I − S_k)⁻¹r_k with S_k = H_k(I+P)⁻¹H_kᵀ: leave-one-out without leaving one out."""
    part = partial(_agreements, base=base.map(torch.Tensor.detach), mean=mean, solution=solution)
    return store.reduce(part, operator.or_, len(base.Z), "agreement")


@torch.no_grad()
def _agreements(packs: Iterator[PackedSites], *, base: Basis, mean: float, solution: Solution) -> dict[int, Agreement]:
    found: dict[int, Agreement] = {}
    for packed in packs:
        p = project(base, packed)
        K, r, M = p.H.shape
        rows = centre(p.rows(marginal=True), mean)
        H, rho = rows.H.reshape(K, r, M), rows.rho.reshape(K, r)
        residual = rho - H @ solution.v
        A = linalg.solve_lower(solution.C, rows.H.mT).mT.reshape(K, r, M)
        rest = torch.eye(r, dtype=A.dtype) - A @ A.mT
        z = linalg.solve_lower(linalg.cholesky(rest).L, residual[..., None]).square().sum((-2, -1))
        counts = torch.tensor(packed.counts, dtype=z.dtype)
        surprise = z / counts.clamp_min(1)
        pairs = zip(surprise.tolist(), _upper_tail(z, counts).tolist(), strict=True)
        found |= dict(zip(packed.members, (Agreement(*pair) for pair in pairs), strict=True))
    return found


@torch.no_grad()
def exact_agreements(L: Tensor, alpha: Tensor, member: Tensor) -> dict[int, Agreement]:
    """The same from LLᵀ = A: z_k² = α_kᵀ[(A⁻¹)_kk]⁻¹α_k; `member` says whose each row is, −1 for padding."""
    inverse = torch.cholesky_inverse(L)
    found: dict[int, Agreement] = {}
    order = torch.argsort(member, stable=True)
    members, counts = torch.unique_consecutive(member[order], return_counts=True)
    for k, rows in zip(members.tolist(), order.split(counts.tolist()), strict=True):
        if k < 0:
            continue
        block = inverse[rows[:, None], rows[None, :]]
        z = linalg.solve_lower(linalg.cholesky(block).L, alpha[rows, None]).square().sum()
        count = torch.tensor(float(len(rows)), dtype=z.dtype)
        found[k] = Agreement(float(z) / len(rows), float(_upper_tail(z, count)))
    return found


def _upper_tail(value: Tensor, count: Tensor) -> Tensor:
    """P(χ²_count > value)."""
    return torch.special.gammaincc(count / 2, value / 2)

"""How well each site agrees with the rest, and what these add to it, without leaving any of them out.

With all others log p(ρ_k) is −½(z_k² + logdet Σ_k), where Σ_k is what they leave open of it and its own noise; without
them it is −½(z⁰² + logdet Σ⁰). What they add is the difference of the two.
"""

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
    """How one site fits the rest: about 1 where it does, and the probability of more; and what the rest adds to it."""

    surprise: float
    agreement: float
    added: float  # nats by which it is more probable with the others than without them


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
        # Σ_k = (I − S_k)⁻¹ with the others, Σ⁰ = I + H_kH_kᵀ without them
        with_others, alone = linalg.cholesky(rest).L, linalg.cholesky(torch.eye(r, dtype=H.dtype) + H @ H.mT).L
        z, z0 = _chi2(with_others, residual), _chi2(alone, rho)
        added = 0.5 * (z0 - z) + linalg.logdet(alone) + linalg.logdet(with_others)
        counts = torch.tensor(packed.counts, dtype=z.dtype)
        columns = (z / counts.clamp_min(1), _upper_tail(z, counts), added)
        each = zip(*(column.tolist() for column in columns), strict=True)
        found |= dict(zip(packed.members, (Agreement(*one) for one in each), strict=True))
    return found


@torch.no_grad()
def exact_agreements(L: Tensor, alpha: Tensor, member: Tensor) -> dict[int, Agreement]:
    """The same from LLᵀ = A: z_k² = α_kᵀ[(A⁻¹)_kk]⁻¹α_k; `member` says whose each row is, −1 for padding.

    Here Σ_k = [(A⁻¹)_kk]⁻¹ and Σ⁰ = A_kk.
    """
    inverse, residual = torch.cholesky_inverse(L), L @ (L.mT @ alpha)
    found: dict[int, Agreement] = {}
    order = torch.argsort(member, stable=True)
    members, counts = torch.unique_consecutive(member[order], return_counts=True)
    for k, rows in zip(members.tolist(), order.split(counts.tolist()), strict=True):
        if k < 0:
            continue
        with_others = linalg.cholesky(inverse[rows[:, None], rows[None, :]]).L
        alone = linalg.cholesky(L[rows] @ L[rows].mT).L
        z, z0 = _chi2(with_others, alpha[rows]), _chi2(alone, residual[rows])
        added = 0.5 * (z0 - z) + linalg.logdet(alone) + linalg.logdet(with_others)
        count = torch.tensor(float(len(rows)), dtype=z.dtype)
        found[k] = Agreement(float(z) / len(rows), float(_upper_tail(z, count)), float(added))
    return found


def _chi2(L: Tensor, residual: Tensor) -> Tensor:
    """rᵀ(LLᵀ)⁻¹r."""
    return linalg.solve_lower(L, residual[..., None]).square().sum((-2, -1))


def _upper_tail(value: Tensor, count: Tensor) -> Tensor:
    """P(χ²_count > value)."""
    return torch.special.gammaincc(count / 2, value / 2)

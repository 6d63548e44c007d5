"""How well each site agrees with the rest, without leaving any of them out."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.least_squares import Solution, centre, solve
from ..core.packing import PackedSites, project
from ..core.posterior import Basis, basis
from .evidence import profiled_mean
from .exact_form import ExactForm
from .folding import fold
from .member import Member
from .owners import owner_numbers
from .points_form import PointsForm
from .pooling import median_kernel, shorter_than_all
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
def exact_agreements(form: ExactForm) -> dict[int, Agreement]:
    """The same from A⁻¹: z_k² = α_kᵀ[(A⁻¹)_kk]⁻¹α_k."""
    inverse = torch.cholesky_inverse(form.L)
    found: dict[int, Agreement] = {}
    order = torch.argsort(form.stacked.member, stable=True)
    members, counts = torch.unique_consecutive(form.stacked.member[order], return_counts=True)
    for member, rows in zip(members.tolist(), order.split(counts.tolist()), strict=True):
        if member < 0:  # padding
            continue
        block = inverse[rows[:, None], rows[None, :]]
        z = linalg.solve_lower(linalg.cholesky(block).L, form.alpha[rows, None]).square().sum()
        count = torch.tensor(float(len(rows)), dtype=z.dtype)
        found[member] = Agreement(float(z) / len(rows), float(_upper_tail(z, count)))
    return found


def compared(
    form: PointsForm | ExactForm, members: tuple[Member, ...], store: SiteSource, first: int = 0
) -> tuple[Member, ...]:
    """Members with their agreement with the rest: as it is for those in the store, which counts from `first`.

    A kernel far rougher than every module's own has absorbed a contradiction, and would call it agreement. Then they
    are judged under their median kernel instead.
    """
    if not store.points:
        return members
    supported = median_kernel(members, form.kernel.structure)
    judge = supported if first == 0 and shorter_than_all(form.kernel, members) else None
    if isinstance(form, ExactForm):
        found = exact_agreements(form if judge is None else form.at_kernel(judge))
        first = 0  # it has everybody
    elif judge is None:
        found = agreements(form.basis, store, form.mean, form.marginal_solution(store))
    else:
        with torch.no_grad():
            base = basis(judge, form.Z, effects=form.effects)
        mean = profiled_mean(judge, form.Z, store, form.mean, form.effects)
        found = agreements(base, store, mean, solve(fold(base, store, mean, marginal=True)))
    # where an owner's modules were judged together, the verdict is under the first of them
    numbers = owner_numbers(members)
    together = {numbers[i + first]: a for i, a in found.items()} if form.effects.present else {}
    kept = ((m, found.get(i - first, together.get(numbers[i]))) for i, m in enumerate(members))
    return tuple(
        m if a is None or m.weight == 0 else m._replace(surprise=a.surprise, agreement=a.agreement) for m, a in kept
    )


def _upper_tail(value: Tensor, count: Tensor) -> Tensor:
    """P(χ²_count > value)."""
    return torch.special.gammaincc(count / 2, value / 2)

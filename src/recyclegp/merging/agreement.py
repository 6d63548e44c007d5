"""How well each site agrees with the rest, without leaving any of them out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.least_squares import Solution, centre, solve
from ..core.packing import project
from ..core.posterior import Basis, basis
from .evidence import profiled_mean
from .folding import fold
from .member import Member
from .points_form import PointsForm
from .pooling import median_kernel, shorter_than_all
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


def compared(
    form: PointsForm, solution: Solution, members: tuple[Member, ...], store: SiteStore, first: int = 0
) -> tuple[Member, ...]:
    """Members with their agreement with the rest: as it is for those in the store, which counts from `first`.

    A kernel far rougher than every module's own has absorbed a contradiction, and would call it agreement. Then they
    are judged under their median kernel instead.
    """
    if not store.points:
        return members
    base, mean = form.basis, form.mean
    supported = median_kernel(members, form.kernel.structure)
    if first == 0 and supported is not None and shorter_than_all(form.kernel, members):
        with torch.no_grad():
            base = basis(supported, form.Z)
        mean = profiled_mean(supported, form.Z, store, form.mean)
        solution = solve(fold(base, store, mean, marginal=True))
    found = agreements(base, store, mean, solution)
    kept = ((m, found.get(i - first)) for i, m in enumerate(members))
    return tuple(m if a is None else m._replace(surprise=a.surprise, agreement=a.agreement) for m, a in kept)


def _upper_tail(value: Tensor, count: Tensor) -> Tensor:
    """P(χ²_count > value)."""
    return torch.special.gammaincc(count / 2, value / 2)

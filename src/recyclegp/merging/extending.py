"""More points for an ensemble that is to learn about a region where it has none.

Points are appended, so that the factor L of the old ones is the leading block of the new one, and rows about the old
whitened values are rows about the new ones with zeros behind them: nothing that was known changes.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..core.posterior import Basis, basis, extended, features
from ..core.sites import Site
from ..kernels import Kernel
from ..local.observations import Observed
from .constants import POINTS
from .points import MOST_AUTOMATIC, select_by_slack
from .site_source import SitePoints, SiteSource, site_points

ROWS = 8192  # of data, looked at together


Which = TypeVar("Which", covariant=True)  # form: exact, or at points


class GrowthLimits(NamedTuple):
    rows: float  # of data behind all members, weighted, those that are new among them
    may_append: bool  # points, where the old ones cannot express what is new
    most: int | None  # pseudo-observations that may be held all at once; None: as many as there are


class Grown(NamedTuple, Generic[Which]):
    """A form with new sites."""

    form: Which
    appended: list[int]  # for which of the new members, by their positions in the store, each new point was appended
    rechosen: bool = False  # its points were chosen with everybody, because it had become too large to be exact


class Extended(NamedTuple):
    basis: Basis
    members: list[int]  # for whom each new point was appended


@torch.no_grad()
def extend(base: Basis, new: SitePoints, tolerance: float) -> Extended:
    """The basis with as many of the candidates as it takes until they are expressed, up to the usual limit."""
    most = max(0, MOST_AUTOMATIC - len(base.Z))
    chosen = select_by_slack(new.Z, new.precision, most, 2 * tolerance, base.kernel, given=base)
    while chosen:
        whose = new.members[chosen]
        order = torch.argsort(whose, stable=True)  # in the order of members, so that they can be found again
        larger = basis(base.kernel, torch.cat([base.Z, new.Z[chosen][order]]), base.jitter, effects=base.effects)
        if bool(larger.jitter == base.jitter):
            return Extended(larger, whose[order].tolist())
        chosen = chosen[: len(chosen) // 2]  # so close together that the old points would need more jitter, too
    return Extended(base, [])


def all_points(store: SiteSource) -> SitePoints:
    """The points of all sites in the store."""
    parts = list(site_points(store.packs(1)))
    return SitePoints(*(torch.cat(column) for column in zip(*parts, strict=True)))


class Covered(NamedTuple):
    """A basis on which rows of data can be summarised."""

    basis: Basis
    seen: Tensor  # (n,)  how many of its points, the first ones, each row speaks of


@torch.no_grad()
def cover(kernel: Kernel, Z: Tensor, jitter: Tensor | float | None, new: Observed, mean: float, most: int) -> Covered:
    """The points Z and, behind them, rows that these leave open: in memory a row may be a point.

    A row is left open where the points before it leave q(x) = k(x,x) − ΣV² of the variance of f there, and that is not
    nothing beside its noise: q/2σ², the nats that it would lose, are more than for any row of a merge
    (`POINTS.tolerance`). Rows are looked at in their order, so that many at once become the same points as one by one;
    and in a bounded region there are boundedly many, at most `most` in all.
    """
    base = basis(kernel, Z if len(Z) else new.X[:1], jitter)
    seen: list[Tensor] = []
    for X, resolution in zip(new.X.split(ROWS), new.resolution(mean).split(ROWS), strict=True):
        known = len(base.Z)
        chosen = _left_open(base, X, 2 * POINTS.tolerance * resolution.square(), most - known)
        base = extended(base, X[chosen])
        first = torch.tensor(chosen[: len(base.Z) - known], dtype=torch.long, device=X.device)
        seen.append(known + torch.searchsorted(first, torch.arange(len(X), device=X.device), right=True))
    return Covered(base, torch.cat(seen))


def _left_open(base: Basis, X: Tensor, allowed: Tensor, most: int) -> list[int]:
    """Which rows are to be points, so that those before each row leave no more open there than is allowed."""
    prior, V = base.kernel.diagonal(X), features(base, X)
    left, allowed = prior - V.square().sum(0), torch.maximum(allowed, POINTS.residual_floor * prior)
    more = X.new_zeros(min(max(most, 0), len(X)), len(X))  # rows of V, for the new points
    chosen: list[int] = []
    for step in range(len(more)):
        start = chosen[-1] + 1 if chosen else 0
        found = (left[start:] > allowed[start:]).nonzero()[:1, 0].tolist()
        if not found:
            break
        i = start + found[0]
        covariance = base.kernel.matrix(X[i : i + 1], X)[0] - V[:, i] @ V - more[:step, i] @ more[:step]
        more[step] = covariance / (left[i] + base.jitter).sqrt()  # as the factor of the larger basis has it
        left = left - more[step].square()
        chosen.append(i)
    return chosen


@torch.no_grad()
def select_for_site(site: Site, candidates: Tensor, kernel: Kernel, most: int) -> list[int]:
    """Of these points those at which a site loses least, best first: each saves as much of tr RᵀQR as one can.

    With F = Rᵀk(Z, ·) and r what is left of the variance, given those that are chosen, point j saves ΣF_j²/r_j.
    """
    prior = kernel.diagonal(candidates)
    residual, F = prior.clone(), site.Rt @ kernel.matrix(site.Z, candidates)
    factor = candidates.new_zeros(len(candidates), min(most, len(candidates)))
    chosen: list[int] = []
    for step in range(factor.shape[1]):
        saving = torch.where(residual > POINTS.residual_floor * prior, F.square().sum(0) / residual, 0.0)
        pivot = int(saving.argmax())
        if not saving[pivot] > POINTS.nothing:
            break
        chosen.append(pivot)
        column = kernel.matrix(candidates, candidates[pivot : pivot + 1])[:, 0]
        column = (column - factor[:, :step] @ factor[pivot, :step]) / residual[pivot].sqrt()
        factor[:, step] = column
        F = F - torch.outer(F[:, pivot] / residual[pivot].sqrt(), column)
        residual = (residual - column.square()).clamp_min(0)
        residual[pivot] = 0
    return chosen or [0]

"""Z_*: which of the modules' own points the ensemble keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor

from .. import threads
from ..core.effects import NO_EFFECTS, Effects
from ..core.packing import PackedSites, project, shared_points
from ..core.posterior import Basis, basis, features
from ..devices import memory_factor
from ..kernels import Kernel
from .constants import POINTS
from .site_source import SiteSource, added, site_points

MOST_AUTOMATIC = 512  # points on which a kernel is learned, unless more are wanted
POOL = 8192  # candidates looked at together
BEFORE_WAITING = 32  # steps of a selection on a GPU, of which the last ones may be for nothing
AT_ONCE = 512  # candidates of which all pairs are looked at together: a call for each column would take longer
Choice = int | str | None  # "auto", "all", a number of points, or None for points that were given
AUTO, ALL = "auto", "all"


@dataclass(frozen=True)
class PointsWanted:
    """How Z_* is to be chosen: points that were given, at most so many, or (neither) as many as are needed.

    `all_of_them` asks for the exact form, which keeps the points of all modules.
    """

    count: int | None = None
    given: Tensor | None = None
    all_of_them: bool = False

    @property
    def automatic(self) -> bool:
        return self.count is None and self.given is None and not self.all_of_them

    @property
    def choice(self) -> Choice:
        return ALL if self.all_of_them else AUTO if self.automatic else self.count

    @staticmethod
    def again(choice: Choice, Z: Tensor) -> PointsWanted:
        """The same, when points are chosen once more; those that were given are Z."""
        if choice is None:
            return PointsWanted(given=Z)
        return PointsWanted(count=choice if isinstance(choice, int) else None, all_of_them=choice == ALL)


@torch.no_grad()
def select(
    kernel: Kernel, store: SiteSource, count: int | None, tolerance: float, most_automatic: int | None = None
) -> Tensor:
    """Z_* among the union of the modules' points, by what each adds to their joint description.

    Without a count, as many as leave no more slack than the tolerance. A tournament: as many candidates as a pool
    holds compete, the best meet the next ones, and the order in which the last pool chooses them is the order of Z_*.
    """
    most = count if count is not None else most_automatic or MOST_AUTOMATIC
    size = max(int(memory_factor(kernel.theta.device) * POOL), 2 * most)
    enough = 2 * tolerance / store.largest if count is None else 0.0
    if store.points > size:
        enough *= POINTS.early
    rules = _Rules(kernel.with_theta(kernel.theta.detach()), most, size, enough)
    with threads.limit_threads(float(size) * most):
        Z, precision = store.reduce(partial(_pool, rules=rules), partial(_meet, rules=rules), 1, "points")
        chosen = select_by_slack(Z, precision, most, enough, kernel)
    Z = Z[chosen] if chosen else Z[:1]
    return Z if count is not None else Z[: _sufficient(kernel, store, Z, tolerance)]


class _Rules(NamedTuple):
    """Of a tournament."""

    kernel: Kernel
    most: int  # that win
    size: int  # candidates that compete at once
    enough: float  # where a competition ends early


class _Pool(NamedTuple):
    """Candidates that are still in it."""

    Z: Tensor  # (n, D)
    precision: Tensor  # (n,)

    def best(self, rules: _Rules) -> _Pool:
        chosen = select_by_slack(self.Z, self.precision, rules.most, rules.enough, rules.kernel)
        return _Pool(self.Z[chosen], self.precision[chosen])

    def with_others(self, other: _Pool) -> _Pool:
        if not len(self.Z):
            return other
        return _Pool(torch.cat([self.Z, other.Z]), torch.cat([self.precision, other.precision]))


@torch.no_grad()
def _pool(packs: Iterator[PackedSites], *, rules: _Rules) -> _Pool:
    """The candidates of some sites, or the best of them where they are many."""
    pool = _Pool(rules.kernel.theta.new_zeros(0), rules.kernel.theta.new_zeros(0))
    most = rules.size - rules.most
    for more in site_points(packs):
        for part in map(_Pool, more.Z.split(most), more.precision.split(most)):
            if len(pool.Z) + len(part.Z) > rules.size:
                pool = pool.best(rules)
            pool = pool.with_others(part)
    return pool


@torch.no_grad()
def _meet(a: _Pool, b: _Pool, *, rules: _Rules) -> _Pool:
    """One round of the tournament: where two pools are too many for one, the best of each go on."""
    if len(a.Z) + len(b.Z) > rules.size:
        a, b = a.best(rules), b.best(rules)
    return a.with_others(b)


@torch.no_grad()
def select_by_slack(
    points: Tensor, precision: Tensor, count: int, tolerance: float, kernel: Kernel, given: Basis | None = None
) -> list[int]:
    """Greedy, best first: pivot on Λ_jj·r_jj, with r what is left of the variance, until their sum is small.

    `precision` is Λ_jj at each point. The cheap pivot costs O(M) per point and step; the full saving of
    slack, Σ_k r_zkΛ_k r_kz / r_zz, would need every pair of points. As tr(Λ_kQ_k) ≤ M_k Σ_j Λ_jj·r_jj, the
    sum that is left bounds the slack that is left. `given` are points that are there already.
    """
    prior = kernel.diagonal(points)
    residual = prior.clone()
    known = points.new_zeros(len(points), 0)
    if given is not None:
        known = features(given, points, shared_points(given.Z, points)).mT
        residual = (residual - known.square().sum(-1)).clamp_min(0)
    # columns of [features at given points, Cholesky factor at chosen ones]
    factor = torch.cat([known, points.new_zeros(len(points), min(count, len(points)))], 1)
    floor = POINTS.residual_floor * prior
    gram = kernel.matrix(points, points) if len(points) <= AT_ONCE else None
    chosen: list[int] = []
    at_once = BEFORE_WAITING if points.is_cuda else 1
    told: list[Tensor] = []  # of each step since: the sum, the best score, and where
    for step in range(known.shape[1], factor.shape[1]):
        score = (precision * residual).masked_fill_(residual <= floor, 0.0)
        best = score.max(0, keepdim=True)
        told.append(torch.cat([score.sum()[None], best.values, best.indices.to(score.dtype)]))
        if len(told) == at_once or step == factor.shape[1] - 1:
            more = _until(torch.stack(told).tolist(), tolerance)
            chosen += more
            if len(more) < len(told):
                break
            told = []
        pivot = best.indices  # on the device: a GPU need not be waited for
        column = kernel.matrix(points, points[pivot]) if gram is None else gram[:, pivot]
        column = torch.addmv(column[:, 0], factor[:, :step], factor[pivot, :step][0], alpha=-1)
        column.div_(residual[pivot].sqrt())
        factor[:, step] = column
        residual.addcmul_(column, column, value=-1.0).clamp_min_(0)
        residual.index_fill_(0, pivot, 0.0)
    return chosen


def _until(told: Sequence[tuple[float, float, float]], tolerance: float) -> list[int]:
    """Whom these steps have chosen, up to the first that has found too little."""
    enough = takewhile(lambda one: one[0] > tolerance and one[1] > 0, told)
    return [int(at) for _, _, at in enough]


def _sufficient(kernel: Kernel, store: SiteSource, Z: Tensor, tolerance: float) -> int:
    """How many of the points, in their order, leave no more slack than the tolerance; all if none do."""
    enough = slack_left(kernel, store, Z) <= tolerance
    return int(enough.int().argmax()) + 1 if bool(enough.any()) else len(Z)


@torch.no_grad()
def slack_left(kernel: Kernel, store: SiteSource, Z: Tensor, effects: Effects = NO_EFFECTS) -> Tensor:
    """The slack that the first one, two, … of the points leave.

    Each column of H belongs to one point, and Σ_k‖H_k[:, i]‖² is twice what it explains after those before it.
    """
    part = partial(_explained, base=basis(kernel, Z, effects=effects).map(torch.Tensor.detach))
    found = store.reduce(part, added, len(Z), "slack")
    return found.slack - found.explained.cumsum(0)


class _Explained(NamedTuple):
    slack: Tensor  # without any points
    explained: Tensor  # (M,) of it by each of them, after those before it


@torch.no_grad()
def _explained(packs: Iterator[PackedSites], *, base: Basis) -> _Explained:
    slack, explained = base.Z.new_zeros(()), base.Z.new_zeros(len(base.Z))
    for packed in packs:
        p = project(base, packed)
        slack = slack + 0.5 * p.RKR.diagonal(dim1=-2, dim2=-1).sum()
        explained = explained + 0.5 * p.H.square().sum((0, 1))
    return _Explained(slack, explained)

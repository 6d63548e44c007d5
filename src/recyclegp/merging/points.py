"""Z_*: which of the modules' own points the ensemble keeps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.effects import NO_EFFECTS, Effects
from ..core.packing import meeting, project
from ..core.posterior import Basis, basis, features
from ..devices import room
from ..kernels import Kernel
from .site_store import SiteStore, candidates

MOST_AUTOMATIC = 512  # points on which a kernel is learned, unless more are asked for
RESIDUAL_FLOOR = 1e-8  # of the prior variance: Z_* may be denser than a module's points, as all share its jitter
POOL = 8192  # candidates looked at together
EARLY = 0.01  # of the tolerance: where pools stop, as those that lost cannot be asked again


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


@torch.no_grad()
def select(
    kernel: Kernel, store: SiteStore, count: int | None, tolerance: float, most_automatic: int | None = None
) -> Tensor:
    """Z_* among the union of the modules' points, by what each adds to their joint description.

    Without a count, as many as leave no more slack than the tolerance. A tournament: as many candidates as a pool
    holds compete, the best meet the next ones, and the order in which the last pool chooses them is the order of Z_*.
    """
    most = count if count is not None else most_automatic or MOST_AUTOMATIC
    size = max(int(room(kernel.theta.device) * POOL), 2 * most)
    enough = 2 * tolerance / store.largest if count is None else 0.0
    if store.points > size:
        enough *= EARLY
    Z, precision = kernel.theta.new_zeros(0), kernel.theta.new_zeros(0)
    for more in candidates(store):
        for part, weight in zip(more.Z.split(size - most), more.precision.split(size - most), strict=True):
            if len(Z) + len(part) > size:
                best = select_by_slack(Z, precision, most, enough, kernel)
                Z, precision = Z[best], precision[best]
            Z, precision = (torch.cat([Z, part]), torch.cat([precision, weight])) if len(Z) else (part, weight)
    chosen = select_by_slack(Z, precision, most, enough, kernel)
    Z = Z[chosen] if chosen else Z[:1]
    return Z if count is not None else Z[: _sufficient(kernel, store, Z, tolerance)]


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
        known = features(given, points, meeting(given.Z, points)).mT
        residual = (residual - known.square().sum(-1)).clamp_min(0)
    factor = points.new_zeros(len(points), min(count, len(points)))
    chosen: list[int] = []
    for step in range(factor.shape[1]):
        score = torch.where(residual > RESIDUAL_FLOOR * prior, precision * residual, torch.zeros_like(residual))
        pivot = int(score.argmax())
        if float(score.sum()) <= tolerance or not score[pivot] > 0:
            break
        chosen.append(pivot)
        column = kernel.matrix(points, points[pivot : pivot + 1])[:, 0] - known @ known[pivot]
        column = (column - factor[:, :step] @ factor[pivot, :step]) / residual[pivot].sqrt()
        factor[:, step] = column
        residual = (residual - column.square()).clamp_min(0)
        residual[pivot] = 0
    return chosen


def _sufficient(kernel: Kernel, store: SiteStore, Z: Tensor, tolerance: float) -> int:
    """How many of the points, in their order, leave no more slack than the tolerance; all if none do."""
    enough = slack_left(kernel, store, Z) <= tolerance
    return int(enough.int().argmax()) + 1 if bool(enough.any()) else len(Z)


@torch.no_grad()
def slack_left(kernel: Kernel, store: SiteStore, Z: Tensor, effects: Effects = NO_EFFECTS) -> Tensor:
    """The slack that the first one, two, … of the points leave.

    Each column of H belongs to one point, and Σ_k‖H_k[:, i]‖² is twice what it explains after those before it.
    """
    base = basis(kernel, Z, effects=effects)
    slack, explained = Z.new_zeros(()), Z.new_zeros(len(Z))
    for packed in store.packs(len(Z)):
        p = project(base, packed)
        slack = slack + 0.5 * p.RKR.diagonal(dim1=-2, dim2=-1).sum()
        explained = explained + 0.5 * p.H.square().sum((0, 1))
    return slack - explained.cumsum(0)

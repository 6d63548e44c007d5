"""More points for an ensemble that is to learn about a region where it has none.

Points are appended, so that the factor L of the old ones is the leading block of the new one, and rows about the old
whitened values are rows about the new ones with zeros behind them: nothing that was known changes.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch

from ..core.posterior import Basis, basis, features
from ..kernels import Kernel
from ..local import placement
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


class RowsBasis(NamedTuple, Generic[Which]):
    """Where new rows of data are summarised."""

    form: Which  # with points for them, where it may have more
    basis: Basis
    appended: int = 0  # points, for these rows


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


@torch.no_grad()
def slack_of_rows(base: Basis, new: Observed, mean: float) -> float:
    """About how many nats of new rows the basis cannot express: ½ Σ_i (k − ΣV²)(x_i)/resolution_i²."""
    total = 0.0
    for X, resolution in zip(new.X.split(ROWS), new.resolution(mean).split(ROWS), strict=True):
        left = (base.kernel.diagonal(X) - features(base, X).square().sum(0)).clamp_min(0)
        total += 0.5 * float((left / resolution.square()).sum())
    return total


def candidates_among(new: Observed, kernel: Kernel, mean: float, most: int = POINTS.of_rows) -> SitePoints:
    """Places for points among rows of data, each with a share of what the rows will say."""
    rng = np.random.default_rng(placement.entropy(0, new.X, new.y))
    batched = kernel.with_theta(kernel.theta[None])
    found = placement.candidates(new.X[None], [len(new.X)], most, batched, [rng])
    Z = found.points[found.present]
    precision = (new.resolution(mean).square().reciprocal().sum() / len(Z)).expand(len(Z))
    return SitePoints(Z, precision, torch.zeros(len(Z), dtype=torch.long))

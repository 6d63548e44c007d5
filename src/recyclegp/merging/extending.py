"""More points for an ensemble that is to learn about a region where it has none.

Points are appended, so that the factor L of the old ones is the leading block of the new one, and rows about the old
whitened values are rows about the new ones with zeros behind them: nothing that was known changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from ..core.least_squares import CentredRows
from ..core.posterior import Basis, basis, features
from ..kernels import Kernel
from ..local import placement
from ..local.observations import Observed
from .points import MOST_AUTOMATIC, select_by_slack
from .site_source import Candidates, SiteSource, candidates

NEW_POINTS = 64  # that rows of data may ask for
ROWS = 8192  # of data, looked at together


class Extended(NamedTuple):
    basis: Basis
    members: list[int]  # for whom each new point was appended


@torch.no_grad()
def extend(base: Basis, new: Candidates, tolerance: float) -> Extended:
    """The basis with as many of the candidates as it takes until they are expressed, up to the usual limit."""
    room = max(0, MOST_AUTOMATIC - len(base.Z))
    chosen = select_by_slack(new.Z, new.precision, room, 2 * tolerance, base.kernel, given=base)
    while chosen:
        whose = new.members[chosen]
        order = torch.argsort(whose, stable=True)  # in the order of members, so that they can be found again
        larger = basis(base.kernel, torch.cat([base.Z, new.Z[chosen][order]]), base.jitter, effects=base.effects)
        if bool(larger.jitter == base.jitter):
            return Extended(larger, whose[order].tolist())
        chosen = chosen[: len(chosen) // 2]  # so close together that the old points would need more jitter, too
    return Extended(base, [])


def padded(rows: CentredRows, points: int) -> CentredRows:
    """Rows about the first points of a basis as rows about all of them."""
    missing = points - rows.H.shape[-1]
    return rows if not missing else rows._replace(H=torch.nn.functional.pad(rows.H, (0, missing)))


def all_candidates(store: SiteSource) -> Candidates:
    """The points of all sites in the store."""
    parts = list(candidates(store.packs(1)))
    return Candidates(*(torch.cat(column) for column in zip(*parts, strict=True)))


@torch.no_grad()
def slack_of_rows(base: Basis, new: Observed, mean: float) -> float:
    """About how many nats of new rows the basis cannot express: ½ Σ_i (k − ΣV²)(x_i)/resolution_i²."""
    total = 0.0
    for X, resolution in zip(new.X.split(ROWS), new.resolution(mean).split(ROWS), strict=True):
        left = (base.kernel.diagonal(X) - features(base, X).square().sum(0)).clamp_min(0)
        total += 0.5 * float((left / resolution.square()).sum())
    return total


def candidates_among(new: Observed, kernel: Kernel, mean: float, most: int = NEW_POINTS) -> Candidates:
    """Places for points among rows of data, each with a share of what the rows will say."""
    rng = np.random.default_rng(placement.entropy(0, new.X, new.y))
    batched = kernel.with_theta(kernel.theta[None])
    found = placement.candidates(new.X[None], [len(new.X)], most, batched, [rng])
    Z = found.points[found.present]
    precision = (new.resolution(mean).square().reciprocal().sum() / len(Z)).expand(len(Z))
    return Candidates(Z, precision, torch.zeros(len(Z), dtype=torch.long))

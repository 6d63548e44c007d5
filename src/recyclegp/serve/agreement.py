"""Where the map of owners and the verdicts seem to contradict each other, and why they need not.

The map compares two owners at a time, point by point. A verdict compares all that a module says, together, with what
all the others know together: that is more exact than any one of them, and sees shapes and not only levels. So somebody
may be near everyone on the map and yet contradict them all; the page says so, beside the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import printable
from ..merging.verdicts import Standing, Verdict
from .owner_map import OwnerMap, Pair

NEAR = 2.0  # standard deviations; the page draws the lines between those who are further apart dashed
MOST_REMARKS = 4
LONGEST_NAME = 40  # characters


class Judged(NamedTuple):
    """An owner on the map, as the verdicts on its modules are together."""

    standing: Standing | None = None  # the worst of them; None where nobody looked, or none counts now
    reason: str = ""


def judged(verdicts: Mapping[int, Verdict | None], modules: Sequence[int]) -> Judged:
    """Of an owner's modules, by position; those that are switched off have no verdict."""
    known = [v for v in (verdicts.get(i) for i in modules) if v is not None]
    worst = (Standing.FLAGGED, Standing.UNCHECKED, Standing.TRUSTED)
    found = next((v for standing in worst for v in known if v.standing is standing), None)
    return Judged() if found is None else Judged(found.standing, printable(found.reason))


def typical(found: OwnerMap, owner: int, others: Sequence[int]) -> float | None:
    """How far most of the others are; None where nothing is known of any."""
    known = [d for d in (_distance(p, owner, others) for p in found.pairs) if d is not None]
    return float(np.median(known)) if known else None


def remarks(found: OwnerMap, standings: Sequence[Judged]) -> list[str]:
    """One for each owner whose place and verdict seem to disagree, and how many more there are."""
    trusted = [k for k, j in enumerate(standings) if j.standing is Standing.TRUSTED]
    said = []
    for k, (place, j) in enumerate(zip(found.places, standings, strict=True)):
        far = typical(found, k, [other for other in trusted if other != k])
        text = _remark(j.standing, far)
        if text:
            said.append(f"{printable(place.owner, LONGEST_NAME)} {text}.")
    more = len(said) - MOST_REMARKS
    return [*said[:MOST_REMARKS], *([f"The same is true of {more} more."] if more > 0 else [])]


def _distance(pair: Pair, owner: int, others: Sequence[int]) -> float | None:
    other = pair.b if pair.a == owner else pair.a if pair.b == owner else None
    return pair.distance if other in others else None


def _remark(standing: Standing | None, far: float | None) -> str:
    if standing is Standing.FLAGGED and far is None:
        return "contradicts the others, but its place says nothing: it shares too little with any one of them"
    if standing is Standing.FLAGGED and far is not None and far <= NEAR:
        return (
            f"contradicts the others, although it is only {far:.1f} from most: a verdict compares all of its points at "
            "once with what the others know together, the map two owners point by point"
        )
    if standing is Standing.TRUSTED and far is not None and far > NEAR:
        return f"is trusted, although it is {far:.1f} from most: it says too little to call that a contradiction"
    return ""

"""Small values of an ensemble's file, a line for each field: for those who compute with them, and who only look."""

from __future__ import annotations

import math
from typing import Any

from ..errors import RecycleGPError
from ..storage.facts import At, Fact
from ..storage.fields import count, listed, number, positive, text

MOST_SCALES = 64  # of a spread
MOST_SLOPE = 10.0


def _stretch(found: Any, at: At) -> tuple[float, ...] | None:
    if found is None:
        return None
    ratios = listed(found, "stretch", most=at.dimension)
    if len(ratios) != at.dimension:
        raise RecycleGPError(f"stretch has {len(ratios)} numbers, and there are {at.dimension} inputs")
    return tuple(number(v, "stretch") for v in ratios)


def scales(found: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Sizes and their probabilities, from [[s, p], …]."""
    pairs = [listed(pair, "a scale", most=2) for pair in listed(found, "scales", most=MOST_SCALES)]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise RecycleGPError("scales are not pairs of a size and a probability, or there are none")
    values, weights = (tuple(number(v, "a scale", 0.0) for v in part) for part in zip(*pairs, strict=True))
    if not math.isclose(math.fsum(weights), 1, rel_tol=1e-9) or not any(values):
        raise RecycleGPError("probabilities of scales do not add up to one, or all scales are zero")
    return values, weights


SKIPPED = (Fact("name", lambda v, at: text(v, "a name")), Fact("reason", lambda v, at: text(v, "a reason")))
SIGNER = (
    Fact("name", lambda v, at: text(v, "a name")),
    Fact("key", lambda v, at: text(v, "a key")),
    Fact("version", lambda v, at: None if v is None else count(v, "a version")),
)
EFFECTS = (
    Fact("offset", lambda v, at: number(v, "offset", 0.0), lambda v, at: float(v)),
    Fact("smooth", lambda v, at: number(v, "smooth", 0.0), lambda v, at: float(v)),
    Fact("stretch", _stretch, lambda v, at: None if v is None else list(v)),
    Fact("owners", lambda v, at: None if v is None else count(v, "owners", least=1)),
)
LEVEL = (
    Fact("slope", lambda v, at: number(v, "slope", -MOST_SLOPE, MOST_SLOPE)),
    Fact("level", lambda v, at: number(v, "level")),
    Fact("size", lambda v, at: positive(v, "size")),
)
NOISE = (  # beside the kernel under which it was found
    Fact("level", lambda v, at: positive(v, "a noise"), lambda v, at: float(v)),
    Fact(
        "dof",
        lambda v, at: math.inf if v is None else positive(v, "degrees of freedom"),
        lambda v, at: float(v) if math.isfinite(v) else None,
    ),
    Fact(
        "open_scale",
        lambda v, at: 1.0 if v is None else positive(v, "open_scale"),
        lambda v, at: None if v == 1 else float(v),
    ),
    Fact(
        "missed_scale",
        lambda v, at: 0.0 if v is None else number(v, "missed_scale", 0.0),
        lambda v, at: None if v == 0 else float(v),
    ),
)

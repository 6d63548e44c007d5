"""What merging has found out about a member of an ensemble, as files hold it: a line for each thing. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.offset import Offset
from ..errors import RecycleGPError
from ..merging.constants import UNIT_SEARCH
from ..merging.verdicts import InputFactor, Standing, Units, Verdict
from . import limits
from .facts import At, Entry, Fact
from .fields import count, fields, flag, listed, number, positive, text


def _column(found: Any) -> str | int:
    what = "a column of a remedy"
    return text(found, what) if isinstance(found, str) else count(found, what)


def _reason(found: Any) -> str:
    reason = text("" if found is None else found, "the reason of a verdict")
    if not reason.isprintable():
        raise RecycleGPError("the reason of a verdict holds control characters")
    return reason


def _offset(found: Any) -> Offset | None:
    if found is None:
        return None
    mean, sd = listed(found, "an offset", most=2)
    return Offset(number(mean, "an offset"), number(sd, "the sd of an offset", 0.0))


def _inputs(found: Any, at: At) -> tuple[InputFactor, ...]:
    entries = listed([] if found is None else found, "inputs of a remedy", most=UNIT_SEARCH.most_changed)
    return tuple(INPUT_FACTOR.read(entry, at) for entry in entries)


def _said(value: float, at: At) -> float | None:
    """Numbers that are not known are not written."""
    return None if math.isnan(value) else value


def _unless_zero(value: Any, at: At) -> Any:
    return value or None


INPUT_FACTOR = Entry(
    InputFactor,
    (
        Fact("column", lambda v, at: _column(v)),
        Fact("scale", lambda v, at: positive(v, "a scale")),
        Fact("shift", lambda v, at: number(v, "a shift")),
    ),
    "an input of a remedy",
)
REMEDY = Entry(
    Units,
    (
        Fact("scale", lambda v, at: number(v, "a scale")),
        Fact("shift", lambda v, at: number(v, "a shift")),
        Fact("inputs", _inputs, lambda v, at: [INPUT_FACTOR.write(f, at) for f in v] or None),
    ),
    "a remedy",
)
VERDICT = Entry(
    Verdict,
    (
        Fact("standing", lambda v, at: Standing(v), lambda v, at: v.value),
        Fact("reason", lambda v, at: _reason(v), _unless_zero),
        Fact("remedy", REMEDY.read_if_any, REMEDY.write),
        Fact("weight", lambda v, at: None if v is None else weight_from_json(v)),
    ),
    "a verdict",
)
STATE = (
    Fact("weight", lambda v, at: weight_from_json(v)),
    Fact("function", lambda v, at: 0 if v is None else count(v, "function"), _unless_zero),
    Fact("noise", lambda v, at: None if v is None else positive(v, "a noise")),
    Fact("left_open", lambda v, at: None if v is None else number(v, "left_open", 0.0)),
    Fact("missed", lambda v, at: 0.0 if v is None else number(v, "missed", 0.0), _unless_zero),
    Fact("verdict", VERDICT.read_if_any, VERDICT.write),
    Fact("surprise", lambda v, at: math.nan if v is None else number(v, "a surprise", 0.0), _said),
    Fact("agreement", lambda v, at: math.nan if v is None else number(v, "an agreement", 0.0, 1.0), _said),
    Fact("others_add", lambda v, at: math.nan if v is None else number(v, "what others add"), _said),
    Fact("offset", lambda v, at: _offset(v), lambda v, at: None if v is None else [v.mean, v.sd]),
    Fact("points_appended", lambda v, at: 0 if v is None else count(v, "points_appended"), _unless_zero),
    Fact("slack", lambda v, at: 0.0 if v is None else number(v, "slack", 0.0), _unless_zero),
    Fact("added_after_merge", lambda v, at: v is not None and flag(v, "added_after_merge"), _unless_zero),
    Fact("update", lambda v, at: v is not None and flag(v, "update"), _unless_zero),
)


def weight_from_json(found: Any) -> float:
    return number(found, "a weight", 0.0, limits.LARGEST_WEIGHT)


def site_sizes(entries: Sequence[Any]) -> list[tuple[int, int] | None]:
    """Points and rows of each member's site; None where it is not kept."""
    return [None if (size := fields(e, "a module").get("site")) is None else site_size(size) for e in entries]


def site_size(found: Any) -> tuple[int, int]:
    points, rows = (count(n, "points and rows of a site") for n in listed(found, "a site", most=2))
    if points == 0 or rows > points:
        raise RecycleGPError("a module's site has no points, or more rows than points")
    return points, rows

"""What of a merged model is looked at: which function, along which input, at which levels, and whose map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import RecycleGPError

LONGEST_LEVEL = 1000  # characters
MOST_LEVELS = 100  # columns of categories in one question


class Looking(NamedTuple):
    """Whoever counts."""

    column: int | None = 0  # that curves are drawn along; None: a map over both inputs
    function: int = 0
    levels: tuple[tuple[str, str], ...] = ()  # of columns of categories; the others are at their usual one
    whose: int | None = None  # a map of this module's own function; None: of the merged one


FIELDS = Looking._fields


def from_json(given: Mapping[str, Any]) -> Looking:
    """What the page has sent, checked as far as it can be without the modules."""
    levels = given.get("levels", {})
    if not isinstance(levels, Mapping) or len(levels) > MOST_LEVELS:
        raise RecycleGPError("levels must be an object, with one level for each column")
    if not all(isinstance(level, str) and len(level) <= LONGEST_LEVEL for level in levels.values()):
        raise RecycleGPError("levels must be texts")
    return Looking(
        _whole_number(given, "column", 0),
        _whole_number(given, "function", 0) or 0,
        tuple(sorted(levels.items())),
        _whole_number(given, "whose", None),
    )


def _whole_number(given: Mapping[str, Any], name: str, usual: int | None) -> int | None:
    found = given.get(name, usual)
    if found is not None and type(found) is not int:
        raise RecycleGPError(f"{name} must be a whole number")
    return found

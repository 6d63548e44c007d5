"""Columns of tables that hold levels: how they are told from numbers, and how they become codes."""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from .errors import RecycleGPError


class Kind(Enum):
    """What a column holds."""

    NUMBERS = "numbers"
    LEVELS = "levels"
    DATES = "dates"


TEXTS, TRUTHS, DATES = (str,), (bool, np.bool_), (datetime.date, datetime.time, datetime.timedelta, np.datetime64)


def kind_of(column: Any) -> Kind:
    """Of a column of a table or an array: by its type or, where that may be anything, by its cells."""
    kind, name = getattr(column.dtype, "kind", ""), str(column.dtype)
    if kind in tuple("Mm") or name.startswith(("Date", "Time", "Duration", "period")):
        return Kind.DATES
    if kind == "b" or name.startswith(("category", "Categorical", "Enum", "Boolean")):
        return Kind.LEVELS
    if kind == "U" and isinstance(column, np.ndarray):  # all of such an array is text, also its numbers
        return Kind.NUMBERS if _all_numbers(column) else Kind.LEVELS
    if kind not in tuple("OUT") and not name.startswith(("String", "Utf8", "Object")):
        return Kind.NUMBERS
    types = set(map(type, np.asarray(column, dtype=object)))
    if any(issubclass(t, TEXTS) for t in types) or (types and all(issubclass(t, TRUTHS) for t in types)):
        return Kind.LEVELS
    return Kind.DATES if any(issubclass(t, DATES) for t in types) else Kind.NUMBERS


def _all_numbers(column: np.ndarray) -> bool:
    try:
        column.astype(np.float64)
    except ValueError:
        return False
    return True


class Coded(NamedTuple):
    codes: np.ndarray  # float64
    names: tuple[str, ...]


def coded(texts: np.ndarray, known: tuple[str, ...]) -> Coded:
    """Levels as codes; those that are not known are put behind those that are, in alphabetical order."""
    names, inverse = np.unique(texts, return_inverse=True)
    code = {name: i for i, name in enumerate(known)}
    table = [code.setdefault(name, len(code)) for name in names.tolist()]
    return Coded(np.array(table, dtype=np.float64)[inverse.reshape(-1)], tuple(code))


def levels_by_name(column: Any, what: str) -> np.ndarray:
    """The names of the levels in a column."""
    cells = np.asarray(column, dtype=object)
    missing = sum(_is_missing(cell) for cell in cells)
    if missing:
        raise RecycleGPError(
            f"{what} lacks {missing} of {len(cells)} levels; fill them with a level of their own, as 'unknown', or "
            "drop those rows"
        )
    strange = [] if is_categorical(column) else [cell for cell in cells if not isinstance(cell, TEXTS + TRUTHS)]
    if strange:
        raise RecycleGPError(
            f"{what} holds categories, and {strange[0]!r} is a {type(strange[0]).__name__}; pass all of it as text, as "
            "X[column].astype(str), or as a categorical"
        )
    return np.array([str(cell) for cell in cells], dtype=str)


def is_categorical(column: Any) -> bool:
    """Is it of a type that says so? Then anything can be a level."""
    return str(column.dtype).startswith(("category", "Categorical", "Enum"))


def _is_missing(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)

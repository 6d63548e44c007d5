"""Columns of categories: their levels, by name, and the codes 0, 1, 2, … that stand for them inside.

Which columns hold levels is decided once, when a model is fitted: text, categoricals and truth values do. From then on
a model knows the levels of each such column by name. Codes mean something only beside the names.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .errors import RecycleGPError

LONGEST = 200  # characters of a level
MOST_LEVELS = 10_000  # of a column
SHOWN = 5  # levels in an error


class Levels(NamedTuple):
    """Of one column; the i-th has code i."""

    column: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Categories:
    """Which columns hold categories, in their order, and the levels of each."""

    levels: tuple[Levels, ...] = ()

    def __post_init__(self) -> None:
        if list(self.columns) != sorted(set(self.columns)):
            raise RecycleGPError("categories: a column is given twice, or columns are not in their order")
        for column, names in self.levels:
            _check_names(column, names)

    def __bool__(self) -> bool:
        return bool(self.levels)

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(column for column, _ in self.levels)

    def names(self, column: int) -> tuple[str, ...]:
        """The levels of a column, in the order of their codes."""
        return dict(self.levels)[column]

    def permuted(self, order: Sequence[int]) -> Categories:
        """The same when the new column j is the old column order[j]."""
        return Categories(tuple(sorted(Levels(list(order).index(c), names) for c, names in self.levels)))

    def union(self, other: Categories) -> Categories:
        """With the levels of another one, of the same columns, behind its own: codes stay as they are."""
        if other == self:
            return self
        return Categories(tuple(Levels(c, tuple(dict.fromkeys((*names, *other.names(c))))) for c, names in self.levels))

    def beyond(self, known: Categories) -> list[Levels]:
        """The levels that another one, of the same columns, does not know."""
        found = (Levels(c, tuple(n for n in names if n not in set(known.names(c)))) for c, names in self.levels)
        return [levels for levels in found if levels.names]

    def recoded(self, Z: Tensor, into: Categories) -> Tensor:
        """Inputs (…, D) in codes of these levels as those in codes of others, among which all that occur are."""
        if into == self:
            return Z
        Z = Z.clone()
        for column, names in self.levels:
            code = {name: float(i) for i, name in enumerate(into.names(column))}
            table = Z.new_tensor([code.get(name, math.nan) for name in names])
            Z[..., column] = table[Z[..., column].long()]
        return Z

    def named(self, Z: np.ndarray) -> np.ndarray:
        """Inputs (n, D) in codes as a table of numbers and names; as they are where there are no categories."""
        if not self:
            return Z
        table = Z.astype(object)
        for column, names in self.levels:
            table[:, column] = np.array(names, dtype=object)[Z[:, column].astype(int)]
        return table

    def only(self, used: Mapping[int, Sequence[int]]) -> Categories:
        """With some of the levels of each column, by their codes."""
        return Categories(tuple(Levels(c, tuple(names[i] for i in used[c])) for c, names in self.levels))

    def check_codes(self, Z: Tensor) -> None:
        """Is every code that of a level?"""
        for column, names in self.levels:
            codes = Z[..., column]
            if not bool(((codes >= 0) & (codes < len(names)) & (codes == codes.round())).all()):
                raise RecycleGPError(f"a point has no level in column {column}, whose levels are {len(names)}")


NO_CATEGORIES = Categories()


def _check_names(column: int, names: tuple[str, ...]) -> None:
    if not 0 < len(names) <= MOST_LEVELS:
        raise RecycleGPError(
            f"column {column} has {len(names):,} levels; it may have 1 to {MOST_LEVELS:,}. Leave a column of ids out, "
            "or pass numbers"
        )
    if len(set(names)) < len(names):
        raise RecycleGPError(f"column {column}: a level is given twice")
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST or not name.isprintable():
            raise RecycleGPError(
                f"column {column}: the level {str(name)[:50]!r}; a level has 1 to {LONGEST} printable characters"
            )


def shown(names: Sequence[str]) -> str:
    """Some of many names."""
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


def described(levels: Sequence[Levels], columns: Sequence[str] | None) -> str:
    """Columns and their levels in words: sex (f, m), device (a, b, c)."""
    return ", ".join(f"{called(c, columns)} ({shown(names)})" for c, names in levels)


def called(column: int, columns: Sequence[str] | None) -> str:
    """A column by its name, or by its number."""
    return f"column {column}" if columns is None else columns[column]


# --- reading ----------------------------------------------------------------------------------


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


def union_of(several: Sequence[Categories]) -> Categories:
    """The levels of several, of the same columns; the codes of the first stay."""
    return reduce(Categories.union, several)


def used_codes(Zs: Sequence[Tensor], columns: Sequence[int]) -> dict[int, list[int]]:
    """The codes that occur in each column."""
    return {c: torch.unique(torch.cat([Z[:, c] for Z in Zs])).long().tolist() for c in columns}

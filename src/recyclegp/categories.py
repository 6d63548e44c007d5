"""Columns of categories: their levels, by name, and the codes 0, 1, 2, … that stand for them inside.

Which columns hold levels is decided once, when a model is fitted: text, categoricals and truth values do. From then on
a model knows the levels of each such column by name. Codes mean something only beside the names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, Self

from .errors import RecycleGPError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

LONGEST = 200  # characters of a level
MOST_LEVELS = 10_000  # of a column
SHOWN = 5  # levels in an error


class Levels(NamedTuple):
    """Of one column; the i-th has code i."""

    column: int
    names: tuple[str, ...]


class _Columns(NamedTuple):
    levels: tuple[Levels, ...]


class Categories(_Columns):
    """Which columns hold categories, in their order, and the levels of each."""

    __slots__ = ()

    def __new__(cls, levels: tuple[Levels, ...] = ()) -> Self:
        columns = [column for column, _ in levels]
        if columns != sorted(set(columns)):
            raise RecycleGPError("categories: a column is given twice, or columns are not in their order")
        for column, names in levels:
            _check_names(column, names)
        return super().__new__(cls, levels)

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
        import numpy as np

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
                raise _no_level(column, names)

    def check_columns(self, codes: Callable[[int], Iterable[float]]) -> None:
        """The same of a column's codes as plain numbers."""
        for column, names in self.levels:
            if not all(0 <= code < len(names) and code == int(code) for code in codes(column)):
                raise _no_level(column, names)


NO_CATEGORIES = Categories()


def _no_level(column: int, names: tuple[str, ...]) -> RecycleGPError:
    return RecycleGPError(f"a point has no level in column {column}, whose levels are {len(names)}")


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


def union_of(several: Sequence[Categories]) -> Categories:
    """The levels of several, of the same columns; the codes of the first stay."""
    return reduce(Categories.union, several)


def used_codes(Zs: Sequence[Tensor], columns: Sequence[int]) -> dict[int, list[int]]:
    """The codes that occur in each column."""
    import torch

    return {c: torch.unique(torch.cat([Z[:, c] for Z in Zs])).long().tolist() for c in columns}

"""Numbers of a file for somebody who only looks at them, and so needs no torch."""

from __future__ import annotations

from array import array
from typing import NamedTuple


class Range(NamedTuple):
    low: float
    high: float


class Numbers:
    """float64 numbers in some shape, one row behind the other."""

    dtype = "float64"

    def __init__(self, shape: tuple[int, ...], values: array[float]) -> None:
        self.shape, self.values = shape, values

    def __len__(self) -> int:
        return self.shape[0]

    def within(self, most: float) -> bool:
        """Are all of them numbers, of at most this size?"""
        total = sum(self.values)
        if total != total:  # NaN anywhere makes it NaN, and would not be seen among the largest
            return False
        return not self.values or (-most <= min(self.values) and max(self.values) <= most)

    def column(self, i: int) -> array[float]:
        """Of a table."""
        return self.values[i :: self.shape[1]]

    def ranges(self) -> list[Range]:
        """From where to where each column of a table goes."""
        columns = map(self.column, range(self.shape[1]))
        return [Range(min(own), max(own)) for own in columns]

"""In which order sites are packed: those of one size wait for each other, as long as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

SITES = 1024  # packed together: small ones weigh more as objects than as numbers

T = TypeVar("T")


class SiteQueue(Generic[T]):
    """Items of some size that wait until there are enough of their kind."""

    def __init__(self) -> None:
        self._open: dict[int, list[T]] = {}
        self._numbers = 0  # in the sites that wait

    def put(self, item: T, size: int, dimension: int, most: int) -> list[T] | None:
        """One more; those of one size that are to be packed now, if there are any.

        `most` is how many numbers are packed together, and a fourth of those that may wait.
        """
        items = self._open.setdefault(size, [])
        items.append(item)
        numbers = size * (size + dimension)
        self._numbers += numbers
        if len(items) * numbers >= most or len(items) >= SITES:
            return self._take(size, dimension)
        if self._numbers >= 4 * most:  # many sizes, none of them frequent: the largest makes room
            return self._take(max(self._open, key=lambda n: len(self._open[n]) * n * n), dimension)
        return None

    def rest(self, dimension: int) -> Iterator[list[T]]:
        """All that are still waiting, by their sizes."""
        for size in list(self._open):
            yield self._take(size, dimension)

    def _take(self, size: int, dimension: int) -> list[T]:
        items = self._open.pop(size)
        self._numbers -= len(items) * size * (size + dimension)
        return items

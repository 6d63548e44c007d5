"""Which entries of a dictionary are meant: what `Dictionary.list` takes, as conditions. Nothing here needs torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..errors import Argument, RecycleGPError
from ..storage.event_index import Condition
from ..storage.events import Entry
from ..times import DAY

RegionLike = Mapping[str, Sequence[float]] | Sequence[Sequence[float]]


class Query(NamedTuple):
    """The arguments of `Dictionary.list`."""

    name: str | None = None
    owner: str | None = None
    likelihood: str | None = None
    target: str | None = None
    min_rows: int | None = None
    max_rows: int | None = None
    min_age: float | None = None
    max_age: float | None = None
    region: RegionLike | None = None

    def checked(self) -> Query:
        """It, if it is one."""
        for what in ("name", "owner", "likelihood", "target"):
            value = getattr(self, what)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{what} must be a string, not {type(value).__name__}")
        for what in ("min_rows", "max_rows", "min_age", "max_age"):
            value = getattr(self, what)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise TypeError(f"{what} must be a number, not {type(value).__name__}")
            if value is not None and math.isnan(value):
                raise RecycleGPError(Argument(what, value), "; pass a number")
        if self.region is not None:
            for low, high in self._pairs().values():
                if not low <= high:  # also where one is none
                    raise RecycleGPError(
                        Argument("region", self.region), ": give the least and the most of each input, in this order"
                    )
        return self

    def _pairs(self) -> dict[Any, tuple[float, float]]:
        """(least, most) by name or position."""
        assert self.region is not None
        items = self.region.items() if isinstance(self.region, Mapping) else enumerate(self.region)
        try:
            return {key: (float(low), float(high)) for key, (low, high) in items}
        except (TypeError, ValueError):
            raise RecycleGPError(
                Argument("region", self.region),
                ": give (least, most) for each input, or {column: (least, most)} for some of them",
            ) from None

    def conditions(self) -> Iterator[Condition]:
        """Those that the index can answer."""
        for what in ("name", "owner", "likelihood"):
            value = getattr(self, what)
            if value is not None:
                yield Condition(f"({what} = ? OR {what} GLOB ?)", (value, value))
        now = datetime.now(UTC).timestamp()
        if self.min_rows is not None:
            yield Condition("rows >= ?", (self.min_rows,))
        if self.max_rows is not None:
            yield Condition("rows <= ?", (self.max_rows,))
        if self.min_age is not None:
            yield Condition("added <= ?", (now - DAY * self.min_age,))
        if self.max_age is not None:
            yield Condition("added >= ?", (now - DAY * self.max_age,))

    def takes(self, entry: Entry) -> bool:
        """The rest of them."""
        if self.target is not None and self.target not in entry.targets:
            return False
        return self.region is None or self._touches(entry)

    def _touches(self, entry: Entry) -> bool:
        """Have the box around its points and that which is asked for something in common?"""
        wanted = self._pairs()
        if isinstance(self.region, Mapping):
            columns = entry.columns or ()
            if any(name not in columns for name in wanted):
                return False
            wanted = {columns.index(name): pair for name, pair in wanted.items()}
        elif len(wanted) != len(entry.region):
            return False
        for i, (low, high) in wanted.items():
            least, most = entry.region[i]
            if least is not None and most is not None and (most < low or least > high):
                return False
        return True

"""A row of the guard: a number, and the limit that it keeps."""

from __future__ import annotations

from typing import NamedTuple

HEADER = f"{'what':52}{'found':>10}{'limit':>10}  verdict"


class Row(NamedTuple):
    what: str
    found: float
    limit: float
    at_least: bool = False  # a speed-up, else a cost or a count: at most

    @property
    def holds(self) -> bool:
        return self.found >= self.limit if self.at_least else self.found <= self.limit

    def better(self, other: Row) -> Row:
        return max(self, other, key=lambda row: row.found if self.at_least else -row.found)

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{self.what:52}{self.found:>10,.4g}{f'{sign} {self.limit:,g}':>10}  {'ok' if self.holds else 'LOST'}"

"""A row of the guard: a number, and the limit that it keeps."""

from __future__ import annotations

from typing import NamedTuple

HEADER = f"{'what':52}{'found':>10}{'limit':>10}  verdict"


class Row(NamedTuple):
    what: str
    found: float
    limit: float
    at_least: bool = False  # a speed-up, else a cost or a count: at most
    target: float | None = None  # what is wanted in the end; the limit is what must not be lost again

    @property
    def holds(self) -> bool:
        return self._within(self.limit)

    @property
    def verdict(self) -> str:
        """Of the target, if there is one."""
        return "" if self.target is None else "ok" if self._within(self.target) else "LOST"

    @property
    def sign(self) -> str:
        return "≥" if self.at_least else "≤"

    def _within(self, limit: float) -> bool:
        return self.found >= limit if self.at_least else self.found <= limit

    def better(self, other: Row) -> Row:
        return max(self, other, key=lambda row: row.found if self.at_least else -row.found)

    def __str__(self) -> str:
        wanted = "" if self.target is None else f"   ({self.sign} {self.target:,g} wanted: {self.verdict})"
        limit = f"{self.sign} {self.limit:,g}"
        return f"{self.what:52}{self.found:>10,.4g}{limit:>10}  {'ok' if self.holds else 'LOST'}{wanted}"

"""How large a form is, and what it would cost to lose nothing. Nothing here needs torch."""

from __future__ import annotations

from typing import NamedTuple

PER_SECOND = 2e10  # multiplications in a factorisation


class Size(NamedTuple):
    """Which form an ensemble has, what it loses, and what the exact form costs."""

    form: str  # "exact", or "points"
    points: int
    pseudo_observations: int | None  # of all modules together, where it is still known
    slack: float  # nats of the modules' knowledge that the points cannot express; none where it is exact

    @property
    def exact_bytes(self) -> float | None:
        """Memory that the exact form takes, or would take: one triangle, and the matrix that it is made from."""
        return None if self.pseudo_observations is None else 2 * 8.0 * self.pseudo_observations**2

    @property
    def exact_multiplications(self) -> float | None:
        """Work of the exact form at a known kernel; learning one takes some tens of times three times as much."""
        return None if self.pseudo_observations is None else self.pseudo_observations**3 / 3

    def __str__(self) -> str:
        if self.form == "exact":
            return f"exact: all {self.pseudo_observations} pseudo-observations at {self.points} points, nothing lost"
        said = f"{self.points} points, slack {self.slack:.3g} nats"
        if self.pseudo_observations is None or self.exact_bytes is None or self.exact_multiplications is None:
            return said
        seconds = self.exact_multiplications / PER_SECOND
        return (
            f"{said}; exact would hold {self.pseudo_observations:,} pseudo-observations: "
            f"{self.exact_bytes / 1e6:,.0f} MB, about {seconds:,.0f} s on two cores, and some fifty times that "
            "to learn its kernel on all of them"
        )

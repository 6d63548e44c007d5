"""How a search ended: every search says so, and somebody looks."""

from __future__ import annotations

from typing import NamedTuple


class Convergence(NamedTuple):
    converged: bool
    evaluations: int
    message: str


NOTHING_TO_LEARN = Convergence(True, 0, "nothing to learn")

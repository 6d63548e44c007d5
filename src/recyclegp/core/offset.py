"""One owner's constant, for those who only read of it: no torch."""

from __future__ import annotations

from typing import NamedTuple


class Offset(NamedTuple):
    """What is known of one owner's b_k."""

    mean: float
    sd: float

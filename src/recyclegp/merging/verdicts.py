"""What screening says about one module."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Units(NamedTuple):
    """A change of units: scale·f + shift."""

    scale: float = 1.0
    shift: float = 0.0

    @property
    def back(self) -> Units:
        """The change that undoes it."""
        return Units(1 / self.scale, -self.shift / self.scale + 0.0)  # no −0, which would be printed


class Standing(Enum):
    TRUSTED = "trusted"
    UNCHECKED = "cannot be checked"  # the others know too little of what it says
    FLAGGED = "flagged"  # it contradicts the others


class Verdict(NamedTuple):
    standing: Standing
    reason: str = ""  # for a person
    remedy: Units | None = None  # what would make a flagged module agree with the others, where units explain it
    weight: float | None = None  # that it would have, had it been trusted; where it was disarmed

    @property
    def flagged(self) -> bool:
        return self.standing is Standing.FLAGGED

    @property
    def proposal(self) -> str:
        """How to turn a module with the remedy into one that agrees."""
        if self.remedy is None:
            return ""
        return f"transform(output_scale={self.remedy.scale:.4g}, output_shift={self.remedy.shift:.4g})"

    @property
    def words(self) -> str:
        return self.standing.value + (f": {self.reason}" if self.reason else "")


TRUSTED = Verdict(Standing.TRUSTED)

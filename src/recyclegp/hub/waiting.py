"""How long somebody waits for a hub altogether."""

from __future__ import annotations

import math
import time

from ..errors import RecycleGPError


class NotYetError(RecycleGPError):
    """The time is over, and the hub has not come to its end."""


class Wait:
    """So many seconds from now, or for ever."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def check(self, what: str) -> None:
        """An error that says what is waited for, once the time is over."""
        if self.is_over:
            raise NotYetError(
                f"{self._seconds:g} seconds are over, and {what}; nothing is lost: give the same command again, with a "
                "longer --wait or without one"
            )

    def pause(self, seconds: float) -> None:
        """So many, or as many as are left."""
        time.sleep(max(0.0, min(seconds, self._end - time.monotonic())))

    def within(self, seconds: float) -> float:
        """The patience for one question."""
        return max(0.0, min(seconds, self._end - time.monotonic()))


FOR_EVER = Wait()

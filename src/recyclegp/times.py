"""When rows were observed: a number in any unit, or a date; and how old that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

from .errors import Argument, Either, RecycleGPError
from .magnitudes import LARGEST

When = float | datetime
TimeLike: TypeAlias = Any  # a number in any unit, a date, or the text of one
DAY = 86_400.0  # seconds


def when(value: Any, what: str = "time") -> When:
    """A number as it is; a date, or its text as in 2026-03-01 or 2026-03-01T12:00, in UTC unless it says otherwise."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, str):
        try:
            return when(datetime.fromisoformat(value), what)
        except (ValueError, OverflowError):
            raise RecycleGPError(Argument(what, value[:50]), ": write a number, or a date as in 2026-03-01") from None
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} must be a number or a date, not {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number) or abs(number) > LARGEST:
        raise RecycleGPError(Argument(what, number), ": pass a finite number, or a date as in 2026-03-01")
    return number


def written(time: When) -> float | str:
    """As files and people have it: a date without a time of day where it is midnight."""
    if not isinstance(time, datetime):
        return time
    midnight = (time.hour, time.minute, time.second, time.microsecond) == (0, 0, 0, 0)
    return time.date().isoformat() if midnight else time.isoformat()


def ages(times: Mapping[str, When | None], now: When | None) -> dict[str, float]:
    """How old each is now, or when the newest was: in the unit of the numbers, in days between dates."""
    absent = [name for name, time in times.items() if time is None]
    if absent:
        shown = ", ".join(absent[:5]) + (", …" if len(absent) > 5 else "")
        raise RecycleGPError(
            Argument("half_life"),
            f" needs ages, and {shown} do not say when they were observed; fit them with ",
            Argument("time"),
            Either(", or use module.at_time(...)", ""),
        )
    known = [time for time in times.values() if time is not None]
    dates = {isinstance(t, datetime) for t in (*known, *([] if now is None else [now]))}
    if len(dates) > 1:
        raise RecycleGPError(
            Argument("half_life"), " needs ages, and some times are numbers and others dates; give all of them alike"
        )
    zero = known[0]
    since = {name: _between(zero, time) for name, time in times.items() if time is not None}
    latest = max(since.values()) if now is None else _between(zero, now)
    found = {name: latest - at for name, at in since.items()}
    early = [name for name, age in found.items() if age < 0]
    if early:
        raise RecycleGPError(
            Argument("now", written(now or 0.0)), f": {early[0]} was observed later; pass a later time, or none"
        )
    return found


def _between(first: When, second: When) -> float:
    if isinstance(first, datetime) and isinstance(second, datetime):
        return (second - first).total_seconds() / DAY
    assert not isinstance(first, datetime)  # the caller has looked
    assert not isinstance(second, datetime)
    return second - first


def weight(age: float, half_life: float) -> float:
    """2^(−age/h)."""
    return float(2.0 ** (-age / half_life))

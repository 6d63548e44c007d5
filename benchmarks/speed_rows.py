"""A row of the speed table, and the clock behind it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

PEERS = "make bench installs it"


class Options(NamedTuple):
    quick: bool
    threads: int
    seed: int
    cap: float  # seconds for one end-to-end size
    earlier: str | None = None  # src of a checkout of an earlier version, to be measured beside this one


class Row(NamedTuple):
    section: str
    name: str
    against: str
    ours: float | None = None  # seconds
    other: float | None = None
    cost: bool = False  # the ratio is ours/other (how many times the cost), else other/ours (how many times faster)
    target: float | None = None  # at most, for a cost; at least, for a speed-up
    bounded: bool = False  # the other was stopped before it was done: the true ratio is larger
    missing: str = ""  # why there is nothing to compare
    note: str = ""
    sizes: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    raw: dict[str, Any] = {}  # noqa: RUF012

    @property
    def ratio(self) -> float | None:
        if self.ours is None or self.other is None:
            return None
        return self.ours / self.other if self.cost else self.other / self.ours

    @property
    def verdict(self) -> str:
        if self.missing:
            return "–"
        if self.target is None or self.ratio is None:
            return ""
        met = self.ratio <= self.target if self.cost else self.ratio >= self.target
        if self.bounded and not met:
            return "open"
        return "ok" if met else "LOST"

    @staticmethod
    def from_dict(said: Mapping[str, Any]) -> Row:
        return Row(**{field: said[field] for field in Row._fields})

    def as_dict(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "ratio": self.ratio,
            "ratio_of": "ours/other" if self.cost else "other/ours",
            "verdict": self.verdict,
        }


# --- the table --------------------------------------------------------------------------------

HEADER = f"{'ours':46}{'time':>9}   {'against':34}{'time':>9}{'ratio':>11}{'target':>9}  verdict"


def line(row: Row) -> str:
    name, ours, against, other, ratio, target, verdict = cells(row)
    text = f"{name:46}{ours:>9}   {against:34}{other:>9}{ratio:>11}{target:>9}  {verdict}"
    return text.rstrip() + (f"\n    {row.note}" if row.note else "")


def markdown(rows: Iterable[Row]) -> str:
    """The table as docs/benchmarks.md has it."""
    head = ("ours", "time", "against", "time", "ratio", "target", "")
    lines = [head, ("---", "--:", "---", "--:", "--:", "--:", "---"), *map(cells, rows)]
    return "\n".join("| " + " | ".join(each) + " |" for each in lines)


def cells(row: Row) -> tuple[str, ...]:
    sign = "≤" if row.cost else "≥"
    target = "" if row.target is None else f"{sign} {row.target:g}"
    ratio = "" if row.ratio is None else f"{'>' if row.bounded else ''}{digits(row.ratio)}×"
    return row.name, shown(row.ours), row.against, shown(row.other), ratio, target, row.missing or row.verdict


def shown(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{digits(seconds)} s"


def digits(x: float) -> str:
    """Three of them, and no exponent."""
    return f"{x:.3g}" if x < 1000 else f"{float(f'{x:.3g}'):,.0f}"


# --- the clock --------------------------------------------------------------------------------


Clock = Callable[[], float]


def timed(call: Callable[[], Any], clock: Clock = time.perf_counter) -> tuple[float, Any]:
    begun = clock()
    result = call()
    return clock() - begun, result


def interleaved(
    contestants: Mapping[Any, Callable[[], Any]], rounds: int, clock: Clock = time.perf_counter
) -> dict[Any, list[float]]:
    """Each in turn, `rounds` times after one that does not count: whatever else the machine does hits all alike."""
    times: dict[Any, list[float]] = {name: [] for name in contestants}
    for i in range(rounds + 1):
        for name, call in contestants.items():
            seconds, _ = timed(call, clock)
            if i:
                times[name].append(seconds)
    return times


def versus(times: Mapping[Any, list[float]], ours: Any, other: Any) -> dict[str, Any]:
    """The fields of a row from interleaved times: medians, and everything behind them."""
    raw = {"ours": times[ours], "other": times[other]}
    return {"ours": median(times[ours]), "other": median(times[other]), "raw": raw}


def finite(x: float) -> float | None:
    """JSON has no word for the rest."""
    return x if math.isfinite(x) else None

"""What a run of benchmarks/what_leaks.py leaves behind, and the few numbers that stand for a case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import recyclegp as rgp
from leak_cases import Leak, Plan, Way

DIGITS = 4  # of what is written


class Results(NamedTuple):
    version: str
    plan: Plan
    seconds: float  # of one core
    leaks: list[Leak]
    larger: list[Leak]  # of modules with more rows

    @classmethod
    def of(cls, plan: Plan, leaks: Iterable[Leak], larger: Iterable[Leak], seconds: float) -> Results:
        few, more = ([Leak(*map(_rounded, leak)) for leak in some] for some in (leaks, larger))
        return cls(rgp.__version__, plan, round(seconds, 1), few, more)

    def write(self, file: Path) -> None:
        """A case on a line, so that two runs can be compared line by line."""
        head = {"version": self.version, "plan": self.plan._asdict(), "seconds": self.seconds}
        text = json.dumps(head)[:-1]
        for name in ("leaks", "larger"):
            lines = (json.dumps(leak._asdict(), allow_nan=False) for leak in getattr(self, name))
            text += f',\n"{name}": [\n' + ",\n".join(lines) + "\n]"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "}\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Results:
        found = json.loads(file.read_text(encoding="utf-8"))
        plan = found["plan"]
        ways = tuple(Way(*way) for way in plan["ways"])
        plan = Plan(tuple(plan["tables"]), ways, plan["rows"], plan["modules"], plan["larger"])
        few, more = ([Leak(**leak) for leak in found[name]] for name in ("leaks", "larger"))
        return cls(found["version"], plan, found["seconds"], few, more)

    def where(self, table: str | None = None, kind: str | None = None, value: float | None = None) -> list[Leak]:
        return [
            leak
            for leak in self.leaks
            if table in (None, leak.table) and kind in (None, leak.kind) and value in (None, leak.value)
        ]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def said(way: Way | Leak) -> str:
    """A way to publish, in words."""
    each = Fraction(way.value).limit_denominator(100)
    digits = f"{way.value:g} digit{'s' if way.value != 1 else ''}"
    return {
        "kept": f"keep {way.value:.0%}" + (" (the default)" if way.value == 0.95 else ""),
        "points": f"a point for each {each.denominator} rows" if each < 1 else "as many points as rows",
        "digits": f"the default, {digits}",
        "digits of all": f"as many points as rows, {digits}",
        "rows": "the rows as points",
        "lines": "points on lines between rows",
    }[way.kind]


def best_auc(leak: Leak) -> float:
    """Of the best attack: guessing gives 0.5."""
    return max(leak.auc.values())


def best_caught(leak: Leak) -> float:
    """Of the best attack: guessing gives 0.01."""
    return max(leak.caught.values())


def y_ratio(leak: Leak) -> float:
    """Error of the guess at a member's y, over that at a stranger's: 1 where nothing leaks."""
    return leak.y_member / leak.y_stranger


def excess(leak: Leak, all_ways: Sequence[Leak]) -> float:
    """Nats per row by which its NLPD is above that of the best way to publish the same table."""
    return leak.nlpd - min(other.nlpd for other in all_ways if other.table == leak.table)

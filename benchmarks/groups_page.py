"""What the experiment `groups` has found, in docs/experiments.md: merged against alone, in both halves of its sets.

    python benchmarks/groups_page.py FILE.jsonl [FILE.jsonl …]

adds rows to the kept results, each of a set and a split, as `recyclegp experiment groups` writes them in sets.jsonl
with all defaults; an earlier row of the same set and split is replaced. `python benchmarks/pages.py` writes the page.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pages import RESULTS, Column, read, rounded, table, write
from provenance import provenance
from recyclegp.experiments.grouped_run import ALONE, MERGED, standard_error
from recyclegp.experiments.grouped_sets import CHOOSE, HELD_OUT, half
from recyclegp.experiments.groups import FEW, LOW, WORSE, plus_minus

KEPT = RESULTS / "groups.json"
MARKERS = {CHOOSE: "groups: to choose from", HELD_OUT: "groups: held out"}

Row = dict[str, Any]


def row(found: Row, commit: str) -> Row:
    """What is kept of a line of sets.jsonl."""
    covered = found["coverage"][MERGED]
    return {
        "name": found["name"],
        "split": found["split"],
        "owners": found["owners"],
        "questions": found["questions"],
        "alone": found["nlpd"][ALONE],
        "merged": found["nlpd"][MERGED],
        "coverage": covered if math.isfinite(covered) else None,
        "chosen": found["chosen"],
        "flagged": len(found["flagged"]),
        "costs": found.get("costs", []),
        "commit": commit,
    }


def added(kept: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    by_task = {(r["name"], r["split"]): r for r in [*kept, *new]}
    return [by_task[task] for task in sorted(by_task)]


def mean(key: Callable[[Row], float | None]) -> Callable[[Sequence[Row]], float | None]:
    """Over splits; None where it is not known of one."""

    def of(some: Sequence[Row]) -> float | None:
        found = [key(r) for r in some]
        return None if any(v is None for v in found) else statistics.fmean(v for v in found if v is not None)

    return of


worse = mean(lambda r: r["merged"] - r["alone"])
coverage = mean(lambda r: r["coverage"])


def error(some: Sequence[Row]) -> float | None:
    """Standard error of `worse`; None where an early run has not written down what it was of each owner."""
    return standard_error([r.get("costs", []) for r in some])


def chosen(some: Sequence[Row]) -> str:
    return ", ".join(f"{n} {what}" for what, n in Counter(r["chosen"] for r in some).most_common())


def flagged(some: Sequence[Row]) -> int | None:
    """None where an early run has not written it down."""
    return None if any(r["flagged"] is None for r in some) else sum(r["flagged"] for r in some)


COLUMNS: list[Column] = [
    ("set", lambda some: some[0]["name"], ""),
    ("splits", lambda some: ", ".join(str(r["split"]) for r in some), ""),
    ("owners", lambda some: max(r["owners"] for r in some), "d"),
    ("each alone", mean(lambda r: r["alone"]), ".3f"),
    ("merged − alone", worse, "+.3f"),
    ("±", error, ".3f"),
    ("95%", coverage, ".3f"),
    ("how owners differ", chosen, ""),
    ("flagged", flagged, "d"),
]


def by_set(rows: Sequence[Row], which: str) -> list[list[Row]]:
    """The sets of a half, that in which merging gains least first."""
    found: dict[str, list[Row]] = {}
    for r in rows:
        if half(r["name"]) == which:
            found.setdefault(r["name"], []).append(r)
    return sorted(found.values(), key=lambda some: -(worse(some) or 0.0))


def said(sets: Sequence[Sequence[Row]]) -> str:
    """The demands, over sets."""
    each = {some[0]["name"]: worse(some) or 0.0 for some in sets}
    errors = {some[0]["name"]: plus_minus(error(some)) for some in sets}
    lost = ", ".join(f"{name} ({value:+.3f}{errors[name]})" for name, value in each.items() if value > WORSE)
    covered = {some[0]["name"]: value for some in sets if (value := coverage(some)) is not None}
    asked = {some[0]["name"]: sum(r["questions"] for r in some) for some in sets}
    low = ", ".join(f"{name} ({c:.3f})" for name, c in covered.items() if c < LOW and asked[name] >= FEW)
    told = [r for some in sets for r in some if r["flagged"] is not None]
    accused = f"{flagged(told)} of {sum(r['owners'] for r in told)} owners" if told else "not written down"
    return (
        f"{len(sets)} sets. Worse than staying alone by more than {WORSE:g}, on average over splits: {lost or 'none'}. "
        f"Median gain {-statistics.median(each.values()):.3f}. Flagged: {accused}. Coverage of 95%: "
        f"{statistics.fmean(covered.values()):.3f} on average; below {LOW:g}, of sets with {FEW} rows that were asked "
        f"about: {low or 'none'}."
    )


def values(rows: Sequence[Row]) -> dict[str, str]:
    halves = {marker: by_set(rows, which) for which, marker in MARKERS.items()}
    return {marker: f"{said(sets)}\n\n{table(COLUMNS, sets)}" for marker, sets in halves.items() if sets}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="sets.jsonl of a run, or several")
    parser.add_argument("--commit", help="of which it was; that of this checkout unless given")
    parser.add_argument("--into", type=Path, default=KEPT, help="the kept results")
    asked = parser.parse_args(arguments)
    commit = asked.commit or provenance()["commit"]
    lines = [line for file in asked.files for line in file.read_text(encoding="utf-8").splitlines()]
    new = [rounded(row(json.loads(line), commit), ".4f") for line in lines]
    write(asked.into, added(read(asked.into) if asked.into.exists() else [], new))


if __name__ == "__main__":
    main()

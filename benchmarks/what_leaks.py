"""What leaks: membership inference and reconstruction attacks on modules, beside what the modules are good for.

    python benchmarks/what_leaks.py [--quick] [--rows N] [--modules K] [--json FILE]
    python benchmarks/what_leaks.py --show FILE [--docs docs]

Several tables × ways to publish: shares kept, points per row, digits, and rows as points, which nobody should publish.
`--docs` writes the tables of docs/privacy-measured.md and docs/privacy.md, and their figure, from what was measured.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch

import recyclegp as rgp
from jobs import done
from leak_cases import KEPT, Plan, Way, measured
from leak_page import picture, values
from leak_people import REAL, attacked
from leak_ways import LEVELS, measured_way
from leak_ways import WAYS as ELSEWHERE
from pages import RESULTS, publish, read, rounded, save, show, write

WAYS = (
    *(Way("kept", share) for share in (0.5, 0.8, 0.95, 0.99)),
    *(Way("points", each) for each in (0.05, 0.1, 0.2, 0.5, 1.0)),
    *(Way("digits", digits) for digits in (4, 3, 2, 1)),
    *(Way("digits of all", digits) for digits in (3, 2)),
    Way("rows", 1.0),
    Way("lines", 0.5),
    Way("people", 0),
)
FUNCTIONS = ("2 inputs, 0.1 noise", "2 inputs, 0.5 noise", "4 inputs, 0.1 noise", "4 inputs, 0.5 noise")
LARGE = ("2 inputs, 0.1 noise", "4 inputs, 0.5 noise", "survey")  # tables with rows enough for larger modules
DEFAULT = Way("kept", KEPT)
HOSPITALS = ("diabetes", "survey", *REAL)
FULL = Plan((*FUNCTIONS, "diabetes", "survey"), WAYS, rows=100, modules=16, larger=400, hospitals=HOSPITALS)
QUICK = Plan(
    ("2 inputs, 0.5 noise", "survey"), (WAYS[2], WAYS[4], WAYS[8], WAYS[10], WAYS[-3], WAYS[-1]), rows=20, modules=6
)
FIGURE = "what-leaks.png"


def measure(plan: Plan) -> dict[str, Any]:
    begun = time.process_time()
    jobs = [(measured, name, way, plan) for name in plan.tables for way in plan.ways]
    more = [(measured, name, DEFAULT, plan._replace(rows=plan.larger)) for name in LARGE if plan.larger]
    found = [leak._asdict() for leak in done([*jobs, *more])]
    patients = done([(attacked, name, plan.modules) for name in plan.hospitals])
    elsewhere = done([(measured_way, way, plan.rows, plan.modules) for way in (*ELSEWHERE, *LEVELS) if plan.hospitals])
    run = {
        "version": rgp.__version__,
        "plan": plan._asdict(),
        "leaks": found[: len(jobs)],
        "larger": found[len(jobs) :],
    }
    run["patients"] = [way._asdict() for ways in patients for way in ways]
    run["elsewhere"] = [way._asdict() for way in elsewhere]
    return rounded(run | {"seconds": time.process_time() - begun}, ".4f")


def pages() -> dict[str, dict[str, str]]:
    return values(read(RESULTS / "what-leaks.json"))


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny plan of small cases: no figures to quote")
    parser.add_argument("--rows", type=int, help=f"of each module; {FULL.rows} unless given")
    parser.add_argument("--modules", type=int, help=f"that are attacked; {FULL.modules} unless given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write privacy-measured.md, privacy.md, the figure")
    return parser.parse_args(arguments)


def planned(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else FULL
    return plan._replace(rows=asked.rows or plan.rows, modules=asked.modules or plan.modules)


def main(arguments: list[str] | None = None) -> None:
    asked = parsed(arguments)
    torch.set_num_threads(1)
    os.environ.setdefault("RECYCLEGP_SECRET", "none")  # results that come again; no attack here computes the noise
    run = read(asked.show) if asked.show else measure(planned(asked))
    if asked.json:
        write(asked.json, run)
    show(values(run))
    if asked.docs:
        publish(asked.docs, values(run))
        save(picture(run), asked.docs / "figures" / FIGURE)


if __name__ == "__main__":
    main()

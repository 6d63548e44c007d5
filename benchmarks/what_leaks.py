"""What leaks: membership inference and reconstruction attacks on modules, beside what the modules are good for.

    python benchmarks/what_leaks.py [--quick] [--rows N] [--modules K] [--json FILE]
    python benchmarks/what_leaks.py --show FILE [--docs docs]

Several tables × ways to publish: shares kept, points per row, digits, and rows as points, which nobody should publish.
`--docs` writes docs/privacy-measured.md, its figure, and the marked section of docs/privacy.md from what was measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from leak_cases import KEPT, Plan, Way, measured
from leak_page import FIGURE, page, picture, with_summary
from leak_results import Results, best_auc, best_caught, said, y_ratio

WAYS = (
    *(Way("kept", share) for share in (0.5, 0.8, 0.95, 0.99)),
    *(Way("points", each) for each in (0.05, 0.1, 0.2, 0.5, 1.0)),
    *(Way("digits", digits) for digits in (4, 3, 2, 1)),
    *(Way("digits of all", digits) for digits in (3, 2)),
    Way("rows", 1.0),
    Way("lines", 0.5),
)
FUNCTIONS = ("2 inputs, 0.1 noise", "2 inputs, 0.5 noise", "4 inputs, 0.1 noise", "4 inputs, 0.5 noise")
LARGE = ("2 inputs, 0.1 noise", "4 inputs, 0.5 noise", "survey")  # tables with rows enough for larger modules
DEFAULT = Way("kept", KEPT)
FULL = Plan((*FUNCTIONS, "diabetes", "survey"), WAYS, rows=100, modules=16, larger=400)
QUICK = Plan(("2 inputs, 0.5 noise", "survey"), (WAYS[2], WAYS[4], WAYS[8], WAYS[10], WAYS[-2]), rows=20, modules=6)
WIDTH = 140  # of the table where nobody looks


def measure(plan: Plan) -> Results:
    begun = time.process_time()
    jobs = [(name, way, plan) for name in plan.tables for way in plan.ways]
    more = [(name, DEFAULT, plan._replace(rows=plan.larger)) for name in LARGE if plan.larger]
    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        found = [measured(*job) for job in bar.track([*jobs, *more])]
    return Results.of(plan, found[: len(jobs)], found[len(jobs) :], time.process_time() - begun)


def table(results: Results) -> Table:
    shown = Table(title=f"modules of {results.plan.rows} rows, each attacked with the others as shadows")
    for name in ("table", "published", "points", "NLPD", "merged", "AUC", "caught", "y", "x", "x stranger"):
        shown.add_column(name, justify="left" if name in ("table", "published") else "right")
    for leak in results.leaks:
        numbers = (leak.points, leak.nlpd, leak.merged_nlpd, best_auc(leak), best_caught(leak), y_ratio(leak))
        near = (leak.x_distance, leak.x_stranger)
        shown.add_row(leak.table, said(leak), *(f"{number:.3g}" for number in (*numbers, *near)))
    return shown


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
    results = Results.read(asked.show) if asked.show else measure(planned(asked))
    if asked.json:
        results.write(asked.json)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    console.print(table(results))
    console.print(f"{results.seconds / 60:.1f} minutes of one core")
    if asked.docs:
        picture(results, asked.docs / "figures" / FIGURE)
        (asked.docs / "privacy-measured.md").write_text(page(results), encoding="utf-8")
        overview = asked.docs / "privacy.md"
        overview.write_text(with_summary(overview.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()

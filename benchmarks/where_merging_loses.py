"""Where merging loses: excess NLPD over the exact GP on all rows, and coverage, from easy cases to hopeless ones.

    python benchmarks/where_merging_loses.py [--quick] [--seeds N] [--publish auto|N] [--label TEXT] [--json FILE]
    python benchmarks/where_merging_loses.py --show FILE [--beside FILE …] [--docs docs]

Rows per owner × D × noise × random and adjoining owners. `--beside` sets earlier runs beside this one: with other
points, or of another version of the library. `--docs` writes docs/calibration.md and its figure from what was measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

import recyclegp as rgp
from calibration_cases import Cut, Merged, Reference, Rounds, merged, reference, rounds
from calibration_page import heat_map, page
from calibration_results import LOSS, Grid, Results, cells, losing, rounded

FULL = Grid((5, 10, 20, 50, 100, 500), (1, 2, 4, 8, 16), (0.1, 0.5), ("random", "adjoining"), seeds=3, total=1000)
QUICK = Grid((5, 10, 50), (1, 2), (0.1,), ("random", "adjoining"), seeds=1, total=40)
COLUMNS = ("noise", "owners", "D", "rows each", "excess", "±", "95%", "RMSE ×", "noise ×", "alone", "warned")
WIDTH = 140  # of the table where nobody looks


def measure(grid: Grid, publish: int | str, with_rounds: bool, processes: int, label: str) -> Results:
    """Every case is a job of its own, in processes of one thread each."""
    begun, worked = time.perf_counter(), _cpu_seconds()
    jobs = _jobs(grid, publish, with_rounds)
    found: list[Any] = []
    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        for row in bar.track(_done(jobs, processes), total=len(jobs)):
            found.append(rounded(row))
    of = {kind: [row for row in found if isinstance(row, kind)] for kind in (Merged, Reference, Rounds)}
    seconds, cpu = round(time.perf_counter() - begun, 1), round(_cpu_seconds() - worked, 1)
    return Results(
        label, rgp.__version__, publish, grid, seconds, cpu, processes, of[Merged], of[Reference], of[Rounds]
    )


def _cpu_seconds() -> float:
    """Of this process and of those it started that have ended."""
    return sum(os.times()[:4])


def _done(jobs: list[tuple[Callable[..., Any], ...]], processes: int) -> Iterator[Any]:
    """What the jobs return, as they are done."""
    if processes == 1:
        yield from (job(*given) for job, *given in jobs)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they begin
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for future in as_completed([pool.submit(*job) for job in jobs]):
            yield future.result()


def _jobs(grid: Grid, publish: int | str, with_rounds: bool) -> list[tuple[Callable[..., Any], ...]]:
    found: list[tuple[Any, ...]] = []
    for setting in grid.settings():
        found.append((reference, setting))
        if with_rounds:
            found.append((rounds, setting, Cut(min(grid.rows), "random")))
        found += [(merged, setting, cut, publish) for cut in grid.cuts()]
    return found


def table(results: Results, beside: list[Results]) -> Table:
    """Nats above the exact GP on all rows; those that lose in red."""
    shown = Table(title=f"{results.label}: nats per point above the exact GP on all {results.grid.total} rows")
    for name in (*COLUMNS, *(other.label for other in beside)):
        shown.add_column(name, justify="left" if name == "owners" else "right")
    ours, others = (cells(results, results.references), [cells(other, results.references) for other in beside])
    lost = set(losing(ours))
    for where, cell in ours.items():
        numbers = (
            f"{cell.excess:.3f}",
            f"{cell.spread:.3f}",
            f"{cell.coverage:.3f}",
            f"{cell.rmse:.2f}",
            f"{cell.noise:.2f}",
        )
        first = (f"{where.noise:g}", where.owners, str(where.dimension), str(where.rows))
        rest = [f"{other[where].excess:.3f}" if where in other else "–" for other in others]
        shown.add_row(
            *first, *numbers, f"{cell.alone:.2f}", str(cell.warned), *rest, style="red" if where in lost else None
        )
    return shown


def report(results: Results, beside: list[Results]) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    console.print(table(results, beside))
    found = cells(results, results.references)
    middle = float(np.median([cell.excess for cell in found.values()]))
    said = f"{len(losing(found))} of {len(found)} cases lose more than {LOSS:g}; median {middle:.3f}"
    console.print(f"{said}; {results.seconds / 60:.1f} minutes")
    for rows in results.grid.skipped():
        console.print(f"left out: {rows} rows each; of {results.grid.total} there are not two such owners")


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny grid of small cases: no figures to quote")
    parser.add_argument("--seeds", type=int, help=f"functions that are drawn; {FULL.seeds} unless given")
    parser.add_argument(
        "--publish", default="auto", help="auto, or points for each module, at most as many as its rows"
    )
    parser.add_argument("--label", help="what this run is called in tables")
    parser.add_argument("--no-rounds", action="store_true", help="leave out the model that is fitted in rounds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    parser.add_argument("--beside", type=Path, nargs="+", default=[], metavar="FILE", help="earlier --json files")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write the heat map")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write calibration.md and its figure")
    return parser.parse_args(arguments)


def measured(asked: argparse.Namespace) -> Results:
    grid = QUICK if asked.quick else FULL
    grid = grid._replace(seeds=asked.seeds) if asked.seeds else grid
    publish = asked.publish if asked.publish == "auto" else int(asked.publish)
    label = asked.label or (f"publish={publish}" if publish != "auto" else 'publish="auto"')
    return measure(grid, publish, not asked.no_rounds, asked.processes, label)


def main(arguments: list[str] | None = None) -> None:
    asked = parsed(arguments)
    torch.set_num_threads(1)
    results = Results.read(asked.show) if asked.show else measured(asked)
    if asked.json:
        results.write(asked.json)
    beside = [Results.read(file) for file in asked.beside]
    report(results, beside)
    if asked.figure:
        heat_map(results, beside, asked.figure)
    if asked.docs:
        heat_map(results, beside, asked.docs / "figures" / "where-merging-loses.png")
        (asked.docs / "calibration.md").write_text(page(results, beside), encoding="utf-8")


if __name__ == "__main__":
    main()

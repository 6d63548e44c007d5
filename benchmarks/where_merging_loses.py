"""Where merging loses: excess NLPD over the exact GP on all rows, and coverage, from easy cases to hopeless ones.

    python benchmarks/where_merging_loses.py [--quick] [--seeds N] [--publish auto|N] [--label TEXT] [--json FILE]
    python benchmarks/where_merging_loses.py --show FILE [--beside FILE …] [--docs docs]

Rows per owner × D × noise × random and adjoining owners. `--beside` sets earlier runs beside this one: with other
points, or of another version of the library. `--docs` writes the tables of docs/calibration.md and its figure.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

import recyclegp as rgp
from calibration_cases import Cut, Merged, Reference, Rounds, Setting, merged, reference, rounds, sensible
from calibration_page import picture, values
from jobs import done
from pages import RESULTS, publish, read, rounded, save, show, write

FIGURE = "where-merging-loses.png"


class Grid(NamedTuple):
    """What is measured: every combination."""

    rows: tuple[int, ...]
    dimensions: tuple[int, ...]
    noises: tuple[float, ...]
    owners: tuple[str, ...]
    seeds: int
    total: int

    def settings(self) -> list[Setting]:
        """The slowest first, so that no process ends with them alone."""
        found = [Setting(D, s, k, self.total) for D in self.dimensions for s in self.noises for k in range(self.seeds)]
        return sorted(found, key=lambda setting: -setting.dimension)

    def cuts(self) -> list[Cut]:
        return [Cut(rows, owners) for owners in self.owners for rows in self.rows if rows not in self.skipped()]

    def skipped(self) -> list[int]:
        """Rows per owner that leave fewer than two owners."""
        return [rows for rows in self.rows if not sensible(Cut(rows, ""), self.total)]


FULL = Grid((5, 10, 20, 50, 100, 500), (1, 2, 4, 8, 16), (0.1, 0.5), ("random", "adjoining"), seeds=3, total=1000)
QUICK = Grid((5, 10, 50), (1, 2), (0.1,), ("random", "adjoining"), seeds=1, total=40)


def measure(grid: Grid, points: int | str, with_rounds: bool, processes: int, label: str) -> dict[str, Any]:
    """Every case is a job of its own, in processes of one thread each."""
    begun, worked = time.perf_counter(), _cpu_seconds()
    found = list(done(jobs(grid, points, with_rounds), processes))
    named = {"references": Reference, "rounds": Rounds, "merged": Merged}
    run = {
        "grid": grid._asdict(),
        "label": label,
        "version": rgp.__version__,
        "publish": points,
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": _cpu_seconds() - worked,
        "processes": processes,
    }
    rows = {k: [r._asdict() for r in sorted(r for r in found if isinstance(r, kind))] for k, kind in named.items()}
    return rounded(run | rows, ".5f")


def _cpu_seconds() -> float:
    """Of this process and of those it started that have ended, without waiting for cores that others use."""
    return sum(os.times()[:4])


def jobs(grid: Grid, points: int | str, with_rounds: bool) -> list[tuple[Callable[..., Any], ...]]:
    found: list[tuple[Any, ...]] = []
    for setting in grid.settings():
        found.append((reference, setting))
        if with_rounds:
            found.append((rounds, setting, Cut(min(grid.rows), "random")))
        found += [(merged, setting, cut, points) for cut in grid.cuts()]
    return found


def pages() -> dict[str, dict[str, str]]:
    beside = [read(RESULTS / f"calibration-{name}.json") for name in ("first", "points-64")]
    return {"calibration.md": values(read(RESULTS / "calibration-auto.json"), beside)}


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
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write the figure")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write calibration.md and its figure")
    return parser.parse_args(arguments)


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    grid = QUICK if asked.quick else FULL
    grid = grid._replace(seeds=asked.seeds) if asked.seeds else grid
    points = asked.publish if asked.publish == "auto" else int(asked.publish)
    label = asked.label or (f"publish={points}" if points != "auto" else 'publish="auto"')
    return measure(grid, points, not asked.no_rounds, asked.processes, label)


def main(arguments: list[str] | None = None) -> None:
    asked = parsed(arguments)
    torch.set_num_threads(1)
    run = read(asked.show) if asked.show else measured(asked)
    if asked.json:
        write(asked.json, run)
    beside = [read(file) for file in asked.beside]
    found = {"calibration.md": values(run, beside)}
    show(found)
    if asked.docs:
        publish(asked.docs, found)
    for file in filter(None, (asked.figure, asked.docs and asked.docs / "figures" / FIGURE)):
        save(picture(run, beside), file)


if __name__ == "__main__":
    main()

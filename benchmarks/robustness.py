"""What bad modules do to a merge, and who finds them: seven kinds, up to four in ten of the modules.

    python benchmarks/robustness.py [--quick] [--seeds N] [--first-seed N] [--processes N] [--json FILE]
    python benchmarks/robustness.py --show FILE [--docs docs]

`--docs` writes docs/robustness.md and its figure from what was measured.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from robustness_cases import HONEST, SPOILED, Outcome, Trial, run
from robustness_page import figure, page, table

SHARES = (0.1, 0.2, 0.3, 0.4)
OWNERS, DIMENSIONS, SEEDS = (20, 50), (1, 4), 3
DIGITS = 5


def trials(seeds: range, quick: bool) -> list[Trial]:
    """Every kind and share; those of one function stand together, so that its honest modules are fitted once."""
    found = []
    for seed, owners, D in product(seeds, OWNERS[:1] if quick else OWNERS, DIMENSIONS[:1] if quick else DIMENSIONS):
        found.append(Trial(owners, D, HONEST, 0, seed))
        for share, kind in product((0.3,) if quick else SHARES, list(SPOILED)[:2] if quick else SPOILED):
            found.append(Trial(owners, D, kind, round(share * owners), seed))
    return found


def together(some: list[Trial]) -> list[Outcome]:
    torch.set_num_threads(1)
    return [run(trial) for trial in some]


def measure(wanted: list[Trial], processes: int) -> list[Outcome]:
    groups: dict[tuple[int, int, int], list[Trial]] = {}
    for trial in wanted:
        groups.setdefault((trial.owners, trial.dimension, trial.seed), []).append(trial)
    jobs = sorted(groups.values(), key=lambda some: -some[0].owners * some[0].dimension)  # the slowest first
    if processes == 1:
        found = [together(some) for some in track(jobs, console=Console(stderr=True))]
    else:
        os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they begin
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            found = list(track(pool.map(together, jobs), total=len(jobs), console=Console(stderr=True)))
    return sorted((rounded(o) for some in found for o in some), key=lambda o: o[:5])


def rounded(o: Outcome) -> Outcome:
    """As it is written: a page made from the file is the page made from the run."""
    return Outcome(*(round(v, DIGITS) if isinstance(v, float) else v for v in o))


def write(file: Path, outcomes: list[Outcome]) -> None:
    lines = ",\n".join(json.dumps(o._asdict(), ensure_ascii=False, allow_nan=False) for o in outcomes)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def read(file: Path) -> list[Outcome]:
    return [Outcome(**row) for row in json.loads(file.read_text(encoding="utf-8"))]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few trials: no figures to quote")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="functions that are drawn")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write robustness.md and its figure")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    asked = parsed(arguments)
    seeds = range(asked.first_seed, asked.first_seed + (1 if asked.quick else asked.seeds))
    found = read(asked.show) if asked.show else measure(trials(seeds, asked.quick), asked.processes)
    if asked.json:
        write(asked.json, found)
    Console(width=None if sys.stdout.isatty() else 140).print(table(found))
    if asked.docs:
        (asked.docs / "figures").mkdir(parents=True, exist_ok=True)
        (asked.docs / "robustness.md").write_text(page(found), encoding="utf-8")
        figure(found, asked.docs / "figures" / "robustness.png")


if __name__ == "__main__":
    main()

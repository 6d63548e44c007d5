"""What bad modules do to a merge, and who finds them: seven kinds, up to four in ten of the modules.

    python benchmarks/robustness.py [--quick] [--seeds N] [--first-seed N] [--processes N] [--json FILE]
    python benchmarks/robustness.py --show FILE [--docs docs]

`--docs` writes the tables of docs/robustness.md and its figure from what was measured.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import torch

import broken_files
import forgeries
import units
from jobs import done
from pages import RESULTS, publish, read, rounded, save, show, write
from robustness_cases import HONEST, SPOILED, Outcome, Trial, run
from robustness_page import figure, values

SHARES = (0.1, 0.2, 0.3, 0.4)
OWNERS, DIMENSIONS, SEEDS = (20, 50), (1, 4), 3


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


def measure(wanted: list[Trial], processes: int) -> list[dict[str, Any]]:
    groups: dict[tuple[int, int, int], list[Trial]] = {}
    for trial in wanted:
        groups.setdefault((trial.owners, trial.dimension, trial.seed), []).append(trial)
    jobs = sorted(groups.values(), key=lambda some: -some[0].owners * some[0].dimension)  # the slowest first
    found = [outcome for some in done([(together, job) for job in jobs], processes) for outcome in some]
    return [rounded(o._asdict(), ".5f") for o in sorted(found, key=lambda o: o[:5])]


def pages() -> dict[str, dict[str, str]]:
    (found,) = values(read(RESULTS / "robustness.json")).values()
    forged, broken = forgeries.of_page(), broken_files.of_page()
    short = {name: text for name, text in (forged | broken).items() if name.endswith("-short")}
    every = found | units.values(read(RESULTS / "units.json")) | forged | broken
    return {"robustness.md": every, "../SECURITY.md": short}


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
    show(values(found))
    if asked.docs:
        publish(asked.docs, values(found), partly=True)  # benchmarks/units.py writes the rest
        save(figure(found), asked.docs / "figures" / "robustness.png")


if __name__ == "__main__":
    main()

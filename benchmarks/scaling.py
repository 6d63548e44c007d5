"""A cost model of very large merges: measured small, fitted, predicted large; and what slow and lost workers cost.

    python benchmarks/scaling.py --measure [--quick] --json FILE
    python benchmarks/scaling.py --simulate FILE
    python benchmarks/scaling.py --show FILE [--docs docs]

`--measure` makes the small runs and simulates; `--simulate` keeps the runs of a file and simulates again. `--docs`
writes the tables of docs/scaling.md and its figures from what was measured.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402

import pages as files  # noqa: E402
from scaling_model import Run  # noqa: E402
from scaling_page import Measured, figures, values  # noqa: E402
from scaling_simulation import Outcome, Setting, designed, simulate  # noqa: E402


def write(file: Path, found: Measured) -> None:
    """Of settings what is not as usual."""
    usual = Setting()._asdict()

    def row(o: Outcome) -> dict[str, Any]:
        return o._asdict() | {"setting": {k: v for k, v in o.setting._asdict().items() if v != usual[k]}}

    said = {"runs": [r._asdict() for r in found.runs], "simulated": [row(o) for o in found.simulated]}
    files.write(file, files.rounded(said, ".6g"))


def read(file: Path) -> Measured:
    said = files.read(file)
    outcomes = [Outcome(**(row | {"setting": Setting(**row["setting"])})) for row in said["simulated"]]
    return Measured([Run(**row) for row in said["runs"]], outcomes, files.read(files.RESULTS / "gpu.json"))


def pages() -> dict[str, dict[str, str]]:
    return values(read(files.RESULTS / "scaling.json"))


def measure(quick: bool) -> Measured:
    from scaling_measure import measured

    shown = Console(stderr=True)
    runs = []
    for r in measured(quick):
        shown.print(f"{r.stage:12} {r.seconds:.3g} s")
        runs.append(r)
    return Measured(runs, simulation(quick), {})


def simulation(quick: bool) -> list[Outcome]:
    settings = designed(1)[::12] if quick else designed()
    return [simulate(s) for s in track(settings, console=Console(stderr=True))]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="make the small runs: some minutes of one core")
    parser.add_argument("--quick", action="store_true", help="a few runs: no figures to quote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--simulate", type=Path, metavar="FILE", help="keep the runs of an earlier --json")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write scaling.md and its figures")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    asked = parsed(arguments)
    if asked.measure:
        if asked.json is None:
            raise SystemExit("--measure needs --json FILE")
        write(asked.json, measure(asked.quick))
    if asked.simulate:
        write(asked.simulate, read(asked.simulate)._replace(simulated=simulation(asked.quick)))
    if not asked.show:
        return
    found = read(asked.show)
    files.show(values(found))
    if asked.docs:
        files.publish(asked.docs, values(found))
        for name, figure in figures(found).items():
            files.save(figure, asked.docs / "figures" / name)


if __name__ == "__main__":
    main()

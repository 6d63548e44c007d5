"""A cost model of very large merges: measured small, fitted, predicted large; and what slow and lost workers cost.

    python benchmarks/scaling.py --measure [--quick] --json FILE
    python benchmarks/scaling.py --simulate FILE
    python benchmarks/scaling.py --show FILE [--docs docs]

`--measure` makes the small runs and simulates; `--simulate` keeps the runs of a file and simulates again. `--docs`
writes docs/scaling.md and its figures from what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402

from scaling_figures import figures  # noqa: E402
from scaling_model import Run  # noqa: E402
from scaling_page import Measured, page, tables  # noqa: E402
from scaling_simulation import Outcome, Setting, designed, simulate  # noqa: E402

GPU = Path(__file__).parent / "results" / "gpu.json"
DIGITS = 6


def simulated(settings: Iterable[Setting]) -> list[Outcome]:
    return [simulate(s) for s in settings]


def rounded(row: NamedTuple) -> dict[str, Any]:
    """As it is written: a page made from the file is the page made from the run."""
    return {k: float(f"{v:.{DIGITS}g}") if isinstance(v, float) else v for k, v in row._asdict().items()}


def write(file: Path, found: Measured) -> None:
    runs = ",\n".join(json.dumps(rounded(r)) for r in found.runs)
    usual = Setting()._asdict()
    lines = []
    for o in found.simulated:
        changed = {k: v for k, v in o.setting._asdict().items() if v != usual[k]}
        lines.append(json.dumps(rounded(o) | {"setting": changed}))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'{{"runs": [\n{runs}\n],\n"simulated": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


def read(file: Path) -> Measured:
    said = json.loads(file.read_text(encoding="utf-8"))
    outcomes = [Outcome(**(row | {"setting": Setting(**row["setting"])})) for row in said["simulated"]]
    return Measured([Run(**row) for row in said["runs"]], outcomes, json.loads(GPU.read_text(encoding="utf-8")))


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
    return simulated(track(settings, console=Console(stderr=True)))


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
    console = Console(width=None if sys.stdout.isatty() else 140)
    for shown in tables(found):
        console.print(shown)
    if asked.docs:
        (asked.docs / "figures").mkdir(parents=True, exist_ok=True)
        (asked.docs / "scaling.md").write_text(page(found), encoding="utf-8")
        figures(found, asked.docs / "figures")


if __name__ == "__main__":
    main()

"""How fast, as ratios: each figure is ours beside something else, measured in the same run with the same threads.

    python benchmarks/speed.py [--quick] [--only SECTION …] [--json FILE] [--threads N] [--seed N] [--cap SECONDS]
        [--earlier FOLDER]
    python benchmarks/speed.py --show FILE

Rows that lose stay in the table, and the exit code is 0 all the same: this measures, it does not judge.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provenance import provenance
from speed_rows import HEADER, Options, Row, line, markdown

SECTIONS = ("merge", "fit", "predict", "whole")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def fix_threads(threads: int) -> dict[str, str]:
    """Before NumPy and torch are imported, which read these once. Child processes inherit them."""
    chosen = dict.fromkeys(THREAD_VARIABLES, str(threads))
    # A thread with nothing to do sleeps: on cores shared with others, spinning steals from whoever is measured.
    chosen["OMP_WAIT_POLICY"] = "passive"
    os.environ.update(chosen)
    return chosen


def machine(environment: dict[str, str], arguments: list[str] | None = None) -> dict[str, Any]:
    """What the figures depend on, and nothing that says whose machine it is."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import torch

    versions = {}
    for package in ("torch", "numpy", "gpytorch", "scikit-learn", "joblib"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        **provenance(arguments),
        "python": platform.python_version(),
        "processor": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "mkl": torch.backends.mkl.is_available(),
        "environment": environment,
        **versions,
    }


def measure(sections: list[str], options: Options) -> Iterator[Row]:
    for name in sections:
        yield from importlib.import_module(f"speed_{name}").rows(options)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: a minute in all, and no figures to quote")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--json", type=Path, default=Path("results/speed.json"))
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json as Markdown")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--earlier", type=Path, metavar="FOLDER", help="checkout of an earlier version: a million rows with it, too"
    )
    parser.add_argument("--cap", type=float, default=600.0, help="seconds after which one end-to-end size is stopped")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    asked = parsed(arguments)
    if asked.show:
        print(markdown(Row.from_dict(said) for said in json.loads(asked.show.read_text())["rows"]))
        return
    environment = fix_threads(asked.threads)

    import torch

    torch.set_num_threads(asked.threads)
    earlier = None if asked.earlier is None else str((asked.earlier / "src").resolve())
    options = Options(asked.quick, asked.threads, asked.seed, asked.cap, earlier)
    load = [os.getloadavg()[0]]
    found: list[Row] = []
    print(HEADER, flush=True)
    for row in measure(asked.only or list(SECTIONS), options):
        print(line(row), flush=True)
        found.append(row)
        load.append(os.getloadavg()[0])
    result = {
        "options": options._replace(earlier=options.earlier and "given")._asdict(),
        "machine": machine(environment, arguments),
        "load_per_minute": load,  # others on the same cores: how far the figures can be trusted
        "rows": [row.as_dict() for row in found],
    }
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(result, indent=1, allow_nan=False))
    lost = sum(row.verdict == "LOST" for row in found)
    print(f"\n{len(found)} rows, {lost} lost; raw times in {asked.json}")


if __name__ == "__main__":
    main()

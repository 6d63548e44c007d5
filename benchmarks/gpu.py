"""What a GPU does: thousands of fits, a merge that learns, an exact merge of many pseudo-observations.

    python benchmarks/gpu.py [--quick] [--device cuda] [--cpu-share N] [--floors] [--profile] [--json FILE]

The same work is done on the CPU cores beside it, on a share of the modules (one in `--cpu-share`), and its time is
multiplied by that share. With --floors only what has a limit in seconds on an H200 is measured, and said to be kept or
LOST; every row is printed, and saved with --json, as soon as it is known. --profile then shows where time goes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

import recyclegp as rgp
from data import intervals, noisy, oracle
from gpu_profile import profiled, python_calls
from provenance import provenance
from speed_rows import timed

if TYPE_CHECKING:
    from rich.table import Table

COLLAPSED: dict[str, Any] = {"method": "collapsed", "inducing": 3, "publish": None, "progress": False}
TEST_POINTS = 10_000
LIMITS = {"fit": 5.0, "merge": 3.0, "exact merge": 5.0}  # seconds on an H200, at full size


def synchronised(work: Any) -> tuple[float, Any]:
    """Seconds until the GPU is done, and what came out."""

    def whole() -> Any:
        found = work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return found

    return timed(whole)


def whole(K: int, n: int, device: str) -> dict[str, Any]:
    """Fit, merge and score K modules of n rows."""
    parts = list(intervals(K, n, 0))
    fitting, modules = synchronised(lambda: rgp.fit_many(parts, device=device, **COLLAPSED))
    merging, merged = synchronised(lambda: rgp.merge(modules, device=device))
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 5.5, TEST_POINTS)
    y = noisy(x, rng)
    scoring, score = synchronised(lambda: -merged.log_density(x[:, None], y).mean())
    return {
        "modules": K,
        "rows": n,
        "fit": fitting,
        "merge": merging,
        "score": scoring,
        "seconds": fitting + merging + scoring,
        "excess": float(score) - oracle(x, y),
    }


def exact_fits(K: int, n: int, device: str) -> dict[str, Any]:
    """Exact fits of K data sets."""
    parts = list(intervals(K, n, 2))
    seconds, modules = synchronised(
        lambda: rgp.fit_many(parts, method="exact", publish=3, device=device, progress=False)
    )
    return {"modules": K, "rows": n, "seconds": seconds, "evidence": float(np.mean([m.evidence for m in modules[:20]]))}


def exact_merge(K: int, points: int, device: str) -> dict[str, Any]:
    """All pseudo-observations of K modules with so many points each, the kernel learned."""
    rng = np.random.default_rng(3)
    modules = []
    for k in range(K):
        X = rng.uniform(-1, 1, (3 * points, 6))
        y = np.sin(4 * X[:, :3]).prod(1) + np.cos(3 * X[:, 3] * X[:, 4]) + X[:, 5] ** 2 + 0.1 * rng.normal(size=len(X))
        options = {"method": "collapsed", "inducing": points, "publish": None, "kernel": "matern52"}
        modules.append(rgp.fit(X, y, name=f"m{k}", device=device, **options))
    seconds, merged = synchronised(lambda: rgp.merge(modules, inducing="all", owners=None, trust=None, device=device))
    return {
        "modules": K,
        "points": points,
        "pseudo-observations": merged.size.pseudo_observations,
        "seconds": seconds,
        "evaluations": merged.convergence.evaluations,
        "evidence": float(merged.evidence),
    }


class Floor(NamedTuple):
    """A piece of work that has a limit in seconds on an H200, at full size."""

    name: str
    what: str
    seconds: float
    limit: float

    def __str__(self) -> str:
        verdict = "ok" if self.seconds <= self.limit else "LOST"
        return f"{self.name:12}{self.what:44}{self.seconds:8.2f} s   ≤ {self.limit:g} s  {verdict}"


def floors(device: str, quick: bool, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Each row is printed and saved as soon as it is known; the work furthest from its limit is then profiled."""
    size = 20 if quick else 1
    found: dict[str, Any] = provenance() | {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    found["device"] = torch.cuda.get_device_name() if device.startswith("cuda") else device
    print(f"{found['device']}, torch {found['torch']}, {found['cores']} cores", flush=True)
    whole(64, 200, device)  # what is computed once for all
    here = found["whole"] = whole(50_000 // size, 200, device)
    many = f"{here['modules']:,} × {here['rows']} rows"
    rows = [Floor(name, many, here[name], LIMITS[name]) for name in ("fit", "merge")]
    for row in rows:
        print(row, flush=True)
    print(f"NLPD {here['excess']:.4f} above the oracle", flush=True)
    save(found)
    exact = found["exact merge"] = exact_merge(16, 1024 // size, device)
    words = f"{exact['pseudo-observations']:,} pseudo-observations, learned"
    rows.append(Floor("exact merge", words, exact["seconds"], LIMITS["exact merge"]))
    print(rows[-1], flush=True)
    print(f"{exact['evaluations']} evaluations, evidence {exact['evidence']:.3f}", flush=True)
    found["floors"] = {row.name: {"seconds": row.seconds, "limit": row.limit} for row in rows}
    save(found)
    return found


def calls_for_each(device: str) -> dict[str, float]:
    """Calls of Python functions that one more module costs, from 2,048 and 4,096 of them."""

    def calls(K: int) -> tuple[int, int]:
        parts = list(intervals(K, 200, 0))
        modules = rgp.fit_many(parts, device=device, **COLLAPSED)
        return (
            python_calls(lambda: rgp.fit_many(parts, device=device, **COLLAPSED)),
            python_calls(lambda: rgp.merge(modules, device=device)),
        )

    few, many = calls(2048), calls(4096)
    return {name: (b - a) / 2048 for name, a, b in zip(("fit", "merge"), few, many, strict=True)}


def show_profiles(found: dict[str, Any], device: str, quick: bool) -> None:
    """Of a fifth of the work, beginning with what is furthest from its limit."""
    size = 100 if quick else 5
    parts = list(intervals(50_000 // size, 200, 0))
    modules = rgp.fit_many(parts, device=device, **COLLAPSED)
    work: dict[str, Callable[[], Any]] = {
        "fit": lambda: rgp.fit_many(parts, device=device, **COLLAPSED),
        "merge": lambda: rgp.merge(modules, device=device),
    }
    worst = {name: row["seconds"] / row["limit"] for name, row in found["floors"].items()}
    for name in sorted(work, key=lambda name: -worst[name]):
        print(f"\n--- {name} of {len(parts):,} modules ---\n{profiled(work[name])}", flush=True)


def measured(device: str, share: int, quick: bool, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    size = 20 if quick else 1
    exact_fits(16, 200, device)  # what is computed once for all
    found = floors(device, quick, save)
    found["exact fits"] = exact_fits(1000 // size, 200, device)
    found["whole, cpu"] = whole(50_000 // size // share, 200, "cpu")
    found["exact fits, cpu"] = exact_fits(1000 // size // share, 200, "cpu")
    found["share"] = share
    save(found)
    return found


def table(found: dict[str, Any]) -> Table:
    from rich.table import Table  # only here: a machine that has nothing but torch and NumPy measures floors

    shown = Table("work", "seconds", "CPU cores beside it, seconds", "ratio", title=f"{found['device']}")
    for name in ("whole", "exact fits"):
        here, there = found[name], found[f"{name}, cpu"]
        cpu = there["seconds"] * here["modules"] / there["modules"]
        label = f"{name}: {here['modules']:,} × {here['rows']} rows"
        shown.add_row(label, f"{here['seconds']:.2f}", f"{cpu:.1f}", f"{cpu / here['seconds']:.1f}")
    m = found["exact merge"]
    shown.add_row(
        f"exact merge, learned: {m['modules']} × {m['points']} points, {m['pseudo-observations']:,} at once",
        f"{m['seconds']:.2f}",
        "",
        "",
    )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of it: no figures to quote")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cpu-share", type=int, default=10)
    parser.add_argument("--floors", action="store_true", help="only what has a limit in seconds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--profile", action="store_true", help="also where the time of fits and merge goes")
    asked = parser.parse_args()
    device, quick = asked.device, asked.quick
    warnings.simplefilter("ignore", rgp.RecycleGPWarning)  # fits keep little at three points, as in the paper

    def save(found: dict[str, Any]) -> None:
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    found = floors(device, quick, save) if asked.floors else measured(device, asked.cpu_share, quick, save)
    if not asked.floors:
        from rich.console import Console

        Console().print(table(found))
    if asked.profile:
        for name, calls in calls_for_each(device).items():
            print(f"Python calls for one more module, {name}: {calls:.1f}", flush=True)
        show_profiles(found, device, quick)


if __name__ == "__main__":
    main()

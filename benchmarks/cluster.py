"""Partitions on a cluster of this machine: how it scales, what it costs, and how much memory it takes.

    python benchmarks/cluster.py [--only SECTION …] [--partitions K] [--rows-each N] [--json FILE]
    python benchmarks/cluster.py --only parquet --rows 10000000

Sections: scaling (one worker against two), overhead (one worker against fit_many and merge in one process), memory
(peaks of client and workers for K and for 10 K partitions), parquet (a folder of rows through `recyclegp fit
--partition-by`, every process counted). Each run is a process of its own with one thread, and figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import psutil  # noqa: E402

SECTIONS = ("scaling", "overhead", "memory", "parquet")
MIB = 2**20
EACH_TASK = 32  # partitions, where memory is compared: tasks are equally large, and ten times as many
ROWS_EACH = 1500  # of a partition of the Parquet folder
EVERY = 0.02  # seconds between two looks at the memory


def partition(k: int, rows: int, of: int) -> tuple[np.ndarray, np.ndarray]:
    """An interval of a long function: neighbours, as partitions should be."""
    rng = np.random.default_rng(k)
    x = rng.uniform(0, 1, rows) + k
    return x[:, None] * (40.0 / of), np.sin(x * 40.0 / of) + 0.3 * rng.standard_normal(rows)


def loaders(count: int, rows: int) -> list[Any]:
    return [partial(partition, k, rows, count) for k in range(count)]


class Watch:
    """The largest memory of this process, of each of its children, and of all of them together, in MiB."""

    def __init__(self, pid: int | None = None) -> None:
        self.root = psutil.Process(pid)
        self.peaks: dict[int, float] = {}
        self.together = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self.begin = self.root.memory_info().rss / MIB
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(EVERY):
            now = {}
            try:
                for p in (self.root, *self.root.children(recursive=True)):
                    now[p.pid] = p.memory_info().rss / MIB
            except psutil.NoSuchProcess:
                continue
            self.together = max(self.together, sum(now.values()))
            for pid, used in now.items():
                self.peaks[pid] = max(used, self.peaks.get(pid, 0.0))

    def facts(self) -> dict[str, float]:
        own = self.peaks.get(self.root.pid, 0.0)
        others = [used for pid, used in self.peaks.items() if pid != self.root.pid]
        return {
            "client_begin_mib": self.begin,
            "client_peak_mib": own,
            "largest_worker_peak_mib": max(others, default=0.0),
            "together_peak_mib": self.together,
        }


# --- one run, in a process of its own ---------------------------------------------------------


def plain(count: int, rows: int, publish: int) -> dict[str, Any]:
    """fit_many and merge, without any engine."""
    import recyclegp as rgp

    _warm()
    begun = time.perf_counter()
    modules = rgp.fit_many((load() for load in loaders(count, rows)), publish=publish, progress=False)
    fitted = time.perf_counter()
    e = rgp.merge(modules, keep="names", owners=None, trust=None, inducing=100)
    return {"fit_s": fitted - begun, "merge_s": time.perf_counter() - fitted, "evidence": e.evidence}


def cluster(workers: int, count: int, rows: int, publish: int, per_task: int | None = None) -> dict[str, Any]:
    """The same on a LocalCluster, which is there already."""
    from distributed import Client, LocalCluster

    from recyclegp.engines import fitting
    from recyclegp.engines.dask import DaskExecutor

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=None) as made,
        Client(made) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        client.run(_warm)
        _warm()
        how, merge = {"publish": publish}, {"inducing": 100}
        job = fitting.prepared(loaders(count, rows), **how, merge=merge, per_task=per_task, progress=False)
        executor = DaskExecutor(client)
        before = client.run(_cpu_seconds)
        with Watch() as watch:
            begun = time.perf_counter()
            chunks = fitting.fit_chunks(executor, job, Path(folder))
            fitted = time.perf_counter()
            e = fitting.merge_chunks(executor, chunks, job.merging)
            ended = time.perf_counter()
        after = client.run(_cpu_seconds)
        found = {"fit_s": fitted - begun, "merge_s": ended - fitted, "evidence": e.evidence, "tasks": len(chunks)}
        # on a busy machine these say what clocks cannot: whether workers share the work, and how much of it there is
        found["workers_cpu_s"] = [after[worker] - before[worker] for worker in after]
        return found | watch.facts()


def _cpu_seconds() -> float:
    return sum(os.times()[:2])


def _warm() -> None:
    """What a process imports and initialises once does not count."""
    import recyclegp as rgp

    rgp.merge([rgp.fit(*partition(0, 20, 1), publish=2)])


CASES = {"plain": plain, "cluster": cluster}


def apart(case: str, *arguments: int) -> dict[str, Any]:
    """One run in a fresh process."""
    command = [sys.executable, "-W", "ignore", __file__, "--inside", case, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


# --- sections ---------------------------------------------------------------------------------


def total(run: dict[str, Any]) -> float:
    return run["fit_s"] + run["merge_s"]


def several(rounds: int, case: str, *arguments: int) -> dict[str, Any]:
    runs = sorted((apart(case, *arguments) for _ in range(rounds)), key=total)
    return {**runs[len(runs) // 2], "total_s": median(map(total, runs)), "runs_s": [total(run) for run in runs]}


def scaling(options: argparse.Namespace) -> dict[str, Any]:
    size = (options.partitions, options.rows_each, options.publish)
    one, two = (several(options.rounds, "cluster", workers, *size) for workers in (1, 2))
    ratios = {f"{phase}_ratio": one[f"{phase}_s"] / two[f"{phase}_s"] for phase in ("fit", "merge", "total")}
    return {"one_worker": one, "two_workers": two, **ratios}


def overhead(options: argparse.Namespace) -> dict[str, Any]:
    size = (options.partitions, options.rows_each, options.publish)
    ours, theirs = several(options.rounds, "cluster", 1, *size), several(options.rounds, "plain", *size)
    ratios = {f"{phase}_ratio": ours[f"{phase}_s"] / theirs[f"{phase}_s"] for phase in ("fit", "merge", "total")}
    return {"one_worker": ours, "plain": theirs, **ratios}


def memory(options: argparse.Namespace) -> dict[str, Any]:
    few, many = (
        apart("cluster", 2, count, options.rows_each, options.publish, EACH_TASK)
        for count in (options.partitions, 10 * options.partitions)
    )
    peaks = ("client_peak_mib", "largest_worker_peak_mib")
    return {"K": few, "ten_K": many, **{f"{p}_more": many[p] - few[p] for p in peaks}}


def parquet(options: argparse.Namespace) -> dict[str, Any]:
    from write_parquet import write

    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder, out = Path(made) / "rows", Path(made) / "all.safetensors"
        write(folder, options.rows, max(1, options.rows // ROWS_EACH), max(1, options.rows // 500_000), 0)
        command = [sys.executable, "-W", "ignore", "-c", "from recyclegp.cli import app; app()", "fit", str(folder)]
        command += ["--target", "y", "--partition-by", "region", "--jobs", "2", "-o", str(out), "--json"]
        command += ["--method", "collapsed", "--inducing", "3"]
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with Watch(process.pid) as watch:
            said, _ = process.communicate()
        if process.returncode:
            raise SystemExit(process.returncode)
        facts = json.loads(said)
        kept = {name: facts[name] for name in ("rows", "modules", "points", "slack")}
        return {"seconds": time.perf_counter() - begun, **kept, **watch.facts()}


def shown(name: str, found: dict[str, Any], indent: int = 0) -> None:
    print(f"{'  ' * indent}{name}")
    for key, value in found.items():
        if isinstance(value, dict):
            shown(key, value, indent + 1)
        else:
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
            print(f"{'  ' * (indent + 1)}{key:26}{text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--rows-each", type=int, default=400)
    parser.add_argument("--publish", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the Parquet folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the Parquet folder is written for the time being")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        case, *sizes = options.inside
        print(json.dumps(CASES[case](*map(int, sizes))))
        return
    results = {}
    for section in options.only:
        results[section] = globals()[section](options)
        shown(section, results[section])
    if options.json is not None:
        sizes = {name: getattr(options, name) for name in ("partitions", "rows_each", "publish", "rows", "rounds")}
        options.json.write_text(json.dumps({"sizes": sizes, **results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

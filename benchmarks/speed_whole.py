"""From rows to predictions: 10⁴ to 10⁷ rows, each size in a process of its own, so that its memory is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from speed_rows import Options, Row, timed

MILLION = 10**6
LIMITS = {MILLION: 5.0, 10 * MILLION: 12.0}  # seconds for so many rows, on two cores
PER_MODULE = 1e-3  # seconds of CPU that one of many small fits may take
FASTER = 3.0  # times, than the first version
TEST_POINTS = 10_000


class Size(NamedTuple):
    K: int
    n: int

    @property
    def rows(self) -> int:
        return self.K * self.n


FULL = (Size(50, 200), Size(500, 200), Size(5000, 200), Size(5000, 2000))
QUICK = (Size(10, 200), Size(50, 200))


def rows(options: Options) -> Iterator[Row]:
    """Each size beside the one before, and a million and ten million beside their limits."""
    before: tuple[Size, dict[str, Any]] | None = None
    for size in QUICK if options.quick else FULL:
        name = f"fit, merge, predict: {size.rows:,} rows"
        expected = 0.0 if before is None else extrapolated(size, *before)
        if expected > options.cap:
            yield Row("whole", name, "", missing=f"left out: about {expected / 60:.0f} minutes; --cap {expected:.0f}")
            continue
        found = in_its_own_process(size, options)
        if found is None:
            yield Row("whole", name, "", ours=options.cap, missing=f"stopped after {options.cap:.0f} s; raise --cap")
            continue
        fields = {"ours": found["seconds"], "note": _note(size, found), "sizes": size._asdict(), "raw": found}
        if limit := LIMITS.get(size.rows):
            yield Row("whole", name, f"{limit:g} seconds", other=limit, target=1.0, **fields)
        if size.rows == MILLION:
            yield from _million(size, options, found)
        elif before is None:
            yield Row("whole", name, "", **fields)
        else:
            yield Row(
                "whole", name, f"the same with {before[0].rows:,}", other=before[1]["seconds"], cost=True, **fields
            )
        before = size, found


def _million(size: Size, options: Options, found: dict[str, Any]) -> Iterator[Row]:
    """CPU of one fit among many, and the whole beside an earlier version, which takes its turn now."""
    each = found["fit_cpu"] / size.K
    yield Row("whole", f"fit_many, {size.n} rows: CPU of one fit", "a millisecond", each, PER_MODULE, target=1.0)
    if options.earlier is not None:
        before = in_its_own_process(size, options, options.earlier)
        note = "" if before is None else f"fit {before['fit']:.3g} s, merge {before['merge']:.3g} s"
        yield Row(
            "whole",
            f"fit, merge, predict: {size.rows:,} rows",
            "an earlier version",
            ours=found["seconds"],
            other=options.cap if before is None else before["seconds"],
            bounded=before is None,
            target=FASTER,
            note=note,
        )


def extrapolated(size: Size, smaller: Size, found: dict[str, Any]) -> float:
    """Seconds to expect: fitting grows with the rows, merging with the modules."""
    return found["fit"] * size.rows / smaller.rows + found["merge"] * size.K / smaller.K


def _note(size: Size, found: dict[str, Any]) -> str:
    return (
        f"K={size.K:,}: fit {found['fit']:.3g} s, merge {found['merge']:.3g} s (M={found['M']}), predict "
        f"{TEST_POINTS:,} {1e3 * found['predict']:.3g} ms; NLPD {found['excess']:.4f} above the oracle; peak "
        f"{found['peak_mib']:.0f} MiB, of which {found['import_mib']:.0f} are imports"
    )


def in_its_own_process(size: Size, options: Options, source: str | None = None) -> dict[str, Any] | None:
    """What `run` found there, or None if it took longer than the cap; `source` has another version of the library."""
    job = {"K": size.K, "n": size.n, "seed": options.seed, "threads": options.threads}
    command = [sys.executable, __file__, json.dumps(job)]
    try:
        environment = os.environ if source is None else os.environ | {"PYTHONPATH": source}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=options.cap, check=True, env=environment
        )
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1])


# --- in the process ---------------------------------------------------------------------------


def run(K: int, n: int, seed: int, threads: int) -> dict[str, Any]:
    """Data that are made as they are read (and count), thousands of models, one merge with its kernel learned."""
    import numpy as np
    import torch

    import recyclegp as rgp
    from data import intervals, noisy, oracle

    torch.set_num_threads(threads)
    few = rgp.fit_many(intervals(2, 20, seed), method="collapsed", inducing=3, publish=None, progress=False)
    rgp.merge(few, learn=False)
    imports = peak()
    parts = intervals(K, n, seed)
    cpu = time.process_time()
    fitting, modules = timed(lambda: rgp.fit_many(parts, method="collapsed", inducing=3, publish=None, progress=False))
    cpu = time.process_time() - cpu
    merging, ensemble = timed(lambda: rgp.merge(modules))
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 5.5, TEST_POINTS)
    y = noisy(x, rng)
    predicting, _ = timed(lambda: ensemble.predict(x[:, None]))
    return {
        "seconds": fitting + merging + predicting,
        "fit": fitting,
        "fit_cpu": cpu,
        "merge": merging,
        "predict": predicting,
        "M": len(ensemble.inducing),
        "excess": float(-ensemble.log_density(x[:, None], y).mean()) - oracle(x, y),
        "peak_mib": peak(),
        "import_mib": imports,
    }


def peak() -> float:
    """Most memory this process has held, in MiB.

    Linux's own ru_maxrss survives exec, and so would count the parent's memory: VmHWM does not.
    """
    try:
        with open("/proc/self/status") as status:
            return next(int(text.split()[1]) / 1024 for text in status if text.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used / 2**20 if sys.platform == "darwin" else used / 1024


if __name__ == "__main__":
    print(json.dumps(run(**json.loads(sys.argv[1]))))

"""Reads many thousand broken files, and fails where one is neither refused nor a model that works.

    python tests/support/fuzz_files.py --cases 100000
    python tests/support/fuzz_files.py --case 4711        one of them again, with its traceback

`make fuzz` calls it. Cases run in child processes, so that a crash and a hang are noticed and the number of the case is
known; how much memory a child took beyond what it had when idle is its own to say. The changes are those of
`hostile_files`, from a seed: the same cases on every machine, without anything to install. Where atheris is
installed, `fuzz_atheris.py` looks for more, guided by the lines that are reached; atheris has no versions for some
systems and Pythons, so nothing depends on it.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

import hostile_files

MOST_MEMORY = 64  # MiB above idle
MOST_SECONDS = 10.0  # for one case
PER_CHILD = 10_000  # cases
IN_MEMORY = Path("/dev/shm")  # where there is one, files need not go to a disk


def peak():
    """The most memory that this process has had, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def run_cases(seed, first, last, current, results):
    """What a child does; `current` tells its parent how far it is."""
    files = hostile_files.golden_files()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "case.safetensors"
        for content in files * 2:
            path.write_bytes(content)
            assert hostile_files.answers(path), "a golden file was refused"
        idle, worst, slowest, working = peak(), 0.0, first, 0
        for case in range(first, last):
            current.value = case
            path.write_bytes(hostile_files.mutated(files, seed, case))
            start = time.perf_counter()
            try:
                working += hostile_files.answers(path)
            except BaseException:
                traceback.print_exc()
                results.put(None)
                return
            seconds = time.perf_counter() - start
            if seconds > worst:
                worst, slowest = seconds, case
        results.put((worst, slowest, working, peak() - idle))


def child(seed, first, last):
    """(worst seconds, in which case, how many worked, MiB above idle), or the end of this program."""
    context = multiprocessing.get_context("fork")
    current, results = context.Value("q", first), context.SimpleQueue()
    process = context.Process(target=run_cases, args=(seed, first, last, current, results))
    process.start()
    while process.is_alive():
        before = current.value
        process.join(MOST_SECONDS)
        if process.is_alive() and current.value == before:
            process.kill()
            raise SystemExit(f"case {before} of seed {seed} hangs: more than {MOST_SECONDS:g} s")
        if not results.empty():
            break
    found = None if results.empty() else results.get()
    process.join()
    if found is None:
        raise SystemExit(f"case {current.value} of seed {seed} fails (exit code {process.exitcode}); --case shows it")
    return found


def main():
    parser = argparse.ArgumentParser(description="Reads many thousand broken files.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="only this one")
    options = parser.parse_args()
    if options.case is not None:
        path = Path(tempfile.mkdtemp()) / "case.safetensors"
        path.write_bytes(hostile_files.mutated(hostile_files.golden_files(), options.seed, options.case))
        print(path, "works" if hostile_files.answers(path) else "is refused")
        return
    start, found = time.perf_counter(), []
    for first in range(0, options.cases, PER_CHILD):
        last = min(options.cases, first + PER_CHILD)
        found.append(child(options.seed, first, last))
        print(f"{last:,} cases, {last / (time.perf_counter() - start):.0f} per second", flush=True)
    (worst, slowest, *_), memory = max(found), max(f[3] for f in found)
    working = sum(f[2] for f in found)
    print(
        f"{options.cases:,} cases of seed {options.seed}: {options.cases - working:,} refused, {working:,} models that "
        f"work; the slowest took {worst:.3f} s (case {slowest}); at most {memory:.1f} MiB above idle"
    )
    if memory > MOST_MEMORY:
        raise SystemExit(f"more than {MOST_MEMORY} MiB above idle")


if __name__ == "__main__":
    main()

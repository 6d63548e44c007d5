"""Reads many thousand broken files, merges some of them with honest ones, and fails where something else comes of it
than a refusal or a model that works.

    python tests/support/fuzz_files.py --cases 100000 [--processes 2] [--seconds 2400]
    python tests/support/fuzz_files.py --case 4711        one of them again, with its traceback

`make fuzz` calls it. Cases run in child processes, so that a crash and a hang are noticed and the number of the case is
known; how much memory a child took beyond what it had when idle is its own to say. The changes are those of
`hostile_files`, from a seed: the same cases on every machine, without anything to install. Of ten cases six are bytes
that were changed, four are files that say something else and have digests that fit; one in fifty is such a file that is
merged with honest ones. Files are of all kinds: modules, ensembles, many modules, plans, answers, of every schema.
Where atheris is installed, `fuzz_atheris.py` looks for more, guided by the lines that are reached; atheris has no
versions for some systems and Pythons, so nothing depends on it.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import hostile_files
from recyclegp import Module, RecycleGPError, load

MOST_MEMORY = 64  # MiB above idle, for what is read
MOST_MERGED = 256  # the same, where modules are merged
MOST_SECONDS = 10.0  # for one case, of the processor
MOST_SECONDS_MERGED = 60.0
LONGEST_WAIT = 300.0  # after which a case counts as one that hangs, on a machine that has much to do
PER_CHILD = 5000  # cases
MERGED = 50  # one of so many cases is merged
HONEST = 3  # modules beside the one that is not
IN_MEMORY = Path("/dev/shm")  # where there is one, files need not go to a disk


class Found(NamedTuple):
    """Of the cases of one child, files that are read and merges."""

    slowest: tuple[float, float] = (0.0, 0.0)  # seconds
    which: tuple[int, int] = (0, 0)
    working: tuple[int, int] = (0, 0)
    cases: tuple[int, int] = (0, 0)
    memory: tuple[float, float] = (0.0, 0.0)  # MiB above idle
    failed: tuple[int, ...] = ()

    def counted(self, kind, case, seconds, works, memory):
        def put(values, value):
            return tuple(value if i == kind else old for i, old in enumerate(values))

        slower = seconds > self.slowest[kind]
        return self._replace(
            slowest=put(self.slowest, seconds) if slower else self.slowest,
            which=put(self.which, case) if slower else self.which,
            working=put(self.working, self.working[kind] + works),
            cases=put(self.cases, self.cases[kind] + 1),
            memory=put(self.memory, max(memory, self.memory[kind])),
        )

    def with_others(self, other):
        slower = [b > a for a, b in zip(self.slowest, other.slowest, strict=True)]
        pick = zip(slower, self.which, other.which, strict=True)
        return Found(
            tuple(map(max, self.slowest, other.slowest)),
            tuple(b if theirs else a for theirs, a, b in pick),
            tuple(map(sum, zip(self.working, other.working, strict=True))),
            tuple(map(sum, zip(self.cases, other.cases, strict=True))),
            tuple(map(max, self.memory, other.memory)),
            self.failed + other.failed,
        )


class Cases:
    """All files that are changed, and a place where they are read."""

    def __init__(self, folder):
        self.path, self.into = folder / "case.safetensors", folder / "merged.safetensors"
        self.files = hostile_files.golden_files() + hostile_files.exchange_files()
        self.modules = []
        for content in self.files:
            self.path.write_bytes(content)
            assert hostile_files.answers(self.path), "a golden file was refused"
            try:
                found = load(self.path)
            except RecycleGPError:  # many modules
                continue
            if isinstance(found, Module):
                self.modules.append((content, [found.rename(f"honest-{k}") for k in range(HONEST)]))
        for content, honest in self.modules[:2]:
            self.path.write_bytes(content)
            assert hostile_files.merges(self.path, honest, self.into), "a golden file cannot be merged"

    def run(self, seed, case):
        """Whether what is in the file works."""
        if case % MERGED == 0:
            content, honest = self.modules[case // MERGED % len(self.modules)]
            self.path.write_bytes(hostile_files.forged([content], seed, case))
            options = ({}, {"learn": False}, {"learn": False, "trust": None}, {"on_failure": "skip"})[case // 7 % 4]
            return hostile_files.merges(self.path, honest, self.into, **options)
        change = hostile_files.forged if case % 10 < 4 else hostile_files.mutated
        self.path.write_bytes(change(self.files, seed, case))
        return hostile_files.answers(self.path)


def peak():
    """The most memory that this process has had, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def run_cases(seed, first, last, ends, current, results):
    """What a child does; `current` tells its parent how far it is. Files are read first, then some are merged."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        cases, found = Cases(Path(folder)), Found()
        for kind in (0, 1):
            idle = peak()
            for case in range(first, last):
                if (case % MERGED == 0) != bool(kind) or time.time() > ends:
                    continue
                current.value = case
                start = time.process_time()
                try:
                    works = cases.run(seed, case)
                except BaseException:
                    print(f"case {case} of seed {seed}:", file=sys.stderr)
                    traceback.print_exc()
                    found = found._replace(failed=(*found.failed, case))
                    continue
                found = found.counted(kind, case, time.process_time() - start, works, peak() - idle)
        results.put(tuple(found))


class Child:
    """A process of its own for some cases; noticed where it hangs or dies."""

    def __init__(self, seed, first, last, ends):
        context = multiprocessing.get_context("spawn")
        self.current, self.results = context.Value("q", -1), context.SimpleQueue()
        self.process = context.Process(target=run_cases, args=(seed, first, last, ends, self.current, self.results))
        self.process.start()
        self.seed, self.last, self.case, self.since = seed, last, -1, time.time()

    def result(self):
        """What it has found, if it has ended; a failed case where it hangs or has died."""
        if not self.results.empty():
            found = Found(*self.results.get())
            self.process.join()
            return found
        if self.current.value != self.case:
            self.case, self.since = self.current.value, time.time()
        hangs = self.case >= 0 and time.time() - self.since > LONGEST_WAIT
        if not hangs and self.process.is_alive():
            return None
        self.process.kill()
        print(f"case {self.case} of seed {self.seed} {'hangs' if hangs else 'ends the process'}", flush=True)
        return Found(failed=(self.case,))


def main():
    parser = argparse.ArgumentParser(description="Reads many thousand broken files.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins later")
    parser.add_argument("--case", type=int, help="only this one")
    options = parser.parse_args()
    if options.case is not None:
        cases = Cases(Path(tempfile.mkdtemp()))
        start = time.process_time()
        works = cases.run(options.seed, options.case)
        print(cases.path, "works" if works else "is refused", f"({time.process_time() - start:.2f} s)")
        return
    begun = time.time()
    ends, stop = begun + options.seconds, options.first + options.cases
    left = list(range(options.first, stop, PER_CHILD))[::-1]
    running, found = [], Found()
    while left or running:
        while left and len(running) < options.processes and time.time() < ends:
            first = left.pop()
            running.append(Child(options.seed, first, min(stop, first + PER_CHILD), ends))
        if time.time() > ends:
            left = []
        for child in list(running):
            if (result := child.result()) is not None:
                running.remove(child)
                found = found.with_others(result)
                done = sum(found.cases)
                print(f"{done:,} cases, {done / (time.time() - begun):.0f} per second", flush=True)
        time.sleep(0.2)
    names = ("files", "merges")
    for kind, name in enumerate(names):
        of, works, most = found.cases[kind], found.working[kind], found.slowest[kind]
        print(f"{of:,} {name} of seed {options.seed}: {of - works:,} refused, {works:,} that work;", end=" ")
        print(f"the slowest took {most:.3f} s (case {found.which[kind]});", end=" ")
        print(f"at most {found.memory[kind]:.1f} MiB above idle")
    if found.failed:
        raise SystemExit(f"{len(found.failed)} cases fail: {', '.join(map(str, found.failed[:50]))}; --case shows one")
    for kind, most in enumerate((MOST_MEMORY, MOST_MERGED)):
        if found.memory[kind] > most:
            raise SystemExit(f"more than {most} MiB above idle")
    for kind, most in enumerate((MOST_SECONDS, MOST_SECONDS_MERGED)):
        if found.slowest[kind] > most:
            raise SystemExit(f"more than {most:g} s")


if __name__ == "__main__":
    main()

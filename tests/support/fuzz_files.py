"""Reads a million broken files of all kinds, merges some of them with honest ones, and fails where something else comes
of it than a refusal or a model that works.

    python tests/support/fuzz_files.py --cases 1000000 [--processes 2] [--seconds 2400] [--record fuzz.jsonl]
    python tests/support/fuzz_files.py --case 4711        one of them again, with its traceback

`make fuzz` calls it. Cases run in child processes, so that a crash and a hang are noticed and the number of the case is
known; how much memory a child took beyond what it had when idle is its own to say, for each kind of cases. What was
done is written to the record, and not done again. The changes are those of `hostile_files` and `fuzz_texts`, from a
seed: the same cases on every machine, without anything to install (but for random keys of secure sums). Kinds of cases
are those of `fuzz_cases`; of ten files seven are bytes that were changed, three are files that say something else and
have digests that fit. Time is that of the processor, whatever else the machine does.
Where atheris is installed, `fuzz_atheris.py` looks for more, guided by the lines that are reached; atheris has no
versions for some systems and Pythons, so nothing depends on it.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from fuzz_cases import Cases, Kind, forget_peak, kind_of, memory
from fuzz_material import Material, material

MOST_MEMORY = 64  # MiB above idle, of every kind
MOST_SECONDS = {Kind.FILES: 2.0, Kind.QUESTIONS: 2.0, Kind.TEXTS: 2.0, Kind.MERGES: 10.0}  # for one case
LONGEST = 60.0  # seconds of the processor after which a case counts as one that hangs;
LONGEST_WAIT = 1800.0  # where they are not known, of the clock, on a machine that has much to do
PER_CHILD = 20_000  # cases
IN_MEMORY = Path("/dev/shm")  # where there is one, files need not go to a disk


class Found(NamedTuple):
    """Of cases of one kind."""

    cases: int = 0
    working: int = 0
    slowest: float = 0.0  # seconds
    which: int = 0  # the slowest
    memory: float = 0.0  # MiB above idle
    failed: tuple[int, ...] = ()

    def and_also(self, other):
        slower = other.slowest > self.slowest
        return Found(
            self.cases + other.cases,
            self.working + other.working,
            max(self.slowest, other.slowest),
            other.which if slower else self.which,
            max(self.memory, other.memory),
            (*self.failed, *other.failed),
        )


def together(one, other):
    """Of all kinds."""
    return [Found(*a).and_also(Found(*b)) for a, b in zip(one, other, strict=True)]


def run_cases(seed, first, last, ends, made, current, results):
    """What a child does; `current` tells its parent how far it is. One kind after the other."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        cases, found = Cases(Path(folder), Material(*made)), []
        for kind in Kind:
            forget_peak()
            idle, own = memory(), Found()
            for case in range(first, last):
                if kind_of(case) is kind and time.time() < ends:
                    current.value = case
                    own = own.and_also(one_case(cases, seed, case))
            found.append(own._replace(memory=memory() - idle))
        results.put(found)


def one_case(cases, seed, case):
    start = time.process_time()
    try:
        works = cases.run(seed, case)
    except BaseException:
        print(f"case {case} of seed {seed}:", file=sys.stderr)
        traceback.print_exc()
        return Found(1, failed=(case,))
    return Found(1, int(works), time.process_time() - start, case)


class Child:
    """A process of its own for some cases; noticed where it hangs or dies."""

    def __init__(self, seed, first, last, ends, made):
        context = multiprocessing.get_context("spawn")
        self.current, self.results = context.Value("q", -1), context.SimpleQueue()
        told = (seed, first, last, ends, tuple(made), self.current, self.results)
        self.process = context.Process(target=run_cases, args=told)
        self.process.start()
        self.seed, self.first, self.last, self.case, self.since = seed, first, last, -1, self._spent()

    def _spent(self):
        """Seconds: of its processor time, with how many of them are too many for a case; else of the clock."""
        try:
            said = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return sum(map(int, said[11:13])) / os.sysconf("SC_CLK_TCK"), LONGEST
        except OSError:
            return time.time(), LONGEST_WAIT

    def result(self):
        """What it has found, if it has ended; a failed case where it hangs or has died."""
        if not self.results.empty():
            found = self.results.get()
            self.process.join()
            return found
        if self.current.value != self.case:
            self.case, self.since = self.current.value, self._spent()
        now, most = self._spent()
        hangs = self.case >= 0 and now - self.since[0] > most
        if not hangs and self.process.is_alive():
            return None
        self.process.kill()
        print(f"case {self.case} of seed {self.seed} {'hangs' if hangs else 'ends the process'}", flush=True)
        return [Found(failed=(self.case,) if kind is kind_of(self.case) else ()) for kind in Kind]


class Record:
    """Which cases were done, in a file with a line for each child."""

    def __init__(self, path, seed):
        self.path, self.seed = path, seed
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        known = [json.loads(line) for line in lines]
        self.done = {(one["first"], one["last"]): one["found"] for one in known if one["seed"] == seed}

    def add(self, first, last, found):
        if self.path is not None:
            with self.path.open("a") as stream:
                stream.write(json.dumps({"seed": self.seed, "first": first, "last": last, "found": found}) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Reads many broken files.")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins later")
    parser.add_argument("--record", type=Path, help="what was done, so that it is not done again")
    parser.add_argument("--case", type=int, help="only this one")
    options = parser.parse_args()
    made = material()
    if options.case is not None:
        show(options.seed, options.case, made)
        return
    report(options.seed, run_all(options, made))


def show(seed, case, made):
    cases = Cases(Path(tempfile.mkdtemp()), made)
    start = time.process_time()
    works = cases.run(seed, case)
    print(cases.path, "works" if works else "is refused", f"({time.process_time() - start:.2f} s)")


def run_all(options, made):
    begun, record = time.time(), Record(options.record, options.seed)
    ends, stop = begun + options.seconds, options.first + options.cases
    blocks = [(first, min(stop, first + PER_CHILD)) for first in range(options.first, stop, PER_CHILD)]
    left = [block for block in blocks if block not in record.done][::-1]
    running, found = [], [Found() for _ in Kind]
    for block in blocks:
        found = together(found, record.done.get(block, [Found() for _ in Kind]))
    while left or running:
        while left and len(running) < options.processes and time.time() < ends:
            running.append(Child(options.seed, *left.pop(), ends, made))
        if time.time() > ends:
            left = []
        for child in list(running):
            if (result := child.result()) is not None:
                running.remove(child)
                found = together(found, result)
                if time.time() < ends:
                    record.add(child.first, child.last, result)
                print(f"{sum(own.cases for own in found):,} cases in {time.time() - begun:.0f} s", flush=True)
        time.sleep(0.2)
    return found


def report(seed, found):
    for kind, own in zip(Kind, found, strict=True):
        print(f"{own.cases:,} {kind.name.lower()} of seed {seed}: {own.cases - own.working:,} refused,", end=" ")
        print(f"{own.working:,} that work; {len(own.failed)} failed;", end=" ")
        print(f"the slowest took {own.slowest:.3f} s (case {own.which});", end=" ")
        print(f"at most {own.memory:.1f} MiB above idle")
    failed = [case for own in found for case in own.failed]
    if failed:
        raise SystemExit(f"{len(failed)} cases fail: {', '.join(map(str, failed[:50]))}; --case shows one")
    for kind, own in zip(Kind, found, strict=True):
        if own.memory > MOST_MEMORY:
            raise SystemExit(f"{kind.name.lower()}: more than {MOST_MEMORY} MiB above idle")
        if own.slowest > MOST_SECONDS[kind]:
            raise SystemExit(f"{kind.name.lower()}: more than {MOST_SECONDS[kind]:g} s")


if __name__ == "__main__":
    main()

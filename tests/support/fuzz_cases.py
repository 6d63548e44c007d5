"""One case of fuzzing: a file that is changed, from a seed, and what is done with it. Kinds of cases take turns."""

import os
import random
import sys
from enum import IntEnum
from pathlib import Path

import hostile_files
from fuzz_texts import Texts
from recyclegp import load


class Kind(IntEnum):
    """What is done with a changed file."""

    FILES = 0  # it is read, and asked for predictions
    QUESTIONS = 1  # it is asked everything else: facts, observations, other points, fewer digits
    TEXTS = 2  # it is no safetensors: a message, a signature, a key ring, a dictionary
    MERGES = 3  # it is merged with honest modules, or few, or none; some are screened, compared and described, too


# of a hundred cases; all others are files
FEW = 25  # such a case is merged alone, or with one or two: then nobody can say who is right
TURNS = {0: Kind.MERGES, FEW: Kind.MERGES, 50: Kind.QUESTIONS, **dict.fromkeys((17, 37, 57, 77), Kind.TEXTS)}
WARMED = 12  # one of so many good files is merged first: what that imports is no case's
MODES = ({}, {"learn": False}, {"learn": False, "trust": None}, {"learn": False, "on_failure": "skip"})
SLOWER = ({"on_failure": "skip"}, {"trust": "report"}, {"owners": "offset"}, {"kernel": "auto"}, {"outputs": 1})


def kind_of(case):
    return TURNS.get(case % 100, Kind.FILES)


class Cases:
    """All files that are changed, and a place where they are read."""

    def __init__(self, folder, material, thorough=False):
        """Good files work; all of them are tried where it is to be thorough."""
        self.path, self.into = folder / "case.safetensors", folder / "merged.safetensors"
        self.files, self.merged, self.large = material
        self.texts = Texts(folder)
        self.honest = {}
        for content in self.files:
            self.path.write_bytes(content)
            assert hostile_files.answers(self.path), "a good file was refused"
        for content in self.files if thorough else self.files[::WARMED]:
            self.path.write_bytes(content)
            told = hostile_files.tells_more(self.path)
            assert told or hostile_files.as_module(self.path) is None, "a good file does not tell all"
        for group in (*self.merged, *self.large):
            if group.honest not in self.honest:
                self.honest[group.honest] = [self._module(content) for content in group.honest]
        for group in [*self.merged, *self.large] if thorough else self.merged[::WARMED]:
            self.path.write_bytes(group.content)
            worked = hostile_files.merges(self.path, self.honest[group.honest], self.into, compared=True)
            assert worked, "a good file cannot be merged"

    def _module(self, content):
        self.path.write_bytes(content)
        return load(self.path)

    def run(self, seed, case):
        """Whether what is in the file works."""
        kind = kind_of(case)
        if kind is Kind.TEXTS:
            return self.texts.run(seed, case)
        if kind is Kind.MERGES:
            return self._merges(seed, case)
        forged = case % 10 < 3 or kind is Kind.QUESTIONS
        change = hostile_files.forged if forged else hostile_files.mutated
        self.path.write_bytes(change(self.files, seed, case))
        return (hostile_files.answers if kind is Kind.FILES else hostile_files.tells_more)(self.path)

    def _merges(self, seed, case):
        rng = random.Random(f"{seed}/{case}/merge")
        few = case % 100 == FEW
        group = rng.choice(self.large if few and rng.random() < 0.2 else self.merged)
        change = hostile_files.mutated if rng.random() < 0.2 else hostile_files.forged
        self.path.write_bytes(change([group.content], seed, case))
        options = rng.choice(MODES) if rng.random() < 0.8 else rng.choice(SLOWER)
        honest = self.honest[group.honest]
        if "outputs" in options and honest[0].likelihood != "outputs":
            options = {}
        honest = honest[: rng.randrange(3)] if few else honest
        return hostile_files.merges(self.path, honest, self.into, compared=rng.random() < 0.2, **options)


def memory():
    """The most that this process has had since `forget_peak`, in MiB, where the system says so, else ever."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** (20 if sys.platform == "darwin" else 10)


def forget_peak():
    """From now on `memory` is of what comes."""
    if os.path.exists("/proc/self/clear_refs"):
        Path("/proc/self/clear_refs").write_text("5")

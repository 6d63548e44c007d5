"""Commands that should answer at once: as many times `python -c pass`, and which modules they import for it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

import recyclegp as rgp
from data import adjoining
from recyclegp.storage import signing

ROUNDS = 15
COUNT = (
    "import sys\nfrom recyclegp.cli import app\ntry:\n    app()\nfinally:\n    print(len(sys.modules), file=sys.stderr)"
)


class Command(NamedTuple):
    what: str
    arguments: tuple[str, ...]
    most: float  # times python -c pass
    imports: int


COMMANDS = (
    Command("--help", ("--help",), 3, 75),
    Command("--version", ("--version",), 3, 75),
    Command("fit --help", ("fit", "--help"), 3, 75),
    Command("inspect MODULE", ("inspect", "module.safetensors"), 5, 125),
    Command("inspect MODULE --json", ("inspect", "module.safetensors", "--json"), 5, 150),
    Command("inspect MODULE, signed", ("inspect", "signed.safetensors"), 5, 150),
    Command("inspect ENSEMBLE", ("inspect", "ensemble.safetensors"), 5, 150),
    Command("verify", ("verify", "signed.safetensors", "--trusted", "keys"), 5, 125),
    Command("modules DIR", ("modules", "wards"), 5, 125),
)
WITH_TORCH = Command("inspect ENSEMBLE --json", ("inspect", "ensemble.safetensors", "--json"), 300, 1900)  # imports


@contextmanager
def files() -> Iterator[Path]:
    """A folder with all that the commands read."""
    modules = list(rgp.fit_many(adjoining(3, 200, np.random.default_rng(0)), publish=24, progress=False))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        modules[0].save(folder / "module.safetensors")
        modules[1].save(folder / "signed.safetensors")
        (folder / "keys").mkdir()
        private, public = signing.make_keys(folder / "anna")
        public.rename(folder / "keys" / "anna.pub")
        file = folder / "signed.safetensors"
        signing.sign(file, signing.content_id(file), signing.private_key(private), 1)
        for module in modules:
            rgp.Dictionary(folder / "wards").add(module)
        rgp.merge(modules, learn=False).save(folder / "ensemble.safetensors")
        yield folder


def imported(command: Command, folder: Path) -> int:
    """Python modules that a command has loaded when it ends."""
    done = _run(["-c", COUNT, *command.arguments], folder)
    return int(done.stderr.split()[-1])


def times_of_python(commands: Sequence[Command], folder: Path, rounds: int = ROUNDS) -> list[float]:
    """By the time that processors have computed, of the best of several rounds in turn: others only ever add to it."""
    calls = [["-c", "pass"], *(["-m", "recyclegp", *command.arguments] for command in commands)]
    best = [float("inf")] * len(calls)
    for _ in range(rounds + 1):  # the first one also compiles what it imports
        for i, call in enumerate(calls):
            before = _computed()
            _run(call, folder)
            best[i] = min(best[i], _computed() - before)
    return [seconds / best[0] for seconds in best[1:]]


def _run(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """With what was compiled kept, as it is where a package is installed."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment = kept | {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "COLUMNS": "100"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)


def _computed() -> float:
    """Seconds of all processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime

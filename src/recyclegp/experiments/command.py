"""Running experiments for the command line: progress, warnings, and what is left in the folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import FewRowsWarning, LittleKeptWarning, RecycleGPError, RecycleGPWarning
from ..threads import using_threads
from .core import Outcome, Report, Settings
from .output import Result, write
from .registry import EXPERIMENTS, find


def execute(name: str, settings: Settings, folder: Path, threads: int, console: Console) -> Result:
    """One experiment from its data to its files."""
    experiment = find(name)
    total = None if experiment.steps is None else experiment.steps(settings)
    begun = time.perf_counter()
    with _bar(name, total, console) as report, using_threads(threads), _collected() as said:
        outcome = experiment.run(settings, report)
    outcome = Outcome(outcome.rows, outcome.figure, [*outcome.notes, *said])
    result = Result(name, EXPERIMENTS[name].title, settings, outcome, time.perf_counter() - begun, threads)
    write(result, folder)
    return result


def settings_for(name: str, full: bool, seeds: int | None, data_dir: Path | None, seed: int) -> Settings:
    """With as many seeds as this experiment averages, unless told."""
    if data_dir is not None and not data_dir.is_dir():
        raise RecycleGPError(f"--data-dir {data_dir}: there is no such directory")
    count = EXPERIMENTS[name].count(full) if seeds is None else seeds
    return Settings(full, count, data_dir, seed)


@contextmanager
def _bar(name: str, total: int | None, console: Console) -> Iterator[Report]:
    """A bar where somebody looks, else a line for each message."""
    if not console.is_terminal:
        yield lambda message: console.print(f"{name}: {message}", soft_wrap=True, highlight=False, markup=False)
        return
    columns = (
        TextColumn("[bold]{task.fields[name]}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("beginning", total=total, name=name)
        working = False

        def report(message: str) -> None:
            nonlocal working
            bar.update(task, description=message, advance=1 if working else 0)  # what was announced before is done
            working = True

        yield report


@contextmanager
def _collected() -> Iterator[list[str]]:
    """The library's own warnings, each once, as notes; other libraries' are not about this experiment.

    How many points modules publish, and of how many rows, is part of an experiment: nobody needs to be warned of it.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", LittleKeptWarning)
        warnings.simplefilter("ignore", FewRowsWarning)
        yield said
    words = [str(w.message) for w in caught if issubclass(w.category, RecycleGPWarning)]
    said += [f"{text} (warned {words.count(text)} times)" for text in dict.fromkeys(words)]

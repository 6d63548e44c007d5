"""Running experiments for the command line: progress, warnings, and what a run leaves behind.

That is a table on the screen, and the same as CSV, JSON and a figure in a folder.
"""

from __future__ import annotations

import itertools
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..errors import PublishingWarning, RecycleGPError, RecycleGPWarning, UncheckedWarning
from ..storage.atomic import replacing, write_atomically
from ..threads import using_threads
from ..version import __version__
from .core import Outcome, Report, Row, Settings
from .registry import EXPERIMENTS, MANY, find

CSV, JSON, FIGURE, KEPT = "results.csv", "results.json", "figure.png", "sets.jsonl"


class Result(NamedTuple):
    """A run with everything that is written of it."""

    name: str
    title: str
    settings: Settings
    outcome: Outcome
    seconds: float
    threads: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: numbers that are not known are null."""
        return {
            "experiment": self.name,
            "title": self.title,
            "version": __version__,
            "full": self.settings.full,
            "seeds": self.settings.seeds,
            "seed": self.settings.seed,
            "threads": self.threads,
            "seconds": round(self.seconds, 1),
            "rows": [{k: _known(v) for k, v in row._asdict().items()} for row in self.outcome.rows],
            "notes": self.outcome.notes,
            "figure": None if self.outcome.figure is None else FIGURE,
        }


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


class ManySets(NamedTuple):
    """What an experiment with many data sets may be told beside."""

    sets: str | None = None
    only: tuple[str, ...] = ()
    jobs: int = 1
    resume: bool = False


def settings_for(
    name: str,
    full: bool,
    seeds: int | None,
    data_dir: Path | None,
    seed: int,
    folder: Path,
    many: ManySets = ManySets(),  # noqa: B008 (a tuple)
) -> Settings:
    """With as many seeds as this experiment averages, unless told; `folder` is where its files go."""
    if name != MANY and many != ManySets():
        raise RecycleGPError(f"--sets, --only, --jobs and --resume are of the experiment {MANY}, not of {name}")
    if data_dir is not None and not data_dir.is_dir():
        raise RecycleGPError(f"--data-dir {data_dir}: there is no such directory")
    count = EXPERIMENTS[name].seeds[full] if seeds is None else seeds
    if name != MANY:
        return Settings(full, count, data_dir, seed)
    kept = folder / KEPT
    if not many.resume:
        kept.unlink(missing_ok=True)
    return Settings(full, count, data_dir, seed, many.sets, many.only, many.jobs, kept)


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

    How many points modules publish, of how many rows, and how little owners of adjoining regions know of each other, is
    part of an experiment: nobody needs to be warned of it.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for known in (PublishingWarning, UncheckedWarning):
            warnings.simplefilter("ignore", known)
        yield said
    words = [str(w.message) for w in caught if issubclass(w.category, RecycleGPWarning)]
    said += [f"{text} (warned {words.count(text)} times)" for text in dict.fromkeys(words)]


# --- what is left behind -----------------------------------------------------------------------


def write(result: Result, folder: Path) -> list[Path]:
    """Each file all or nothing, the JSON last: who finds it finds the others."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(result.to_dict()["rows"], columns=Row._fields)
    write_atomically(folder / CSV, table.to_csv(index=False, lineterminator="\n").encode())
    written = [folder / CSV]
    if result.outcome.figure is not None:
        with replacing(folder / FIGURE) as stream:
            result.outcome.figure.savefig(stream, format="png")
        written.append(folder / FIGURE)
    text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / JSON, text.encode())
    return [*written, folder / JSON]


def show(result: Result, folder: Path) -> None:
    """On the screen; where nobody looks the table is as wide as it needs to be."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table(result))
    for note in result.outcome.notes:
        console.print(f"· {note}", highlight=False, markup=False)
    console.print(f"{result.seconds:.0f} s; files in {folder}", soft_wrap=True, highlight=False, markup=False)


def table(result: Result) -> Table:
    """All rows, a section for each case; in bold the lowest NLPD of those who do not know the truth."""
    rows = result.outcome.rows
    on = "/".join(dict.fromkeys(row.on for row in rows))
    columns = [("NLPD", "nlpd", 4)]
    columns += [("± sd", "nlpd_sd", 4)] * any(row.seeds > 1 for row in rows)
    columns += [(f"RMSE of {on}", "rmse", 4), (f"MAE of {on}", "mae", 4), ("95%", "coverage", 3)]
    columns += [("errors", "error", 4)] * any(math.isfinite(row.error) for row in rows)
    columns += [("fit s", "fit_seconds", 2), ("predict s", "predict_seconds", 2), ("bytes", "bytes", 0)]
    size = "full" if result.settings.full else "quick"
    made = Table(title=f"{result.name} ({size}): {result.title}", title_justify="left")
    for title in ("case", "model"):
        made.add_column(title, no_wrap=True)
    for title in (*(title for title, *_ in columns), "M"):
        made.add_column(title, justify="right", no_wrap=True)
    made.add_column("note", overflow="fold")
    for case, some in itertools.groupby(rows, lambda row: row.case):
        made.add_section()
        for k, row in enumerate(some):
            shown = [number(getattr(row, name), digits) for _, name, digits in columns]
            points, style = "" if row.points is None else str(row.points), "bold" if row is best(rows, case) else None
            made.add_row(case * (k == 0), row.model, *shown, points, row.note, style=style)
    return made


def best(rows: Sequence[Row], case: str) -> Row | None:
    """The lowest NLPD of a case; the oracle does not compete."""
    known = [r for r in rows if r.case == case and math.isfinite(r.nlpd) and r.model != "oracle"]
    return min(known, key=lambda r: r.nlpd, default=None)


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–"

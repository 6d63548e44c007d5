"""Running experiments for the command line: progress, warnings, and what a run leaves behind.

That is a table on the screen, and the same as CSV, JSON and a figure in a folder.
"""

from __future__ import annotations

import csv
import io
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..errors import FewRowsWarning, LittleKeptWarning, RecycleGPError, RecycleGPWarning
from ..storage.atomic import replacing, write_atomically
from ..threads import using_threads
from ..version import __version__
from .core import Outcome, Report, Row, Settings
from .registry import EXPERIMENTS, find

CSV, JSON, FIGURE = "results.csv", "results.json", "figure.png"


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


def settings_for(name: str, full: bool, seeds: int | None, data_dir: Path | None, seed: int) -> Settings:
    """With as many seeds as this experiment averages, unless told."""
    if data_dir is not None and not data_dir.is_dir():
        raise RecycleGPError(f"--data-dir {data_dir}: there is no such directory")
    count = EXPERIMENTS[name].seeds[full] if seeds is None else seeds
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


# --- what is left behind -----------------------------------------------------------------------


def write(result: Result, folder: Path) -> list[Path]:
    """Each file all or nothing, the JSON last: who finds it finds the others."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / CSV, as_csv(result.outcome.rows).encode())
    written = [folder / CSV]
    if result.outcome.figure is not None:
        with replacing(folder / FIGURE) as stream:
            result.outcome.figure.savefig(stream, format="png")
        written.append(folder / FIGURE)
    text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / JSON, text.encode())
    return [*written, folder / JSON]


def as_csv(rows: Sequence[Row]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(Row._fields)
    for row in rows:
        writer.writerow("" if value is None or _known(value) is None else value for value in row)
    return stream.getvalue()


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
    size = "full" if result.settings.full else "quick"
    on = "/".join(dict.fromkeys(row.on for row in rows))
    made = Table(title=f"{result.name} ({size}): {result.title}", title_justify="left")
    made.add_column("case", no_wrap=True)
    made.add_column("model", no_wrap=True)
    several = any(row.seeds > 1 for row in rows)
    classes = any(math.isfinite(row.error) for row in rows)
    numbers = ["NLPD", *(["± sd"] if several else []), f"RMSE of {on}", f"MAE of {on}", "95%"]
    numbers += [*(["errors"] if classes else []), "fit s", "predict s", "bytes", "M"]
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("note", overflow="fold")
    last = None
    for row in rows:
        if last not in (None, row.case):
            made.add_section()
        shown = [row.case if row.case != last else "", row.model, number(row.nlpd, 4)]
        shown += [number(row.nlpd_sd, 4)] if several else []
        shown += [number(row.rmse, 4), number(row.mae, 4), number(row.coverage, 3)]
        shown += [number(row.error, 4)] if classes else []
        shown += [number(row.fit_seconds, 2), number(row.predict_seconds, 2), number(row.bytes, 0)]
        shown += ["" if row.points is None else str(row.points), row.note]
        made.add_row(*shown, style="bold" if row is best(rows, row.case) else None)
        last = row.case
    return made


def best(rows: Sequence[Row], case: str) -> Row | None:
    """The lowest NLPD of a case; the oracle does not compete."""
    known = [r for r in rows if r.case == case and math.isfinite(r.nlpd) and r.model != "oracle"]
    return min(known, key=lambda r: r.nlpd, default=None)


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–"

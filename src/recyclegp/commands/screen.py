"""Where commands talk: results on standard output, everything else on standard error.

rich is imported where something is drawn, so that commands which draw nothing start at once.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import typer

from ..errors import printable
from ..threads import using_threads

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

WIDTH_OF_PIPES = 10_000  # characters: where no terminal limits it, a row of a table is one line


class Advance(Protocol):
    """Report progress: how much is done in all (`to`), or how much more (`by`)."""

    def __call__(self, *, to: float | None = None, by: float = 0.0) -> None: ...


@dataclass(frozen=True)
class Screen:
    quiet: bool
    as_json: bool = False

    @property
    def notes(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, quiet=self.quiet or self.as_json)

    def note(self, text: str) -> None:
        self.notes.print(printable(text), soft_wrap=True, highlight=False, markup=False)

    def result(self, facts: Any, words: Callable[[], None]) -> None:
        """Print what the command has found out: as JSON, or in words."""
        if self.as_json:
            text = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False)
            typer.echo(text.encode(errors="backslashreplace").decode())  # file names may hold halves of characters
        elif not self.quiet:
            words()

    @contextmanager
    def bar(self, text: str, total: float | None = None) -> Iterator[Advance]:
        """A progress bar, if standard error is a terminal."""
        with self._progress() as progress:
            yield _advance(progress, progress.add_task(text, total=total))

    @contextmanager
    def working(self, text: str, threads: int = 1, total: float | None = None) -> Iterator[Advance]:
        """A progress bar for work of the library, with so many threads; it shows what the library logs."""
        with self._progress() as progress:
            task = progress.add_task(text, total=total)
            with _showing_log(progress, task, text), using_threads(threads):
                yield _advance(progress, task)

    def _progress(self) -> Progress:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = self.notes
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _advance(progress: Progress, task: TaskID) -> Advance:
    def advance(*, to: float | None = None, by: float = 0.0) -> None:
        progress.update(task, completed=to, advance=None if to is not None else by)

    return advance


@contextmanager
def _showing_log(progress: Progress, task: TaskID, text: str) -> Iterator[None]:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            progress.update(task, description=f"{text}: {record.getMessage()}")

    logger, handler = logging.getLogger("recyclegp"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def plain_table(*columns: str, folded: int) -> Table:
    """A table without lines. Where it is too wide its first columns are folded; nothing is cut."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=i >= folded, min_width=9 if i < folded else None)
    return table


def show(table: Table) -> None:
    """Print a table; into a file or a pipe as wide as it is. Brackets in a cell are brackets: names hold anything."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH_OF_PIPES
    Console(width=width, markup=False, emoji=False).print(table)


def say(lines: dict[str, str]) -> None:
    """Print facts, one on each line, which is not wrapped, so that it can be searched."""
    width = max(map(len, lines)) + 2
    for label, text in lines.items():
        typer.echo(typer.style(label.ljust(width), bold=True) + printable(text))

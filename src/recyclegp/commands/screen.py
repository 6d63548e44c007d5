"""Where commands talk: results on standard output, everything else on standard error.

What draws (rich), and what is for work that takes long, is imported where it is needed: commands that print a few lines
start at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

from ..errors import printable
from .lines import Table, wrapped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

WIDTH = 80  # of a terminal that does not say how wide it is


class Advance(Protocol):
    """Report progress: how much is done in all (`to`), or how much more (`by`)."""

    def __call__(self, *, to: float | None = None, by: float = 0.0) -> None: ...


class Screen(NamedTuple):
    quiet: bool
    as_json: bool = False
    verbose: bool = False

    def note(self, text: str) -> None:
        if not (self.quiet or self.as_json):
            put(printable(text), sys.stderr)

    def result(self, facts: Any, words: Callable[[], None]) -> None:
        """Print what the command has found out: as JSON, or in words."""
        if self.as_json:
            import json

            text = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False)
            put(text.encode(errors="backslashreplace").decode())  # file names may hold halves of characters
        elif not self.quiet:
            words()

    @contextmanager
    def bar(self, text: str, total: float | None = None) -> Iterator[Advance]:
        """A progress bar, if standard error is a terminal."""
        if not self._is_watched:
            yield _unseen
            return
        with _progress() as progress:
            yield _advance(progress, progress.add_task(text, total=total))

    @contextmanager
    def working(self, text: str, threads: int = 1, total: float | None = None) -> Iterator[Advance]:
        """Work of the library, with so many threads: a progress bar that shows what the library logs, or lines."""
        from ..threads import using_threads
        from .telling import Telling, listening

        with using_threads(threads):
            if self.verbose and not self.quiet:
                telling = Telling(text, total)
                with listening(telling.line):
                    yield telling.advance
                telling.line("done")
                return
            if not self._is_watched:
                yield _unseen
                return
            with _progress() as progress:
                task = progress.add_task(text, total=total)
                with listening(lambda message: progress.update(task, description=f"{text}: {message}")):
                    yield _advance(progress, task)

    @contextmanager
    def telling(self, text: str) -> Iterator[None]:
        """What has progress of its own, or none: --verbose adds what the library logs meanwhile, in lines."""
        if not self.verbose or self.quiet:
            yield
            return
        with self.working(text):
            yield

    @property
    def _is_watched(self) -> bool:
        return not (self.quiet or self.as_json) and sys.stderr.isatty()


def _unseen(*, to: float | None = None, by: float = 0.0) -> None:
    """Nobody is looking."""


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _advance(progress: Progress, task: TaskID) -> Advance:
    def advance(*, to: float | None = None, by: float = 0.0) -> None:
        progress.update(task, completed=to, advance=None if to is not None else by)

    return advance


# --- text ---------------------------------------------------------------------------------------


def put(text: str, stream: TextIO | None = None) -> None:
    """A line at once, so that what goes to two streams stays in its order where both end up in one."""
    print(text, file=stream, flush=True)


def plain_table(*columns: str, folded: int) -> Table:
    """A table without lines. Where it is too wide its first columns are folded; nothing is cut."""
    return Table(columns, folded)


def show(table: Table) -> None:
    """Print a table; into a file or a pipe as wide as it is."""
    first, *rows = table.lines(_width(sys.stdout))
    put("\n".join([_bold(first, sys.stdout), *rows]))


def say(lines: dict[str, str], stream: TextIO | None = None) -> None:
    """Print facts, wrapped on a terminal; elsewhere one on each line, so that it can be searched."""
    where = stream or sys.stdout
    indent = max(map(len, lines)) + 2
    for label, text in lines.items():
        first, *more = wrapped(printable(text), _width(where), indent)
        put("\n".join([_bold(label.ljust(indent), where) + first, *(" " * indent + line for line in more)]), where)


def _width(stream: TextIO) -> int | None:
    """In characters; None where no terminal limits it."""
    if not stream.isatty():
        return None
    import shutil

    return shutil.get_terminal_size((WIDTH, 24)).columns


def _bold(text: str, stream: TextIO) -> str:
    return f"\033[1m{text}\033[0m" if stream.isatty() and sys.platform != "win32" else text

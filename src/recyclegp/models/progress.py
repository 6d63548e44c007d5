"""A progress bar on standard error, where somebody may be looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(text: str, total: int | None, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """A bar that is told how much more is done, or nothing; by default only on a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=sys.stderr.isatty()) as progress:
        task = progress.add_task(text, total=total)
        yield lambda count: progress.advance(task, count)

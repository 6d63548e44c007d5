"""What is being done, said line by line: for --verbose, where no bar can be seen or is enough."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..errors import printable

BETWEEN = 2.0  # seconds between two lines about how much is done


@contextmanager
def listening(hear: Callable[[str], None], least: int = logging.DEBUG) -> Iterator[None]:
    """Everything that the library logs meanwhile, from this level on."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            hear(record.getMessage())

    logger, handler = logging.getLogger("recyclegp"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(least)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def warned() -> Iterator[None]:
    """What the library warns of, with date and time: by a program that runs for days."""

    def say(message: str) -> None:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {printable(message)}", file=sys.stderr, flush=True)

    with listening(say, logging.WARNING):
        yield


class Telling:
    """Lines on standard error, each with the seconds since the work began."""

    def __init__(self, text: str, total: float | None) -> None:
        self.text, self.total = text, total
        self.begun = self.told = time.monotonic()
        self.done = 0.0
        self.line("begins")

    def line(self, message: str) -> None:
        seconds = time.monotonic() - self.begun
        print(f"{seconds:8.1f} s  {self.text}: {printable(message)}", file=sys.stderr, flush=True)

    def advance(self, *, to: float | None = None, by: float = 0.0) -> None:
        """How much is done, now and then."""
        self.done = self.done + by if to is None else to
        now = time.monotonic()
        if now - self.told >= BETWEEN:
            self.told = now
            self.line(f"{self.done:,.0f}" + ("" if self.total is None else f" of {self.total:,.0f}"))

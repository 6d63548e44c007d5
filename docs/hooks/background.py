"""Commands of a page that wait for others: processes of their own, which go on while the page is run.

A server is waited for until it has said that Ctrl-C ends it. When the page has ended, servers are ended; all others
must have come to their end by themselves, and well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

PROGRAM = "from recyclegp.cli import app; app()"
SERVERS = ("hub", "serve")
READY = "Ctrl-C ends it"
PATIENCE = 240.0  # seconds, on a busy machine
POLL = 0.1


class Command:
    """One that was started here and now."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        self._log: IO[Any] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        quiet = {**os.environ, "OMP_NUM_THREADS": "1", "BROWSER": "true"}  # no browser is opened
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=quiet,
        )

    @property
    def serves(self) -> bool:
        return self.arguments[0] in SERVERS

    @property
    def said(self) -> str:
        self._log.seek(0)
        return str(self._log.read())

    def wait(self) -> None:
        """Until it can be used, or has done what it is for."""
        self._until(lambda: self.serves and READY in self.said)
        if self._process.returncode:
            raise RuntimeError(f"{self} ends with {self._process.returncode}: {self.said}")

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _until(self, ready: Any) -> None:
        end = time.monotonic() + PATIENCE
        while self._process.poll() is None and not ready():
            if time.monotonic() > end:
                raise RuntimeError(f"{self} goes on after {PATIENCE:.0f} s: {self.said}")
            time.sleep(POLL)
        if self.serves and self._process.poll() is not None:
            raise RuntimeError(f"{self} has ended: {self.said}")

    def __str__(self) -> str:
        return f"`recyclegp {' '.join(self.arguments)}`"


class Background:
    """All those of a page."""

    def __init__(self) -> None:
        self._started: list[Command] = []

    def start(self, arguments: Sequence[str]) -> str:
        """What a server says of itself; nothing of others, who have only begun."""
        command = Command(arguments)
        self._started.append(command)
        if not command.serves:
            return ""
        command.wait()
        return command.said

    def wait(self) -> None:
        """For all but servers."""
        for command in self._started:
            if not command.serves:
                command.wait()

    def end(self) -> None:
        """Of servers, and of whatever is left after an error."""
        while self._started:
            self._started.pop().end()

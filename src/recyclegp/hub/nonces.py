"""Which requests have been seen: nonces, kept for as long as the clock would let them pass, also across a restart."""

from __future__ import annotations

import heapq
import os
import threading
from contextlib import suppress
from pathlib import Path

from ..storage.atomic import write_atomically
from .protocol import WINDOW, RefusedError, Signed

MOST = 500_000  # remembered at once; limits on requests keep honest owners far below
REWRITTEN = 100_000  # lines of the file beyond which what has expired is dropped


class Nonces:
    """Each nonce of a key passes once. Only signatures that have been verified are asked about."""

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}  # nonce and key → when it may be forgotten
        self._order: list[tuple[float, str]] = []
        self._lines = 0
        self._file: int | None = None
        if path.exists():
            for line in path.read_text("ascii", errors="replace").splitlines():
                until, _, what = line.partition(" ")
                if until.isdecimal() and len(what) == 32 + 16 and int(until) >= now:
                    self._remember(what, float(until))
        self._rewrite()

    def once(self, said: Signed, now: float) -> None:
        """Remembered on disk before anything is done about the request.

        Raises:
            RefusedError: It has been used.
        """
        what, until = said.nonce + said.key.hex()[:16], float(said.time + WINDOW + 1)
        with self._lock:
            while self._order and self._order[0][0] < now:
                self._seen.pop(heapq.heappop(self._order)[1], None)
            if what in self._seen:
                raise RefusedError("this request has been made before; every request needs a nonce of its own", 409)
            if len(self._seen) >= MOST:
                raise RefusedError("too many requests within the last minutes; try again later", 429)
            self._remember(what, until)
            if self._file is None or self._lines > REWRITTEN + 2 * len(self._seen):
                self._rewrite()
            else:
                self._add(self._file, f"{int(until)} {what}\n".encode())

    def _remember(self, what: str, until: float) -> None:
        self._seen[what] = until
        heapq.heappush(self._order, (until, what))

    def _rewrite(self) -> None:
        lines = "".join(f"{int(until)} {what}\n" for what, until in self._seen.items())
        self.close()
        write_atomically(self._path, lines.encode())
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._lines = len(self._seen)

    def _add(self, file: int, line: bytes) -> None:
        """A disk that is full may take half of it; then all of them are written anew with the next one."""
        try:
            while line:
                line = line[os.write(file, line) :]
        except OSError:
            self.close()
            raise
        self._lines += 1

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)

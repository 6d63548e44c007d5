"""What has happened, in order: lines of JSON, each with the hash of the one before, so that none can be changed alone.

    hash_n = SHA-256(hash_{n−1} ‖ canonical JSON of entry n)

Whoever has the last hash (receipts have it) can tell whether anything before it was changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import RecycleGPError
from ..storage import strict_json

START = "0" * 64


class Audit:
    """An append-only log. A line that was cut short by a crash was never acknowledged, and is moved aside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self.head, self.entries, good = START, 0, 0
        if path.exists():
            self.head, self.entries, good = _checked(path)
            if good < path.stat().st_size:
                self._cut(good)
        self._stream = open(path, "ab")  # noqa: SIM115  open as long as the hub is

    def append(self, event: str, **details: Any) -> str:
        """On disk when this returns; gives the new head."""
        with self._lock:
            entry = {"n": self.entries, "time": round(time.time(), 3), "event": event, **details}
            head = _hashed(self.head, entry)
            line = json.dumps({**entry, "hash": head}, ensure_ascii=True, allow_nan=False) + "\n"
            try:
                self._stream.write(line.encode())
                self._stream.flush()
                os.fsync(self._stream.fileno())
            except OSError:  # a full disk: half a line may be there, which must not stand before the next
                good = _checked(self.path)[2]
                self._stream.close()
                self._cut(good)
                self._stream = open(self.path, "ab")  # noqa: SIM115
                raise
            self.head, self.entries = head, self.entries + 1
            return head

    def read(self) -> bytes:
        return self.path.read_bytes()

    def close(self) -> None:
        self._stream.close()

    def _cut(self, good: int) -> None:
        with open(self.path, "r+b") as stream:
            stream.seek(good)
            rest = stream.read()
            with open(self.path.with_name(self.path.name + ".torn"), "ab") as aside:
                aside.write(rest + b"\n")
            stream.truncate(good)


def verify(path: Path) -> int:
    """How many entries a log has that follow one another.

    Raises:
        RecycleGPError: A line has been changed, taken out, or cut short.
    """
    _, entries, good = _checked(path)
    if good < path.stat().st_size:
        raise RecycleGPError(f"{path}: its last line is cut short; ask for the log again")
    return entries


def entries(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        yield json.loads(line)


def _hashed(previous: str, entry: dict[str, Any]) -> str:
    canonical = json.dumps(entry, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(previous.encode() + canonical.encode()).hexdigest()


def _checked(path: Path) -> tuple[str, int, int]:
    """The last hash, how many entries, and how many bytes they take; what is behind them is half a line."""
    head, count, good = START, 0, 0
    with open(path, "rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break
            try:
                entry = strict_json.parsed(line.decode())
                found = entry.pop("hash")
                fits = entry["n"] == count and found == _hashed(head, entry)
            except (ValueError, KeyError, TypeError, AttributeError):
                fits = False
            if not fits:
                raise RecycleGPError(
                    f"{path}: entry {count} does not follow the one before: the log has been changed; compare it with "
                    "a copy, and start with another one"
                )
            head, count, good = found, count + 1, good + len(line)
    return head, count, good

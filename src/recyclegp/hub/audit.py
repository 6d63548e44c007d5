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
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..logs import logger
from ..storage import strict_json

START = "0" * 64
SAID = ("by", "whom", "name", "names", "kind", "why")  # of an entry, where somebody follows what happens
log = logger(__name__)
CAME, WENT, EXPELLED, ANSWERED = ("uploaded", "replaced"), ("withdrew", "left"), "expelled", "answered"


class Spent(NamedTuple):
    """Of a guarantee: differential privacy of what an owner has sent."""

    epsilon: float
    delta: float


class Audit:
    """An append-only log. A line that was cut short by a crash was never acknowledged, and is moved aside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        checked = _checked(path) if path.exists() else _Checked(START, 0, 0, Followed())
        self.head, self.entries, self._size, self.followed = checked
        self._file: int | None = None
        self._keep_aside()
        self._open()

    def append(self, event: str, **details: Any) -> str:
        """On disk when this returns; gives the new head. After an error nothing of it is there."""
        with self._lock:
            entry = {"n": self.entries, "time": round(time.time(), 3), "event": event, **details}
            head = _hashed(self.head, entry)
            line = (json.dumps({**entry, "hash": head}, ensure_ascii=True, allow_nan=False) + "\n").encode()
            file = self._open() if self._file is None else self._file
            try:
                rest = line
                while rest:
                    rest = rest[os.write(file, rest) :]
                os.fsync(file)
            except OSError:  # a full disk: half a line may be there, which must not stand before the next
                self._close()
                with suppress(OSError):  # what cannot be mended now is mended before the next line
                    self._open()
                raise
            self.head, self.entries, self._size = head, self.entries + 1, self._size + len(line)
            self.followed.take(entry)
            log.info("%s: %s", event, ", ".join(str(details[k]) for k in SAID if details.get(k)) or "done")
            return head

    def read(self) -> bytes:
        with self._lock, open(self.path, "rb") as stream:
            return stream.read(self._size)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _open(self) -> int:
        """With nothing behind what was acknowledged."""
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.ftruncate(file, self._size)
        except OSError:
            os.close(file)
            raise
        self._file = file
        return file

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)

    def _keep_aside(self) -> None:
        """What a crash has cut short, for people; a disk that is full has no room for it."""
        if self.path.exists() and self._size < self.path.stat().st_size:
            with open(self.path, "rb") as stream, suppress(OSError):
                stream.seek(self._size)
                with open(self.path.with_name(self.path.name + ".torn"), "ab") as aside:
                    aside.write(stream.read() + b"\n")


def verify(path: Path) -> int:
    """How many entries a log has that follow one another.

    Raises:
        RecycleGPError: A line has been changed, taken out, or cut short.
    """
    checked = _checked(path)
    if checked.size < path.stat().st_size:
        raise RecycleGPError(f"{path}: its last line is cut short; ask for the log again")
    return checked.entries


def entries(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        yield json.loads(line)


def _hashed(previous: str, entry: dict[str, Any]) -> str:
    canonical = json.dumps(entry, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(previous.encode() + canonical.encode()).hexdigest()


class Followed:
    """What follows from the entries so far."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}  # name → content id, of those that have come, and have not been withdrawn
        self._spent: dict[str, dict[str, Spent]] = {}  # name → by digest: an answer that comes again costs no more

    def spent(self, name: str) -> Spent | None:
        """ε and δ of all private answers that this owner has sent, added up; they are about the same rows."""
        each = self._spent.get(name, {}).values()
        return Spent(sum(s.epsilon for s in each), sum(s.delta for s in each)) if each else None

    def take(self, entry: dict[str, Any]) -> None:
        event = entry["event"]
        if event in CAME:
            self.modules[str(entry["by"])] = str(entry["module"])
        elif event in WENT:
            self.modules.pop(str(entry["by"]), None)
        elif event == EXPELLED:
            self.modules.pop(str(entry["whom"]), None)
        elif event == ANSWERED and (private := entry.get("private")):
            one = Spent(float(private["epsilon"]), float(private["delta"]))
            self._spent.setdefault(str(entry["by"]), {})[str(entry.get("answer") or entry["message"])] = one


class _Checked(NamedTuple):
    """What a log says; what is behind that is half a line."""

    head: str  # the last hash
    entries: int
    size: int  # bytes
    followed: Followed


def _checked(path: Path) -> _Checked:
    head, count, good, followed = START, 0, 0, Followed()
    with open(path, "rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break
            try:
                entry = strict_json.parsed(line.decode())
                found = entry.pop("hash")
                fits = entry["n"] == count and found == _hashed(head, entry)
                followed.take(entry)
            except (ValueError, KeyError, TypeError, AttributeError):
                fits = False
            if not fits:
                raise RecycleGPError(
                    f"{path}: entry {count} does not follow the one before: the log has been changed; compare it with "
                    "a copy, and start with another one"
                )
            head, count, good = found, count + 1, good + len(line)
    return _Checked(head, count, good, followed)

"""Where a dictionary lies: numbered events, each with the module that came with it. No locks, no links, no clocks.

    DIR/events/0000000013/event.json            one event: who came, was replaced, or was removed
    DIR/events/0000000013/ward-7.safetensors    the module that came with it
    DIR/partial/                                what is being written

An event is written into a folder of its own under `partial`, with its module, and made durable there. Then that folder
is renamed to its number. A folder cannot be renamed onto one that is not empty, so of two writers who want a number one
gets it, whole, and the other one hears so and takes the next: what is numbered is complete, and never changes but that
the module goes when a later event has replaced or removed it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ..errors import RecycleGPError
from .events import LARGEST

EVENTS, PARTIAL, EVENT = "events", "partial", "event.json"
NUMBER = re.compile(r"[0-9]{10}")
LEFT_FOR = 3600.0  # seconds: what is being written for longer was left by a writer that was killed
NOT_OF_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR}
TAKEN = {errno.ENOTEMPTY, errno.EEXIST}


class Prepared(Protocol):
    """An event that is durable, but has no number yet."""

    def publish(self, number: int) -> bool:
        """Let it be the event of this number; False where there is another one."""

    def discard(self) -> None:
        """Nothing is left of it, unless it was published."""


class EventStore(Protocol):
    """What a dictionary asks of the place where it lies."""

    @property
    def index(self) -> Path | None:
        """Where the index may be kept; None where it cannot."""

    def numbers(self) -> list[int]:
        """Of all events, in order."""

    def event(self, number: int) -> str | None:
        """The text of an event; None where there is none."""

    def module(self, number: int, identity: str, file: str) -> bytes:
        """The bytes of the module that came with an event."""

    def prepare(self, identity: str, event: str, file: str | None, content: bytes | None) -> Prepared:
        """Write an event, and its module."""

    def drop(self, number: int, identity: str, file: str) -> None:
        """The module of an event goes."""


def folder(number: int) -> str:
    return f"{number:010d}"


class LocalStore:
    """A folder of a file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events = root / EVENTS

    @property
    def index(self) -> Path | None:
        return self.root / "index.sqlite" if self.events.is_dir() else None

    def numbers(self) -> list[int]:
        try:
            return sorted(int(e.name) for e in os.scandir(self.events) if NUMBER.fullmatch(e.name))
        except FileNotFoundError:
            return []

    def event(self, number: int) -> str | None:
        try:
            with open(self.events / folder(number) / EVENT, "rb") as stream:
                return _decoded(stream.read(LARGEST + 1), number)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def module(self, number: int, identity: str, file: str) -> bytes:
        return (self.events / folder(number) / file).read_bytes()

    def prepare(self, identity: str, event: str, file: str | None, content: bytes | None) -> Prepared:
        partial = self.root / PARTIAL
        for place in (self.events, partial):
            _make_folder(place)
        prepared = LocalPrepared(partial / f"{uuid.uuid4().hex}", self.events)
        try:
            prepared.place.mkdir()
            if file is not None and content is not None:
                _write(prepared.place / file, content)
            _write(prepared.place / EVENT, event.encode())
            sync_folder(prepared.place)
        except BaseException:
            prepared.discard()
            raise
        _clean(partial, prepared.place)
        return prepared

    def drop(self, number: int, identity: str, file: str) -> None:
        (self.events / folder(number) / file).unlink(missing_ok=True)


class LocalPrepared:
    def __init__(self, place: Path, events: Path) -> None:
        self.place, self.events = place, events

    def publish(self, number: int) -> bool:
        try:
            os.rename(self.place, self.events / folder(number))
        except OSError as taken:
            if taken.errno in TAKEN:
                return False
            raise
        sync_folder(self.events)
        return True

    def discard(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


def _decoded(content: bytes, number: int) -> str:
    if len(content) > LARGEST:
        raise RecycleGPError(f"event {number} is larger than recyclegp writes them; restore it from a copy")
    return content.decode("utf-8", "replace")


def _make_folder(place: Path) -> None:
    """With those above it, durable."""
    if place.is_dir():
        return
    _make_folder(place.parent)
    with contextlib.suppress(FileExistsError):
        place.mkdir()
    sync_folder(place.parent)


def _write(target: Path, content: bytes) -> None:
    with open(target, "xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(place: Path) -> None:
    """Names, too, survive a power cut; where folders cannot be synced the system has its own way."""
    try:
        handle = os.open(place, os.O_RDONLY)
    except OSError as not_possible:
        if not_possible.errno in NOT_OF_FOLDERS:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as not_possible:
        if not_possible.errno not in NOT_OF_FOLDERS:
            raise
    finally:
        os.close(handle)


def _clean(partial: Path, own: Path) -> None:
    """What killed writers have left goes; ages are by the clock of the file system alone.

    A folder is renamed before it is emptied: a writer that lives all the same can then not publish half of it, but is
    told that it is gone.
    """
    with contextlib.suppress(OSError):
        now = own.stat().st_mtime
        for entry in _old(partial, now):
            trash = partial / f"{uuid.uuid4().hex}"
            with contextlib.suppress(OSError):
                os.rename(entry, trash)
                shutil.rmtree(trash, ignore_errors=True)


def _old(partial: Path, now: float) -> Iterator[Path]:
    for entry in os.scandir(partial):
        if now - entry.stat().st_mtime > LEFT_FOR:
            yield Path(entry.path)

"""Where a dictionary lies: numbered events, each with the module that came with it.

    DIR/events/0000000013/event.json            who came, was replaced, or was removed: it stays for ever
    DIR/events/0000000013/ward-7.safetensors    the module that came, until a later event replaces or removes it
    DIR/events/0000000013/entry.json            the same in short, for lists
    DIR/partial/                                what is being written
    DIR/index.sqlite                            all entries in one file; made again whenever it is not there

An event and its module are written into a folder of their own under `partial`, and made durable there. Then that folder
is renamed to its number. A folder cannot be renamed onto one that is not empty, so of two writers who want a number one
gets it, whole, and the other one hears so and takes the next. It takes no locks, no links and no clocks, and whatever
has a number is complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from .atomic import write_atomically
from .events import LARGEST

EVENTS, PARTIAL, EVENT, ENTRY, INDEX = "events", "partial", "event.json", "entry.json", "index.sqlite"
NUMBER = re.compile(r"[0-9]{10}")
LEFT_FOR = 3600.0  # seconds: what is being written for longer was left by a writer that was killed
NOT_OF_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR}
TAKEN = {errno.ENOTEMPTY, errno.EEXIST}

Files = Mapping[str, bytes]  # by their names


class Prepared(Protocol):
    """An event that is written, but has no number yet."""

    def publish(self, number: int) -> bool:
        """Let it be the event of this number, durably; False where that is taken."""

    def discard(self) -> None:
        """Nothing is left of it, unless it was published."""


class EventStore(Protocol):
    """What a dictionary asks of the place where it lies. `identity` is that of an event, `file` a name."""

    readers: int  # how many files are best read at once

    def numbers(self) -> list[int]:
        """Of all events, in their order."""

    def event(self, number: int) -> str | None:
        """The text of an event; None where there is none of this number."""

    def read(self, number: int, identity: str, file: str) -> bytes:
        """What came with an event; FileNotFoundError where it has gone."""

    def modules(self, number: int) -> list[str]:
        """Files of modules beside an event, for one that cannot be read."""

    def prepare(self, identity: str, event: str, files: Files) -> Prepared:
        """Write an event, and what comes with it."""

    def drop(self, number: int, identity: str, file: str) -> None:
        """What came with an event goes."""

    def sync(self) -> None:
        """All that was published is durable afterwards."""

    def read_index(self) -> bytes | None: ...

    def write_index(self, content: bytes) -> None: ...


def folder(number: int) -> str:
    return f"{number:010d}"


def as_text(content: bytes) -> str:
    """Of a file of JSON; what is too long to be one of ours is no JSON either."""
    return content.decode("utf-8", "replace") if len(content) <= LARGEST else ""


class LocalStore:
    """In a folder of a file system."""

    readers = 1

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events = root / EVENTS

    def place(self, number: int) -> Path:
        return self.events / folder(number)

    def numbers(self) -> list[int]:
        try:
            with os.scandir(self.events) as found:
                return sorted(int(e.name) for e in found if NUMBER.fullmatch(e.name))
        except FileNotFoundError:
            return []

    def event(self, number: int) -> str | None:
        place = self.place(number)
        for _ in range(2):  # it may come between the two looks, and then it is whole
            try:
                with open(place / EVENT, "rb") as stream:
                    return as_text(stream.read(LARGEST + 1))
            except FileNotFoundError:
                if not place.exists():
                    return None
        return ""  # somebody has removed what is never removed

    def read(self, number: int, identity: str, file: str) -> bytes:
        with open(self.place(number) / file, "rb") as stream:
            return stream.read()

    def modules(self, number: int) -> list[str]:
        return sorted(path.name for path in self.place(number).glob("*.safetensors"))

    def prepare(self, identity: str, event: str, files: Files) -> Prepared:
        partial = self.root / PARTIAL
        for place in (self.events, partial):
            _make_folder(place)
        prepared = LocalPrepared(partial / identity, self.events)
        try:
            prepared.place.mkdir()
            for name, content in {**files, EVENT: event.encode()}.items():  # an entry can be made again of its module
                _write(prepared.place / name, content, durable=name != ENTRY)
            sync_folder(prepared.place)
        except BaseException:
            prepared.discard()
            raise
        _clean(partial, prepared.place)
        return prepared

    def drop(self, number: int, identity: str, file: str) -> None:
        for name in (file, ENTRY):
            (self.place(number) / name).unlink(missing_ok=True)

    def sync(self) -> None:
        sync_folder(self.events)

    def read_index(self) -> bytes | None:
        try:
            return (self.root / INDEX).read_bytes()
        except OSError:
            return None

    def write_index(self, content: bytes) -> None:
        if self.events.is_dir():
            with contextlib.suppress(OSError):  # a disk that is full or read-only: then the index is in memory only
                write_atomically(self.root / INDEX, content)


class LocalPrepared:
    def __init__(self, place: Path, events: Path) -> None:
        self.place, self.events = place, events

    def publish(self, number: int) -> bool:
        try:
            os.rename(self.place, self.events / folder(number))
        except OSError as refused:
            if refused.errno in TAKEN:
                return False
            raise
        sync_folder(self.events)
        return True

    def discard(self) -> None:
        _remove(self.place)


def _make_folder(place: Path) -> None:
    """With those above it, durable."""
    if place.is_dir():
        return
    _make_folder(place.parent)
    with contextlib.suppress(FileExistsError):
        place.mkdir()
    sync_folder(place.parent)


def _write(target: Path, content: bytes, *, durable: bool) -> None:
    with open(target, "xb") as stream:
        stream.write(content)
        stream.flush()
        if durable:
            os.fsync(stream.fileno())


def sync_folder(place: Path) -> None:
    """Names, too, survive a power cut; where folders cannot be synced the system has its own way."""
    try:
        handle = os.open(place, os.O_RDONLY)
    except OSError as refused:
        if refused.errno in NOT_OF_FOLDERS:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as refused:
        if refused.errno not in NOT_OF_FOLDERS:
            raise
    finally:
        os.close(handle)


def _clean(partial: Path, own: Path) -> None:
    """What killed writers have left goes. Ages are by the clock of the file system alone."""
    with contextlib.suppress(OSError):
        now = own.stat().st_mtime
        with os.scandir(partial) as found:
            old = [Path(e.path) for e in found if now - e.stat().st_mtime > LEFT_FOR]
        for place in old:
            _remove(place)


def _remove(place: Path) -> None:
    """A folder that is not published. It is renamed first: whoever still writes there cannot publish half of it."""
    import shutil  # which listing modules does not need

    trash = place.with_name(os.urandom(16).hex())
    with contextlib.suppress(OSError):
        os.rename(place, trash)
        shutil.rmtree(trash, ignore_errors=True)

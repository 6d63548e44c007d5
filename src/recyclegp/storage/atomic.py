"""Files appear whole or not at all: written beside their target, then moved there."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


LEFTOVER = re.compile(r"\.[0-9a-f]{32}\.part")  # what a writer that was killed leaves behind
LEFT_FOR = 60.0  # seconds: a younger one may belong to a writer that has not locked it yet


@contextmanager
def replacing(target: Path, withheld: int = 0) -> Iterator[BinaryIO]:
    """A stream whose contents become `target` when the block ends well; otherwise nothing is left of it.

    As editors do: what a link points to is replaced, not the link, and a file keeps its permissions; a new one has
    those that the umask gives, less those withheld.
    """
    if target.exists() and not target.is_file() and not target.is_dir():  # a device or a pipe is never replaced
        with _blamed_on(target, target), open(target, "wb") as stream:
            yield stream
        return
    place = _behind_links(target)
    temporary = _beside(place)
    try:
        with _blamed_on(target, temporary):
            with open(temporary, "xb") as stream:  # with the permissions the user's umask gives any new file
                _lock(stream)
                if hasattr(os, "fchmod"):
                    mode = place.stat().st_mode if place.is_file() else os.fstat(stream.fileno()).st_mode & ~withheld
                    os.fchmod(stream.fileno(), stat.S_IMODE(mode))
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, place)
            _sync_folder(place.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _clean(place.parent)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile, who asks for this, too; where there are no locks, nothing is held."""
    if fcntl is None:
        yield
        return
    with open(target.parent / f".{target.name}.lock", "ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _sync_folder(folder: Path) -> None:
    """The new name, too, survives a power cut; where folders cannot be opened, the system has its own way."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(stream: BinaryIO) -> bool:
    """Held until the stream is closed, also by a process that is killed; False where somebody else holds it."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody writes it, or this filesystem has no locks
        return False
    return True


def _clean(folder: Path) -> None:
    """What killed writers have left goes, once nobody holds it."""
    with contextlib.suppress(OSError):
        for entry in [e for e in os.scandir(folder) if LEFTOVER.fullmatch(e.name)]:
            with contextlib.suppress(OSError), open(entry.path, "rb") as stream:
                if time.time() - os.fstat(stream.fileno()).st_mtime > LEFT_FOR and _lock(stream):
                    os.unlink(entry.path)


def write_atomically(target: Path, content: bytes, withheld: int = 0) -> None:
    """The whole file or none; a new one without the permissions withheld."""
    with replacing(target, withheld) as stream:
        stream.write(content)


def create(target: Path, content: bytes, mode: int) -> None:
    """A new file with these permissions from its first moment, whole or not at all; one that is there stays."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags, mode)

    temporary = _beside(target)
    try:
        with _blamed_on(target, temporary):
            with open(temporary, "xb", opener=opener) as stream:
                _lock(stream)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            _name(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _name(temporary: Path, target: Path) -> None:
    """The name of a file that is complete, unless somebody else has it."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
    except OSError:  # a file system without links: between the two lines somebody else may come, and is replaced
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(temporary, target)


def check_writable(target: Path) -> None:
    """Says before the work what would otherwise be said after it."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file to write", str(target))
    if target.exists() and not target.is_file():
        return
    temporary = _beside(_behind_links(target))
    with _blamed_on(target, temporary):
        open(temporary, "xb").close()
    temporary.unlink()


def _behind_links(target: Path) -> Path:
    return Path(os.path.realpath(target)) if target.is_symlink() else target


def _beside(target: Path) -> Path:
    return target.parent / f".{os.urandom(16).hex()}.part"


@contextmanager
def _blamed_on(target: Path, written: Path) -> Iterator[None]:
    """Errors name the file the user knows of; a full disk would name none, a missing folder the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno == errno.EPIPE or error.filename not in (None, str(written)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error

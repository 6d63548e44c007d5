"""Files appear whole or not at all: written beside their target, then moved there."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A stream whose contents become `target` when the block ends well; otherwise nothing is left of it."""
    if target.exists() and not target.is_file() and not target.is_dir():  # a device or a pipe is never replaced
        with _blamed_on(target, target), open(target, "wb") as stream:
            yield stream
        return
    temporary = _beside(target)
    try:
        with _blamed_on(target, temporary):
            with open(temporary, "xb") as stream:  # with the permissions the user's umask gives any new file
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(target: Path, content: bytes) -> None:
    """The whole file or none."""
    with replacing(target) as stream:
        stream.write(content)


def create(target: Path, content: bytes, mode: int) -> None:
    """A new file with these permissions from its first moment; one that is there is never replaced."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags, mode)

    with open(target, "xb", opener=opener) as stream:
        try:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        except BaseException:
            target.unlink()
            raise


def check_writable(target: Path) -> None:
    """Says before the work what would otherwise be said after it."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file to write", str(target))
    if target.exists() and not target.is_file():
        return
    temporary = _beside(target)
    with _blamed_on(target, temporary):
        open(temporary, "xb").close()
    temporary.unlink()


def _beside(target: Path) -> Path:
    return target.parent / f".{uuid.uuid4().hex}.part"


@contextmanager
def _blamed_on(target: Path, written: Path) -> Iterator[None]:
    """Errors name the file the user knows of; a full disk would name none, a missing folder the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno == errno.EPIPE or error.filename not in (None, str(written)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error

"""Dictionaries for tests, and disks that fail."""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import recyclegp as rgp

CALLS = ("mkdir", "rename", "replace", "open", "fsync", "unlink", "scandir", "rmdir", "stat")  # of os
OF_STORES = ("pipe_file", "cat_file", "rm_file", "ls")  # of file systems of fsspec


@functools.cache
def module(name: str = "a", level: float = 0.0) -> rgp.Module:
    """One of 30 rows; what differs between two of one name is the level."""
    X = np.linspace(0, 6, 30)[:, None]
    fitted = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="a", kernel="rbf", seed=0, learn=False, publish=6)
    return fitted.transform(output_shift=level).rename(name)


def files_of(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


class Fault:
    """The n-th call to the disk fails; `fired` says whether there were so many."""

    def __init__(self, at: int, kind: str) -> None:
        self.left, self.kind, self.fired = at, kind, False

    def strike(self, what: str, write: Callable[[], object] | None = None) -> None:
        """Before each call; `write` writes half of what is to be written."""
        self.left -= 1
        if self.left != -1:
            return
        self.fired = True
        if self.kind == "kill":
            if write is not None:
                write()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "half" and write is not None:
            write()
        code = errno.EIO if self.kind == "error" else errno.ENOSPC
        raise OSError(code, os.strerror(code), what)


class FaultyFiles:
    """A file system of fsspec. A call that fails may have been answered with an error, or done without an answer."""

    def __init__(self, files: Any, fault: Fault) -> None:
        self._files, self._fault = files, fault

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._files, name)
        if name not in OF_STORES:
            return real

        @functools.wraps(real)
        def there(*arguments: Any, **options: Any) -> Any:
            self._fault.strike(name, lambda: real(*arguments, **options))
            return real(*arguments, **options)

        return there


class FaultyStream:
    def __init__(self, stream: Any, fault: Fault) -> None:
        self._stream, self._fault = stream, fault

    def write(self, content: Any) -> int:
        def half() -> None:
            self._stream.write(content[: len(content) // 2])
            self._stream.flush()

        self._fault.strike("write", half)
        return int(self._stream.write(content))

    def read(self, *size: int) -> Any:
        self._fault.strike("read")
        return self._stream.read(*size)

    def flush(self) -> None:
        self._fault.strike("flush")
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> FaultyStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.close()


@contextmanager
def failing(fault: Fault, root: Path) -> Iterator[None]:
    """Calls to files below a folder go through the fault."""
    inside = str(root)

    def wrapped(name: str, call: Any) -> Any:
        @functools.wraps(call)
        def there(target: Any = ".", *arguments: Any, **options: Any) -> Any:
            if isinstance(target, int) or str(target).startswith(inside):
                fault.strike(name)
            return call(target, *arguments, **options)

        return there

    def opened(target: Any, *arguments: Any, **options: Any) -> Any:
        if not str(target).startswith(inside):
            return real_open(target, *arguments, **options)
        fault.strike("open")
        return FaultyStream(real_open(target, *arguments, **options), fault)

    real_open, real = builtins.open, {name: getattr(os, name) for name in CALLS}
    try:
        builtins.open = io.open = opened  # type: ignore[assignment]
        for name, call in real.items():
            setattr(os, name, wrapped(name, call))
        yield
    finally:
        builtins.open = io.open = real_open
        for name, call in real.items():
            setattr(os, name, call)

"""The format: safetensors with a JSON header. Never pickle: modules come from strangers.

Tensors are stored as float64 as they are, so a round trip is bit-exact. docs/schema.md describes the format.

Files are read here rather than by the safetensors library, which would map them into memory: a file that somebody cuts
short meanwhile would then end the process. Here all that a file announces is compared with its size and with `limits`
before memory is taken, and its content id is that of the very bytes that were read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from ..errors import Argument, Either, OfStranger, RecycleGPError
from ..version import __version__
from . import layout, limits, strict_json
from .atomic import write_atomically

SCHEMA = 3
FIT = Either("recyclegp.fit", "`recyclegp fit`")  # what makes a file
READABLE = (1, 2, 3)  # what the earlier two are in the words of this one: models/legacy_files.py
KEY = "recyclegp"  # of the header, among the metadata of a safetensors file
LENGTH = 8  # bytes at the beginning of a file that say how long what describes the tensors is

Header = dict[str, Any]
Tensors = dict[str, Tensor]


class Document(NamedTuple):
    """What one file holds."""

    header: Header
    tensors: Tensors
    content_id: str = ""  # SHA-256 of all bytes, as hexadecimal digits; empty for what is yet to be written


def write(path: str | PathLike[str], document: Document) -> None:
    """All or nothing."""
    header = {"schema": SCHEMA, "written_by": f"recyclegp {__version__}", **document.header}
    text = json.dumps(header, allow_nan=False, sort_keys=True)
    tensors = {k: t.detach().cpu().contiguous() for k, t in document.tensors.items()}
    for name, tensor in tensors.items():
        limits.check_tensor(name, tensor.shape)
    content = to_bytes(tensors, metadata={KEY: text})
    if _number(content[:LENGTH]) > limits.LARGEST_HEADER or len(content) > limits.LARGEST_FILE:
        raise RecycleGPError(
            f"{path}: so much does not fit into one file; merge fewer modules, or with ", Argument("keep", "names")
        )
    write_atomically(Path(path), content)


def read(path: str | PathLike[str]) -> Document:
    """Header and tensors of a file of ours: the container is checked, what they say is not looked at yet."""
    with opened(path) as file:
        return file.document()


def header(path: str | PathLike[str]) -> Header:
    """What a file says about itself, without its tensors."""
    with opened(path) as file:
        return file.header


@contextmanager
def opened(path: str | PathLike[str]) -> Iterator[OpenFile]:
    """The same for somebody who takes the tensors piece by piece, in the order of `places`."""
    path = Path(path)
    kind = path.stat().st_mode  # FileNotFoundError and PermissionError are the convention
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file; load its files one by one", str(path))
    if not stat.S_ISREG(kind):  # opening a pipe could wait for ever
        raise RecycleGPError(f"{path}: neither a file nor a folder; save what it says to a file first")
    try:
        with open(path, "rb") as stream:
            yield OpenFile(stream, os.fstat(stream.fileno()).st_size)
    except RecycleGPError as refused:
        named = str(refused).startswith(f"{path}: ")
        raise RecycleGPError("" if named else f"{path}: ", OfStranger(refused)) from None
    except (ValueError, RecursionError) as broken:
        raise RecycleGPError(
            f"{path}: not a complete recyclegp file (",
            OfStranger(broken),
            "); it may be truncated or of another format (of a table, ",
            FIT,
            " makes one)",
        ) from None


class OpenFile:
    """A stream that is read once, from its beginning to its end, while its content id is computed."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.stream = stream
        self.digest = hashlib.sha256()
        if size > limits.LARGEST_FILE:
            raise RecycleGPError(f"{size} bytes is larger than a module can be; ask for a smaller one")
        length = _number(self._take(LENGTH))
        if length > min(limits.LARGEST_HEADER, size - LENGTH):
            raise ValueError(f"a header of {length} bytes in a file of {size}")
        outer = strict_json.parsed(self._take(length).decode("utf-8"))
        self.header = _header(layout.metadata(outer).get(KEY))
        self.places = layout.places(outer, size - LENGTH - length)

    def _take(self, size: int) -> bytes:
        content = self.stream.read(size)
        self.digest.update(content)
        if len(content) < size:
            raise ValueError("it ends early")
        return content

    def document(self) -> Document:
        """All of it, for somebody who has taken nothing yet."""
        tensors = {place.name: self.tensor(place.shape) for place in self.places}
        return Document(self.header, tensors, self.content_id)

    @property
    def content_id(self) -> str:
        """Of what has been taken: of the whole file, once all tensors have."""
        return self.digest.hexdigest()

    def tensor(self, shape: tuple[int, ...]) -> Tensor:
        """The next numbers, which are float64 and little-endian."""
        tensor = torch.empty(shape, dtype=torch.float64)
        if not tensor.numel():
            return tensor
        content = tensor.numpy().reshape(-1).data.cast("B")
        if self.stream.readinto(content) < len(content):  # type: ignore[attr-defined]
            raise ValueError("it ends early")
        self.digest.update(content)
        if sys.byteorder == "big":
            tensor.numpy().byteswap(inplace=True)
        return tensor


def _number(content: bytes) -> int:
    return int.from_bytes(content, "little")


def _header(text: str | None) -> Header:
    if text is None:
        raise RecycleGPError("a safetensors file, but not one of recyclegp's; ", FIT, " makes one of a table")
    header = strict_json.parsed(text)
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    schema = header.get("schema")
    if type(schema) is not int or schema not in READABLE:
        raise RecycleGPError(
            f"schema {repr(schema)[:50]}; this version of recyclegp ({__version__}) reads "
            f"schemas up to {SCHEMA}. Upgrade recyclegp, or ask for the file in schema {SCHEMA}"
        )
    return header

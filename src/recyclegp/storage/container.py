"""The format: safetensors with a JSON header. Never pickle: modules come from strangers.

Tensors are stored as float64 as they are, so a round trip is bit-exact. docs/schema.md describes the format.

Files are read here rather than by the safetensors library, which would map them into memory: a file that somebody cuts
short meanwhile would then end the process. Here all that a file announces is compared with its size and with `limits`
before memory is taken, bytes are compared with the `digest` before they are looked at, and a content id is that of the
very bytes that were read. torch, which takes long to import, is imported where there is a tensor: a header needs none.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ..errors import Argument, Either, OfStranger, RecycleGPError
from ..version import __version__
from . import digest, layout, limits, strict_json

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA = 3
FIT = Either("recyclegp.fit", "`recyclegp fit`")  # what makes a file
READABLE = (1, 2, 3)  # what the earlier two are in the words of this one: models/legacy_files.py
KEY = "recyclegp"  # of the header, among the metadata of a safetensors file
TABLES = (".csv", ".csv.gz", ".tsv", ".txt", ".xlsx", ".parquet")  # what is given in place of a file of ours by mistake
LENGTH = 8  # bytes at the beginning of a file that say how long what describes the tensors is

Header = dict[str, Any]
Tensors = dict[str, "Tensor"]


class Document(NamedTuple):
    """What one file holds."""

    header: Header
    tensors: Tensors
    content_id: str = ""  # SHA-256 of all bytes, as hexadecimal digits; empty where nobody has asked for it


def write(path: str | PathLike[str], document: Document) -> None:
    """All or nothing."""
    from pathlib import Path

    from .atomic import replacing

    head, data = _encoded(path, document)
    with replacing(Path(path)) as stream:
        stream.write(head)
        stream.write(data)


def encoded(label: str, document: Document) -> bytes:
    """What `write` would write; `label` is what to call it in an error."""
    return b"".join(_encoded(label, document))


def _encoded(path: str | PathLike[str], document: Document) -> tuple[bytes, memoryview]:
    from safetensors.torch import save as to_bytes

    tensors = {k: t.detach().cpu().contiguous() for k, t in document.tensors.items()}
    for name, tensor in tensors.items():
        limits.check_tensor(name, tensor.shape)
    header = {"schema": SCHEMA, "written_by": f"recyclegp {__version__}", **document.header}
    header |= digest.blank(sum(t.nbytes for t in tensors.values()))
    text = json.dumps(header, allow_nan=False, sort_keys=True)
    content = memoryview(to_bytes(tensors, metadata={KEY: text}))
    length = _number(content[:LENGTH])
    if length > limits.LARGEST_HEADER or len(content) > limits.LARGEST_FILE:
        raise RecycleGPError(
            f"{path}: so much does not fit into one file; merge fewer modules, or with ", Argument("keep", "names")
        )
    data = content[LENGTH + length :]
    return digest.fill(bytes(content[: LENGTH + length]), data), data


def read(path: str | PathLike[str], *, identify: bool = False) -> Document:
    """Header and tensors of a file of ours: the container is checked, what they say is not looked at yet."""
    with opened(path, identify=identify) as file:
        return file.document()


def header(path: str | PathLike[str]) -> Header:
    """What a file says about itself, without its tensors."""
    with opened(path) as file:
        return file.header


def decoded(label: str, content: bytes) -> Document:
    """What `read` makes of a file with these bytes; `label` is what to call it in an error."""
    with _refusals(label):
        return OpenFile(io.BytesIO(content), len(content), identify=True).document()


@contextmanager
def opened(path: str | PathLike[str], *, identify: bool = False) -> Iterator[OpenFile]:
    """The same for somebody who takes the tensors piece by piece, in the order of `places`."""
    label = os.fspath(path)
    kind = os.stat(path).st_mode  # FileNotFoundError and PermissionError are the convention
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file; load its files one by one", label)
    if not stat.S_ISREG(kind):  # opening a pipe could wait for ever
        raise RecycleGPError(f"{label}: neither a file nor a folder; save what it says to a file first")
    with _refusals(label), open(path, "rb") as stream:
        yield OpenFile(stream, os.fstat(stream.fileno()).st_size, identify)


@contextmanager
def _refusals(label: str) -> Iterator[None]:
    """Errors name the file."""
    try:
        yield
    except RecycleGPError as refused:
        named = str(refused).startswith(f"{label}: ")
        raise RecycleGPError("" if named else f"{label}: ", OfStranger(refused)) from None
    except (ValueError, RecursionError) as broken:
        if label.lower().endswith(TABLES):  # mixed up, not damaged
            raise RecycleGPError(f"{label}: a table, not a model; ", FIT, " makes one of it") from None
        raise RecycleGPError(
            f"{label}: not a complete recyclegp file (",
            OfStranger(broken),
            "); it may be damaged, cut short or of another format; ask for it again (of a table, ",
            FIT,
            " makes one)",
        ) from None


class OpenFile:
    """A stream that is read once, from its beginning to its end; its bytes are compared with its digests on the way."""

    def __init__(self, stream: BinaryIO, size: int, identify: bool) -> None:
        self.stream = stream
        self.sha256 = hashlib.sha256() if identify else None  # of all bytes; another one than those in the file
        if size > limits.LARGEST_FILE:
            raise RecycleGPError(f"{size} bytes is larger than a module can be; ask for a smaller one")
        first = self._take(LENGTH)
        length = _number(first)
        if length > min(limits.LARGEST_HEADER, size - LENGTH):
            raise ValueError(f"a header of {length} bytes in a file of {size}")
        text = self._take(length)
        checked = digest.check(digest.IN_HEAD, first + text)
        outer = strict_json.parsed(text.decode("utf-8"))
        self.header = _header(layout.metadata(outer).get(KEY))
        self.left = size - LENGTH - length  # bytes of tensors that have not been taken from the stream yet
        pieces = digest.of_pieces(self.header, checked, self.left)
        self.digests = None if pieces is None else iter(pieces)
        self.places = layout.places(outer, self.left)
        mentioned = text.count(b"linear") + text.count(b"\\u00")  # or a letter of it, escaped
        limits.check_linear(mentioned, _columns(self.header, self.places), size)
        self.piece = memoryview(b"")  # bytes that nobody has wanted yet

    def _take(self, size: int) -> bytes:
        content = self.stream.read(size)
        if self.sha256 is not None:
            self.sha256.update(content)
        if len(content) < size:
            raise ValueError("it ends early")
        return content

    def _next_piece(self) -> None:
        content = self._take(min(digest.PIECE, self.left))
        if self.digests is not None and digest.of(content) != next(self.digests):
            digest.refuse()
        self.left -= len(content)
        self.piece = memoryview(content)

    def document(self) -> Document:
        """All of it, for somebody who has taken nothing yet."""
        tensors = {place.name: self.tensor(place.shape) for place in self.places}
        return Document(self.header, tensors, self.content_id)

    @property
    def content_id(self) -> str:
        """Of what has been taken: of the whole file, once all tensors have. Empty where nobody has asked for it."""
        return "" if self.sha256 is None else self.sha256.hexdigest()

    def tensor(self, shape: tuple[int, ...]) -> Tensor:
        """The next numbers, which are float64 and little-endian."""
        import torch

        tensor = torch.empty(shape, dtype=torch.float64)
        if not tensor.numel():
            return tensor
        self._fill(tensor.numpy().reshape(-1).data.cast("B"))
        if sys.byteorder == "big":
            tensor.numpy().byteswap(inplace=True)
        return tensor

    def numbers(self, count: int) -> array[float]:
        """The same for somebody who does not compute with them."""
        found = array("d", bytes(layout.BYTES * count))
        self._fill(memoryview(found).cast("B"))
        if sys.byteorder == "big":
            found.byteswap()
        return found

    def _fill(self, wanted: memoryview) -> None:
        """With the next bytes, of pieces that are whole."""
        while wanted:
            if not self.piece:
                self._next_piece()
            size = min(len(self.piece), len(wanted))
            wanted[:size] = self.piece[:size]
            wanted, self.piece = wanted[size:], self.piece[size:]


def _columns(header: Header, places: Sequence[layout.Place]) -> int:
    """Of inputs, at most: as tensors have them, or as a file of many modules says it."""
    shapes = [place.shape[1] for place in places if len(place.shape) == 2 and place.name.endswith("Z")]
    blocks = header.get("blocks")
    said = [b.get("dimension") for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
    return max([0, *shapes, *(D for D in said if type(D) is int)])


def _number(content: bytes | memoryview) -> int:
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

"""The format: safetensors with a JSON header. Never pickle: modules come from strangers.

Tensors are stored as float64 as they are, so a round trip is bit-exact. docs/schema.md describes the format.
"""

from __future__ import annotations

import errno
import json
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from ..errors import RecycleGPError
from ..version import __version__
from .atomic import write_atomically

SCHEMA = 2
READABLE = (1, 2)  # a file of an earlier schema lacks fields that have a default
KEY = "recyclegp"  # of the header, among the metadata of a safetensors file
LARGEST_FILE = 2**33  # bytes; more is not a summary of data

Header = dict[str, Any]
Tensors = dict[str, Tensor]


class Document(NamedTuple):
    """What one file holds."""

    header: Header
    tensors: Tensors


def write(path: str | PathLike[str], document: Document) -> None:
    """All or nothing."""
    header = {"schema": SCHEMA, "written_by": f"recyclegp {__version__}", **document.header}
    text = json.dumps(header, allow_nan=False, sort_keys=True)
    tensors = {k: t.detach().cpu().contiguous() for k, t in document.tensors.items()}
    write_atomically(Path(path), to_bytes(tensors, metadata={KEY: text}))


def read(path: str | PathLike[str]) -> Document:
    """Header and tensors of a file of ours, neither of them looked at yet."""
    path = Path(path)
    size = path.stat().st_size  # FileNotFoundError and PermissionError are the convention
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file; load its files one by one", str(path))
    if size > LARGEST_FILE:
        raise RecycleGPError(f"{path}: {size} bytes is larger than a module can be")
    try:
        with safe_open(str(path), framework="pt") as stream:
            text = (stream.metadata() or {}).get(KEY)
            if text is None:
                raise RecycleGPError(f"{path}: a safetensors file, but not one of recyclegp's")
            header = json.loads(text, parse_constant=_refuse)
            if not isinstance(header, dict):
                raise ValueError("the header is not an object")
            if type(header.get("schema")) is not int or header["schema"] not in READABLE:
                raise RecycleGPError(
                    f"{path}: schema {header.get('schema')!r}; this version of recyclegp ({__version__}) reads "
                    f"schemas up to {SCHEMA}. Upgrade recyclegp, or ask for the file in schema {SCHEMA}"
                )
            return Document(header, {k: stream.get_tensor(k) for k in stream.keys()})  # noqa: SIM118 (no dict)
    except (SafetensorError, ValueError, RecursionError) as broken:
        if isinstance(broken, RecycleGPError):
            raise
        raise RecycleGPError(
            f"{path}: not a complete recyclegp file ({broken}); it may be truncated or of another format (of a table, "
            "`recyclegp fit` makes one)"
        ) from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"the header holds {constant}")

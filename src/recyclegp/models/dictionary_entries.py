"""A module as a dictionary takes it: its bytes, and what is said of it in lists."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..storage import container
from ..storage.events import Entry, Region
from . import module_file
from .load import module_of_bytes
from .module import Module

if TYPE_CHECKING:
    from .dictionary import ModuleLike


def of(module: ModuleLike, by: str | None) -> tuple[bytes, Entry]:
    """Checked as `load` checks a file."""
    if isinstance(module, Module):
        return _with_entry(container.encoded(f"module {module.name!r}", module_file.to_document(module._record)), module, by)
    if isinstance(module, (bytes, bytearray, memoryview)):
        content, label = bytes(module), "module"
    elif isinstance(module, (str, os.PathLike)):
        content, label = Path(module).read_bytes(), str(module)
    else:
        raise TypeError(f"module must be a Module, a path or the bytes of a file, not {type(module).__name__}")
    return _with_entry(content, module_of_bytes(content, label), by)


def _with_entry(content: bytes, module: Module, by: str | None) -> tuple[bytes, Entry]:
    entry = Entry(
        name=module.name,
        owner=module.owner,
        digest=hashlib.sha256(content).hexdigest(),
        rows=module.rows,
        bytes=len(content),
        likelihood=module.likelihood,
        targets=tuple(t.name for t in module.targets if t.name is not None),
        region=_region(module),
        columns=None if module.columns is None else tuple(module.columns),
        observed=module.time,
        added=datetime.now(UTC),
        by=by,
        number=0,
    )
    return content, entry


def _region(module: Module) -> Region:
    points = torch.cat(module._points)
    low, high = points.amin(0).tolist(), points.amax(0).tolist()
    levels = set(module.categories.columns)
    return tuple((None, None) if i in levels else (low[i], high[i]) for i in range(len(low)))

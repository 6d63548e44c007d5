"""Modules as a dictionary takes them: their bytes, what is listed of them, and whether both are still so."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from ..errors import RecycleGPError
from ..storage import container
from ..storage.events import Entry, Kind, Region
from . import module_file
from .load import module_of_bytes
from .module import Module

if TYPE_CHECKING:
    from .dictionary import Dictionary, ModuleLike, Problem


class Described(NamedTuple):
    content: bytes  # of the file
    entry: Entry  # but for who adds it, and when


def described(module: ModuleLike) -> Described:
    """A module, its file, or the bytes of its file: checked as `load` checks a file."""
    if isinstance(module, Module):
        content = container.encoded(f"module {module.name!r}", module_file.to_document(module._record))
        return Described(content, _entry(content, module))
    if isinstance(module, (bytes, bytearray, memoryview)):
        content, label = bytes(module), "module"
    elif isinstance(module, (str, os.PathLike)):
        content, label = Path(module).read_bytes(), str(module)
    else:
        remedy = "; call its to_module(name) first" if hasattr(module, "to_module") else ""
        raise TypeError(f"module must be a Module, a path or the bytes of a file, not {type(module).__name__}{remedy}")
    return Described(content, _entry(content, module_of_bytes(content, label)))


def _entry(content: bytes, module: Module) -> Entry:
    return Entry(
        name=module.name,
        owner=module.owner,
        digest=hashlib.sha256(content).hexdigest(),
        rows=module.rows,
        bytes=len(content),
        likelihood=module.likelihood,
        targets=tuple(target.name for target in module.targets if target.name is not None),
        region=_region(module),
        columns=None if module.columns is None else tuple(module.columns),
        observed=module.time,
        added=None,
        by=None,
    )


def _region(module: Module) -> Region:
    points = torch.cat(module._points)
    low, high = points.amin(0).tolist(), points.amax(0).tolist()
    levels = set(module.categories.columns)
    return tuple((None, None) if i in levels else (low[i], high[i]) for i in range(len(low)))


def problems(dictionary: Dictionary) -> Iterator[Problem]:
    """What is wrong with the files of a dictionary."""
    from .dictionary import Problem

    entries = {entry.name: entry for entry in dictionary.list()}
    for name, entry in entries.items():
        try:
            found = described(dictionary.read(name)).entry
        except (RecycleGPError, OSError) as broken:
            yield Problem(name, str(broken))
            continue
        if found != entry._replace(added=None, by=None, number=0):
            yield Problem(name, "what is listed of it is not what its file says; replace it by itself")
    last: dict[str, Kind] = {}
    for number, event in enumerate(dictionary.history(), start=1):
        last[event.name] = event.kind
        if event.kind is Kind.UNREADABLE:
            yield Problem(f"event {event.number}", "its file is damaged; restore it from a copy")
        if event.number != number:
            yield Problem(f"event {number}", "it is gone; restore it from a copy")
            break
    for name, kind in last.items():
        if kind in (Kind.CAME, Kind.REPLACED) and name not in entries:
            yield Problem(name, "its file is damaged, or gone; restore it from a copy, or ask its owner again")

"""What is listed of a module, from its bytes; and whether that is still so."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path

import torch

from ..errors import RecycleGPError
from ..storage.events import Entry, Event, Kind, Problem, Region
from . import module_bytes
from .module import Module

ModuleLike = Module | str | PathLike[str] | bytes


def content_of(module: ModuleLike) -> bytes:
    """Its file."""
    if isinstance(module, Module):
        return module_bytes.to_bytes(module)
    if isinstance(module, (bytes, bytearray, memoryview)):
        return bytes(module)
    if isinstance(module, (str, os.PathLike)):
        return Path(module).read_bytes()
    remedy = "; call its to_module(name) first" if hasattr(module, "to_module") else ""
    raise TypeError(f"module must be a Module, a path or the bytes of a file, not {type(module).__name__}{remedy}")


def entry_of(module: Module, content: bytes) -> Entry:
    """All but who adds it, and when."""
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


def entry_of_bytes(content: bytes) -> Entry:
    return entry_of(module_bytes.from_bytes(content, "module"), content)


def _region(module: Module) -> Region:
    points = torch.cat(module._points)
    low, high = points.amin(0).tolist(), points.amax(0).tolist()
    levels = set(module.categories.columns)
    return tuple((None, None) if i in levels else (low[i], high[i]) for i in range(len(low)))


def problems(entries: Iterable[Entry], events: Iterable[Event], read: Callable[[str], bytes]) -> Iterator[Problem]:
    """What is wrong with the files of a dictionary."""
    listed = set()
    for entry in entries:
        listed.add(entry.name)
        try:
            found = entry_of_bytes(read(entry.name))
        except (RecycleGPError, OSError) as broken:
            yield Problem(entry.name, str(broken))
            continue
        if found != entry._replace(added=None, by=None, number=0):
            yield Problem(entry.name, "what is listed of it is not what its file says; remove and add it again")
    last: dict[str, Kind] = {}
    expected = 1
    for event in events:
        if event.kind is Kind.UNREADABLE:
            yield Problem(f"event {event.number}", "its file is damaged; restore it from a copy")
        else:
            last[event.name] = event.kind
        for number in range(expected, event.number):
            yield Problem(f"event {number}", "it is gone; restore it from a copy")
        expected = event.number + 1
    for name, kind in last.items():
        if kind in (Kind.CAME, Kind.REPLACED) and name not in listed:
            yield Problem(name, "its file is damaged, or gone; restore it from a copy, or ask its owner again")

"""The modules of one chunk in one file. These two functions are all that knows how."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..errors import RecycleGPError
from ..models.module import Module
from ..models.reading import made_from
from ..storage import container
from ..storage.container import Document
from ..storage.fields import Fields, text

KIND = "chunk"


class Chunk(NamedTuple):
    modules: tuple[Module, ...]
    fingerprint: str  # of the data and options that it was made from
    failures: dict[str, str]  # name → why, of models that are missing


def write_chunk(path: Path, modules: Sequence[Module], fingerprint: str, failures: Mapping[str, str]) -> None:
    """All or nothing. The numbers of all modules lie one after the other, in the order in which headers name them."""
    documents = [m._document() for m in modules]
    headers = [
        {"header": d.header, "shapes": [[name, list(t.shape)] for name, t in d.tensors.items()]} for d in documents
    ]
    flat = [t.reshape(-1) for d in documents for t in d.tensors.values()]
    numbers = torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64)
    header = {"kind": KIND, "fingerprint": fingerprint, "failures": dict(failures), "modules": headers}
    container.write(path, Document(header, {"numbers": numbers}))


def read_chunk(path: Path) -> Chunk:
    """Every module is checked, as if it had come in a file of its own."""
    return made_from(path, container.read(path), {KIND: _from_fields})


def _from_fields(f: Fields) -> Chunk:
    numbers, at, modules = f.tensor("numbers", None), 0, []
    for entry in f.header["modules"]:
        tensors = {}
        for name, shape in entry["shapes"]:
            size = math.prod(shape)
            tensors[name] = _piece(numbers, at, size).reshape(shape)
            at += size
        modules.append(Module._from_fields(Fields(Document(entry["header"], tensors))))
    failures = {text(name, "a name"): text(why, "a reason") for name, why in f.header["failures"].items()}
    return Chunk(tuple(modules), f.text("fingerprint"), failures)


def _piece(numbers: Any, at: int, size: int) -> Any:
    if size < 0 or at + size > len(numbers):
        raise RecycleGPError("its modules have more numbers than there are")
    return numbers[at : at + size]

"""Where modules come from: memory, an iterator, files or a directory; one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import RecycleGPError
from ..record import Record
from ..storage import container
from ..storage.making import MODULES
from . import module_file, modules_file
from .blocks import Piece
from .module import Module
from .modules import Modules

Source = Module | Modules | str | PathLike[str] | Iterable[Module | Modules | str | PathLike[str]]
PATTERN = "*.safetensors"
Item = Record | Iterable[Piece]


def items(source: Source) -> Iterator[tuple[Item, str]]:
    """Each module, or many of them as columns, and what to call it in an error."""
    several: Iterable[Any]
    if isinstance(source, (Module, Modules)) or hasattr(source, "to_module"):
        several = [source]  # an ensemble is refused below, like anything else
    elif isinstance(source, (str, PathLike)):
        several = _files(Path(source))
    else:
        several = source
    for item in several:
        if isinstance(item, Module):
            yield item._record, f"module {item.name!r}"
        elif isinstance(item, Modules):
            yield item._pieces(), "modules"
        elif isinstance(item, (str, PathLike)):
            for path in _files(Path(item)):
                yield _loaded(path)
        else:
            remedy = "; call its to_module(name) first" if hasattr(item, "to_module") else ""
            raise TypeError(f"modules must hold Module objects or paths, not {type(item).__name__}{remedy}")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(PATTERN))
    if not found:
        raise RecycleGPError(f"{path}: the folder holds no {PATTERN} files; save modules there, or name their files")
    return found


def _loaded(path: Path) -> tuple[Item, str]:
    with container.opened(path) as file:
        if file.header.get("kind") == MODULES:
            return modules_file.pieces(path), str(path)  # opened again, to be read a piece at a time
        document = file.document()
    record = module_file.record_in(path, document)
    return record, f"module {record.about.name!r} ({path})"

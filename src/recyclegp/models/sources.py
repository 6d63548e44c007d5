"""Where modules come from: memory, an iterator, files or a directory; one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import RecycleGPError
from ..record import Record
from ..storage import container
from ..storage.layout import is_companion
from ..storage.making import ANSWER, MODULES, made_from
from . import module_file, modules_file, plan_file
from .answer import Answer
from .blocks import Piece
from .dictionary_files import files_in
from .module import Module
from .modules import Modules
from .plan_ensemble import record as record_of

Source = Module | Answer | Modules | str | PathLike[str] | Iterable[Module | Answer | Modules | str | PathLike[str]]
PATTERN = "*.safetensors"
Item = Record | Iterable[Piece]


def items(source: Source, refused: Callable[[str, Exception], None] | None = None) -> Iterator[tuple[Item, str]]:
    """Each module, or many of them as columns, and what to call it in an error.

    A file that cannot be read is an error, unless somebody wants to be told.
    """
    several: Iterable[Any]
    if isinstance(source, (Module, Answer, Modules)) or hasattr(source, "to_module"):
        several = [source]  # an ensemble is refused below, like anything else
    elif isinstance(source, (str, PathLike)):
        several = _files(Path(source))
    elif getattr(source, "ndim", 0) == 2:  # rows, of which a loop would make names of files or numbers
        raise TypeError(f"modules must hold Module objects or paths, not a {type(source).__name__}; fit its rows first")
    elif isinstance(source, Mapping):  # whose keys a loop would take for names of files
        raise TypeError("modules must be a list, not a mapping of names to modules; pass list(modules.values())")
    else:
        several = source
    for item in several:
        if isinstance(item, Module):
            yield item._record, ""  # which is called by its name
        elif isinstance(item, Answer):  # which is a module at the points of its plan
            yield item.module._record, ""
        elif isinstance(item, Modules):
            yield item._pieces(), "modules"
        elif isinstance(item, (str, PathLike)):
            for path in _files(Path(item)):
                try:
                    loaded = _loaded(path)
                except (RecycleGPError, OSError) as failed:
                    if refused is None:
                        raise
                    refused(str(path), failed)
                else:
                    yield loaded
        else:
            remedy = "; call its to_module(name) first" if hasattr(item, "to_module") else ""
            raise TypeError(f"modules must hold Module objects or paths, not {type(item).__name__}{remedy}")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    # of a dictionary, or of any folder
    found = files_in(path) or sorted(p for p in path.glob(PATTERN) if not is_companion(p))
    if not found:
        raise RecycleGPError(f"{path}: the folder holds no {PATTERN} files; save modules there, or name their files")
    return found


def _loaded(path: Path) -> tuple[Item, str]:
    with container.opened(path) as file:
        if file.header.get("kind") == MODULES:
            return modules_file.pieces(path), str(path)  # opened again, to be read a piece at a time
        document = file.document()
    if document.header.get("kind") == ANSWER:
        record = record_of(made_from(path, document, {(container.SCHEMA, ANSWER): plan_file.answer_from_fields}))
    else:
        record = module_file.record_in(path, document)
    return record, f"module {record.about.name!r} ({path})"

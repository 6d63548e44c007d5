"""Where modules come from: memory, an iterator, files or a directory; one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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
from .modules import Modules, of_pieces
from .plan_ensemble import record as record_of

T = TypeVar("T")
PATTERN = "*.safetensors"
Item = Record | Iterable[Piece]
Refused = Callable[[str, Exception], None]  # who is told of a file that cannot be read


class FromFile(NamedTuple):
    """What somebody else has found in a file: its module, or why there is none. It is not read again."""

    path: Path
    found: Module | Exception


One = Module | Answer | Modules | FromFile | str | PathLike[str]
Source = One | Iterable[One]


def items(source: Source, refused: Refused | None = None) -> Iterator[tuple[Item, str]]:
    """Each module, or many of them as columns, and the file that it is from, or nothing.

    A file that cannot be read is an error, unless somebody wants to be told.
    """
    several: Iterable[Any]
    in_folder = isinstance(source, (str, PathLike))
    if isinstance(source, (Module, Answer, Modules, FromFile)) or hasattr(source, "to_module"):
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
            yield item._pieces(), ""
        elif isinstance(item, FromFile):
            if isinstance(item.found, Module):
                yield item.found._record, str(item.path)
            elif refused is None:
                raise item.found
            else:
                refused(str(item.path), item.found)
        elif isinstance(item, (str, PathLike)):
            # a folder in a folder is no file
            inside = [Path(item)] if in_folder else _tried(Path(item), _files, refused)
            for path in inside:
                yield from _tried(path, _loaded, refused)
        else:
            remedy = "; call its to_module(name) first" if hasattr(item, "to_module") else ""
            raise TypeError(f"modules must hold Module objects or paths, not {type(item).__name__}{remedy}")


def one_by_one(found: Iterable[tuple[Item, str]], refused: Refused) -> list[tuple[Record, str]]:
    """Each module by itself, with its file: one of many can then be left out without the others."""
    each: list[tuple[Record, str]] = []
    for item, file in found:
        if isinstance(item, Record):
            each.append((item, file))
        else:
            some = _tried(Path(file), lambda _, item=item: list(of_pieces(item)), refused)  # type: ignore[misc]
            each += [(m._record, file) for m in some]
    return each


def _tried(path: Path, read: Callable[[Path], Iterable[T]], refused: Refused | None) -> Iterable[T]:
    """What comes of it; nothing, where it fails and somebody is told."""
    try:
        return read(path)
    except (RecycleGPError, OSError) as failed:
        if refused is None:
            raise
        refused(str(path), failed)
        return []


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    # of a dictionary, or of any folder
    found = files_in(path) or sorted(p for p in path.glob(PATTERN) if not is_companion(p))
    if not found:
        raise RecycleGPError(f"{path}: the folder holds no {PATTERN} files; save modules there, or name their files")
    return found


def _loaded(path: Path) -> list[tuple[Item, str]]:
    with container.opened(path) as file:
        if file.header.get("kind") == MODULES:
            return [(modules_file.pieces(path), str(path))]  # opened again, to be read a piece at a time
        document = file.document()
    if document.header.get("kind") == ANSWER:
        record = record_of(made_from(path, document, {(container.SCHEMA, ANSWER): plan_file.answer_from_fields}))
    else:
        record = module_file.record_in(path, document)
    return [(record, str(path))]

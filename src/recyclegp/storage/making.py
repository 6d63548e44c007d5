"""A file → what it holds, or one error that names the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TypeVar

from ..errors import LONGEST_MESSAGE, OfStranger, RecycleGPError, printable
from .container import Document
from .fields import Fields

MODULE, ENSEMBLE, MODULES = "module", "ensemble", "modules"  # kinds of files
PLAN, ANSWER = "plan", "answer"
JOINT_MODULE, JOINT_ENSEMBLE = "joint module", "joint ensemble"  # of several functions, up to schema 2
T = TypeVar("T")


def made_from(
    path: str | PathLike[str], document: Document, makers: Mapping[tuple[int, str], Callable[[Fields], T]]
) -> T:
    """The object a file holds, made by the one for its schema and kind, whatever is wrong with it."""
    schema, kind = document.header["schema"], document.header.get("kind")
    if kind == MODULES:
        raise RecycleGPError(f"{path}: it holds many modules; read them with load_many, or merge them")
    if not isinstance(kind, str) or (schema, kind) not in makers:
        raise RecycleGPError(f"{path}: it holds a {str(kind)[:50]!r}, which this version cannot read; upgrade")
    try:
        return makers[schema, kind](Fields(document))
    except RecycleGPError as broken:
        raise RecycleGPError(f"{path}: ", OfStranger(broken), "; ask for the file again") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as broken:
        raise RecycleGPError(
            f"{path}: the header is malformed ({printable(repr(broken), LONGEST_MESSAGE)}); ask for the file again"
        ) from None

"""Names of modules: given, made up, and shown."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import Argument, Message, Part, RecycleGPError

LONGEST = 200  # characters
SHOWN = 5  # names in a message
NEW = "new"  # in a question: an owner nobody has met


def name_or_new(name: str | None) -> str:
    """The given name, checked, or one nobody else has."""
    name = name if name is not None else f"module-{uuid.uuid4().hex[:12]}"
    check_name(name)
    return name


def check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    if not name or len(name) > LONGEST or not name.isprintable():
        raise RecycleGPError(Argument("name", name[:50]), f"; use 1 to {LONGEST} printable characters")


def check_owner(owner: str | None) -> str | None:
    """The name of an owner, if it is one; None is for whoever the module is named after."""
    if owner is None:
        return None
    if not isinstance(owner, str):
        raise TypeError(f"owner must be a string, not {type(owner).__name__}")
    if not owner or len(owner) > LONGEST or not owner.isprintable() or owner == NEW:
        raise RecycleGPError(
            Argument("owner", owner[:50]),
            f"; use 1 to {LONGEST} printable characters, but not {NEW!r}, which is somebody nobody has met",
        )
    return owner


def name_of_update(name: str | None, taken: Sequence[str]) -> str:
    """The given name, if it is free; or update-1, update-2, …: the first that is."""
    known = set(taken)
    if name is None:
        return next(f"update-{i}" for i in range(1, len(known) + 2) if f"update-{i}" not in known)
    check_name(name)
    if name in known:
        raise RecycleGPError(f"update: a module is already named {name!r}; pass another name")
    return name


def few(names: Sequence[Part]) -> Message:
    """Some of them, and how many there are."""
    return Message(Message.joined(names[:SHOWN]), f", … ({len(names)} in all)" if len(names) > SHOWN else "")


def repeated(names: Iterable[str]) -> set[str]:
    """Those that are there more than once: of modules, one for each of several functions."""
    return {name for name, count in Counter(names).items() if count > 1}

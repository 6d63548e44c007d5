"""Names of modules: given, made up, and shown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import Argument, Message, Part, RecycleGPError

LONGEST = 200  # characters
SHOWN = 5  # names in a message
NEW = "new"  # in a question: an owner nobody has met


def name_or_new(name: str | None) -> str:
    """The given name, checked, or one nobody else has."""
    if name is None:
        return f"module-{os.urandom(6).hex()}"
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


def name_of_update(name: str | None, owner: str | None, updates: Mapping[str, str | None], taken: Sequence[str]) -> str:
    """Rows join earlier ones of one name and owner; without a name update-1, …: the owner's, or the first that is free.

    `updates` are those that can be joined: names, and owners where somebody has said so.
    """
    known = set(taken)
    if name is None:
        made_up = (f"update-{i}" for i in range(1, len(known) + 2))
        return next(n for n in made_up if n not in known or (n in updates and updates[n] == owner))
    check_name(name)
    if name in known and (name not in updates or updates[name] != owner):
        whose = " of another owner" if name in updates else ""
        raise RecycleGPError(f"update: a module{whose} is already named {name!r}; pass another name")
    return name


def few(names: Sequence[Part]) -> Message:
    """Some of them, and how many there are."""
    return Message(Message.joined(names[:SHOWN]), f", … ({len(names)} in all)" if len(names) > SHOWN else "")


def repeated(names: Iterable[str]) -> set[str]:
    """Those that are there more than once: of modules, one for each of several functions."""
    return {name for name, count in Counter(names).items() if count > 1}

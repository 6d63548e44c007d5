"""The list that `modules` shows; apart from its options, so that it can begin without typer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import printable
from ..times import written
from .screen import Screen, plain_table, put, show

if TYPE_CHECKING:
    from ..models.dictionary import Dictionary
    from ..storage.events import Entry


def modules(dictionary: Dictionary, screen: Screen, **asked: Any) -> Callable[[], int]:
    """Look which modules are there; what is returned shows them, and gives the exit code."""
    entries = dictionary.list(**asked)

    def tell() -> int:
        screen.result([_facts(entry) for entry in entries], lambda: _list(entries))
        return 0

    return tell


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        **entry._asdict(),
        "target": entry.target,
        "observed": None if entry.observed is None else written(entry.observed),
        "added": None if entry.added is None else entry.added.isoformat(),
    }


def _list(entries: tuple[Entry, ...]) -> None:
    if not entries:
        put("no modules")
        return
    table = plain_table("module", "owner", "rows", "bytes", "likelihood", "target", "added", "by", folded=2)
    for e in entries:
        added = "" if e.added is None else e.added.strftime("%Y-%m-%d %H:%M")
        row = (e.name, e.owner, f"{e.rows:,}", f"{e.bytes:,}", e.likelihood, e.target or "", added, e.by or "")
        table.add_row(*map(printable, row))
    show(table)

"""The index of a dictionary, and its files. Nothing here needs torch, unless a file that is listed is damaged."""

from __future__ import annotations

from pathlib import Path

from ..storage.event_index import EventIndex
from ..storage.event_store import EventStore, LocalStore
from ..storage.events import Entry


def index_of(store: EventStore) -> EventIndex:
    return EventIndex(store, _entry_of_bytes)


def files_in(folder: Path) -> list[Path] | None:
    """The files of the modules that are there now; None where the folder is no dictionary."""
    store = LocalStore(folder)
    if not store.events.is_dir():
        return None
    found = index_of(store).files()
    return [store.place(event.number) / file for event, _, file in found if file is not None]


def _entry_of_bytes(content: bytes) -> Entry:
    from .dictionary_entries import entry_of_bytes

    return entry_of_bytes(content)

"""Which modules are in a dictionary now: a table that is made of the events, and made again whenever it is not theirs.

It is kept in SQLite where that is possible, and in memory where not. Losing it loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import RecycleGPError
from .event_store import EventStore
from .events import Kind, Written, from_text

VERSION = 1
PATIENCE = 5.0  # seconds to wait for another process that writes the index
TABLES = """
CREATE TABLE events (number INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE present (name TEXT PRIMARY KEY, number INTEGER NOT NULL, owner TEXT NOT NULL, likelihood TEXT NOT NULL,
                      rows INTEGER NOT NULL, added REAL NOT NULL) WITHOUT ROWID;
"""


class EventIndex:
    """The events of a store as a table; `refresh` brings it up to date."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._table: sqlite3.Connection | None = None
        self._process = 0
        self._place: Path | None = None

    def last(self) -> int:
        """The number of the last event."""
        with self._fresh() as table:
            return _last(table)

    def entry(self, name: str) -> Written | None:
        """The event with which the module of this name came; None where there is none."""
        with self._fresh() as table:
            found = table.execute(
                "SELECT e.number, e.text FROM present p JOIN events e ON e.number = p.number WHERE p.name = ?", (name,)
            ).fetchone()
        return None if found is None else from_text(found[1], found[0])

    def entries(self, where: str = "1", values: tuple[Any, ...] = ()) -> list[Written]:
        """Those that are there now, in the order of their names."""
        with self._fresh() as table:
            found = table.execute(
                "SELECT e.number, e.text FROM present p JOIN events e ON e.number = p.number "
                f"WHERE {where} ORDER BY p.name",
                values,
            ).fetchall()
        return [from_text(text, number) for number, text in found]

    def events(self, after: int = 0) -> list[Written]:
        """Every event behind this number."""
        with self._fresh() as table:
            found = table.execute("SELECT number, text FROM events WHERE number > ? ORDER BY number", (after,)).fetchall()
        return [from_text(text, number) for number, text in found]

    def close(self) -> None:
        with self._lock:
            if self._table is not None and self._process == os.getpid():
                self._table.close()
            self._table = None

    # --- up to date ---

    @contextmanager
    def _fresh(self) -> Iterator[sqlite3.Connection]:
        """The table, as the store is now; whatever is wrong with its file is not said, but mended."""
        with self._lock:
            for attempt in (self._opened, self._opened_anew, self._in_memory):
                try:
                    table = attempt()
                    self._refresh(table)
                    break
                except sqlite3.Error:
                    self.close()
                    if attempt == self._in_memory:
                        raise
            yield table

    def _opened(self) -> sqlite3.Connection:
        if self._table is not None and self._process == os.getpid():
            if self._place is not None or self.store.index is None:
                return self._table
        place = self.store.index
        if place is None or (not place.exists() and not os.access(place.parent, os.W_OK)):
            return self._in_memory() if self._table is None or self._process != os.getpid() else self._table
        return self._connected(place)

    def _opened_anew(self) -> sqlite3.Connection:
        place = self.store.index
        if place is None:
            return self._in_memory()
        with contextlib.suppress(OSError):
            for name in (place.name, f"{place.name}-journal"):
                place.with_name(name).unlink(missing_ok=True)
        return self._connected(place)

    def _in_memory(self) -> sqlite3.Connection:
        return self._connected(None)

    def _connected(self, place: Path | None) -> sqlite3.Connection:
        self._table = sqlite3.connect(
            ":memory:" if place is None else place, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        self._process, self._place = os.getpid(), place
        return self._table

    def _refresh(self, table: sqlite3.Connection) -> None:
        if table.execute("PRAGMA user_version").fetchone()[0] == VERSION:
            last = _last(table)
            if self._is_of_store(table, last) and self.store.event(last + 1) is None:
                return
        with _transaction(table):
            if table.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                for (name,) in table.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    table.execute(f'DROP TABLE "{name}"')
                for statement in filter(str.strip, TABLES.split(";")):
                    table.execute(statement)
                table.execute(f"PRAGMA user_version = {VERSION}")
            last = _last(table)
            if not self._is_of_store(table, last) or last == 0:
                table.execute("DELETE FROM events")
                table.execute("DELETE FROM present")
                for number in self.store.numbers():
                    self._take(table, number)
                return
            while self._take(table, last + 1):
                last += 1

    def _is_of_store(self, table: sqlite3.Connection, last: int) -> bool:
        """Is the last event that it knows still that of the store?"""
        if last == 0:
            return True
        known = table.execute("SELECT text FROM events WHERE number = ?", (last,)).fetchone()
        return known is not None and self.store.event(last) == known[0]

    def _take(self, table: sqlite3.Connection, number: int) -> bool:
        text = self.store.event(number)
        if text is None:
            return False
        event = from_text(text, number).event
        table.execute("INSERT INTO events VALUES (?, ?)", (number, text))
        if event.kind is Kind.REMOVED or event.entry is None:
            table.execute("DELETE FROM present WHERE name = ?", (event.name,))
        else:
            e = event.entry
            row = (e.name, number, e.owner, e.likelihood, e.rows, e.added.timestamp())
            table.execute("INSERT OR REPLACE INTO present VALUES (?, ?, ?, ?, ?, ?)", row)
        return True


def _last(table: sqlite3.Connection) -> int:
    return int(table.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0])


@contextmanager
def _transaction(table: sqlite3.Connection) -> Iterator[None]:
    table.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            table.execute("ROLLBACK")
        raise
    table.execute("COMMIT")


__all__ = ["EventIndex", "RecycleGPError"]

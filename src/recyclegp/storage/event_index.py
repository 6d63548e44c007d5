"""Which modules are in a dictionary now: a table made of its events, and made again whenever it is not theirs.

It is an SQLite table in memory, of which the store keeps a copy in one file, with its SHA-256 at the end. That file is
replaced as a whole: nobody ever waits for another one's lock, and nothing is lost when it is lost, old, or damaged.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

from .event_store import ENTRY, EventStore, as_text
from .events import Entry, Event, Kind, Located, entry_from_text, entry_to_text, event_from_text

VERSION = 1
SAVED_EVERY = 64  # events, at least: so many are read anew by those who come next
SAVED_SHARE = 0.02  # of all events
DIGEST = 32  # bytes
TABLES = (
    "CREATE TABLE events (number INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    "CREATE TABLE entries (name TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, owner TEXT NOT NULL, "
    "likelihood TEXT NOT NULL, rows INTEGER NOT NULL, added REAL, text TEXT NOT NULL) WITHOUT ROWID",
)


class Condition(NamedTuple):
    """What is asked of entries: SQL, and the values of its question marks."""

    sql: str
    values: tuple[str | float, ...]


class Seen(NamedTuple):
    """The module of one name, and how far one has read."""

    entry: Entry | None
    located: Located | None
    last: int  # number of the last event


class _Read(NamedTuple):
    number: int
    text: str
    located: Located
    entry: Entry | None


class EventIndex:
    """The events of a store as a table. Every question is answered as of now.

    `entry_of` makes an entry of a module's bytes, where the entry beside it is damaged.
    """

    def __init__(self, store: EventStore, entry_of: Callable[[bytes], Entry]) -> None:
        self.store, self.entry_of = store, entry_of
        self._lock = threading.RLock()
        self._table: sqlite3.Connection | None = None
        self._saved = 0  # events that are in the copy

    def look(self, name: str) -> Seen:
        with self._fresh() as table:
            found = table.execute("SELECT number, text FROM entries WHERE name = ?", (name,)).fetchone()
            last = _last(table)
            if found is None:
                return Seen(None, None, last)
            event = table.execute("SELECT text FROM events WHERE number = ?", (found[0],)).fetchone()
        return Seen(entry_from_text(found[1], found[0]), self._located(event[0], found[0]), last)

    def entries(self, conditions: Iterable[Condition] = (), most: int = -1) -> list[Entry]:
        """Those that are there now, in the order of their names, or only the first of them."""
        asked = tuple(conditions)
        where = " AND ".join(["1", *(condition.sql for condition in asked)])
        with self._fresh() as table:
            rows = table.execute(
                f"SELECT number, text FROM entries WHERE {where} ORDER BY name LIMIT ?",
                [*(value for condition in asked for value in condition.values), most],
            ).fetchall()
        found = (entry_from_text(text, number) for number, text in rows)
        return [entry for entry in found if entry is not None]

    def events(self, after: int = 0) -> list[Event]:
        """Every event behind this number."""
        with self._fresh() as table:
            rows = table.execute(
                "SELECT number, text FROM events WHERE number > ? ORDER BY number", (after,)
            ).fetchall()
        return [event_from_text(text, number).event for number, text in rows]

    def superseded(self) -> list[Located]:
        """Events with modules, of which a later event says that they were replaced or removed.

        One that is not listed may only be unreadable, here or now: nobody has said that it is to go.
        """
        with self._fresh() as table:
            rows = table.execute(
                "SELECT number, text FROM events WHERE number NOT IN (SELECT number FROM entries) ORDER BY number"
            ).fetchall()
            listed = dict(table.execute("SELECT name, number FROM entries").fetchall())
        unlisted = [event_from_text(text, number) for number, text in rows]
        read = [e for e in unlisted if e.event.kind is not Kind.UNREADABLE]
        last = {e.event.name: e.event.number for e in read}
        return [
            e
            for e in read
            if e.file is not None and e.event.number < max(last[e.event.name], listed.get(e.event.name, 0))
        ]

    def files(self) -> list[Located]:
        """Where the modules lie that are there now, in the order of their names."""
        with self._fresh() as table:
            rows = table.execute(
                "SELECT e.number, e.text FROM entries AS m JOIN events AS e ON e.number = m.number ORDER BY m.name"
            ).fetchall()
        return [self._located(text, number) for number, text in rows]

    def last(self) -> int:
        """The number of the last event; zero where nothing has happened."""
        with self._fresh() as table:
            return _last(table)

    # --- up to date ---

    @contextmanager
    def _fresh(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._table is None:
                self._table, self._saved = self._loaded()
            last = _last(self._table)
            if not self._is_of_store(last):
                self._table, last = _empty(), 0
                self._saved = 0
            if last == 0:
                self._take(self._read_all(self.store.numbers()))
            # a module goes only after the event that replaces it has come, which is read now if it was not before
            self._take(self._read_on(_last(self._table)))
            self._save()
            yield self._table

    def _loaded(self) -> tuple[sqlite3.Connection, int]:
        """From the copy, if it is whole."""
        content = self.store.read_index()
        if content is not None and hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]:
            table = _in_memory()
            with suppress(sqlite3.Error, UnicodeDecodeError):  # its own words may quote what is no text
                table.deserialize(content[:-DIGEST])
                if _is_whole(table):
                    return table, _last(table)
        return _empty(), 0

    def _save(self) -> None:
        assert self._table is not None
        last = _last(self._table)
        if last - self._saved >= max(SAVED_EVERY, SAVED_SHARE * last):
            content = self._table.serialize()
            self.store.write_index(content + hashlib.sha256(content).digest())
            self._saved = last  # also where it could not be written: it is tried again later, not every time

    def _is_of_store(self, last: int) -> bool:
        """Is the last event that is known still the same?"""
        assert self._table is not None
        if last == 0:
            return True
        known = self._table.execute("SELECT text FROM events WHERE number = ?", (last,)).fetchone()
        return bool(known is not None and self.store.event(last) == known[0])

    def _read_on(self, last: int) -> Iterator[_Read]:
        while (found := self._read(last + 1)) is not None:
            yield found
            last += 1

    def _read_all(self, numbers: Sequence[int]) -> list[_Read]:
        if self.store.readers == 1 or len(numbers) < 2:
            found = map(self._read, numbers)
            return [read for read in found if read is not None]
        from concurrent.futures import ThreadPoolExecutor  # which a folder does not need

        with ThreadPoolExecutor(self.store.readers) as several:
            return [read for read in several.map(self._read, numbers) if read is not None]

    def _read(self, number: int) -> _Read | None:
        text = self.store.event(number)
        if text is None:
            return None
        located = self._located(text, number)
        return _Read(number, text, located, None if located.file is None else self._entry(located))

    def _located(self, text: str, number: int) -> Located:
        """Of an event that cannot be read, what lies beside it says what came."""
        located = event_from_text(text, number)
        if located.event.kind is Kind.UNREADABLE:
            files = self.store.modules(number)
            return located._replace(file=files[0]) if len(files) == 1 else located
        return located

    def _entry(self, located: Located) -> Entry | None:
        """None where the module has gone, or is damaged beyond reading."""
        number, identity, file = located.event.number, located.id, located.file
        assert file is not None
        try:
            entry = entry_from_text(as_text(self.store.read(number, identity, ENTRY)), number)
        except FileNotFoundError:
            entry = None
        if entry is not None and located.event.digest in (None, entry.digest):
            return entry
        try:
            content = self.store.read(number, identity, file)
            entry = self.entry_of(content)
        except (FileNotFoundError, ValueError):
            return None
        return entry._replace(number=number, by=located.event.by, added=located.event.time)

    def _take(self, events: Iterable[_Read]) -> None:
        assert self._table is not None
        table = self._table
        with closing(table.cursor()) as cursor:
            for number, text, located, entry in events:
                cursor.execute("INSERT INTO events VALUES (?, ?)", (number, text))
                if located.event.kind is not Kind.UNREADABLE:
                    cursor.execute("DELETE FROM entries WHERE name = ?", (located.event.name,))
                if entry is not None:
                    added = None if entry.added is None else entry.added.timestamp()
                    row = (entry.name, number, entry.owner, entry.likelihood, entry.rows, added, entry_to_text(entry))
                    cursor.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _empty() -> sqlite3.Connection:
    table = _in_memory()
    for statement in TABLES:
        table.execute(statement)
    table.execute(f"PRAGMA user_version = {VERSION}")
    return table


def _is_whole(table: sqlite3.Connection) -> bool:
    """Is it a table as it is made here? Whoever may write to the store may also have made another one."""
    made = [sql for (sql,) in table.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    if made != list(TABLES):
        return False
    version, sound = (table.execute(f"PRAGMA {what}").fetchone()[0] for what in ("user_version", "quick_check"))
    without = table.execute("SELECT 1 FROM entries WHERE number NOT IN (SELECT number FROM events)").fetchone()
    return bool(version == VERSION and sound == "ok" and without is None)


def _in_memory() -> sqlite3.Connection:
    found = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    found.text_factory = lambda content: content.decode(errors="replace")  # what is no text is read as damaged
    return found


def _last(table: sqlite3.Connection) -> int:
    return int(table.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0])

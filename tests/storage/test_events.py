"""What is listed of modules, where somebody else has written it: an entry is whole, or none."""

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import recyclegp as rgp
from cases_dictionary import module
from recyclegp.storage import event_index
from recyclegp.storage.event_store import LocalStore
from recyclegp.storage.events import entry_from_text, entry_to_text


@pytest.fixture
def dictionary(tmp_path, monkeypatch):
    monkeypatch.setattr(event_index, "SAVED_EVERY", 1)
    found = rgp.Dictionary(tmp_path / "d")
    for name in "ab":
        found.add(module(name))
    return found


ODD = [
    ("rows", "Infinity"),
    ("rows", str(10**30)),
    ("bytes", "-1"),
    ("rows", '"many"'),
    ("by", "[1]"),
    ("region", '[["low", "high"]]'),
    ("region", "[[NaN, 1]]"),
    ("name", '"\\ud800"'),
]


@pytest.mark.parametrize(("field", "value"), ODD)
def test_an_entry_that_is_none_is_made_again_from_its_module(dictionary, field, value):
    (entry, _), text = dictionary.list(), "a number of no entry"
    said = json.loads(entry_to_text(entry)) | {field: text}
    broken = json.dumps(said).replace(json.dumps(text), value)
    assert entry_from_text(broken, 1) is None
    (place,) = (p for p in (dictionary._store.root / "events").glob("*1/entry.json"))
    place.write_text(broken)
    (dictionary._store.root / "index.sqlite").unlink()
    again = rgp.Dictionary(dictionary.path)
    assert [(e.name, e.rows) for e in again.list(region=[(0, 6)], min_rows=1)] == [("a", 30), ("b", 30)]


def other_table(content):
    table = sqlite3.connect(":memory:", isolation_level=None)
    table.deserialize(content)
    table.execute("DROP TABLE entries")
    table.execute("CREATE VIEW entries AS SELECT 'x' AS name, 1 AS number, 'x' AS owner, 1 AS rows, 'x' AS text")
    return table.serialize()


def no_events(content):
    table = sqlite3.connect(":memory:", isolation_level=None)
    table.deserialize(content)
    table.execute("DELETE FROM events WHERE number = 1")
    return table.serialize()


HARMS = {
    "no table": lambda content: b"hello",
    "pages": lambda content: content[:200] + bytes(1000) + content[1200:],
    "a page at the end": lambda content: content[:-4000] + b"\xff" * 4000,
    "text that is none": lambda content: content.replace(b'"a"', b'"\xff"'),
    "words of the table": lambda content: content.replace(b"CREATE TABLE entries", b"CREATE \x89ABLE entries"),
    "another table": other_table,
    "fewer events": no_events,
}


@pytest.mark.parametrize("harm", HARMS)
def test_an_index_that_somebody_has_made_is_made_again(dictionary, harm):
    """Also where its digest fits."""
    dictionary.list()
    place = dictionary._store.root / "index.sqlite"
    content = HARMS[harm](place.read_bytes()[:-32])
    place.write_bytes(content + hashlib.sha256(content).digest())
    again = rgp.Dictionary(dictionary.path)
    assert len(again.list()) == 2
    assert "b" in {e.name for e in again.list()}
    assert [e.number for e in again.history()] == [1, 2]


def test_an_event_that_comes_while_it_is_looked_for_is_read(tmp_path, monkeypatch):
    """Between the look at its file and the look at its folder somebody publishes it: it is there, and whole."""
    store = LocalStore(tmp_path)
    prepared = store.prepare("0" * 32, "what happened", {})
    exists = Path.exists

    def published_meanwhile(place):
        if exists(prepared.place):
            prepared.publish(1)
        return exists(place)

    monkeypatch.setattr(Path, "exists", published_meanwhile)
    assert store.event(1) == "what happened"
    monkeypatch.undo()
    (store.place(1) / "event.json").unlink()
    assert store.event(1) == ""  # what is never removed has gone
    shutil.rmtree(store.place(1))
    assert store.event(1) is None

"""A dictionary of modules: what comes is there, what goes is gone, and lists need no torch."""

from __future__ import annotations

import builtins
import errno
import hashlib
import itertools
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import cases_dictionary as cases
import recyclegp as rgp
from recyclegp.models import dictionary as dictionary_module
from recyclegp.storage import event_index, event_store
from recyclegp.storage.events import Kind

PLACES = itertools.count()


@pytest.fixture(params=["folder", "memory"])
def place(request, tmp_path):
    return tmp_path / "d" if request.param == "folder" else f"memory://dictionary-{next(PLACES)}"


def names(d: rgp.Dictionary, **filters) -> list[str]:
    return [entry.name for entry in d.list(**filters)]


def test_modules_come_are_replaced_and_go(place):
    d, other = rgp.Dictionary(place), rgp.Dictionary(place)
    assert other.list() == ()
    came = d.add(cases.module("a"), by="anna")
    d.add(cases.module("b"))
    assert (came.name, came.owner, came.rows, came.by, came.number) == ("a", "a", 30, "anna", 1)
    assert names(other) == ["a", "b"]
    assert other.list()[0] == came
    new = other.replace(cases.module("a", level=2.0), by="ben")
    assert new.digest != came.digest
    assert d.list()[0].digest == new.digest
    np.testing.assert_array_equal(d.get("a").mean, cases.module("a", level=2.0).mean)
    d.remove("b", by="anna")
    assert names(other) == ["a"]
    said = [(e.number, e.kind, e.name, e.by) for e in other.history()]
    assert said == [
        (1, Kind.CAME, "a", "anna"),
        (2, Kind.CAME, "b", None),
        (3, Kind.REPLACED, "a", "ben"),
        (4, Kind.REMOVED, "b", "anna"),
    ]
    assert [e.digest for e in d.history()][2] == new.digest
    assert d.verify() == other.verify() == ()
    assert d.merge(learn=False).names == ["a"]


def test_files_and_bytes_come_back_to_the_byte(place, tmp_path):
    d = rgp.Dictionary(place)
    cases.module("a").save(tmp_path / "a.safetensors")
    content = (tmp_path / "a.safetensors").read_bytes()
    entry = d.add(tmp_path / "a.safetensors")
    assert d.read("a") == content
    assert entry.digest == hashlib.sha256(content).hexdigest()
    assert entry.bytes == len(content)
    assert d.add(content) == entry  # the same again is no event
    assert len(d.history()) == 1


def test_what_cannot_be_done_changes_nothing(place, tmp_path):
    d = rgp.Dictionary(place)
    with pytest.raises(rgp.RecycleGPError, match="no modules are there"):
        d.merge()
    first = d.add(cases.module("a"))
    with pytest.raises(rgp.RecycleGPError, match="already; use replace"):
        d.add(cases.module("a", level=1.0))
    with pytest.raises(rgp.RecycleGPError, match="no module is named 'b'"):
        d.replace(cases.module("b"))
    for call in (d.remove, d.get, d.read):
        with pytest.raises(rgp.RecycleGPError, match="no module is named 'b'"):
            call("b")
    with pytest.raises(rgp.RecycleGPError, match="not a complete recyclegp file"):
        d.add(d.read("a")[:-5])
    merged = rgp.merge([cases.module("a")], learn=False)
    merged.save(tmp_path / "e.safetensors")
    with pytest.raises(rgp.RecycleGPError, match="ensemble"):
        d.add(tmp_path / "e.safetensors")
    with pytest.raises(TypeError, match="to_module"):
        d.add(merged)
    with pytest.raises(rgp.RecycleGPError, match="by="):
        d.add(cases.module("c"), by="")
    d.replace(cases.module("a", level=1.0))
    with pytest.raises(rgp.RecycleGPError, match="replaced"):
        d.remove("a", expect=first.digest)
    with pytest.raises(rgp.RecycleGPError, match="replaced"):
        d.replace(cases.module("a", level=2.0), expect=first.digest)
    assert [e.kind for e in d.history()] == [Kind.CAME, Kind.REPLACED]


def test_lists_are_of_what_is_asked_for(place):
    X = np.linspace(0, 6, 40)[:, None]
    d = rgp.Dictionary(place)
    d.add(cases.module("ward-1"))
    d.add(cases.module("ward-2").owned_by("west").with_columns(["day"]))
    d.add(rgp.fit(X + 10, X[:, 0] > 3, likelihood="bernoulli", target="ill", name="clinic", kernel="rbf", learn=False))
    assert names(d) == ["clinic", "ward-1", "ward-2"]
    assert names(d, name="ward-*") == ["ward-1", "ward-2"]
    assert names(d, name="ward-1") == ["ward-1"]
    assert names(d, owner="west") == ["ward-2"]
    assert names(d, likelihood="bernoulli") == names(d, target="ill") == names(d, min_rows=31) == ["clinic"]
    assert names(d, max_rows=30) == ["ward-1", "ward-2"]
    assert names(d, region=[(5, 9)]) == ["ward-1", "ward-2"]
    assert names(d, region=[(9, 20)]) == ["clinic"]
    assert names(d, region={"day": (0, 1)}) == ["ward-2"]
    assert names(d, region={"day": (7, 8)}) == names(d, region={"night": (0, 1)}) == []
    assert names(d, max_age=1) == names(d)
    assert names(d, min_age=1) == []
    assert d.list()[0].target == "ill"
    for wrong in ({"region": [(2, 1)]}, {"region": [1]}, {"min_age": np.nan}):
        with pytest.raises(rgp.RecycleGPError):
            d.list(**wrong)
    with pytest.raises(TypeError):
        d.list(name=3)


def test_the_order_is_not_that_of_clocks(place, monkeypatch):
    """Whoever has a clock that is years off does not come before others, nor is lost behind them."""
    now = datetime.now(UTC)
    clocks = iter([now + timedelta(days=4000), now - timedelta(days=4000), now])

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return next(clocks)

    monkeypatch.setattr(dictionary_module, "datetime", Clock)
    d = rgp.Dictionary(place)
    d.add(cases.module("a"))
    d.replace(cases.module("a", level=1.0))
    d.remove("a")
    monkeypatch.undo()
    other = rgp.Dictionary(place)
    assert [e.kind for e in other.history()] == [Kind.CAME, Kind.REPLACED, Kind.REMOVED]
    assert other.list() == ()


def test_a_removed_module_leaves_no_more_than_that_it_was_there(tmp_path):
    d = rgp.Dictionary(tmp_path)
    d.add(cases.module("a"))
    d.replace(cases.module("a", level=1.0))
    d.remove("a")
    assert cases.files_of(tmp_path) == [f"events/{i:010d}/event.json" for i in (1, 2, 3)]


@pytest.mark.parametrize("harm", ["lost", "cut", "changed", "of another dictionary", "old"])
def test_losing_the_index_loses_nothing(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(event_index, "SAVED_EVERY", 1)
    d = rgp.Dictionary(tmp_path / "d")
    for name in "abc":
        d.add(cases.module(name))
    d.remove("b")
    index = tmp_path / "d" / "index.sqlite"
    d.list()
    content = index.read_bytes()
    if harm == "lost":
        index.unlink()
    elif harm == "cut":
        index.write_bytes(content[: len(content) // 2])
    elif harm == "changed":
        index.write_bytes(content.replace(b'"a"', b'"z"'))
    elif harm == "of another dictionary":
        other = rgp.Dictionary(tmp_path / "other")
        for name in "xyzw":
            other.add(cases.module(name))
        other.list()
        shutil.copy(tmp_path / "other" / "index.sqlite", index)
    else:
        d.add(cases.module("b", level=3.0))
        d.remove("c")
        index.write_bytes(content)
    expected = ["a", "b"] if harm == "old" else ["a", "c"]
    again = rgp.Dictionary(tmp_path / "d")
    assert names(again) == expected
    assert again.list() == d.list()
    assert again.history() == d.history()


def test_damage_is_found_and_named(tmp_path):
    d = rgp.Dictionary(tmp_path)
    for name in "abcde":
        d.add(cases.module(name))
    whole = d.list()
    events = tmp_path / "events"
    (events / "0000000001" / "entry.json").write_text("{")  # made again from the module
    (events / "0000000002" / "event.json").write_text("half an ev")  # the module is still known
    (events / "0000000003" / "c.safetensors").unlink()
    content = bytearray((events / "0000000004" / "d.safetensors").read_bytes())
    content[-1] ^= 1
    (events / "0000000004" / "d.safetensors").write_bytes(content)
    found = rgp.Dictionary(tmp_path)
    assert names(found) == list("abcde")
    assert found.list()[0] == whole[0]
    assert found.list()[1] == whole[1]
    assert [event.kind for event in found.history()][1] is Kind.UNREADABLE
    np.testing.assert_array_equal(found.get("b").mean, cases.module("b").mean)
    problems = dict(found.verify())
    assert set(problems) == {"c", "d", "event 2"}
    assert "gone" in problems["c"]
    assert "damaged" in problems["d"]
    found.remove("c")
    with pytest.raises(rgp.RecycleGPError, match="'d' is damaged"):
        found.merge(learn=False)
    with pytest.warns(rgp.RecycleGPWarning, match="'d' is damaged"):
        merged = found.merge(learn=False, on_failure="skip")
    assert merged.names == list("abe")
    assert [skipped.name for skipped in merged.skipped] == ["d"]


def test_no_locks_and_no_links(tmp_path, monkeypatch):
    def forbidden(*arguments, **options):
        raise OSError(errno.EPERM, "this file system has none")

    monkeypatch.setattr(os, "link", forbidden)
    monkeypatch.setattr(os, "symlink", forbidden)
    monkeypatch.setattr("recyclegp.storage.atomic.fcntl", None)
    monkeypatch.setattr(event_index, "SAVED_EVERY", 1)
    d = rgp.Dictionary(tmp_path)
    d.add(cases.module("a"))
    d.replace(cases.module("a", level=1.0))
    assert names(rgp.Dictionary(tmp_path)) == ["a"]


def test_a_disk_that_may_only_be_read(tmp_path, monkeypatch):
    d = rgp.Dictionary(tmp_path / "d")
    d.add(cases.module("a"))
    d.add(cases.module("b"))
    real = {name: getattr(os, name) for name in ("mkdir", "rename", "replace", "unlink")}

    def refused(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))

    def opened(path, mode="r", *arguments, **options):
        if set(mode) & set("wxa+"):
            refused(path)
        return real_open(path, mode, *arguments, **options)

    real_open = builtins.open
    for name in real:
        monkeypatch.setattr(os, name, refused)
    monkeypatch.setattr(builtins, "open", opened)
    monkeypatch.setattr(event_index, "SAVED_EVERY", 1)
    reader = rgp.Dictionary(tmp_path / "d")
    assert names(reader) == ["a", "b"]
    assert reader.get("a").name == "a"
    assert reader.merge(learn=False).names == ["a", "b"]
    assert reader.verify() == ()
    for write in (lambda: reader.add(cases.module("c")), lambda: reader.remove("a")):
        with pytest.raises(OSError, match="ead-only"):
            write()
    assert names(reader) == ["a", "b"]


def test_of_two_who_want_one_name_one_gets_it(tmp_path):
    """The second looks before the first has published, and publishes after it."""
    first, second = rgp.Dictionary(tmp_path), rgp.Dictionary(tmp_path)
    prepare = second._store.prepare

    def interrupted(*arguments):
        found = prepare(*arguments)
        if len(first.history()) == 0:
            first.add(cases.module("a"), by="first")
        return found

    second._store.prepare = interrupted
    with pytest.raises(rgp.RecycleGPError, match="already"):
        second.add(cases.module("a", level=1.0), by="second")
    assert [(e.name, e.by) for e in first.list()] == [("a", "first")]
    assert second.add(cases.module("b"), by="second").number == 2
    assert os.listdir(tmp_path / "partial") == []


def test_a_number_that_is_taken_is_not_taken_again(tmp_path):
    store = event_store.LocalStore(tmp_path)
    one = store.prepare("1" * 32, "one", {"m.safetensors": b"1"})
    two = store.prepare("2" * 32, "two", {})
    assert one.publish(1)
    assert not two.publish(1)
    assert two.publish(2)
    assert [store.event(n) for n in (1, 2, 3)] == ["one", "two", None]


def test_what_killed_writers_left_goes_and_cannot_come_back(tmp_path, monkeypatch):
    store = event_store.LocalStore(tmp_path)
    slow = store.prepare("1" * 32, "one", {"m.safetensors": b"1"})
    os.utime(slow.place, (0, 0))
    store.prepare("2" * 32, "two", {}).discard()
    assert os.listdir(tmp_path / "partial") == []
    with pytest.raises(FileNotFoundError):  # it lives after all, and hears that it is too late
        slow.publish(1)
    assert store.numbers() == []


def test_watching(place):
    d, writer = rgp.Dictionary(place), rgp.Dictionary(place)
    writer.add(cases.module("a"))
    seen = d.watch(0.01, after=0)
    assert next(seen).name == "a"
    threading.Timer(0.05, lambda: writer.add(cases.module("b"))).start()
    assert next(seen).name == "b"
    writer.remove("a")
    assert next(seen).kind is Kind.REMOVED
    later = d.watch(0.01)  # from now on
    threading.Timer(0.05, lambda: writer.remove("b")).start()
    assert (event := next(later)).name == "b"
    assert event.number == 4


def test_it_travels_to_other_processes(tmp_path):
    d = rgp.Dictionary(tmp_path)
    d.add(cases.module("a"))
    again = pickle.loads(pickle.dumps(d))
    assert names(again) == ["a"]
    assert repr(again) == f"Dictionary({str(tmp_path)!r})"


def test_listing_imports_no_torch(tmp_path):
    rgp.Dictionary(tmp_path).add(cases.module("a"))
    code = (
        "import sys, recyclegp as rgp\n"
        f"d = rgp.Dictionary({str(tmp_path)!r})\n"
        "assert [e.rows for e in d.list(name='a', region=[(0, 9)])] == [30]\n"
        "assert len(d.history()) == 1\n"
        "print(sorted({'torch', 'numpy', 'gpytorch', 'fsspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_url_of_a_folder_is_that_folder(tmp_path):
    rgp.Dictionary(f"file://{tmp_path}").add(cases.module("a"))
    assert names(rgp.Dictionary(tmp_path)) == ["a"]
    with pytest.raises(rgp.RecycleGPError, match="nowhere"):
        rgp.Dictionary("nowhere://x")
    with pytest.raises(TypeError, match="options are for URLs"):
        rgp.Dictionary(tmp_path, anon=True)


def test_a_folder_that_was_copied_into_a_store_is_read_there(tmp_path):
    import fsspec

    d = rgp.Dictionary(tmp_path / "d")
    d.add(cases.module("a"))
    files = fsspec.filesystem("memory")
    files.put(str(tmp_path / "d"), "/copied", recursive=True)
    copy = rgp.Dictionary("memory://copied")
    assert copy.list() == d.list()
    assert copy.read("a") == d.read("a")
    copy.remove("a")
    assert copy.list() == ()
    assert not files.exists("/copied/events/0000000001/a.safetensors")


def test_an_object_store_where_the_answer_is_lost(monkeypatch):
    """The event may be there: what came with it must stay."""
    d = rgp.Dictionary(f"memory://dictionary-{next(PLACES)}")
    d.add(cases.module("a"))
    real = type(d._store).create

    def lost(self, number, event):
        real(self, number, event)
        raise OSError(errno.ETIMEDOUT, "timed out")

    monkeypatch.setattr(type(d._store), "create", lost)
    with pytest.raises(OSError, match="timed out"):
        d.replace(cases.module("a", level=1.0))
    monkeypatch.undo()
    assert d.verify() == ()
    assert d.get("a").mean == cases.module("a", level=1.0).mean


def test_the_index_is_saved_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(event_index, "SAVED_EVERY", 4)
    d = rgp.Dictionary(tmp_path)
    for i in range(9):
        d.add(cases.module(f"m{i}"))
    table = sqlite3.connect(":memory:")
    table.deserialize((tmp_path / "index.sqlite").read_bytes()[:-32])
    assert 4 <= table.execute("SELECT count(*) FROM entries").fetchone()[0] <= 9
    assert rgp.Dictionary(tmp_path).list() == d.list()
    assert len(d.list()) == 9


def test_merge_takes_the_folder_itself(tmp_path):
    d = rgp.Dictionary(tmp_path)
    for name in "abc":
        d.add(cases.module(name))
    d.remove("b")
    assert rgp.merge(tmp_path, learn=False).names == ["a", "c"]


@pytest.mark.parametrize("harm", ["damaged", "newer", "event"])
def test_what_cannot_be_read_is_not_tidied_away(tmp_path, harm):
    """It may be of a newer version, or come back from a copy: only what was replaced or removed goes."""
    d = rgp.Dictionary(tmp_path)
    for name in "abc":
        d.add(cases.module(name))
    d.replace(cases.module("c", level=1.0))
    d.remove("b")
    place = tmp_path / "events" / "0000000001"
    module, entry, event = place / "a.safetensors", place / "entry.json", place / "event.json"
    whole = {path: path.read_bytes() for path in (module, entry, event)}
    entry.write_text("{")
    half = whole[module][: len(whole[module]) // 2]
    module.write_bytes(b"of another format" if harm == "newer" else half)
    if harm == "event":
        event.write_text("half an ev")
    other = rgp.Dictionary(tmp_path)
    assert "a" not in names(other)
    other.add(cases.module("new"))
    rgp.Dictionary(tmp_path).add(cases.module("newer"))
    assert module.exists()
    for path, content in whole.items():
        path.write_bytes(content)
    (tmp_path / "index.sqlite").unlink(missing_ok=True)
    again = rgp.Dictionary(tmp_path)
    assert names(again) == ["a", "c", "new", "newer"]
    assert again.verify() == ()
    left = {path.parent.name for path in (tmp_path / "events").glob("*/*.safetensors")}
    assert left == {"0000000001", "0000000004", "0000000006", "0000000007"}

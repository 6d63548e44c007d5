"""Disks that fail at every call, and writers that are killed: what was acknowledged is there, and nothing is half."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import cases_dictionary as cases
import recyclegp as rgp
from recyclegp.storage import event_index
from recyclegp.storage.events import Kind

OPERATIONS: dict[str, Callable[[rgp.Dictionary], object]] = {
    "add": lambda d: d.add(cases.module("new")),
    "replace": lambda d: d.replace(cases.module("old", level=1.0)),
    "remove": lambda d: d.remove("old"),
}
AFTER = {"add": ["new", "old", "other"], "replace": ["old", "other"], "remove": ["other"]}


@pytest.fixture
def memory(tmp_path):
    """A folder that is quick to sync, where there is one: what is killed here is a process, not a machine."""
    place = Path("/dev/shm") / f"recyclegp-{os.getpid()}-{random.getrandbits(32):x}"
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    place.mkdir()
    yield place
    shutil.rmtree(place)


@pytest.fixture
def prepared(memory, monkeypatch):
    """A dictionary with two modules."""
    monkeypatch.setattr(event_index, "SAVED_EVERY", 1)
    d = rgp.Dictionary(memory / "prepared")
    d.add(cases.module("old"))
    d.add(cases.module("other"))
    cases.module("new"), cases.module("old", level=1.0)
    return d


def names(d: rgp.Dictionary) -> list[str]:
    return [entry.name for entry in d.list()]


def check(place: Path | str, before: rgp.Dictionary, operation: str, acknowledged: bool) -> None:
    """After a fault: as before or as afterwards, whole; and it can be done (again)."""
    d = rgp.Dictionary(place)
    assert d.verify() == ()
    assert all(event.kind is not Kind.UNREADABLE for event in d.history())
    done = len(d.history()) == 3
    assert done or not acknowledged
    assert names(d) == (AFTER[operation] if done else ["old", "other"])
    assert d.read("other") == before.read("other")
    if not done:
        assert d.read("old") == before.read("old")
        OPERATIONS[operation](d)
    elif operation == "replace":
        assert d.get("old").mean == cases.module("old", level=1.0).mean
    assert names(d) == AFTER[operation]
    assert d.verify() == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["error", "full", "half"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_to_the_disk_may_fail(prepared, memory, operation, kind):
    for at in range(1000):
        place = memory / f"copy-{at}"
        shutil.copytree(prepared.path, place)
        d = rgp.Dictionary(place)
        fault = cases.Fault(at, kind)
        acknowledged = False
        with cases.failing(fault, place):
            try:
                OPERATIONS[operation](d)
                acknowledged = True
            except OSError:
                pass
        check(place, prepared, operation, acknowledged)
        shutil.rmtree(place)
        if not fault.fired:
            break
    assert at > 15
    assert acknowledged  # without a fault


@pytest.mark.parametrize("kind", ["error", "half"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_to_an_object_store_may_fail(monkeypatch, operation, kind):
    """With an error; or done, and nobody heard of it, which is half of a call."""
    monkeypatch.setattr(event_index, "SAVED_EVERY", 1)
    url = f"memory://faults-{operation}-{kind}"
    files = pytest.importorskip("fsspec").filesystem("memory")
    before = rgp.Dictionary(f"{url}-before")
    before.add(cases.module("old"))
    before.add(cases.module("other"))
    for at in range(1000):
        for path in files.find(f"{url}-before"):
            files.pipe_file(path.replace("-before/", f"-{at}/"), files.cat_file(path))
        d = rgp.Dictionary(f"{url}-{at}")
        fault = cases.Fault(at, kind)
        d._store.files = cases.FaultyFiles(files, fault)
        acknowledged = False
        try:
            OPERATIONS[operation](d)
            acknowledged = True
        except OSError:
            pass
        check(d.path, before, operation, acknowledged)
        if not fault.fired:
            break
    assert at > 5
    assert acknowledged  # without a fault


def killed(work: Callable[[], object], after: float | None = None) -> int:
    """Do it in a process of its own, which may be killed; how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_writer_killed_at_every_call(prepared, memory, operation):
    for at in range(1000):
        place = memory / f"copy-{at}"
        shutil.copytree(prepared.path, place)

        def work(place=place, at=at):
            with cases.failing(cases.Fault(at, "kill"), place):
                OPERATIONS[operation](rgp.Dictionary(place))

        status = killed(work)
        check(place, prepared, operation, acknowledged=status == 0)
        shutil.rmtree(place)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert at > 15


KILLS, WRITERS = 500, 4


def writer(place: Path, who: str, say: int) -> None:
    """Adds, replaces and removes modules of its own, and replaces one that all share, until it is killed."""
    d = rgp.Dictionary(place)
    for i in range(1000):
        name = f"{who}-{i}"

        def told(what: str, entry=None, name=name) -> None:
            os.write(say, f"{what} {name} {'' if entry is None else entry.digest}\n".encode())

        told("adds")
        told("added", d.add(cases.module("old").rename(name), by=who))
        if i % 3 == 1:
            told("replaces")
            told("replaced", d.replace(cases.module("old", level=1.0).rename(name), by=who))
        if i % 3 == 2:
            told("removes")
            d.remove(name, by=who)
            told("removed")
        d.replace(cases.module("old", level=float(i % 2)).rename("shared"), by=who)


def heard(listen: int) -> str:
    """What a writer has said since; nothing where it is silent, or dead."""
    try:
        return os.read(listen, 2**16).decode()
    except BlockingIOError:
        return ""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_writers_killed_five_hundred_times(memory):
    place = memory / "killed"
    reader = rgp.Dictionary(place)
    reader.add(cases.module("old").rename("shared"))
    reader.add(cases.module("old", level=1.0).rename("of level 1"))
    chance = random.Random(0)
    known: dict[str, tuple[str, str]] = {}  # name → the last that was said of it, and its digest
    acknowledged = 0
    for start in range(0, KILLS, WRITERS):
        children: dict[int, int] = {}  # and where they are heard
        for i in range(WRITERS):
            listen, say = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    writer(place, f"w{start + i}", say)
                finally:
                    os._exit(1)
            os.close(say)
            os.set_blocking(listen, False)
            children[child] = listen
        said = dict.fromkeys(children, "")
        ends = {child: chance.randrange(6) for child in children}  # lines, and a moment
        while ends:
            for child, listen in children.items():
                said[child] += heard(listen)
                if child in ends and said[child].count("\n") >= ends[child]:
                    time.sleep(chance.uniform(0, 0.005))
                    os.kill(child, signal.SIGKILL)
                    del ends[child]
            entry = reader.list(name="shared")[0]  # always there, always whole
            assert len(reader.read("shared")) > 0.9 * entry.bytes
        for child, listen in children.items():
            assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL  # it had done nothing wrong
            said[child] += heard(listen)
            os.close(listen)
            for line in said[child].splitlines():
                what, name, digest = line.split(" ")
                known[name] = (what, digest)
                acknowledged += what in ("added", "replaced", "removed")
    d = rgp.Dictionary(place)
    there = {entry.name: entry for entry in d.list()}
    assert acknowledged > KILLS / 2  # they got somewhere
    for name, (what, digest) in known.items():
        if what in ("added", "replaced"):
            assert there[name].digest == digest, (name, what)
        elif what == "removed":
            assert name not in there
        elif what == "replaces":
            assert name in there  # the one or the other
    assert d.verify() == ()
    events = d.history()
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    current = {entry.number for entry in d.list()}
    d.add(cases.module("old").rename("last"))  # whoever comes next tidies up
    for folder in (place / "events").iterdir():
        held = sorted(path.suffix for path in folder.iterdir())
        whole = [".json", ".json", ".safetensors"]
        assert held == (whole if int(folder.name) in current | {len(events) + 1} else [".json"]), folder.name


def test_a_full_disk_in_short(prepared, memory):
    """One of the faults above, for those who leave out slow tests."""
    for at, kind in ((8, "full"), (12, "half"), (16, "error")):
        place = memory / f"short-{at}"
        shutil.copytree(prepared.path, place)
        acknowledged = False
        with cases.failing(fault := cases.Fault(at, kind), place):
            try:
                rgp.Dictionary(place).add(cases.module("new"))
                acknowledged = True
            except OSError:
                pass
        assert fault.fired
        check(place, prepared, "add", acknowledged)

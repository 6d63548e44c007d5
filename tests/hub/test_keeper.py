"""What the keeper does by itself, step by step and without HTTP: it comes to rest, whatever happens meanwhile."""

import asyncio
import errno
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
import recyclegp as rgp
from recyclegp.hub import exchanges, merges, protocol, receipts, rounds, server, worker
from recyclegp.hub import keeper as keeping
from recyclegp.hub.folder import read_json
from recyclegp.hub.hub import Hub, State
from recyclegp.hub.keeper import Keeper

NAMES = ("east", "north", "south", "west")


@pytest.fixture
def hub(tmp_path):
    found = Hub(tmp_path / "hub", cases.settings(expect=len(NAMES)))
    yield found
    found.close()


def put(hub, *modules):
    """Without HTTP, and without an owner behind it."""
    for m in modules:
        entry = hub.dictionary.add(m)
        hub.changed(m.name, entry.digest)


def steps(hub, most=20):
    """How many merges it takes until nothing is left to do."""
    keeper, jobs = Keeper(hub, lambda: ThreadPoolExecutor(1)), []
    real = keeper._job

    async def counted(job, *arguments):
        jobs.append(job.__name__)
        return await real(job, *arguments)

    async def until_at_rest():
        for _ in range(most):
            if not await keeper.step() and hub.state() is not State.MERGING:
                return
        raise AssertionError(f"not at rest after {most} steps: {hub.state()}, {jobs}")

    keeper._job = counted
    try:
        asyncio.run(until_at_rest())
    finally:
        keeper.close()
    return jobs


def test_a_model_that_some_were_added_to_is_learned_anew_once(hub, monkeypatch):
    """Points are given a number, so that sums are kept; who comes last completes the model."""
    monkeypatch.setitem(merges.OPTIONS, "inducing", 12)
    monkeypatch.setitem(merges.OPTIONS, "owners", None)
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES[:3])))
    keeper = Keeper(hub, lambda: ThreadPoolExecutor(1))
    assert asyncio.run(keeper.step())
    keeper.close()
    put(hub, cases.module("west", 3))
    facts = worker.merge(str(hub.folder.root), hub.modules(), False, {})
    assert facts["learned_without"] == ["west"]  # it was quick
    hub.merged(facts)
    assert hub.must_learn()
    assert steps(hub) == ["merge"]
    assert hub.current["learned_without"] == []
    assert hub.state() is State.READY


class Meanwhile:
    """What happens to the dictionary while a job runs, once: after it has read everything, or before."""

    def __init__(self, monkeypatch, change, *, after):
        self.change, real = change, worker.merge

        def merge(*arguments):
            change, self.change = self.change, lambda: None
            if after:
                facts = real(*arguments)
                change()
                return facts
            change()
            return real(*arguments)

        monkeypatch.setattr(worker, "merge", merge)


def left(hub, name):
    """The module goes, and a receipt is owed."""
    digest = hub.modules()[name]
    hub.dictionary.remove(name)
    hub.changed(name, None)
    facts = {"name": name, "key": "ab" * 32, "module": digest, "withdrawn": 1.0, "model_before": None, "audit": ""}
    return hub.folder.receipts / f"{receipts.promise(hub.folder.receipts, facts)}.json"


def test_a_receipt_is_signed_only_when_nothing_of_the_leaver_is_left(hub, monkeypatch):
    """It comes after the hub has listed the modules, is merged, and leaves: the list is as before."""
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES[:3])))
    steps_of_three = steps(hub)
    without = hub.current["model"]
    assert steps_of_three == ["merge"]
    before = dict(hub.modules())
    put(hub, cases.module("late", 7))
    facts = worker.merge(str(hub.folder.root), before, True, {})  # told of three
    assert set(facts["modules"]) == {*before, "late"}
    receipt = left(hub, "late")
    assert hub.modules() == before
    hub.merged(facts)
    assert read_json(receipt)["signature"] is None
    assert steps(hub) == ["merge"]
    assert hub.current["model"] == without
    assert read_json(receipt)["signature"] is not None
    assert read_json(receipt)["receipt"]["model_after"] == without


def test_who_leaves_while_others_are_merged(hub, monkeypatch):
    """Told of four, a merge finds three: that is what it says."""
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES)))
    receipts_of = []
    Meanwhile(monkeypatch, lambda: receipts_of.append(left(hub, "west")), after=False)
    assert steps(hub) == ["merge"]
    assert set(hub.current["modules"]) == set(NAMES[:3])
    (receipt,) = receipts_of
    assert read_json(receipt)["signature"] is not None
    other = hub.current["model"]
    Meanwhile(monkeypatch, lambda: receipts_of.append(left(hub, "south")), after=True)
    put(hub, cases.module("west", 3))
    assert steps(hub) == ["merge", "merge"]
    assert set(hub.current["modules"]) == {"east", "north", "west"}
    assert hub.current["model"] != other


def test_whoever_has_judged_others_and_left_has_judged_for_nothing(hub, monkeypatch):
    """It leaves between the merge that finds a liar and that without the liar."""
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES)), cases.module("liar", 9, sign=-1))
    found = merges.Merges(hub.folder.modules)
    real, gone = found.dictionary.merge, []

    def merge(**options):
        if options.get("without") and not gone:
            gone.append(left(hub, "west"))
        return real(**options)

    monkeypatch.setattr(found.dictionary, "merge", merge)
    with pytest.warns(rgp.RecycleGPWarning):
        first = found.merged(hub.modules(), False)
    assert set(first.modules) == {*NAMES, "liar"}
    assert set(first.model.names) == set(NAMES[:3])
    with pytest.warns(rgp.RecycleGPWarning):
        again = found.merged(hub.modules(), False)
    assert again.model is not first.model
    assert set(again.modules) == {*NAMES[:3], "liar"}


@pytest.mark.parametrize("what", ["modules", "run", "close_evaluations"])
def test_it_lives_on_whatever_fails_and_however_often(hub, monkeypatch, what):
    """As where no more files can be opened: what is asked while one error is handled fails as well."""
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES)))
    monkeypatch.setattr(keeping, "LOOK", 0.0)
    real, failures, seen = getattr(hub, what), list(range(5)), []

    def failing(*arguments):
        if failures:
            failures.pop()
            raise OSError(errno.EMFILE, "Too many open files")
        return real(*arguments)

    monkeypatch.setattr(hub, what, failing)
    keeper = Keeper(hub, lambda: ThreadPoolExecutor(1))

    async def watched():
        task = asyncio.create_task(keeper.run())
        while not task.done() and (failures or hub.failed or set(hub.current["modules"]) != set(NAMES)):
            if hub.failed is not None:
                seen.append(hub.failed)
            await asyncio.sleep(0.001)
        assert not task.done()
        task.cancel()

    try:
        asyncio.run(asyncio.wait_for(watched(), 120))
    finally:
        keeper.close()
    assert hub.state() is State.READY
    assert "Too many open files" in seen[-1]


def test_there_are_files_for_all_connections(monkeypatch):
    resource = pytest.importorskip("resource")
    now = {"soft": 1024, "hard": 4096}
    monkeypatch.setattr(resource, "getrlimit", lambda what: (now["soft"], now["hard"]))
    monkeypatch.setattr(resource, "setrlimit", lambda what, wanted: now.update(soft=wanted[0]))
    assert server.room_for(1000) == 1000
    assert now["soft"] == 2 * 1000 + server.FILES
    now.update(soft=1024, hard=1024)
    assert server.room_for(1000) == (1024 - server.FILES) // 2
    now.update(soft=resource.RLIM_INFINITY, hard=resource.RLIM_INFINITY)
    assert server.room_for(1000) == 1000


def test_a_clock_that_is_set_back_stops_nobody(hub, monkeypatch):
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES)))
    monkeypatch.setattr(keeping.time, "time", lambda: 1e9)  # years ago
    assert steps(hub) == ["merge"]


def test_rounds_begin_only_with_the_modules_of_their_plan(hub):
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES)))
    steps(hub)
    here = dict(hub.modules())
    put(hub, cases.module("late", 7))
    folder = rounds.new_folder(hub.folder.rounds, 1e9)
    assert exchanges.begin(hub, folder, "a plan", here) is None
    assert hub.run() is None
    assert exchanges.begin(hub, folder, "a plan", hub.modules()) is not None
    assert exchanges.begin(hub, folder, "a plan", hub.modules()) is None  # one goes on


def test_a_hub_that_starts_remembers_no_merge(hub):
    """Also where its jobs are threads of the same process."""
    before = merges.of(hub.folder.modules)
    assert merges.of(hub.folder.modules) is before
    Keeper(hub, lambda: ThreadPoolExecutor(1)).close()
    assert merges.of(hub.folder.modules) is not before


def test_registering_keeps_no_small_question_waiting(hub, monkeypatch):
    """What is written to a slow disk for one does not hold what all others need."""
    key, free = cases.new_key(), []
    real = hub.registry.register

    def register(*arguments):
        def ask():
            free.append(hub.lock.acquire(blocking=False))
            hub.lock.release()

        other = threading.Thread(target=ask)
        other.start()
        other.join(60)
        return real(*arguments)

    monkeypatch.setattr(hub.registry, "register", register)
    said = protocol.Signed("POST", "/register", protocol.raw(key), "north", 0, "0" * 32, "", hub.public)
    assert hub.register(said, None).name == "north"
    assert free == [True]

"""What the keeper does by itself, step by step and without HTTP: it comes to rest, whatever happens meanwhile."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette")
pytest.importorskip("cryptography")

import cases_hub as cases
from recyclegp.hub import merges, worker
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
            if not await keeper.step() and hub.state() is State.READY:
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
    facts = worker.merge(str(hub.folder.root), hub.modules(), False)
    assert facts["learned_without"] == ["west"]  # it was quick
    hub.merged(facts)
    assert hub.must_learn()
    assert steps(hub) == ["merge"]
    assert hub.current["learned_without"] == []

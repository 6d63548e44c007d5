"""Modules and jobs that take more than a hub allows stop nobody else."""

import asyncio
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
from recyclegp.hub import keeper as keeping
from recyclegp.hub import merges, worker
from recyclegp.hub.hub import Hub, State
from recyclegp.hub.keeper import Keeper, TooMuchError
from recyclegp.hub.limits import Limits, Rate
from recyclegp.hub.protocol import RefusedError
from recyclegp.hub.server import Jobs

NAMES = ("east", "north", "south")
FREE = (Rate(1e6, 1e6),) * 3


@pytest.fixture
def hub(tmp_path):
    found = Hub(tmp_path / "hub", cases.settings(expect=2, job_seconds=600.0))
    yield found
    found.close()


def put(hub, *modules):
    for m in modules:
        here = hub.modules()
        entry = (hub.dictionary.replace if m.name in here else hub.dictionary.add)(m)
        hub.changed(m.name, entry.digest)


def test_points_are_counted_before_anything_is_computed(tmp_path, monkeypatch):
    limits = Limits(most_points=7, of_key=FREE[0], of_address=FREE[1], refused=FREE[2])
    with cases.running(tmp_path / "hub", limits=limits) as here:
        north = here.owner("north")
        with monkeypatch.context() as patched:
            patched.setattr("recyclegp.models.load.load", None)
            with pytest.raises(RefusedError, match="12 points, and a module here may have 7") as refused:
                north.send("/module", cases.content(cases.module("north", publish=12), tmp_path))
        assert refused.value.status == 422
        north.send("/module", cases.content(cases.module("north"), tmp_path))
        here.merged("north")


def test_the_largest_that_is_new_is_left_out_until_it_is_another(hub, monkeypatch):
    """Whatever takes too long with it, the others are merged."""
    put(hub, *(cases.module(name, seed) for seed, name in enumerate(NAMES)))
    now = [time.monotonic()]  # later than when the modules came
    monkeypatch.setattr(keeping.time, "monotonic", lambda: now[0])
    keeper, tried = Keeper(hub, lambda: ThreadPoolExecutor(1)), []
    real = keeper._job

    async def job(what, *arguments):
        if what is worker.merge:
            names, _, left_out = arguments
            tried.append(sorted(set(names) - set(left_out)))
            large = {e.name for e in hub.dictionary.list() if e.bytes > most} - set(left_out)
            if large:
                raise TooMuchError("given up")
        return await real(what, *arguments)

    keeper._job = job

    async def until_ready():
        for _ in range(20):
            try:
                if not await keeper.step() and hub.state() is State.READY:
                    return
            except TooMuchError as failed:
                keeper._unwell(failed)
                now[0] += keeping.AGAIN + 1
        raise AssertionError(f"not ready: {tried}")

    try:
        most = max(e.bytes for e in hub.dictionary.list())
        asyncio.run(until_ready())
        before = hub.current["model"]
        put(hub, cases.module("west", 3), cases.module("huge", 4, publish=20))
        asyncio.run(until_ready())
        assert tried[1:] == [["east", "huge", "north", "south", "west"], ["east", "north", "south", "west"]]
        assert sorted(hub.current["counted"]) == ["east", "north", "south", "west"]
        assert hub.current["flagged"] == {"huge": merges.TOO_MUCH}
        assert set(hub.current["modules"]) == {*NAMES, "west", "huge"}
        assert hub.current["model"] != before
        assert hub.failed is None
        put(hub, cases.module("huge", 4))  # at fewer points
        asyncio.run(until_ready())
        assert "huge" in hub.current["counted"]
        assert hub.current["flagged"] == {}
    finally:
        keeper.close()


class Endless(ThreadPoolExecutor):
    """Jobs that end when they are made to."""

    def __init__(self):
        super().__init__(1)
        self.ended = threading.Event()

    def submit(self, *_):
        return super().submit(self.ended.wait)

    def end(self):
        self.ended.set()
        self.shutdown(wait=False)


def test_a_job_that_takes_too_long_is_ended(tmp_path):
    hub = Hub(tmp_path / "hub", cases.settings(job_seconds=0.01))
    made = []
    keeper = Keeper(hub, lambda: made.append(Endless()) or made[-1])
    try:
        with pytest.raises(TooMuchError, match=r"more than the 0\.01 s"):
            asyncio.run(keeper._job(worker.merge, {}, False, {}))
        assert made[0].ended.is_set()
        assert len(made) == 2  # for the next one
    finally:
        made[-1].end()
        hub.close()


@pytest.mark.slow
def test_the_process_has_its_limits():
    jobs = Jobs(1, 2**28)
    try:
        assert jobs.submit(worker.run, len, "abc").result() == 3
        with pytest.raises(MemoryError, match="more memory than this hub allows"):
            jobs.submit(worker.run, bytearray, 2**32).result()
        sleeps = jobs.submit(time.sleep, 600)
        jobs.end()
        with pytest.raises((BrokenProcessPool, CancelledError)):
            sleeps.result()
    finally:
        jobs.end()

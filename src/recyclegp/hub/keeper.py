"""What a hub does by itself: merge when modules arrive, go on with rounds, sign receipts. One job at a time.

Jobs run in an executor: a process of their own in a hub that runs, a thread in tests. What arrives meanwhile is in the
next one, so the newest always wins.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ..errors import RecycleGPError
from ..logs import logger
from . import exchanges, merges, rounds, worker
from .folder import Facts
from .hub import Hub

LOOK = 0.2  # seconds between two looks
AGAIN = 30.0  # seconds before something that has failed is tried once more
LOG = logger("recyclegp.hub")


class TooMuchError(RecycleGPError):
    """A job has taken more time or memory than the hub allows."""


class Keeper:
    """Runs until it is cancelled."""

    def __init__(self, hub: Hub, executor: Callable[[], Executor]) -> None:
        self._hub, self._make = hub, executor
        self._executor = executor()
        self._failed_at = 0.0
        self._failed_with: Facts | None = None  # modules, where it was merging them that failed
        self._tried: Facts | None = None  # those that are being merged
        self._pause = LOOK
        self._too_much: dict[str, str] = {}  # name → content id of modules with which merging takes too much
        merges.forget(hub.folder.modules)

    async def run(self) -> None:
        while True:
            try:
                busy = await self.step()
                self._well()
            except Exception as failed:  # whatever it is: a hub goes on, and tries again
                busy = False
                self._unwell(failed)
            await asyncio.sleep(0 if busy else self._pause)

    def _well(self) -> None:
        if self._failed_with is None:  # a merge that has failed is done with when one has worked
            self._hub.failed = None
        self._pause = LOOK

    def _unwell(self, failed: Exception) -> None:
        """Nothing is asked here, of the disk or of anybody: what has failed may fail again."""
        LOG.warning("%s: %s", type(failed).__name__, failed)
        self._hub.failed = str(failed) or type(failed).__name__
        self._failed_at, self._failed_with = time.monotonic(), self._tried
        self._pause = min(2 * self._pause, AGAIN) if self._tried is None else LOOK
        self._tried = None

    def close(self) -> None:
        """Without waiting for a job: one that is ended has changed nothing."""
        end = getattr(self._executor, "end", None)  # a thread cannot be ended
        if end is not None:
            end()
        else:
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def step(self) -> bool:
        """One thing that is to be done, if there is any."""
        return (
            await self._newcomers()
            or await self._round()
            or await self._merge()
            or await self._begin()
            or await self._rest()
        )

    async def _newcomers(self) -> bool:
        """Owners whose modules arrive while rounds go on are screened, and then asked, too."""
        hub = self._hub
        run = await asyncio.to_thread(hub.run)
        if run is None or run.given or time.monotonic() - hub.arrived < hub.settings.quiet:
            return False
        here = await asyncio.to_thread(hub.modules)
        if set(here) <= set(run.facts.get("modules", here)):
            return False
        try:
            facts = await self._job(worker.merge, here, False, self._left_out(here))
        except RecycleGPError as refused:  # the next merge says so, too
            LOG.info("nobody joins rounds: %s", refused)
            facts = {"counted": [], "flagged": {}}
        judged = {name: digest for name, digest in here.items() if facts.get("modules", here).get(name) == digest}
        await asyncio.to_thread(exchanges.join, hub, run, judged, facts)
        return True

    async def _round(self) -> bool:
        hub = self._hub
        run = await asyncio.to_thread(hub.run)
        if run is None or not await asyncio.to_thread(run.due, time.time()):
            return False
        if run.secure and run.stage < rounds.SUMMED:
            await asyncio.to_thread(exchanges.advance_sum, hub, run)
            return True
        if len(run.missing()) == len(run.owners):
            await asyncio.to_thread(exchanges.fail, hub, "nobody has answered in time")
            return True
        try:
            facts = await self._job(worker.combine, run.id)
        except RecycleGPError as refused:
            await asyncio.to_thread(exchanges.fail, hub, str(refused))
            return True
        await asyncio.to_thread(exchanges.combined, hub, run, facts)
        return True

    async def _merge(self) -> bool:
        hub = self._hub
        if hub.run() is not None or time.monotonic() - hub.arrived < hub.settings.quiet:
            return False
        here = await asyncio.to_thread(hub.modules)
        same = here == hub.current["modules"]
        if same and not hub.must_learn() and not hub.may_learn(time.monotonic()):
            return False
        if here == self._failed_with and time.monotonic() - self._failed_at < AGAIN:
            return False
        if not here:
            await asyncio.to_thread(hub.merged_nobody)
            return True
        self._tried = here
        try:
            facts = await self._job(worker.merge, here, same, self._left_out(here))
        except TooMuchError:
            await asyncio.to_thread(self._leave_one_out, here)
            raise
        self._tried = self._failed_with = hub.failed = None
        await asyncio.to_thread(hub.merged, facts)
        return True

    async def _begin(self) -> bool:
        """Rounds, once everybody who is expected is there."""
        hub = self._hub
        if not hub.enough() or not hub.wants_rounds() or hub.run() is not None or hub.must_learn():
            return False
        model, here = hub.current["model"], dict(hub.current["modules"])
        if hub.modules() != here:
            return False
        folder = await asyncio.to_thread(rounds.new_folder, hub.folder.rounds, time.time())
        try:
            plan = await self._job(worker.plan, model, folder.name, hub.wanted_rounds()["points"])
            if await asyncio.to_thread(exchanges.begin, hub, folder, plan, here) is not None:
                return True
        except RecycleGPError as refused:
            await asyncio.to_thread(exchanges.fail, hub, str(refused))
        shutil.rmtree(folder, ignore_errors=True)
        return True

    async def _rest(self) -> bool:
        await asyncio.to_thread(self._hub.close_evaluations, time.time())
        return False

    def _left_out(self, here: Mapping[str, str]) -> dict[str, str]:
        """Those that were too much, unless their owners have sent others."""
        self._too_much = {n: digest for n, digest in self._too_much.items() if here.get(n) == digest}
        return dict(self._too_much)

    def _leave_one_out(self, here: Mapping[str, str]) -> None:
        """The largest of those that are not in the model of now: the others are merged without it."""
        known = self._hub.current["modules"]
        new = [
            e
            for e in self._hub.dictionary.list()
            if here.get(e.name) == e.digest != known.get(e.name) and e.name not in self._too_much
        ]
        if new and len(here) - len(self._too_much) > 1:
            largest = max(new, key=lambda e: e.bytes)
            self._too_much[largest.name] = largest.digest

    async def _job(self, job: Callable[..., Any], *arguments: Any) -> Any:
        seconds = self._hub.settings.job_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                return await asyncio.get_running_loop().run_in_executor(
                    self._executor, worker.run, job, str(self._hub.folder.root), *arguments
                )
        except TimeoutError:
            if not limit.expired():
                raise
            self._start_again()
            raise TooMuchError(f"given up: it took more than the {seconds:g} s that this hub allows") from None
        except BrokenProcessPool:
            self._start_again()
            raise TooMuchError("the process that merges has died, perhaps for lack of memory") from None
        except MemoryError as failed:
            self._start_again()
            raise TooMuchError(f"given up: {failed}") from None

    def _start_again(self) -> None:
        self.close()
        self._executor = self._make()

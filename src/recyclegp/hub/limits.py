"""How much of a hub one key, one address, and all of them together may take."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from .protocol import RefusedError

MOST_KNOWN = 10_000  # keys or addresses whose rates are remembered


@dataclass(frozen=True)
class Rate:
    """A bucket that holds `burst` requests, and gets `each_second` more."""

    each_second: float
    burst: float


ANY = Rate(1e9, 1e9)


@dataclass(frozen=True)
class Limits:
    """All of them, in one place."""

    largest_module: int = 64 * 2**20  # bytes
    largest_question: int = 2**16  # bytes of any other body
    of_key: Rate = Rate(10, 100)  # requests of one owner
    of_address: Rate = Rate(200, 2000)  # of all owners behind one address: 200 who ask every two seconds take half
    refused: Rate = Rate(5, 200)  # refused requests of one address, beyond which it is not listened to
    uploads_at_once: int = 4  # that are read and checked; others wait
    waiting: float = 60.0  # seconds that an upload, or somebody who registers, waits for its turn
    body_seconds: float = 30.0  # a body must be there by then, and
    slowest: float = 50_000.0  # bytes for each further second
    connections: int = 1000  # at once
    most_owners: int = 10_000
    most_points: int = 4096  # of a module: the time that a merge takes grows with their cube

    def without_rates(self) -> Limits:
        """Of a hub that something else protects."""
        return replace(self, of_key=ANY, of_address=ANY, refused=ANY)


class Buckets:
    """Token buckets of keys or addresses; those that have not been used for longest are forgotten."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._left: OrderedDict[object, tuple[float, float]] = OrderedDict()  # who → tokens, and when
        self._lock = threading.Lock()

    def take(self, who: object, now: float) -> bool:
        """Whether one more request may be made; it is counted if so."""
        with self._lock:
            tokens = self._tokens(who, now)
            allowed = tokens >= 1
            self._left[who] = tokens - 1 if allowed else tokens, now
            self._left.move_to_end(who)
            if len(self._left) > MOST_KNOWN:
                self._left.popitem(last=False)
            return allowed

    def empty(self, who: object, now: float) -> bool:
        with self._lock:
            return self._tokens(who, now) < 1

    def _tokens(self, who: object, now: float) -> float:
        left, then = self._left.get(who, (self._rate.burst, now))
        return min(self._rate.burst, left + max(0.0, now - then) * self._rate.each_second)


class Slots:
    """So many at once; others wait for a while."""

    def __init__(self, count: int, waiting: float) -> None:
        self._free = asyncio.Semaphore(count)
        self._waiting = waiting

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._waiting):
                await self._free.acquire()
        except TimeoutError:
            raise RefusedError("too many at once; try again in a minute", 503) from None
        try:
            yield
        finally:
            self._free.release()

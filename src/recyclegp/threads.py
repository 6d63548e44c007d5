"""Few threads for small matrices.

Threads that wait for each other on a busy machine can make a small problem ten times slower than one thread alone.
As scikit-learn does, calls whose work is small limit them while they run, and give them back afterwards. Many small
problems are another matter: the user's threads share them, and each works alone.

torch is imported inside the functions, so that the command line can import this module and still start at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

SMALL = 2**27  # multiplications in one step of the work: below it a second thread costs more than it saves

SHARES = 8  # of what may be worked on at once: threads that have less to do only wait for each other

_lock = threading.Lock()
_inside = 0  # calls that are limiting threads right now, from any Python thread
_before = 1  # what the user had, while there are any
_here = threading.local()  # has `shares` where a thread is one of several that share some work


@contextmanager
def limit_threads(work: float) -> Iterator[None]:
    """One thread for torch where a step of the work takes few multiplications; the user's own count otherwise."""
    import torch

    global _inside, _before
    if work > SMALL or torch.get_num_threads() == 1:
        yield
        return
    with _lock:
        if _inside == 0:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_before)


class Workers(NamedTuple):
    """Python threads that share a list of small problems."""

    size: int
    pool: ThreadPoolExecutor | None

    def map(self, call: Callable[..., Any], *parts: Iterable[Any]) -> list[Any]:
        """call(*part) for each part, in their order. What is local to a thread, as torch's grad mode, is not shared."""
        return list(map(call, *parts) if self.pool is None else self.pool.map(call, *parts))


ALONE = Workers(1, None)


def worth(count: int, at_once: int) -> int:
    """How many threads so many problems are worth: an eighth, at least, of what may be worked on at once for each."""
    return min(count, max(1, SHARES * count // at_once))


@contextmanager
def share_work(most: int) -> Iterator[Workers]:
    """The user's threads as workers, at most so many, each of which works alone on its own problem.

    Matrices that are too small to be shared by threads are many: a thread for some of them never waits for another.
    """
    size = min(users_threads(), most)
    if size <= 1:
        yield ALONE
        return
    with limit_threads(0.0), ThreadPoolExecutor(size, initializer=_begin_to_share) as pool:
        yield Workers(size, pool)


def users_threads() -> int:
    """How many the user has, also where calls have limited them; one for who shares the work already."""
    import torch

    if getattr(_here, "shares", False):
        return 1
    with _lock:
        return _before if _inside else torch.get_num_threads()


def _begin_to_share() -> None:
    import torch

    torch.set_num_threads(1)
    _here.shares = True


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads inside the block: the user of a command has said how many."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

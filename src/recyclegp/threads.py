"""Few threads for small matrices.

Threads that wait for each other on a busy machine can make a small problem ten times slower than one thread alone.
As scikit-learn does, calls whose work is small limit them while they run, and give them back afterwards.

torch is imported inside the functions, so that the command line can import this module and still start at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

SMALL = 2**27  # multiplications in one step of the work: below it a second thread costs more than it saves

_lock = threading.Lock()
_inside = 0  # calls that are limiting threads right now, from any Python thread
_before = 1  # what the user had, while there are any


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


@contextmanager
def share_work(most: int) -> Iterator[Workers]:
    """The user's threads as workers, at most so many, each of which works alone on its own problem.

    Matrices that are too small to be shared by threads are many: a thread for some of them never waits for another.
    """
    import torch

    size = min(torch.get_num_threads(), most)
    if size <= 1:
        yield ALONE
        return
    with limit_threads(0.0), ThreadPoolExecutor(size, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield Workers(size, pool)


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

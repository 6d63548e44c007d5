"""Few threads for small matrices.

Threads that wait for each other on a busy machine can make a small problem ten times slower than one thread alone.
As scikit-learn does, calls whose work is small limit them while they run, and give them back afterwards.

torch is imported inside the functions, so that the command line can import this module and still start at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 2**27  # multiplications in one step of the work: below it a second thread costs more than it saves

_lock = threading.Lock()
_inside = 0  # calls that are limiting threads right now, from any Python thread
_before = 1  # what the user had, while there are any


@contextmanager
def suited_to(work: float) -> Iterator[None]:
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

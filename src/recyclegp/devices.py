"""Where to compute: on the CPU, or on a GPU whose memory decides how much is done at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

from .errors import RecycleGPError

CPU = torch.device("cpu")

CHUNK = 2**28  # bytes that work on the chunks of a CPU takes, with everything a derivative remembers
SHARE = 0.5  # of the memory of a GPU that is free, that may be taken at first
SMALLEST_SHARE = SHARE / 64
LARGEST_MEMORY_FACTOR = 512.0

KEPT = 31 * 2**20  # bytes: the largest block after which glibc's malloc keeps that much

T = TypeVar("T")
_share: ContextVar[float] = ContextVar("share", default=SHARE)


def device_of(wanted: Any) -> torch.device:
    """What a user calls a device; None is the CPU."""
    try:
        device = torch.device("cpu" if wanted is None else wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as absent:  # torch raises any of these for a device it lacks
        raise RecycleGPError(f"device={wanted!r} cannot be used ({str(absent).splitlines()[0]})") from None
    return device


@contextmanager
def default_device(device: torch.device | str) -> Iterator[None]:
    """Inside the block new tensors are made there."""
    if torch.device(device).type == torch.get_default_device().type == "cpu":
        yield
        return
    with torch.device(device):
        yield


def current_device() -> torch.device:
    """Where new tensors are made."""
    return torch.get_default_device()


def memory_factor(device: torch.device) -> float:
    """How many times as much as on a CPU may be done at once: as the memory of a GPU allows."""
    if device.type != "cuda":
        return 1.0
    free, _ = torch.cuda.mem_get_info(device)
    # what torch keeps for itself is free, too
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(LARGEST_MEMORY_FACTOR, max(1.0, _share.get() * free / CHUNK))


def let_malloc_keep_more() -> None:
    """Where thousands of matrices are made and freed in turn, their memory stays with this process.

    Before it has seen anything larger come and go, glibc gives back whatever is free beyond a few matrices, and asks
    the system for it again, page by page: up to a quarter of the time of an exact fit. Nothing is written to the block,
    so none of it is ever really taken. Dask's workers are told otherwise: `engines.allocator` is for these.
    """
    torch.empty(KEPT, dtype=torch.uint8, device=CPU)


def retry_on_oom(call: Callable[[], T]) -> T:
    """What call returns; where the memory of a GPU does not suffice, again with half as much done at once."""
    share = _share.get()
    while True:
        before = _share.set(share)
        try:
            return call()
        except torch.cuda.OutOfMemoryError:
            if share <= SMALLEST_SHARE:
                raise
        finally:
            _share.reset(before)
        share /= 2
        torch.cuda.empty_cache()

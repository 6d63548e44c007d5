"""Where to compute: on the CPU, or on a GPU whose memory decides how much is done at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

from .errors import RecycleGPError

CPU = torch.device("cpu")

CHUNK = 2**28  # bytes that work on the chunks of a CPU takes, with everything a derivative remembers
SHARE = 0.5  # of the memory of a GPU that is free, that may be taken at first
SMALLEST_SHARE = SHARE / 64
LARGEST_MEMORY_FACTOR = 512.0

KEPT = 31 * 2**20  # bytes: the largest block after which glibc's malloc keeps that much

T = TypeVar("T")
_share: ContextVar[float] = ContextVar("share", default=SHARE)
_entered: ContextVar[torch.device | None] = ContextVar("entered", default=None)  # the innermost block for a GPU
_factors: ContextVar[dict[torch.device, float] | None] = ContextVar("factors", default=None)
_put_off: ContextVar[list[Tensor] | None] = ContextVar("put_off", default=None)


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
    """Inside the block new tensors are made there.

    torch sees to that whenever any of its functions is called, which takes longer than a small call itself. So a block
    for the CPU inside one for a GPU leaves that one for a while, and nothing is looked at.
    """
    wanted, outside = torch.device(device), _entered.get()
    if wanted.type == torch.get_default_device().type == "cpu":
        yield
    elif wanted.type == "cpu" and outside is not None:
        with _left(outside):
            yield
    else:
        before = _entered.set(wanted)
        try:
            with wanted:
                yield
        finally:
            _entered.reset(before)


@contextmanager
def _left(outside: torch.device) -> Iterator[None]:
    """Outside of the innermost block for a GPU."""
    before = _entered.set(None)
    outside.__exit__(None, None, None)
    try:
        yield
    finally:
        outside.__enter__()
        _entered.reset(before)


def current_device() -> torch.device:
    """Where new tensors are made."""
    return torch.get_default_device()


def memory_factor(device: torch.device) -> float:
    """How many times as much as on a CPU may be done at once: as the memory of a GPU allows."""
    if device.type != "cuda":
        return 1.0
    known = _factors.get()  # where it is asked again and again: the answer takes as long as some twenty launches
    if known is not None and device in known:
        return known[device]
    free, _ = torch.cuda.mem_get_info(device)
    # what torch keeps for itself is free, too
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    factor = min(LARGEST_MEMORY_FACTOR, max(1.0, _share.get() * free / CHUNK))
    if known is not None:
        known[device] = factor
    return factor


@contextmanager
def memory_seen_once() -> Iterator[None]:
    """Inside the block the memory of a GPU is looked at once: what is there to stay is there before it."""
    before = _factors.set({})
    try:
        yield
    finally:
        _factors.reset(before)


def holds(condition: Tensor) -> bool:
    """Is it so? Where questions are put off, it is taken to be so, and looked at later."""
    questions = _put_off.get()
    if questions is None:
        return bool(condition)
    questions.append(condition)
    return True


@contextmanager
def questions_put_off() -> Iterator[list[Tensor]]:
    """Inside the block nobody waits for an answer of a GPU: what `holds` was asked is collected here."""
    questions: list[Tensor] = []
    before = _put_off.set(questions)
    try:
        yield questions
    finally:
        _put_off.reset(before)


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
            with memory_seen_once() if _factors.get() is not None else nullcontext():  # with this share, anew
                return call()
        except torch.cuda.OutOfMemoryError:
            if share <= SMALLEST_SHARE:
                raise
        finally:
            _share.reset(before)
        share /= 2
        torch.cuda.empty_cache()

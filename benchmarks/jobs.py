"""Jobs of a benchmark, in processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

Job = tuple[Callable[..., Any], ...]  # a function and what it is given


def done(jobs: Sequence[Job], processes: int = 1) -> Iterator[Any]:
    """What the jobs return: in their order if there is one process, else as they are done."""
    yield from track(_done(jobs, processes), "", total=len(jobs), console=Console(stderr=True))


def _done(jobs: Sequence[Job], processes: int) -> Iterator[Any]:
    if processes == 1:
        yield from (job(*given) for job, *given in jobs)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they begin
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from (future.result() for future in as_completed([pool.submit(*job) for job in jobs]))

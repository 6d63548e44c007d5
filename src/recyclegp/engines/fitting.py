"""Partitions → Ensemble: what every engine does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..errors import RecycleGPError
from ..local.kernel_choice import SETS_COMPARED
from ..local.request import FitOptions
from ..models.ensemble import Ensemble
from ..models.fit import (
    Published,
    automatic,
    check_on_failure,
    check_unique,
    tell_of_failures,
    tell_of_published,
    what_failed,
)
from ..models.merge import merge_read
from ..models.naming import check_name
from ..models.progress import bar
from ..models.reading import Entrance, ModulesRead
from .executor import Done, Executor
from .options import FitArguments, Merging, fitting, merging
from .partitions import Columns, default_names, sources
from .store import ChunkStore
from .tasks import FittedChunk, Plan, choose_kernel, columns_differ, fit_chunk

CHUNKS = 16  # at least, where there are so many partitions: for workers to share
LARGEST_CHUNK = 64  # partitions: their modules are held by one task

T = TypeVar("T")


class Job(NamedTuple):
    """What was asked for, checked."""

    sources: list[Any]
    names: list[str]
    columns: Columns
    options: FitOptions
    merging: Merging
    per_task: int
    on_failure: str
    progress: bool | None


def prepared(
    partitions: Any,
    options: FitArguments,
    *,
    names: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    target: str | None = None,
    merge: Mapping[str, Any] | None = None,
    per_task: int | None = None,
    on_failure: str = "raise",
    progress: bool | None = None,
) -> Job:
    """The arguments of `fit_partitions`, checked before any work begins."""
    check_on_failure(on_failure)
    how, together = fitting(options, target), merging(merge)
    found = sources(partitions)
    called = default_names(found) if names is None else list(names)
    if len(called) != len(found):
        raise RecycleGPError(f"names has {len(called)} entries for {len(found)} partitions; give one each")
    for name in called:
        check_name(name)
    check_unique(called)
    if per_task is not None and (isinstance(per_task, bool) or not isinstance(per_task, int) or per_task < 1):
        raise RecycleGPError(f"per_task={per_task!r}; pass how many partitions a task fits, at least 1, or None")
    size = min(LARGEST_CHUNK, -(-len(found) // CHUNKS)) if per_task is None else per_task
    columns = Columns(None if inputs is None else tuple(inputs), target)
    return Job(found, called, columns, how, together, size, on_failure, progress)


def fit_partitions(executor: Executor, job: Job, folder: str | PathLike[str] | None) -> Ensemble:
    """Fit every partition, and merge the modules without ever having them in one place."""
    with _folder(folder) as where:
        chunks = fit_chunks(executor, job, where)
        with bar("merging", None, job.progress) as advance:
            return merge_chunks(_Watched(executor, advance), chunks, job.merging)


@contextmanager
def _folder(given: str | PathLike[str] | None) -> Iterator[Path]:
    if given is None:
        with tempfile.TemporaryDirectory(prefix="recyclegp-") as made:
            yield Path(made)
        return
    Path(given).mkdir(parents=True, exist_ok=True)
    yield Path(given).absolute()


def fit_chunks(executor: Executor, job: Job, folder: Path) -> list[FittedChunk]:
    """One file of modules after the other, by whoever is free; those that are there already are kept."""
    options = job.options
    if automatic(options):
        options = replace(options, kernel=_chosen(executor, job))
    items = []
    for number, first in enumerate(range(0, len(job.sources), job.per_task)):
        stop = first + job.per_task
        path = str(folder / f"chunk-{number:06d}.safetensors")
        plan = Plan(path, first, tuple(job.names[first:stop]), job.columns, options)
        items.append((plan, job.sources[first:stop]))
    done: dict[int, FittedChunk] = {}
    with bar("fitting", len(job.sources), job.progress) as advance:
        for position, chunk in executor.map(fit_chunk, items, "fit"):
            if not done and chunk.members:  # what is wrong with the merge is said before all are fitted
                job.merging.options.check(chunk.frame)
            done[position] = chunk
            advance(len(items[position][1]))
    chunks = [done[i] for i in range(len(items))]
    _tell(chunks, job)
    return chunks


def _chosen(executor: Executor, job: Job) -> str:
    """kernel="auto": by some of the partitions, in one task."""
    some = job.sources[:: max(1, len(job.sources) // SETS_COMPARED)]
    ((_, kernel),) = executor.map(choose_kernel, [(job.columns, job.options, some)], "kernel")
    return str(kernel)


def _tell(chunks: Sequence[FittedChunk], job: Job) -> None:
    failures = {name: why for c in chunks for name, why in c.failures.items()}
    if failures and job.on_failure == "raise":
        raise RecycleGPError(f"{what_failed(failures)}; on_failure='skip' leaves them out, folder= keeps the others")
    tell_of_failures(failures)
    published = (
        Published(m.name, m.rows, points, c.dimension, m.kept)
        for c in chunks
        for m, points in zip(c.members, c.points, strict=True)
    )
    tell_of_published(list(published), job.options)


def merge_chunks(executor: Executor, chunks: Sequence[FittedChunk], merging: Merging) -> Ensemble:
    """One ensemble of all modules in the files of the chunks, which are read where tasks run."""
    chunks = [c for c in chunks if c.members]
    read = _read(chunks, merging.weights)
    with ChunkStore(executor, chunks, [m.weight for m in read.members], read.frame.categories) as store:
        return merge_read(read, store, merging.options)


def _read(chunks: Sequence[FittedChunk], weights: Any) -> ModulesRead:
    entrance = Entrance(weights)
    for c in chunks:
        label = f"partition {c.members[0].name!r}"
        entrance.fit_in(c.frame, label)
        if c.columns != entrance.columns:
            raise RecycleGPError(columns_differ(entrance.columns, c.columns))
        for m in c.members:
            entrance.admit(m, c.columns, f"partition {m.name!r}")
    return entrance.finish()


class _Watched(NamedTuple):
    """An executor that says when another reduction is done."""

    executor: Executor
    advance: Callable[[int], None]

    def map(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], name: str) -> Iterator[Done]:
        return self.executor.map(function, items, name)

    def tree(self, function: Callable[[Any], T], items: Sequence[Any], join: Callable[[T, T], T], name: str) -> T:
        result = self.executor.tree(function, items, join, name)
        self.advance(1)
        return result

"""Partitions → Ensemble: what every engine does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .. import arrays
from ..devices import CPU
from ..errors import Argument, Either, RecycleGPError
from ..local.constants import COMPARISON
from ..local.options import OPTIONS, FitOptions
from ..models.ensemble import Ensemble
from ..models.fit import SKIP_THEM, check_on_failure, check_unique
from ..models.fit_warnings import failure_message, warn_about_failures, warn_about_publishing
from ..models.intake import FunctionRead, ModuleIntake, ModulesRead
from ..models.merge import MergeOptions, merge_read
from ..models.naming import check_name
from ..models.progress import bar
from .executor import Done, Executor
from .partitions import Columns, Partitions, Targets, default_names, sources
from .store import ChunkStore
from .tasks import FittedChunk, Plan, choose, columns_differ, fit_chunk

CHUNKS = 16  # at least, where there are so many partitions: for workers to share
LARGEST_CHUNK = 64  # partitions: their modules are held by one task
MERGE = (*(f.name for f in fields(MergeOptions)), "weights")
OF_PARTITIONS = ("target",)  # has an argument of its own, because tables are read by it

T = TypeVar("T")


class Merging(NamedTuple):
    options: MergeOptions
    weights: Any


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
    partitions: Partitions,
    *,
    names: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    target: Targets = None,
    merge: Mapping[str, Any] | None = None,
    per_task: int | None = None,
    on_failure: str = "raise",
    progress: bool | None = None,
    **options: Any,
) -> Job:
    """The arguments of `fit_partitions`, checked before any work begins."""
    check_on_failure(on_failure)
    how, together = _fit_options(options, target), _merge_options(merge)
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
    return Job(found, called, Columns.given(inputs, target), how, together, size, on_failure, progress)


def _fit_options(given: Mapping[str, Any], target: Targets) -> FitOptions:
    """The options of fitting, as one value."""
    known = [name for name in OPTIONS if name not in OF_PARTITIONS]
    _check_names(given, known, "", "merge={…} is for those of merging")
    if arrays.are_several(given.get("noise")):
        raise RecycleGPError(
            "noise: partitions have one for all rows; with one per row fit them by fit_many([(X, y, noise), …]), "
            "and merge the modules"
        )
    options = FitOptions.of(target=target, **given)
    options.check()
    return options


def _merge_options(given: Mapping[str, Any] | None) -> Merging:
    """The options of merging. Partitions of one's own data are of one function, and nobody lies."""
    asked: dict[str, Any] = {"owners": None, "trust": None, **({} if given is None else given)}
    if asked.pop("keep", "names") != "names":
        raise RecycleGPError(
            "merge: ", Argument("keep", "sites"), " would bring all modules together; only 'names' are kept here"
        )
    _check_names(asked, MERGE, "merge: ", "those of fitting are arguments themselves")
    weights = asked.pop("weights", None)
    return Merging(MergeOptions(**asked), weights)


def _check_names(given: Mapping[str, Any], known: Iterable[str], where: str, remedy: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{where}no option is called {unknown[0]!r}; there are {', '.join(known)} ({remedy})")


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
    if options.chooses_kernel or options.chooses_likelihood:
        options = _chosen(executor, job)
    items = []
    for number, first in enumerate(range(0, len(job.sources), job.per_task)):
        stop = first + job.per_task
        path = str(folder / f"chunk-{number:06d}.safetensors")
        plan = Plan(path, first, tuple(job.names[first:stop]), job.columns, options)
        items.append((plan, job.sources[first:stop]))
    done: dict[int, FittedChunk] = {}
    with bar("fitting", len(job.sources), job.progress) as advance:
        for position, chunk in executor.map(fit_chunk, items, "fit"):
            if not done and chunk.modules:  # what is wrong with the merge is said before all are fitted
                job.merging.options.check(chunk.frame)
            done[position] = chunk
            advance(len(items[position][1]))
    chunks = [done[i] for i in range(len(items))]
    _warn(chunks, job)
    return chunks


def _chosen(executor: Executor, job: Job) -> FitOptions:
    """kernel="auto", likelihood="counts": by some of the partitions, in one task."""
    some = job.sources[:: max(1, len(job.sources) // COMPARISON.sets)]
    ((_, found),) = executor.map(choose, [(job.columns, job.options, some)], "choice")
    return found


def _warn(chunks: Sequence[FittedChunk], job: Job) -> None:
    failures = {name: why for c in chunks for name, why in c.failures.items()}
    if failures and job.on_failure == "raise":
        kept = Either("folder= keeps the others", "--modules keeps the others")
        raise RecycleGPError(f"{failure_message(failures)}; ", SKIP_THEM, " leaves them out, ", kept)
    warn_about_failures(failures)
    warn_about_publishing([m.published(c.dimension) for c in chunks for m in c.modules], job.options.publishing)


def merge_chunks(executor: Executor, chunks: Sequence[FittedChunk], merging: Merging) -> Ensemble:
    """One ensemble of all modules in the files of the chunks, which are read where tasks run."""
    chunks = [c for c in chunks if c.modules]
    read = _read(chunks, merging.weights)
    with ExitStack() as stack:
        functions = []
        for name, own in zip(read.likelihood.functions, read.functions, strict=True):
            weights = [m.weight for m in own.members]
            store = stack.enter_context(ChunkStore(executor, chunks, weights, read.frame.categories, name))
            functions.append(FunctionRead(own.members, store))
        return merge_read(read._replace(functions=tuple(functions)), merging.options)


def _read(chunks: Sequence[FittedChunk], weights: Any) -> ModulesRead:
    """What is known of all modules, but for their sites."""
    with ModuleIntake(device=CPU, keep=False, weights=weights) as intake:
        for c in chunks:
            if intake.frame is not None and c.columns != intake.frame.columns:
                raise RecycleGPError(columns_differ(intake.frame.columns, c.columns))
            for m in c.modules:
                intake.append_elsewhere(m.likelihood, m.members, c.frame, f"partition {m.name!r}")
        return intake.finish()


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

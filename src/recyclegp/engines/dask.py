"""The tasks run on a Dask cluster: a laptop's, or many machines that share a folder."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from ..errors import RecycleGPError
from ..extras import install
from ..models.ensemble import Ensemble
from ..models.plan import Plan
from ..models.rounds import Rounds
from .allocator import keep_freed_memory
from .executor import CHILDREN, Done
from .fitting import fit_partitions as fit_all
from .fitting import prepared
from .partitions import Partitions, Targets
from .rounds import rounds_over_partitions

try:
    from dask import delayed
    from distributed import Client, KilledWorker, as_completed
except ImportError:
    raise RecycleGPError(f"engines.dask needs dask; {install('dask')}") from None

PATIENCE = 20  # seconds until a scheduler must have answered

T = TypeVar("T")


def fit_partitions(
    client: Client,
    partitions: Partitions,
    *,
    folder: str | PathLike[str] | None = None,
    names: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    target: Targets = None,
    merge: Mapping[str, Any] | None = None,
    per_task: int | None = None,
    on_failure: str = "raise",
    progress: bool | None = None,
    **options: Any,
) -> Ensemble:
    """Fit each partition of one's own data on a Dask cluster, and merge all modules there.

    Partitions are fitted where they are loaded, several in a task, and their modules are written to a file for each
    task. The merge asks these files: every sum over modules, also while the kernel is learned, is one task for each
    file and a tree of joins, so that neither a worker nor the client ever holds all modules. A worker that dies costs
    the tasks that it was working on; the result is the same. A run that was stopped goes on where it was, if it is
    given the same folder: files of the same data and options are not made again.

    Args:
        client: of the cluster.
        partitions: (X, y) pairs, functions without arguments or `dask.delayed` objects that load one, a dask
            DataFrame, paths of Parquet files, or a folder of them, in which each file is a partition.
        folder: where modules are written, seen under this name by all workers. Without one it is a temporary folder,
            for a cluster on one machine, and nothing can be resumed.
        names: one for each partition; by default those of the files, or part-0, part-1, …
        inputs: which columns are X, where partitions are tables; all but the target unless given.
        target: which column is y, where partitions are tables; elsewhere what y is called. Of several outputs as many
            names.
        merge: options of `merge`, as {"inducing": 200}. Unlike there, `owners` and `trust` are None unless given:
            partitions of one's own data are of one function and contradict each other only by chance. Modules stay in
            their files, so that the ensemble keeps their names only.
        per_task: how many partitions a task fits; by default such that there are at least 16 tasks, and at most 64
            partitions in each.
        on_failure: as for `fit_many`.
        progress: bars on standard error; by default only where somebody may be looking.
        **options: of the fits, as for `fit_many`: likelihood, kernel, method, inducing, publish, …

    Returns:
        The ensemble: that of `merge(fit_many(...), keep="names", owners=None, trust=None)`.

    Raises:
        RecycleGPError: A partition or an option cannot be what it is, models failed, or workers died of a task.
        TypeError: No option has such a name.

    Examples:
        >>> from distributed import Client  # doctest: +SKIP
        >>> fit_partitions(Client(), "rows/", target="y", folder="modules/").save("all.safetensors")  # doctest: +SKIP
    """
    tables: dict[str, Any] = {"names": names, "inputs": inputs, "target": target, "per_task": per_task}
    job = prepared(partitions, **tables, merge=merge, on_failure=on_failure, progress=progress, **options)
    return fit_all(DaskExecutor(client), job, folder)


def rounds(
    client: Client,
    partitions: Partitions,
    rounds: int = 10,
    points: int = 256,
    *,
    plan: Plan | None = None,
    folder: str | PathLike[str] | None = None,
    **how: Any,
) -> Rounds:
    """One common sparse model of all partitions, by rounds on a Dask cluster: see `recyclegp.rounds`.

    Every exchange reads the partitions once, where tasks run, and only sums over rows come back.

    Args:
        client: of the cluster.
        partitions: as for `fit_partitions`.
        rounds: how often the common bound is computed, at most.
        points: of the plan that the merge of all partitions' modules proposes.
        plan: where to begin, instead of with such a merge.
        folder: as for `fit_partitions`: of the modules that the first plan is made from.
        **how: as for `fit_partitions`.

    Returns:
        The ensemble, which keeps names only, and the next plan.

    Raises:
        RecycleGPError: A partition or an option cannot be what it is, or workers died of a task.
        TypeError: No option has such a name.

    Examples:
        >>> from distributed import Client  # doctest: +SKIP
        >>> e, plan = rounds(Client(), "rows/", target="y", rounds=10, points=512)  # doctest: +SKIP
    """
    return rounds_over_partitions(DaskExecutor(client), prepared(partitions, **how), folder, rounds, points, plan)


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the cluster whose scheduler is at this address."""
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RecycleGPError(f"dask {address}: no scheduler answers there ({error}); start one") from None
    with client:
        yield client


class DaskExecutor(NamedTuple):
    """Names of tasks begin with what they do, which is how the dashboard groups them."""

    client: Client

    def map(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], name: str) -> Iterator[Done]:
        """What is delayed in the last argument is loaded by the cluster."""
        token = f"{name}-{uuid.uuid4().hex}"
        tasks = [
            delayed(partial(_call, function, *item[:-1]), pure=False)(item[-1], dask_key_name=f"{token}-{i}")
            for i, item in enumerate(items)
        ]
        with _large_graphs():
            futures = self.client.compute(tasks)
        position = {future.key: i for i, future in enumerate(futures)}
        del tasks
        for future in as_completed(futures, loop=self.client.loop):
            futures[position[future.key]] = None  # what is finished and known may be forgotten there
            yield position[future.key], _result(future)

    def tree(self, function: Callable[[Any], T], items: Sequence[Any], join: Callable[[T, T], T], name: str) -> T:
        """What all tasks share is the result of a task: sent once to each worker, and made again if it is lost."""
        token = f"{name}-{uuid.uuid4().hex}"
        if len(items) == 1:
            with _large_graphs():
                return _result(self.client.submit(_call, function, items[0], key=token))
        with _large_graphs():
            shared = self.client.submit(tuple, (function, join), key=f"{token}-shared")
        keys = [f"{token}-{i}" for i in range(len(items))]
        level = self.client.map(_leaf, items, shared=shared, key=keys, pure=False)
        height = 0
        while len(level) > 1:
            height += 1
            groups = [level[i : i + CHILDREN] for i in range(0, len(level), CHILDREN)]
            level = [
                self.client.submit(_join, group, shared=shared, key=f"{token}-join-{height}-{i}")
                for i, group in enumerate(groups)
            ]
        found: T = _result(level[0])
        return found


def _result(future: Any) -> Any:
    """Of a task; one that has ended several workers is not tried any more."""
    try:
        return future.result()
    except KilledWorker as error:
        raise RecycleGPError(
            f"task {future.key.partition('-')[0]!r} was given up, because the workers that tried it died; had they too "
            f"little memory? pass a smaller per_task, smaller partitions, or give workers more ({error})"
        ) from None


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    keep_freed_memory()
    return function(*arguments)


def _leaf(item: Any, *, shared: tuple[Callable[[Any], Any], Any]) -> Any:
    keep_freed_memory()
    return shared[0](item)


def _join(children: list[Any], *, shared: tuple[Any, Callable[[Any, Any], Any]]) -> Any:
    return reduce(shared[1], children)


def _large_graphs() -> warnings.catch_warnings:
    """Dask warns of tasks that hold arrays. Pairs that a user passes are such, and so are triangular factors."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)

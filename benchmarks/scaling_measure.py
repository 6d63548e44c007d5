"""Small runs of every stage of a big merge, each of a size of its own: what the cost model is fitted to.

Seconds of stages that run in this process are seconds of its one thread, so that they say the same on a busy machine;
those of a cluster are by the clock.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import torch

import recyclegp as rgp
from recyclegp.categories import NO_CATEGORIES
from recyclegp.core.packing import PackedSites
from recyclegp.core.posterior import basis
from recyclegp.engines import fitting
from recyclegp.engines.executor import Done, Tree
from recyclegp.engines.store import ChunkStore
from recyclegp.engines.tasks import FittedChunk, FittedModule, read_chunk, write_chunk
from recyclegp.kernels import Kernel, parse
from recyclegp.merging.evidence import evidence
from recyclegp.merging.folding import fold
from recyclegp.merging.points import select
from recyclegp.merging.site_store import SiteStore
from scaling_model import DIMENSION, Run

MESSAGE = "evidence"  # a reduction that every merge makes

# fmt: off
# (modules, rows, points) of collapsed fits; (modules, rows) of exact ones
FITS = (
    (64, 250, 8), (64, 250, 16), (64, 500, 16), (64, 1000, 8), (64, 1000, 16),
    (32, 500, 32), (32, 1000, 32), (16, 1000, 64), (16, 2000, 16), (16, 500, 64),
)
EXACT_FITS = ((8, 250), (4, 500), (2, 1000))
# (modules, points, inducing) of reductions, and of choices of points
REDUCTIONS = (
    (500, 4, 64), (2000, 4, 128), (250, 16, 128), (1000, 16, 128), (500, 4, 512), (250, 16, 512), (1000, 16, 512),
    (100, 64, 512), (400, 4, 1024), (100, 16, 1024), (50, 64, 1024), (50, 16, 2048), (200, 16, 2048), (20, 16, 4096),
)
TOURNAMENTS = (
    (2048, 4, 64), (2048, 4, 256), (1024, 16, 256), (2048, 4, 512), (512, 16, 512), (1024, 16, 512), (512, 16, 1024),
)
# fmt: on
FILES = ((64, 4), (64, 16), (64, 64), (256, 16))  # modules and points
MEMBERS = (1024, 4096, 16384)
TASKS = (200, 800, 2400)
# (workers, modules, rows, points, inducing) of whole runs; the first is for those in a hurry
WHOLES = ((1, 64, 60, 4, 300), (1, 512, 1000, 16, 300), (2, 512, 1000, 16, 300), (2, 1024, 250, 8, 512))
PAYLOADS = ((64, 256), (64, 512), (32, 1024))  # tasks, and the side of the matrix that each returns


def timed(call: Callable[[], Any], rounds: int = 1) -> tuple[float, Any]:
    """Seconds of this thread, and what was made."""
    found, made = [], None
    for _ in range(rounds):
        begun = time.process_time()
        made = call()
        found.append(time.process_time() - begun)
    return median(found), made


def tile(k: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A square of a map: neighbours, as partitions should be."""
    rng = np.random.default_rng(k)
    X = rng.uniform(0, 1, (rows, DIMENSION)) + np.array([k % 8, k // 8])
    return X, np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * rng.standard_normal(rows)


def sites(modules: int, points: int, side: float, seed: int = 0) -> SiteStore:
    """What they say does not matter to the clock: numbers drawn at random, in a square."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=rng)

    centre = side * torch.rand(modules, 1, DIMENSION, dtype=torch.float64, generator=rng)
    Z = centre + normal(modules, points, DIMENSION)
    Rt = normal(modules, points, points).triu() / points**0.5
    found = SiteStore()
    packed = PackedSites(Z, Rt, normal(modules, points), normal(modules), tuple(range(modules)), (points,) * modules)
    step = max(1, 2**17 // (points * (points + DIMENSION + 1)))  # as large as those that a store packs
    for first in range(0, modules, step):
        found.put_packed(packed.at(slice(first, first + step)))
    return found


def grid(inducing: int, side: float) -> torch.Tensor:
    """As evenly spread as chosen points are."""
    steps = int(np.ceil(inducing**0.5))
    line = torch.linspace(0, side, steps, dtype=torch.float64)
    return torch.cartesian_prod(line, line)[:inducing].contiguous()


def square(inducing: int) -> float:
    """The side of a region that so many points describe, in lengthscales of about 0.7."""
    return 0.7 * inducing**0.5


# --- stages in this process -------------------------------------------------------------------


def fits(designed: Sequence[tuple[int, int, int]]) -> Iterator[Run]:
    """As a task of an engine fits them: all of one file together."""
    for modules, rows, points in designed:
        yield _fit("fit", modules, rows, points, method="collapsed", inducing=points, publish=None)


def exact_fits(designed: Sequence[tuple[int, int]]) -> Iterator[Run]:
    for modules, rows in designed:
        yield _fit("exact fit", modules, rows, 16, method="exact", publish=16)


def _fit(stage: str, modules: int, rows: int, points: int, **options: Any) -> Run:
    data = [tile(k, rows) for k in range(modules)]
    seconds, made = timed(partial(rgp.fit_many, data, progress=False, **options))
    evaluations = float(np.mean([m.convergence.evaluations for m in made]))
    return Run(stage, seconds, modules, rows, points, evaluations=evaluations)


def files(sizes: Sequence[tuple[int, int]]) -> Iterator[Run]:
    """Of one chunk; what the page cache holds is read from there."""
    options: dict[str, Any] = {"method": "collapsed", "publish": None, "learn": False, "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        for modules, points in sizes:
            path = Path(folder) / f"{modules}-{points}.safetensors"
            made = rgp.fit_many([tile(k, 2 * points) for k in range(modules)], inducing=points, **options)
            written = timed(partial(write_chunk, path, made, "", {}), 5)[0]
            known = timed(partial(_sites_of, path), 5)[0]
            for stage, seconds in (("write", written), ("read", known)):
                yield Run(stage, seconds, modules, 0, points, bytes=path.stat().st_size)


def _sites_of(path: Path) -> Any:
    return read_chunk(path).modules._sites(NO_CATEGORIES, "f")


def reductions(designed: Sequence[tuple[int, int, int]]) -> Iterator[Run]:
    """One evidence with its gradient, and one fold."""
    for modules, points, inducing in designed:
        side = square(inducing)
        store, Z, kernel = sites(modules, points, side), grid(inducing, side), parse("rbf", DIMENSION)
        store.reduce(_nothing, max, inducing, MESSAGE)  # packed, and remembered
        step, folding = partial(_step, kernel, Z, store), partial(fold, basis(kernel, Z), store, 0.0, marginal=False)
        for stage, call in (("evaluation", step), ("fold", folding)):
            yield Run(stage, timed(call)[0], modules, 0, points, inducing)


def _nothing(packs: Iterator[PackedSites]) -> int:
    return sum(1 for _ in packs)


def _step(kernel: Kernel, Z: torch.Tensor, store: SiteStore) -> None:
    theta = kernel.theta.detach().clone().requires_grad_()
    value = evidence(kernel.with_theta(theta), Z, store, lambda slack: slack, 0.0)
    torch.autograd.grad(value, theta)


def tournaments(designed: Sequence[tuple[int, int, int]]) -> Iterator[Run]:
    for modules, points, inducing in designed:
        store = sites(modules, points, 4 * square(inducing))
        kernel = parse("matern32", DIMENSION)  # a rough one: no tournament ends early
        seconds, made = timed(partial(select, kernel, store, inducing, 0.0))
        assert len(made) == inducing
        yield Run("points", seconds, modules, 0, points, inducing)


# --- the client -------------------------------------------------------------------------------


class Serial:
    """An executor in this process that knows how long its tasks took, and how often it was asked."""

    def __init__(self) -> None:
        self.inside = 0.0
        self.asked: list[str] = []

    def map(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], name: str) -> Iterator[Done]:
        for position, item in enumerate(items):
            yield position, function(*item)

    def tree(
        self, function: Callable[[Any], Any], items: Sequence[Any], join: Callable[[Any, Any], Any], name: str
    ) -> Any:
        begun = time.process_time()
        self.asked.append(name)
        tree = Tree(join)
        for item in items:
            tree.put(function(item))
        root = tree.root()
        self.inside += time.process_time() - begun
        return root


def chunks_of(chunk: FittedChunk, count: int) -> list[FittedChunk]:
    """So many members in all: one file again and again, under other names."""
    found = []
    for i in range(-(-count // len(chunk.modules))):
        own = pickle.loads(pickle.dumps(chunk))  # as it comes from a worker: nothing is shared
        found.append(own._replace(modules=tuple(_renamed(m, f"{m.name}-{i}") for m in own.modules)))
    return found


def _renamed(module: FittedModule, name: str) -> FittedModule:
    return module._replace(members=tuple(m._replace(about=m.about._replace(name=name)) for m in module.members))


def _job(modules: int, rows: int, points: int, inducing: Any) -> Any:
    how = {"method": "collapsed", "inducing": points, "publish": None}
    parts = [partial(tile, k, rows) for k in range(modules)]
    return fitting.prepared(parts, **how, merge={"inducing": inducing}, per_task=64, progress=False)


def clients(counts: Sequence[int]) -> Iterator[Run]:
    """All that the client does in a merge that learns, but for tasks; and what it does before each reduction."""
    with tempfile.TemporaryDirectory() as folder:
        job = _job(64, 60, 4, grid(9, 8.0).numpy())
        (chunk,) = fitting.fit_chunks(Serial(), job, Path(folder))
        for count in counts:
            before = psutil.Process().memory_info().rss
            chunks, executor = chunks_of(chunk, count), Serial()
            held = psutil.Process().memory_info().rss - before
            begun = time.process_time()
            made = fitting.merge_chunks(executor, chunks, job.merging)
            seconds = time.process_time() - begun - executor.inside
            evaluations, asked = float(made.convergence.evaluations), len(executor.asked)
            yield Run("client", seconds, count, 0, 4, 9, evaluations, tasks=asked, bytes=max(held, 0))
            store = ChunkStore(executor, chunks, [1.0] * count)
            seconds = timed(lambda: store._leaves(store._wanted(), 9), 3)[0]  # noqa: B023
            yield Run("leaves", seconds, count, 0, 4, 9)


# --- the cluster ------------------------------------------------------------------------------


@contextmanager
def clients_of(workers: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    made = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=None)
    with made, Client(made) as client:
        yield client


def cluster(workers: Sequence[int], counts: Sequence[int], payloads: Sequence[tuple[int, int]]) -> Iterator[Run]:
    """Reductions of nothing, and of matrices of zeros: what is left is what tasks and messages cost."""
    from recyclegp.engines.dask import DaskExecutor

    for each in workers:
        with clients_of(each) as client:
            executor = DaskExecutor(client)
            executor.tree(abs, list(range(50)), max, "warm")
            for count in counts:
                begun = time.perf_counter()
                executor.tree(abs, list(range(count)), max, "empty")
                yield Run("cluster", time.perf_counter() - begun, each, tasks=count)
            for count, side in payloads:
                begun = time.perf_counter()
                executor.tree(np.zeros, [(side, side)] * count, np.add, "zeros")
                yield Run("cluster", time.perf_counter() - begun, each, 0, 0, side, tasks=count, bytes=8 * side**2)


def wholes(designed: Sequence[tuple[int, int, int, int, int]]) -> Iterator[Run]:
    """Everything together, by the clock: not among the runs that the model is fitted to, but those it is held to."""
    from recyclegp.engines.dask import DaskExecutor

    for workers, modules, rows, points, inducing in designed:
        with clients_of(workers) as client, tempfile.TemporaryDirectory() as folder:
            client.run(_warm)
            executor, job = DaskExecutor(client), _job(modules, rows, points, inducing)
            begun = time.perf_counter()
            chunks = fitting.fit_chunks(executor, job, Path(folder))
            fit = time.perf_counter()
            merged = fitting.merge_chunks(executor, chunks, job.merging)
            ended = time.perf_counter()
        size = Run("", 0.0, modules, rows, points, inducing, float(merged.convergence.evaluations), workers)
        yield size._replace(stage="whole fit", seconds=fit - begun)
        yield size._replace(stage="whole merge", seconds=ended - fit)


def _warm() -> None:
    """What a process imports and initialises once does not count."""
    torch.set_num_threads(1)
    rgp.merge([rgp.fit(*tile(0, 20), publish=2)])


def measured(quick: bool = False) -> Iterator[Run]:
    """Every stage, at a few sizes each; the first of each kind twice, because the first of all pays for imports."""
    torch.set_num_threads(1)
    few = 2 if quick else None
    list(fits(FITS[:1]))
    yield from fits(FITS[:few])
    yield from exact_fits(EXACT_FITS[: 1 if quick else None])
    yield from files(FILES[:few])
    list(islice(reductions(REDUCTIONS[:1]), 1))
    yield from reductions(REDUCTIONS[:few])
    yield from tournaments(TOURNAMENTS[:few])
    yield from clients(MEMBERS[: 1 if quick else None])
    os.environ["OMP_NUM_THREADS"] = "1"  # read by workers when they begin
    yield from cluster((1,) if quick else (1, 2), TASKS[: 1 if quick else None], PAYLOADS[: 1 if quick else None])
    yield from wholes(WHOLES[:1] if quick else WHOLES[1:])

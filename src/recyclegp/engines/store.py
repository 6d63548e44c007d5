"""Sites in the files of many chunks: asked where the files are, by tasks whose answers are joined as a tree."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import torch

from ..categories import NO_CATEGORIES, Categories
from ..core.packing import PackedSites
from ..core.sites import Site
from ..devices import CPU
from ..errors import RecycleGPError
from ..merging.site_source import SiteSource, View, every_nth, unpacked
from ..merging.site_store import SiteStore
from .executor import Executor
from .tasks import FittedChunk, read_chunk

REMEMBERED = 2**26  # bytes of sites that a process keeps between tasks
WORK = 2**27  # multiplications that are worth a task
HANDLING = 2**12  # those that take as long as reading what belongs to one point
POINTS = 2**13  # in one task, unless a chunk has more

T = TypeVar("T")


class File(NamedTuple):
    """Of one chunk."""

    path: str
    fingerprint: str
    first: int  # position of its first member among all,
    stop: int  # and of the first one after it
    categories: Categories  # in whose codes its sites are wanted
    function: str  # of which


class Leaf(NamedTuple):
    """Some chunks, as a task is told of them."""

    files: tuple[File, ...]
    view: View  # of all members from the first to the last, counted from the first

    @property
    def first(self) -> int:
        return self.files[0].first


class ChunkStore(SiteSource):
    """What all chunks say of one function, none of which is here."""

    def __init__(
        self,
        executor: Executor,
        chunks: Sequence[FittedChunk],
        weights: Sequence[float],
        categories: Categories = NO_CATEGORIES,
        function: str = "f",
    ) -> None:
        """Weights are those of the modules that have the function, in their order."""
        self.device = CPU  # workers compute where their processors are
        self._executor = executor
        self._files: list[File] = []
        self._points: list[int] = []
        self._rows: list[int] = []
        for c in chunks:
            first = len(self._points)
            for module in c.modules:
                i = module.function(function)
                if i is not None:
                    self._points.append(module.points[i])
                    self._rows.append(module.site_rows[i])
            if len(self._points) > first:
                self._files.append(File(c.path, c.fingerprint, first, len(self._points), categories, function))
        self._counting = [i for i, w in enumerate(weights) if w > 0]
        self._view = View().without(i for i, w in enumerate(weights) if w <= 0)
        if any(w not in (0, 1) for w in weights):
            self._view = self.weighted(torch.tensor(weights, dtype=torch.float64))._view
        self._count()

    def _count(self) -> None:
        seen = [i for i in self._counting if i not in self._view.left_out]
        self.sites = len(seen)
        self.points = sum(self._points[i] for i in seen)
        self.rows = sum(self._rows[i] for i in seen)
        self.largest = max((self._points[i] for i in seen), default=0)

    def packs(self, inducing: int) -> Iterator[PackedSites]:
        """Every site once, brought here chunk by chunk: for what needs all of them, as an exact ensemble does."""
        for file in self._wanted():
            yield from self._executor.tree(
                partial(_listed, inducing=inducing), [self._leaf([file])], operator.add, "read"
            )

    def reduce(
        self, part: Callable[[Iterator[PackedSites]], T], join: Callable[[T, T], T], inducing: int, name: str
    ) -> T:
        """A task for each chunk, or for several small ones; its answer is all that leaves the machine where it runs."""
        leaves = self._leaves(self._wanted(), inducing)
        return self._executor.tree(partial(_answer, part=part, inducing=inducing), leaves, join, name)

    def thinned(self, points: int) -> SiteStore:
        """Every n-th site in the order of members, so that there are about so many points in all."""
        members = every_nth((i for i in self._counting if i not in self._view.left_out), self.points, points)
        leaves = self._leaves(self._wanted(members), 1)
        found = dict(self._executor.tree(partial(_some, members=members), leaves, operator.add, "some-sites"))
        few = SiteStore()
        for i in sorted(members):
            few.put(found[i], 1.0, i)
        return few

    def without(self, members: Iterable[int]) -> Self:
        """The same sites but for those of some members."""
        other = self._seen(self._view.without(members))
        other._count()
        return other

    def _seen(self, view: View) -> Self:
        other = copy(self)
        other._view = view
        return other

    def close(self) -> None:
        """Files stay: whoever has made their folder decides."""

    def _wanted(self, members: frozenset[int] | None = None) -> list[File]:
        """Files with sites that are seen; only those of some members, if these are given."""
        out = self._view.left_out
        found = [
            file
            for file in self._files
            if any(i not in out and (members is None or i in members) for i in range(file.first, file.stop))
        ]
        if not found:
            raise RecycleGPError("an ensemble needs at least one module with a positive weight")
        return found

    def _leaves(self, files: Sequence[File], inducing: int) -> list[Leaf]:
        """Chunks that are not worth a task share one: by their sizes alone, so that the tree is always the same."""
        groups: list[list[File]] = []
        work = points = 0
        for file in files:
            if not groups or work >= WORK or points >= POINTS:
                groups.append([])
                work = points = 0
            groups[-1].append(file)
            sizes = self._points[file.first : file.stop]
            work += sum(n * (inducing * (inducing + n) + HANDLING) for n in sizes)
            points += sum(sizes)
        return [self._leaf(group) for group in groups]

    def _leaf(self, files: Sequence[File]) -> Leaf:
        return Leaf(tuple(files), self._view.between(files[0].first, files[-1].stop))


# --- where the files are ----------------------------------------------------------------------


def _answer(leaf: Leaf, *, part: Callable[[Iterator[PackedSites]], Any], inducing: int) -> Any:
    return part(_packs(leaf, inducing))


def _listed(leaf: Leaf, *, inducing: int) -> list[PackedSites]:
    """Copies: a piece of a tensor would travel with all of it."""
    return [
        p._replace(Z=p.Z.clone(), Rt=p.Rt.clone(), rho=p.rho.clone(), e=p.e.clone()) for p in _packs(leaf, inducing)
    ]


def _some(leaf: Leaf, *, members: frozenset[int]) -> list[tuple[int, Site]]:
    """Copies, as above."""
    return [
        (member, Site(*(t.clone() for t in site)))
        for p in _packs(leaf, 1)
        for member, site in unpacked(p)
        if member in members
    ]


def _packs(leaf: Leaf, inducing: int) -> Iterator[PackedSites]:
    """The sites of some chunks, under the positions of their members among all."""
    for p in _opened(leaf.files)._seen(leaf.view).packs(inducing):
        yield p._replace(members=tuple(leaf.first + i for i in p.members))


class _Remembered(NamedTuple):
    store: SiteStore
    size: int  # bytes


_lock = threading.Lock()
_remembered: OrderedDict[tuple[File, ...], _Remembered] = OrderedDict()  # those asked last at the end


def _opened(files: tuple[File, ...]) -> SiteStore:
    """The sites of some chunks: learning asks for them again and again, so that a process remembers some."""
    with _lock:
        if files in _remembered:
            _remembered.move_to_end(files)
            return _remembered[files].store
    store, size = SiteStore(), 0
    for file in files:
        for i, site in enumerate(_sites(file), file.first - files[0].first):
            store.put(site, 1.0, i)
            size += sum(t.numel() * t.element_size() for t in site)
    store._seen(View())  # all are packed now, so that threads can share it
    if size <= REMEMBERED:
        with _lock:
            _remembered[files] = _Remembered(store, size)
            while sum(each.size for each in _remembered.values()) > REMEMBERED:
                _remembered.popitem(last=False)
    return store


def _sites(file: File) -> list[Site]:
    chunk = read_chunk(Path(file.path))
    if chunk.fingerprint != file.fingerprint:
        raise RecycleGPError(f"{file.path}: another run has written to this folder meanwhile; give each run its own")
    return chunk.modules._sites(file.categories, file.function)

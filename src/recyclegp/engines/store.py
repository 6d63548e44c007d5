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

from ..core.packing import PackedSites
from ..core.sites import Site
from ..errors import RecycleGPError
from ..merging import site_store
from ..merging.site_queue import packing_order
from ..merging.site_source import SiteSource, View, unpacked
from ..merging.site_store import SiteStore
from .chunks import read_chunk
from .executor import Executor
from .tasks import FittedChunk

REMEMBERED = 2**26  # bytes of sites that a process keeps between tasks
WORK = 2**27  # multiplications that are worth a task
HANDLING = 2**12  # those that take as long as reading what belongs to one point
POINTS = 2**13  # in one task, unless a chunk has more

T = TypeVar("T")


class Leaf(NamedTuple):
    """One chunk, as a task is told of it."""

    path: str
    fingerprint: str
    first: int  # position of its first member,
    stop: int  # and of the first one after it
    view: View  # of its members, counted from the first


class ChunkStore(SiteSource):
    """The sites of all chunks, none of which is here."""

    def __init__(self, executor: Executor, chunks: Sequence[FittedChunk], weights: Sequence[float]) -> None:
        self._executor = executor
        self._files = [(c.path, c.fingerprint) for c in chunks]
        ends = [0]
        for c in chunks:
            ends.append(ends[-1] + len(c.members))
        self._ends = ends
        self._dimension = max(c.dimension for c in chunks)
        self._points = [n for c in chunks for n in c.points]
        self._rows = [n for c in chunks for n in c.rows]
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
        for leaf in self._leaves():
            yield from self._executor.tree(partial(_listed, inducing=inducing), [[leaf]], operator.add, "read")

    def reduce(
        self, part: Callable[[Iterator[PackedSites]], T], join: Callable[[T, T], T], inducing: int, name: str
    ) -> T:
        """A task for each chunk, or for several small ones; its answer is all that leaves the machine where it runs."""
        work = self._grouped(self._leaves(), inducing)
        return self._executor.tree(partial(_answer, part=part, inducing=inducing), work, join, name)

    def _grouped(self, leaves: Sequence[Leaf], inducing: int) -> list[list[Leaf]]:
        """Chunks that are not worth a task share one: by their sizes alone, so that the tree is always the same."""
        found: list[list[Leaf]] = []
        work = points = 0
        for leaf in leaves:
            sizes = self._points[leaf.first : leaf.stop]
            if not found or work >= WORK or points >= POINTS:
                found.append([])
                work = points = 0
            found[-1].append(leaf)
            work += sum(n * (inducing * (inducing + n) + HANDLING) for n in sizes)
            points += sum(sizes)
        return found

    def thinned(self, points: int) -> SiteStore:
        """Every n-th site, in the order in which one process would have packed them all."""
        step = max(1, -(-self.points // points))
        order = packing_order({i: self._points[i] for i in self._counting}, self._dimension, site_store.PACK)
        chosen = [i for i in order if i not in self._view.left_out][::step]
        whose = self._leaves(frozenset(chosen))
        work = self._grouped(whose, 1)
        found = dict(self._executor.tree(partial(_some, members=frozenset(chosen)), work, operator.add, "some-sites"))
        few = SiteStore()
        for i in chosen:
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

    def _leaves(self, members: frozenset[int] | None = None) -> list[Leaf]:
        """Of chunks with sites that are seen; only of some members, if these are given."""
        found = []
        for (path, fingerprint), first, stop in zip(self._files, self._ends[:-1], self._ends[1:], strict=True):
            view = self._view.between(first, stop)
            wanted = members is None or any(i in members for i in range(first, stop))
            if wanted and len(view.left_out) < stop - first:
                found.append(Leaf(path, fingerprint, first, stop, view))
        if not found:
            raise RecycleGPError("an ensemble needs at least one module with a positive weight")
        return found


# --- where the files are ----------------------------------------------------------------------


def _answer(leaves: Sequence[Leaf], *, part: Callable[[Iterator[PackedSites]], Any], inducing: int) -> Any:
    return part(_packs(leaves, inducing))


def _listed(leaves: Sequence[Leaf], *, inducing: int) -> list[PackedSites]:
    """Copies: a piece of a tensor would travel with all of it."""
    return [
        p._replace(Z=p.Z.clone(), Rt=p.Rt.clone(), rho=p.rho.clone(), e=p.e.clone()) for p in _packs(leaves, inducing)
    ]


def _some(leaves: Sequence[Leaf], *, members: frozenset[int]) -> list[tuple[int, Site]]:
    """Copies, as above."""
    return [
        (member, Site(*(t.clone() for t in site)))
        for p in _packs(leaves, 1)
        for member, site in unpacked(p)
        if member in members
    ]


def _packs(leaves: Sequence[Leaf], inducing: int) -> Iterator[PackedSites]:
    """The sites of some chunks, under the positions of their members among all."""
    for leaf in leaves:
        for p in _opened(leaf)._seen(leaf.view).packs(inducing):
            yield p._replace(members=tuple(leaf.first + i for i in p.members))


_lock = threading.Lock()
_remembered: OrderedDict[tuple[str, str], tuple[SiteStore, int]] = OrderedDict()  # those asked last at the end


def _opened(leaf: Leaf) -> SiteStore:
    """The sites of a chunk: learning asks for them again and again, so that a process remembers some."""
    key = leaf.path, leaf.fingerprint
    with _lock:
        if key in _remembered:
            _remembered.move_to_end(key)
            return _remembered[key][0]
    chunk = read_chunk(Path(leaf.path))
    if chunk.fingerprint != leaf.fingerprint:
        raise RecycleGPError(f"{leaf.path}: another run has written to this folder meanwhile; give each run its own")
    store, size = SiteStore(), 0
    for i, m in enumerate(chunk.modules):
        store.put(m._site, 1.0, i)
        size += sum(t.numel() * t.element_size() for t in m._site)
    store._seen(View())  # all are packed now, so that threads can share it
    if size <= REMEMBERED:
        with _lock:
            _remembered[key] = store, size
            while sum(held for _, held in _remembered.values()) > REMEMBERED:
                _remembered.popitem(last=False)
    return store

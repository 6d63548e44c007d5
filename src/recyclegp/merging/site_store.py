"""Sites in passing: packed as they come, and read as often as one likes, from memory or from disk.

A merge looks at every site many times while it learns, but never at all of them at once. So sites are packed as they
come in; the first packs stay in memory, the rest go to a temporary file without a name, which the operating system
removes with the process whatever happens (TMPDIR says where).
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import IO, NamedTuple, Self, TypeVar

import torch

from .. import threads
from ..core.packing import FEATURES, PackedSites, pack, split
from ..core.sites import Site
from ..devices import current_device, memory_factor
from ..errors import RecycleGPError
from .site_source import SiteSource, View, every_nth

IN_MEMORY = 2**28  # bytes of packed sites kept in memory
REMEMBERED = 2**26  # bytes of these that are also kept as they are seen, scaled and without some
PACK = 2**17  # numbers packed together, and four times as many still waiting
SITES = 1024  # packed together: small ones weigh more as objects than as numbers

T = TypeVar("T")


class _Stored(NamedTuple):
    """Where packed sites lie in the file, and what does not need to."""

    offset: int
    shapes: tuple[torch.Size, ...]  # of Z, Rt, ρ, e
    members: tuple[int, ...]
    counts: tuple[int, ...]


class _Put(NamedTuple):
    """One site, waiting for others of its size."""

    site: Site
    member: int
    weight: float


class _SiteQueue:
    """Sites that wait until there are enough of their size, as long as memory allows."""

    def __init__(self) -> None:
        self._open: dict[int, list[_Put]] = {}
        self._numbers = 0  # in the sites that wait

    def put(self, item: _Put, size: int, dimension: int, most: int) -> list[_Put] | None:
        """One more; those of one size that are to be packed now, if there are any.

        `most` is how many numbers are packed together, and a fourth of those that may wait.
        """
        items = self._open.setdefault(size, [])
        items.append(item)
        numbers = size * (size + dimension)
        self._numbers += numbers
        if len(items) * numbers >= most or len(items) >= SITES:
            return self._take(size, dimension)
        if self._numbers >= 4 * most:  # many sizes, none of them frequent: the largest makes room
            return self._take(max(self._open, key=lambda n: len(self._open[n]) * n * n), dimension)
        return None

    def rest(self, dimension: int) -> Iterator[list[_Put]]:
        """All that are still waiting, by their sizes."""
        for size in list(self._open):
            yield self._take(size, dimension)

    def _take(self, size: int, dimension: int) -> list[_Put]:
        items = self._open.pop(size)
        self._numbers -= len(items) * size * (size + dimension)
        return items


class SiteStore(SiteSource):
    """Weighted sites by size, in this process."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = current_device() if device is None else device
        self._waiting = _SiteQueue()
        self._dimension = 0
        self._packed: list[PackedSites | _Stored] = []
        self._held = 0  # bytes in memory
        self._known: list[PackedSites] = []  # packs as they are seen, if they are remembered
        self._file: IO[bytes] | None = None
        self._view = View()
        self.largest = 0
        self.points = 0
        self.rows = 0
        self.sites = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, site: Site, weight: float, member: int) -> None:
        """One more site, to the power of its weight; `member` is how packs will refer to it."""
        size, self._dimension = site.Z.shape
        self.points += size
        self.rows += site.rho.shape[0]  # of a tensor, len is slow
        self.sites += 1
        self.largest = max(self.largest, size)
        group = self._waiting.put(_Put(site, member, weight), size, self._dimension, PACK)
        if group is not None:
            self._pack(group)

    def put_all(self, sites: Sequence[Site], weights: Sequence[float], first: int, shapes: set[torch.Size]) -> None:
        """Many sites with points of these shapes, of the members from `first` on; those of weight zero are left out."""
        if len(shapes) > 1 or min(weights) <= 0:
            for i, (site, weight) in enumerate(zip(sites, weights, strict=True)):
                if weight > 0:
                    self.put(site, weight, first + i)
            return
        ((size, self._dimension),) = shapes
        step = min(SITES, -(-PACK // (size * (size + self._dimension))))  # as many as `put` would wait for
        for start in range(0, len(sites), step):
            some = slice(start, start + step)
            self.put_packed(pack(sites[some], range(first, first + len(sites))[some], weights[some]))

    def put_packed(self, packed: PackedSites) -> None:
        """Sites of one size that are packed already, with their weights in them."""
        self._count(packed)
        self._keep(packed)

    def packs(self, inducing: int) -> Iterator[PackedSites]:
        """Every site once, in chunks whose features on `inducing` points fit."""
        self._pack_all()
        if not self._packed:
            raise RecycleGPError("an ensemble needs at least one module with a positive weight")
        for seen in self._visible():
            if seen.members:
                yield from split(seen, inducing)

    @property
    def is_held(self) -> bool:
        """As long as learning asks for them; those in the file are not."""
        few = self._held <= REMEMBERED * memory_factor(self.device)
        return few and not any(isinstance(p, _Stored) for p in self._packed)

    def _visible(self) -> Iterable[PackedSites]:
        """Packs as they are seen; where they are small they are kept so, because learning asks again and again."""
        if not self.is_held:
            return (self._view.of(self._read(p) if isinstance(p, _Stored) else p) for p in self._packed)
        if len(self._known) < len(self._packed):
            self._known = [self._view.of(p) for p in self._packed if not isinstance(p, _Stored)]
        return self._known

    def reduce(
        self, part: Callable[[Iterator[PackedSites]], T], join: Callable[[T, T], T], inducing: int, name: str
    ) -> T:
        """All sites are here: they are one part, or one for each thread that they are worth."""
        self._pack_all()
        if inducing == 1 or self.device.type != "cpu" or any(isinstance(p, _Stored) for p in self._packed):
            return part(self.packs(inducing))
        with threads.share_work(threads.worth(self.points * inducing, FEATURES)) as workers:
            if workers.size == 1:
                return part(self.packs(inducing))
            shares = _shares(list(self.packs(inducing)), workers.size)
            return functools.reduce(join, workers.map(part, map(iter, shares)))

    def _seen(self, view: View) -> Self:
        self._pack_all()
        other = copy(self)
        other._view = view
        other._known = []
        return other

    def without(self, members: Iterable[int]) -> Self:
        """The same sites but for those of some members. It reads what this store holds, and is closed with it."""
        view = self._seen(self._view.without(members))
        view.largest = view.points = view.rows = view.sites = 0
        for p in view.packs(1):
            view._count(p)
        return view

    def thinned(self, points: int) -> SiteStore:
        """Every n-th site in the order of members, so that there are about so many points in all."""
        chosen = every_nth([m for p in self.packs(1) for m in p.members], self.points, points)
        few = SiteStore(self.device)
        for p in self.packs(1):
            some = p.only(chosen)
            if some.members:
                few._packed.append(some)
                few._count(some)
        return few

    def _count(self, p: PackedSites) -> None:
        K, size, _ = p.Z.shape
        self.points += K * size
        self.rows += sum(p.counts)
        self.sites += K
        self.largest = max(self.largest, size)

    def _pack_all(self) -> None:
        for group in self._waiting.rest(self._dimension):
            self._pack(group)

    def _pack(self, waiting: list[_Put]) -> None:
        sites, members, weights = zip(*waiting, strict=True)
        self._keep(pack(sites, members, weights))

    def _keep(self, packed: PackedSites) -> None:
        """In memory while there is room, else in the file."""
        needed = sum(t.numel() * t.element_size() for t in packed[:4])
        if self._held + needed <= IN_MEMORY * memory_factor(self.device):
            self._held += needed
            self._packed.append(packed.to(self.device))
        else:
            self._packed.append(self._write(packed))

    def _write(self, packed: PackedSites) -> _Stored:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="recyclegp-")  # noqa: SIM115 (closed with the store)
        offset = self._file.seek(0, 2)
        for t in packed[:4]:
            self._file.write(t.contiguous().cpu().numpy().data)
        return _Stored(offset, tuple(t.shape for t in packed[:4]), packed.members, packed.counts)

    def _read(self, stored: _Stored) -> PackedSites:
        assert self._file is not None
        sizes = [shape.numel() for shape in stored.shapes]
        self._file.seek(stored.offset)
        content = bytearray(self._file.read(8 * sum(sizes)))  # read, not mapped: pages would count as memory
        pieces = torch.frombuffer(content, dtype=torch.float64).split(sizes)
        Z, Rt, rho, e = (piece.reshape(shape) for piece, shape in zip(pieces, stored.shapes, strict=True))
        return PackedSites(Z, Rt, rho, e, stored.members, stored.counts).to(self.device)


def _shares(packs: list[PackedSites], count: int) -> list[list[PackedSites]]:
    """Neighbouring sites in so many parts, each of them about as large as the others."""
    border = -(-sum(len(p.members) for p in packs) // count)
    shares: list[list[PackedSites]] = [[]]
    room = border
    for p in packs:
        start = 0
        while start < len(p.members):
            if not room:
                shares.append([])
                room = border
            step = min(room, len(p.members) - start)
            shares[-1].append(p.at(slice(start, start + step)))
            start, room = start + step, room - step
    return shares

"""Sites in passing: packed as they come, and read as often as one likes, from memory or from disk.

A merge looks at every site many times while it learns, but never at all of them at once. So sites are packed as they
come in; the first packs stay in memory, the rest go to a temporary file without a name, which the operating system
removes with the process whatever happens (TMPDIR says where).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from copy import copy
from types import TracebackType
from typing import IO, NamedTuple

import torch
from torch import Tensor

from ..core.packing import PackedSites, pack, split
from ..core.sites import Site
from ..devices import here, room
from ..errors import RecycleGPError

IN_MEMORY = 2**28  # bytes of packed sites kept in memory
PACK = 2**17  # numbers packed together, and four times as many still waiting
SITES = 1024  # packed together: small ones weigh more as objects than as numbers


class _Stored(NamedTuple):
    """Where packed sites lie in the file, and what does not need to."""

    offset: int
    shapes: tuple[torch.Size, ...]  # of Z, Rt, ρ, e
    members: tuple[int, ...]
    counts: tuple[int, ...]


class _Open(NamedTuple):
    """Sites of one size still waiting for others."""

    sites: list[Site]
    members: list[int]
    weights: list[float]


class _Scaling(NamedTuple):
    """R, ρ, e → root·R, root·ρ, factor·e + constant, by members."""

    roots: Tensor  # (K,)
    factors: Tensor  # (K,)
    constants: Tensor  # (K,)

    def of(self, p: PackedSites) -> PackedSites:
        members = torch.tensor(p.members)
        root, e = self.roots[members], self.factors[members] * p.e + self.constants[members]
        return p._replace(Rt=root[:, None, None] * p.Rt, rho=root[:, None] * p.rho, e=e)

    def after(self, first: _Scaling | None) -> _Scaling:
        """This one of what another one has made."""
        if first is None:
            return self
        constants = self.factors * first.constants + self.constants
        return _Scaling(self.roots * first.roots, self.factors * first.factors, constants)


class SiteStore:
    """Weighted sites by size. Use it in a `with` statement, or give back its file with close()."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = here() if device is None else device  # where sites are given out
        self._open: dict[int, _Open] = {}
        self._waiting = 0  # numbers in the sites still waiting
        self._packed: list[PackedSites | _Stored] = []
        self._held = 0  # bytes in memory
        self._file: IO[bytes] | None = None
        self._scaling: _Scaling | None = None
        self._left_out: frozenset[int] = frozenset()  # members whose sites are there, but not given out
        self.largest = 0  # points of the largest site
        self.points = 0  # of all sites together
        self.rows = 0  # of pseudo-observations
        self.sites = 0

    def __enter__(self) -> SiteStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, site: Site, weight: float, member: int) -> None:
        """One more site, to the power of its weight; `member` is how packs will refer to it."""
        size, D = site.Z.shape
        group = self._open.get(size)
        if group is None:
            group = self._open[size] = _Open([], [], [])
        group.sites.append(site)
        group.members.append(member)
        group.weights.append(weight)
        self.points += size
        self.rows += len(site.rho)
        self.sites += 1
        self.largest = max(self.largest, size)
        numbers = size * (size + D)
        self._waiting += numbers
        if len(group.sites) * numbers >= PACK or len(group.sites) >= SITES:
            self._pack(size)
        elif self._waiting >= 4 * PACK:  # many sizes, none of them frequent: the largest makes room
            self._pack(max(self._open, key=lambda n: len(self._open[n].sites) * n * n))

    def put_packed(self, packed: PackedSites) -> None:
        """Sites of one size that are packed already, with their weights in them."""
        K, size, _ = packed.Z.shape
        self.points += K * size
        self.rows += sum(packed.counts)
        self.sites += K
        self.largest = max(self.largest, size)
        self._keep(packed)

    def packs(self, inducing: int) -> Iterator[PackedSites]:
        """Every site once, in chunks whose features on `inducing` points fit."""
        for size in list(self._open):
            self._pack(size)
        if not self._packed:
            raise RecycleGPError("an ensemble needs at least one module with a positive weight")
        for packed in self._packed:
            read = (self._read(packed) if isinstance(packed, _Stored) else packed).without(self._left_out)
            if read.members:
                yield from split(read if self._scaling is None else self._scaling.of(read), inducing)

    def scaled(self, roots: Tensor, constants: Tensor) -> SiteStore:
        """The same sites with R_k and ρ_k multiplied by a root, and a constant added to e_k, by their members (K,).

        It reads what this store holds, and is closed with it.
        """
        return self._seen_through(_Scaling(roots, torch.ones_like(roots), constants))

    def weighted(self, weights: Tensor) -> SiteStore:
        """The same sites to further powers, by their members (K,); it reads what this store holds."""
        return self._seen_through(_Scaling(weights.sqrt(), weights, torch.zeros_like(weights)))

    def _seen_through(self, scaling: _Scaling) -> SiteStore:
        for size in list(self._open):
            self._pack(size)
        view = copy(self)
        view._scaling = scaling.after(self._scaling)
        return view

    def without(self, members: Iterable[int]) -> SiteStore:
        """The same sites but for those of some members. It reads what this store holds, and is closed with it."""
        for size in list(self._open):
            self._pack(size)
        view = copy(self)
        view._left_out = self._left_out | frozenset(members)
        view.largest = view.points = view.rows = view.sites = 0
        for p in view.packs(1):
            K, size, _ = p.Z.shape
            view.points += K * size
            view.rows += sum(p.counts)
            view.sites += K
            view.largest = max(view.largest, size)
        return view

    def each(self) -> Iterator[tuple[int, Site]]:
        """Every site, weighted, with the member it is of."""
        for p in self.packs(1):
            for i, (member, r) in enumerate(zip(p.members, p.counts, strict=True)):
                yield member, Site(p.Z[i], p.Rt[i, :r], p.rho[i, :r], p.e[i])

    def thinned(self, points: int) -> SiteStore:
        """Every n-th site, so that there are about so many points in all."""
        step = max(1, -(-self.points // points))
        few, count = SiteStore(), 0
        for b in self.packs(1):
            some = b.at(slice(-count % step, None, step))
            count += len(b.members)
            if some.members:
                few._packed.append(some)
                few.points += some.Z.shape[0] * some.Z.shape[1]
                few.rows += sum(some.counts)
                few.sites += len(some.members)
                few.largest = max(few.largest, some.Z.shape[1])
        return few

    def _pack(self, size: int) -> None:
        group = self._open.pop(size)
        packed = pack(group.sites, group.members, group.weights)
        self._waiting -= len(group.sites) * size * (size + packed.Z.shape[2])
        self._keep(packed)

    def _keep(self, packed: PackedSites) -> None:
        """In memory while there is room, else in the file."""
        needed = sum(t.numel() * t.element_size() for t in packed[:4])
        if self._held + needed <= IN_MEMORY * room(self.device):
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


class Candidates(NamedTuple):
    """Points of modules, each of which may become one of Z_*."""

    Z: Tensor  # (n, D)
    precision: Tensor  # (n,)  Λ_jj: how much its module says about f there
    members: Tensor  # (n,)  whose they are


def candidates(store: SiteStore) -> Iterator[Candidates]:
    """Every site's points, pack by pack."""
    for p in store.packs(1):
        members = torch.tensor(p.members).repeat_interleave(p.Z.shape[1])
        yield Candidates(p.Z.flatten(0, 1), p.Rt.square().sum(1).flatten(), members)

"""Sites in passing: packed into blocks that can be read as often as one likes, from memory or from disk.

A merge looks at every site many times while it learns, but never at all of them at once. So sites are
packed as they come in; the first blocks stay in memory, the rest go to a temporary file without a
name, which the operating system removes with the process whatever happens (TMPDIR says where).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, NamedTuple

import torch
from torch import Tensor

from .blocks import Block, block, split
from .errors import RecycleGPError
from .sites import Site

BUDGET = 2**28  # bytes of blocks kept in memory
PACKET = 2**17  # numbers in a packed block, and four times as many in blocks still open
CROWD = 1024  # sites in a packed block: small ones weigh more as objects than as numbers


class _Stored(NamedTuple):
    """Where a block lies in the file, and what does not need to."""

    offset: int
    shapes: tuple[torch.Size, ...]  # of Z, Rt, ρ, e
    members: tuple[int, ...]
    counts: tuple[int, ...]


class _Open(NamedTuple):
    """Sites of one size still waiting for others."""

    sites: list[Site]
    members: list[int]
    weights: list[float]


class Shelf:
    """Weighted sites by size. Use it in a `with` statement, or give back its file with close()."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._waiting = 0  # numbers in the open blocks
        self._packed: list[Block | _Stored] = []
        self._held = 0  # bytes of blocks in memory
        self._file: IO[bytes] | None = None
        self.largest = 0  # points of the largest site
        self.points = 0  # of all sites together

    def __enter__(self) -> Shelf:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, site: Site, weight: float, member: int) -> None:
        """One more site, to the power of its weight; `member` is how blocks will refer to it."""
        size, D = site.Z.shape
        group = self._open.get(size)
        if group is None:
            group = self._open[size] = _Open([], [], [])
        group.sites.append(site)
        group.members.append(member)
        group.weights.append(weight)
        self.points += size
        self.largest = max(self.largest, size)
        numbers = size * (size + D)
        self._waiting += numbers
        if len(group.sites) * numbers >= PACKET or len(group.sites) >= CROWD:
            self._pack(size)
        elif self._waiting >= 4 * PACKET:  # many sizes, none of them frequent: the largest makes room
            self._pack(max(self._open, key=lambda n: len(self._open[n].sites) * n * n))

    def blocks(self, inducing: int) -> Iterator[Block]:
        """Every site once, in chunks whose features on `inducing` points fit."""
        for size in list(self._open):
            self._pack(size)
        if not self._packed:
            raise RecycleGPError("an ensemble needs at least one module with a positive weight")
        for packed in self._packed:
            yield from split(self._read(packed) if isinstance(packed, _Stored) else packed, inducing)

    def thinned(self, points: int) -> Shelf:
        """Every so many-th of its sites, about so many points in all."""
        step = max(1, -(-self.points // points))
        few, count = Shelf(), 0
        for b in self.blocks(1):
            some = b.at(slice(-count % step, None, step))
            count += len(b.members)
            if some.members:
                few._packed.append(some)
                few.points += some.Z.shape[0] * some.Z.shape[1]
                few.largest = max(few.largest, some.Z.shape[1])
        return few

    def _pack(self, size: int) -> None:
        group = self._open.pop(size)
        packed = block(group.sites, group.members, group.weights)
        self._waiting -= len(group.sites) * size * (size + packed.Z.shape[2])
        needed = sum(t.numel() * t.element_size() for t in packed[:4])
        if self._held + needed <= BUDGET:
            self._held += needed
            self._packed.append(packed)
        else:
            self._packed.append(self._write(packed))

    def _write(self, packed: Block) -> _Stored:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="recyclegp-")  # noqa: SIM115 (closed with the shelf)
        offset = self._file.seek(0, 2)
        for t in packed[:4]:
            self._file.write(t.contiguous().numpy().data)
        return _Stored(offset, tuple(t.shape for t in packed[:4]), packed.members, packed.counts)

    def _read(self, stored: _Stored) -> Block:
        assert self._file is not None
        sizes = [shape.numel() for shape in stored.shapes]
        self._file.seek(stored.offset)
        content = bytearray(self._file.read(8 * sum(sizes)))  # read, not mapped: pages would count as memory
        pieces = torch.frombuffer(content, dtype=torch.float64).split(sizes)
        Z, Rt, rho, e = (piece.reshape(shape) for piece, shape in zip(pieces, stored.shapes, strict=True))
        return Block(Z, Rt, rho, e, stored.members, stored.counts)


def candidates(shelf: Shelf) -> Iterator[tuple[Tensor, Tensor]]:
    """Every site's points (n, D) with their own precisions Λ_jj (n,), block by block."""
    for b in shelf.blocks(1):
        yield b.Z.flatten(0, 1), b.Rt.square().sum(1).flatten()

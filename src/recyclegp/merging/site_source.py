"""Sites that can be gone through as often as one likes, wherever they lie: in memory, on disk, on other machines.

All that a merge asks of its sites is a sum of some kind: of numbers and gradients, of triangles of rows that fold into
one, of candidates of which the best stay. So it asks with two functions. `part` makes a small result of some packs of
sites, `join` makes one result of two, and `reduce` applies them where the sites are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from ..core.packing import PackedSites
from ..core.sites import Site

T = TypeVar("T")
Sums = TypeVar("Sums", bound=tuple[Any, ...])  # a NamedTuple


class Scaling(NamedTuple):
    """R, ρ, e → root·R, root·ρ, factor·e + constant, by members."""

    roots: Tensor  # (K,)
    factors: Tensor  # (K,)
    constants: Tensor  # (K,)

    def of(self, p: PackedSites) -> PackedSites:
        members = torch.tensor(p.members)
        root, e = self.roots[members], self.factors[members] * p.e + self.constants[members]
        return p._replace(Rt=root[:, None, None] * p.Rt, rho=root[:, None] * p.rho, e=e)

    def after(self, first: Scaling | None) -> Scaling:
        """This one of what another one has made."""
        if first is None:
            return self
        constants = self.factors * first.constants + self.constants
        return Scaling(self.roots * first.roots, self.factors * first.factors, constants)


class View(NamedTuple):
    """How sites are seen: those of some members not at all, the others to powers and under other noises."""

    scaling: Scaling | None = None
    left_out: frozenset[int] = frozenset()

    def of(self, packed: PackedSites) -> PackedSites:
        """What is seen of these sites, which may be none."""
        seen = packed.without(self.left_out)
        return seen if self.scaling is None or not seen.members else self.scaling.of(seen)

    def scaled(self, scaling: Scaling) -> View:
        return self._replace(scaling=scaling.after(self.scaling))

    def without(self, members: Iterable[int]) -> View:
        return self._replace(left_out=self.left_out | frozenset(members))

    def between(self, first: int, stop: int) -> View:
        """That of the members in between, counted from the first of them."""
        scaling = None
        if self.scaling is not None:
            scaling = Scaling(*(t[first:stop].clone() for t in self.scaling))
        return View(scaling, frozenset(m - first for m in self.left_out if first <= m < stop))


class SiteSource(ABC):
    """Weighted sites, known by the positions of their members. Use it in a `with` statement, or close() it."""

    device: torch.device  # where sites are given out
    largest: int  # points of the largest site
    points: int  # of all sites together
    rows: int  # of pseudo-observations
    sites: int
    _view: View

    @abstractmethod
    def packs(self, inducing: int) -> Iterator[PackedSites]:
        """Every site once, here, in chunks whose features on `inducing` points fit."""

    @abstractmethod
    def reduce(
        self, part: Callable[[Iterator[PackedSites]], T], join: Callable[[T, T], T], inducing: int, name: str
    ) -> T:
        """One result of all sites, made where they are.

        Args:
            part: a result of some packs of sites, at least one. It may travel, so it can be pickled: a function of a
                module, or a partial of one.
            join: one result of two, the same for any grouping of them.
            inducing: packs have as many sites as fit with so many points.
            name: of this kind of work, for those who watch it.
        """

    @abstractmethod
    def thinned(self, points: int) -> SiteSource:
        """Every n-th site, so that there are about so many points in all."""

    @abstractmethod
    def without(self, members: Iterable[int]) -> Self:
        """The same sites but for those of some members. It reads what this one holds, and is closed with it."""

    @abstractmethod
    def _seen(self, view: View) -> Self:
        """The same sites, seen in another way."""

    @abstractmethod
    def close(self) -> None:
        """Give back what was held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def scaled(self, roots: Tensor, constants: Tensor) -> Self:
        """The same sites with R_k and ρ_k multiplied by a root, and a constant added to e_k, by their members (K,).

        It reads what this one holds, and is closed with it.
        """
        return self._seen(self._view.scaled(Scaling(roots, torch.ones_like(roots), constants)))

    def weighted(self, weights: Tensor) -> Self:
        """The same sites to further powers, by their members (K,); it reads what this one holds."""
        return self._seen(self._view.scaled(Scaling(weights.sqrt(), weights, torch.zeros_like(weights))))

    def each(self) -> Iterator[tuple[int, Site]]:
        """Every site, weighted, with the member it is of."""
        for p in self.packs(1):
            yield from unpacked(p)


def unpacked(p: PackedSites) -> Iterator[tuple[int, Site]]:
    """The sites one by one, each with its member."""
    for i, (member, r) in enumerate(zip(p.members, p.counts, strict=True)):
        yield member, Site(p.Z[i], p.Rt[i, :r], p.rho[i, :r], p.e[i])


def every_nth(members: Iterable[int], have: int, wanted: int) -> frozenset[int]:
    """Of members who have so many points together as many as have about those that are wanted, evenly spread."""
    return frozenset(sorted(members)[:: max(1, -(-have // wanted))])


def added(a: Sums, b: Sums) -> Sums:
    """Two named tuples of sums, entry by entry: how most results are joined."""
    return type(a)(*(x + y for x, y in zip(a, b, strict=True)))


class SitePoints(NamedTuple):
    """Points of modules, each of which may become one of Z_*."""

    Z: Tensor  # (n, D)
    precision: Tensor  # (n,)  Λ_jj: how much its module says about f there
    members: Tensor  # (n,)  whose they are


def site_points(packs: Iterable[PackedSites]) -> Iterator[SitePoints]:
    """Every site's points, pack by pack."""
    for p in packs:
        members = torch.tensor(p.members).repeat_interleave(p.Z.shape[1])
        yield SitePoints(p.Z.flatten(0, 1), p.Rt.square().sum(1).flatten(), members)


def corners(source: SiteSource) -> Tensor:
    """(2, D): the corners of the box in which the sites have points."""
    return source.reduce(_box, _box_around, 1, "region")


def _box(packs: Iterator[PackedSites]) -> Tensor:
    Z = torch.cat([torch.stack([p.Z.amin((0, 1)), p.Z.amax((0, 1))]) for p in packs])
    return torch.stack([Z.amin(0), Z.amax(0)])


def _box_around(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([torch.minimum(a[0], b[0]), torch.maximum(a[1], b[1])])

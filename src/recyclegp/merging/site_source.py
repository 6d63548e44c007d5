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

from ..core import linalg
from ..core.noise import missed_factor
from ..core.packing import PackedSites
from ..core.sites import Site

T = TypeVar("T")
Sums = TypeVar("Sums", bound=tuple[Any, ...])  # a NamedTuple


class Scaling(NamedTuple):
    """R, ρ, e → root·R, root·ρ, factor·e + constant, by members; then without what they have missed of f."""

    roots: Tensor  # (K,)
    factors: Tensor  # (K,)
    constants: Tensor  # (K,)
    missed: Tensor | None = None  # g (K,)

    def of(self, p: PackedSites) -> PackedSites:
        members = torch.tensor(p.members)
        root, e = self.roots[members], self.factors[members] * p.e + self.constants[members]
        Rt, rho = root[:, None, None] * p.Rt, root[:, None] * p.rho
        if self.missed is not None:
            L = missed_factor(Rt, self.missed[members].to(Rt.device))
            Rt, rho = linalg.solve_lower(L, Rt), linalg.solve_lower(L, rho[..., None])[..., 0]
            e = e - linalg.logdet(L)
        return p._replace(Rt=Rt, rho=rho, e=e)

    def after(self, first: Scaling) -> Scaling:
        """This one of what another one has made that has missed nothing."""
        constants = self.factors * first.constants + self.constants
        return Scaling(self.roots * first.roots, self.factors * first.factors, constants, self.missed)

    def between(self, first: int, stop: int) -> Scaling:
        return Scaling(*(None if t is None else t[first:stop].clone() for t in self))  # type: ignore[arg-type]


class View(NamedTuple):
    """How sites are seen: those of some members not at all, the others to powers and under other noises."""

    scalings: tuple[Scaling, ...] = ()  # one after the other
    left_out: frozenset[int] = frozenset()

    def of(self, packed: PackedSites) -> PackedSites:
        """What is seen of these sites, which may be none."""
        seen = packed.without(self.left_out)
        for scaling in self.scalings if seen.members else ():
            seen = scaling.of(seen)
        return seen

    def scaled(self, scaling: Scaling) -> View:
        *before, last = self.scalings or (None,)
        if last is None or last.missed is not None:
            return self._replace(scalings=(*self.scalings, scaling))
        return self._replace(scalings=(*before, scaling.after(last)))

    def without(self, members: Iterable[int]) -> View:
        return self._replace(left_out=self.left_out | frozenset(members))

    def between(self, first: int, stop: int) -> View:
        """That of the members in between, counted from the first of them."""
        scalings = tuple(scaling.between(first, stop) for scaling in self.scalings)
        return View(scalings, frozenset(m - first for m in self.left_out if first <= m < stop))


class SiteSource(ABC):
    """Weighted sites, known by the positions of their members. Use it in a `with` statement, or close() it."""

    device: torch.device  # where sites are given out
    largest: int  # points of the largest site
    points: int  # of all sites together
    rows: int  # of pseudo-observations
    sites: int
    _view: View

    @property
    def is_held(self) -> bool:
        """Are its sites in the memory of its device, as they are seen, so that none is made anew?"""
        return False

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

    def scaled(self, roots: Tensor, constants: Tensor, missed: Tensor | None = None) -> Self:
        """The same sites with R_k and ρ_k multiplied by a root, and a constant added to e_k, by their members (K,).

        `missed` is what they are then taken to have missed of f (core/noise.py).

        It reads what this one holds, and is closed with it.
        """
        return self._seen(self._view.scaled(Scaling(roots, torch.ones_like(roots), constants, missed)))

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

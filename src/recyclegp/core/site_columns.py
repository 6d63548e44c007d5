"""Many sites as columns: all their numbers in one vector, one site after the other, as they also lie in a file.

A hundred thousand sites as objects are a hundred thousand times four tensors. As columns they are one vector and two
lists of sizes; sites of one size are taken out of it side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from .packing import PackedSites
from .sites import Site

NUMBERS = 2**17  # of sites of one size that are taken out together
SITES = 1024  # likewise


@dataclass(frozen=True, eq=False)
class SiteColumns:
    """K sites in D-D. Of each, Z (M_k·D), Rᵀ (r_k·M_k), ρ (r_k) and e lie behind each other in `flat`."""

    flat: Tensor
    points: Tensor  # (K,) int  M_k
    rows: Tensor  # (K,) int  r_k ≤ M_k
    dimension: int

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def sizes(self) -> Tensor:
        """(K,)  numbers of each site."""
        return self.points * self.dimension + self.rows * self.points + self.rows + 1

    @cached_property
    def ends(self) -> Tensor:
        """(K,)  where in `flat` each site ends."""
        return self.sizes.cumsum(0)

    @property
    def constants(self) -> Tensor:
        """(K,)  e of each."""
        return self.flat[self.ends - 1]

    def with_constants(self, e: Tensor) -> SiteColumns:
        """The same sites, but for these."""
        return replace(self, flat=self.flat.index_copy(0, (self.ends - 1).to(self.flat.device), e.to(self.flat)))

    def within(self, largest: float) -> Tensor:
        """(K,) bool: those of which every number is a number, and no larger."""
        fine = torch.ones(len(self), dtype=torch.bool)
        wrong = ~(self.flat.abs() <= largest)
        if bool(wrong.any()):
            fine[torch.searchsorted(self.ends, wrong.nonzero()[:, 0], right=True)] = False
        return fine

    def site(self, k: int) -> Site:
        """One of them; it shares their memory."""
        stop = int(self.ends[k])
        M, r = int(self.points[k]), int(self.rows[k])
        size = M * self.dimension + r * M + r + 1
        return _site(self.flat[stop - size : stop], M, r, self.dimension)

    def each(self, packs: Iterable[PackedSites] | None = None) -> Iterator[Site]:
        """All of them, in their order; where their packs are known, as views of these."""
        found: dict[int, Site] = {}
        for p in self.packs() if packs is None else packs:
            found.update(zip(p.members, map(Site, *(t.unbind() for t in p[:4])), strict=True))
        return (found[k] for k in range(len(self)))

    def take(self, chosen: Tensor) -> SiteColumns:
        """Some of them, in this order."""
        size = self.sizes[chosen]
        start = (self.ends - self.sizes)[chosen]
        shift = (start - (size.cumsum(0) - size)).repeat_interleave(size)
        index = torch.arange(int(size.sum()), device=self.flat.device) + shift
        return SiteColumns(self.flat[index], self.points[chosen], self.rows[chosen], self.dimension)

    def packs(self, members: Sequence[int] | None = None, memory: float = 1.0) -> Iterator[PackedSites]:
        """Every site once, those of one size side by side; `members` are what packs refer to them by.

        With so many times the memory as many times as many side by side.
        """
        own = torch.arange(len(self)) if members is None else torch.tensor(members, dtype=torch.long)
        start = self.ends - self.sizes
        most = 1 + (int(self.rows.max()) if len(self) else 0)
        codes = self.points * most + self.rows  # one number for each pair of sizes
        for code in codes.unique().tolist():
            M, r = divmod(code, most)
            size = M * self.dimension + r * M + r + 1
            alike = (codes == code).nonzero()[:, 0]
            for some in alike.split(max(1, int(memory * min(SITES, NUMBERS // size)))):
                numbers = self.flat[(start[some][:, None] + torch.arange(size)).to(self.flat.device)]
                Z, Rt, rho, e = (t.contiguous() for t in _site(numbers, M, r, self.dimension))
                yield PackedSites(Z, Rt, rho, e, tuple(own[some].tolist()), (r,) * len(some))


def _site(numbers: Tensor, M: int, r: int, D: int) -> Site:
    """Numbers (…, size) as a site, or as many side by side."""
    Z, Rt, rho, e = numbers.split([M * D, r * M, r, 1], -1)
    side = numbers.shape[:-1]
    return Site(Z.reshape(*side, M, D), Rt.reshape(*side, r, M), rho, e[..., 0])


def of_sites(sites: Sequence[Site], dimension: int) -> SiteColumns:
    """Sites one by one, as columns."""
    flat = [t.reshape(-1) for site in sites for t in site]
    return SiteColumns(
        torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64),
        torch.tensor([len(s.Z) for s in sites], dtype=torch.long),
        torch.tensor([len(s.rho) for s in sites], dtype=torch.long),
        dimension,
    )


def of_stacked(site: Site, points: Tensor, rows: Tensor) -> SiteColumns:
    """Sites side by side as columns; of their points and rows, padded at the end, so many are their own (K,)."""
    M, D = site.Z.shape[1:]
    numbers = torch.cat([site.Z.flatten(1), site.Rt.flatten(1), site.rho, site.e[:, None]], 1)
    points, rows = points.to(site.Z.device), rows.to(site.Z.device)
    if not (bool((points == M).all()) and bool((rows == site.rho.shape[1]).all())):
        real = torch.arange(M, device=points.device) < points[:, None]  # (K, M)
        used = torch.arange(site.rho.shape[1], device=points.device) < rows[:, None]  # (K, r)
        parts = (
            real[..., None].expand(-1, -1, D).flatten(1),
            (used[..., None] & real[:, None]).flatten(1),
            used,
            torch.ones_like(points, dtype=torch.bool)[:, None],
        )
        flat = numbers[torch.cat(parts, 1)]
    else:
        flat = numbers.flatten()
    return SiteColumns(flat.cpu(), points.cpu(), rows.cpu(), D)


def concatenate(parts: Sequence[SiteColumns]) -> SiteColumns:
    """Several columns, one behind the other."""
    return SiteColumns(
        torch.cat([p.flat for p in parts]),
        torch.cat([p.points for p in parts]),
        torch.cat([p.rows for p in parts]),
        parts[0].dimension,
    )

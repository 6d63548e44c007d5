"""Sites folded onto one basis as a tree of sums: when one site changes, its branch alone is folded again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from ..core import folded_rows
from ..core.folded_rows import FoldedRows
from ..core.least_squares import CentredRows, Rows
from ..core.packing import project
from ..core.posterior import Basis
from ..core.sites import Site
from .site_store import SiteStore

BRANCHES = 4  # of a node
MEMORY = 2**27  # bytes of all triangles
LEAST = 8  # sites in a leaf


class FoldTree:
    """Sums of rows, by leaves of some sites each. `sites` are as they count: weighted, under their noise."""

    def __init__(self, base: Basis, mean: float, sites: Mapping[str, Site]) -> None:
        self.base, self.reference = base, mean
        M = len(base.Z) + 2
        self.size = max(LEAST, -(-len(sites) * 2 * 8 * M * M // MEMORY))  # sites in a leaf
        self._sites: list[dict[str, Site]] = []  # of each leaf
        self._leaf: dict[str, int] = {}  # of each site
        self._levels: list[list[FoldedRows]] = [[]]  # sums of leaves, of BRANCHES leaves, …, of all
        self.change((), sites)

    def __len__(self) -> int:
        return len(self._leaf)

    def rows(self, mean: float) -> CentredRows:
        """Of all sites, about a mean."""
        return folded_rows.centre(self._levels[-1][0], self.reference, mean)

    @torch.no_grad()
    def change(self, gone: Iterable[str], new: Mapping[str, Site]) -> None:
        """Without some sites, and with others, which may have the names of those."""
        changed = set()
        for name in gone:
            leaf = self._leaf.pop(name)
            del self._sites[leaf][name]
            changed.add(leaf)
        room = sorted(changed)
        for name, site in new.items():
            while room and len(self._sites[room[0]]) >= self.size:
                room.pop(0)
            if not room:
                if not self._sites or len(self._sites[-1]) >= self.size:
                    self._sites.append({})
                room = [len(self._sites) - 1]
            self._sites[room[0]][name] = site
            self._leaf[name] = room[0]
            changed.add(room[0])
        self._fold(changed)

    def _fold(self, changed: set[int]) -> None:
        """The leaves that have changed, and all sums that they are part of."""
        leaves = self._levels[0]
        leaves.extend([self._nothing] * (len(self._sites) - len(leaves)))
        for leaf in changed:
            leaves[leaf] = self._summed(self._sites[leaf])
        level = 0
        while len(self._levels[level]) > 1:
            below = self._levels[level]
            level += 1
            if level == len(self._levels):
                self._levels.append([])
                changed = set(range(len(below)))
            sums = self._levels[level]
            changed = {i // BRANCHES for i in changed}
            sums.extend([self._nothing] * (-(-len(below) // BRANCHES) - len(sums)))
            for i in changed:
                sums[i] = folded_rows.join(below[BRANCHES * i : BRANCHES * (i + 1)])

    @property
    def _nothing(self) -> FoldedRows:
        M, zero = len(self.base.Z), self.base.L.new_zeros(())
        return FoldedRows(self.base.L.new_zeros(0, M + 2), zero, zero)

    def _summed(self, sites: Mapping[str, Site]) -> FoldedRows:
        if not sites:
            return self._nothing
        with SiteStore() as store:
            for i, site in enumerate(sites.values()):
                store.put(site, 1.0, i)
            parts: list[Rows] = [
                project(self.base, packed).rows(marginal=False) for packed in store.packs(len(self.base.Z))
            ]
        return folded_rows.join([folded_rows.fold(rows, self.reference) for rows in parts])

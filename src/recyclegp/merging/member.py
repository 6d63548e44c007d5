"""One module inside an ensemble."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ..core import sites
from ..core.sites import Site
from ..kernels import Kernel
from ..kernels.units import in_units
from ..likelihoods import Likelihood
from .site_store import SiteStore


class Member(NamedTuple):
    name: str
    site: Site | None  # None once forgotten (keep="names")
    rows: int
    weight: float
    likelihoods: tuple[Likelihood, ...]
    kernel: Kernel  # its own, where relearning begins
    mean: float
    surprise: float = math.nan  # these two are kept only where the site is not
    agreement: float = math.nan

    @property
    def weighted_rows(self) -> float:
        """How much it counts where something is pooled."""
        return self.rows * self.weight

    def in_units(self, scale: float, shift: float, input_shift: torch.Tensor) -> Member:
        """The member of s·f(x − input_shift) + b."""
        site = self.site
        if site is not None:
            site = sites.moved(sites.in_units(site, scale, shift, self.rows), input_shift)
        return self._replace(
            site=site,
            likelihoods=tuple(p.in_units(scale, shift) for p in self.likelihoods),
            kernel=in_units(self.kernel, scale, input_shift),
            mean=scale * self.mean + shift,
        )


def active(members: Iterable[Member]) -> list[Member]:
    """Those that count at all."""
    return [m for m in members if m.weight > 0]


def stored(members: Sequence[Member]) -> SiteStore:
    """The sites that members have kept, weighted, by their positions."""
    store = SiteStore()
    for i, m in enumerate(members):
        if m.site is not None and m.weight > 0:
            store.put(m.site, m.weight, i)
    return store

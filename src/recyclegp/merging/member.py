"""One module inside an ensemble."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ..core import noise as core_noise
from ..core import sites
from ..core.effects import Offset
from ..core.noise import NoiseEvidence
from ..core.sites import Site
from ..kernels import Kernel
from ..kernels.units import InputUnits, in_units
from ..likelihoods import Gaussian, Likelihood, gaussian_noise
from ..target import NO_TARGET, Target
from ..times import When
from .site_store import SiteStore
from .verdicts import Verdict


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
    target: Target = NO_TARGET
    converged: bool = True
    effective_rows: float | None = None  # whose densities of y are in its evidence; `rows` unless given
    points_appended: int = 0  # points of the ensemble that were appended for it, behind those of members before it
    slack: float = 0.0  # nats that were lost when its rows were summarised at the ensemble's points
    owner_override: str | None = None  # whose it is, where somebody has said so
    offset: Offset | None = None  # of its owner; kept only where the site is not
    kept: float | None = None  # of what its rows say about f, in (0, 1], where that is known
    noise_evidence: NoiseEvidence | None = None
    noise: float | None = None  # variance under which it counts; None: as it was published
    verdict: Verdict | None = None  # of screening, where somebody looked
    time: When | None = None  # of its rows, where somebody has said so
    added_after_merge: bool = False  # kernel, mean, noise, points and owners' variances were chosen without it
    update: bool = False  # rows that were summarised here, under the ensemble's kernel, mean, noise and points

    @property
    def owner(self) -> str:
        """Whose it is: its name's, unless somebody has said so."""
        return self.name if self.owner_override is None else self.owner_override

    @property
    def weighted_rows(self) -> float:
        """How much it counts where something is pooled."""
        return self.rows * self.weight

    @property
    def effective_row_count(self) -> float:
        """Rows whose densities of y are multiplied in its evidence, not counting its weight."""
        return self.rows if self.effective_rows is None else self.effective_rows

    @property
    def site_now(self) -> Site | None:
        """Its site under the noise with which it counts."""
        if self.site is None or self.noise is None or self.noise_evidence is None:
            return self.site
        tau = core_noise.factor(
            float(gaussian_noise(self.likelihoods[0])), self.noise, self.noise_evidence.residual_variance
        )
        return core_noise.at_noise(self.site, float(tau), self.noise_evidence.chi2, self.effective_row_count)

    @property
    def likelihoods_now(self) -> tuple[Likelihood, ...]:
        """With the noise with which it counts."""
        return self.likelihoods if self.noise is None else (Gaussian(self.noise),)

    def in_units(self, scale: float, shift: float, inputs: InputUnits, unit: str | None) -> Member:
        """The member of s·f((x − shift)/scale) + b, the inputs changed so; `unit` is what y is measured in then."""
        site = self.site
        if site is not None:
            site = sites.moved(sites.in_units(site, scale, shift, self.effective_row_count), inputs)
        return self._replace(
            site=site,
            likelihoods=tuple(p.in_units(scale, shift) for p in self.likelihoods),
            kernel=in_units(self.kernel, scale, inputs),
            mean=scale * self.mean + shift,
            offset=None if self.offset is None else Offset(scale * self.offset.mean, abs(scale) * self.offset.sd),
            noise_evidence=None if self.noise_evidence is None else self.noise_evidence.in_units(scale),
            noise=None if self.noise is None else self.noise * scale**2,
            verdict=None if self.verdict is None else self.verdict._replace(remedy=None),
            target=self.target.in_units(scale, shift, unit),
        )


def active(members: Iterable[Member]) -> list[Member]:
    """Those that count at all."""
    return [m for m in members if m.weight > 0]


def boxes(members: Iterable[Member]) -> list[torch.Tensor]:
    """(2, D) each: where members have points, of those that count and have kept theirs."""
    return [sites.box(m.site.Z) for m in active(members) if m.site is not None]


def extent(members: Iterable[Member]) -> torch.Tensor | None:
    """(2, D): the corners of the one box around all of them."""
    found = boxes(members)
    return sites.box(torch.cat(found)) if found else None


def kept_points(members: Sequence[Member], gone: set[str], points: int) -> list[int]:
    """Which of an ensemble's points stay when some members go: all but those that were appended for them."""
    appended = [m.name for m in members for _ in range(m.points_appended)]
    first = points - len(appended)
    return [*range(first), *(first + i for i, name in enumerate(appended) if name not in gone)]


def stored(members: Sequence[Member], *, now: bool = True) -> SiteStore:
    """The sites that members have kept, weighted, by their positions: as they count now, or as they were published."""
    store = SiteStore()
    for i, m in enumerate(members):
        site = m.site_now if now else m.site
        if site is not None and m.weight > 0:
            store.put(site, m.weight, i)
    return store

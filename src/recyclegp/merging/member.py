"""What one module says of one function, inside an ensemble."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ..categories import Categories
from ..core import noise as core_noise
from ..core import sites
from ..core.effects import Offset
from ..core.noise import NoiseEvidence
from ..core.sites import Site
from ..kernels import Kernel
from ..kernels.units import InputUnits
from ..likelihoods import Change, Gaussian, Likelihood, gaussian_noise
from ..record import About, Latent
from ..target import Target
from ..times import When
from .site_store import SiteStore
from .verdicts import Verdict


class Member(NamedTuple):
    about: About  # of the module, with the target of this function
    latent: Latent
    likelihoods: tuple[Likelihood, ...]  # of this function's observations
    weight: float = 1.0
    function: int = 0  # which of the ensemble's functions it speaks of
    # what merging has found out
    noise: float | None = None  # variance under which it counts; None: as it was published
    verdict: Verdict | None = None  # of screening, where somebody looked
    surprise: float = math.nan  # this, the next and the offset are kept only where the site is not
    agreement: float = math.nan
    offset: Offset | None = None  # of its owner
    points_appended: int = 0  # points of the ensemble appended for it, behind those of members before it
    slack: float = 0.0  # nats that were lost when its rows were summarised at the ensemble's points
    added_after_merge: bool = False  # kernel, mean, noise, points and owners' variances were chosen without it
    update: bool = False  # rows that were summarised here, under the ensemble's kernel, mean, noise and points

    # --- the record, in short ---

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def owner(self) -> str:
        return self.about.owner

    @property
    def time(self) -> When | None:
        return self.about.time

    @property
    def target(self) -> Target:
        return self.about.targets[0]

    @property
    def site(self) -> Site | None:
        """None once dropped (keep="names")."""
        return self.latent.site

    @property
    def kernel(self) -> Kernel:
        """Its own, where relearning begins."""
        return self.latent.kernel

    @property
    def mean(self) -> float:
        return self.latent.mean

    @property
    def rows(self) -> int:
        return self.latent.rows

    @property
    def kept(self) -> float | None:
        return self.latent.kept

    @property
    def noise_evidence(self) -> NoiseEvidence | None:
        return self.latent.noise_evidence

    @property
    def converged(self) -> bool:
        return self.latent.convergence.converged

    @property
    def effective_row_count(self) -> float:
        return self.latent.effective_row_count

    def with_site(self, site: Site | None) -> Member:
        return self._replace(latent=self.latent._replace(site=site))

    def recoded(self, old: Categories, new: Categories) -> Member:
        """With codes of other levels in its points."""
        return self if self.site is None else self.with_site(self.site._replace(Z=old.recoded(self.site.Z, new)))

    # --- how it counts ---

    @property
    def weighted_rows(self) -> float:
        """How much it counts where something is pooled."""
        return self.rows * self.weight

    @property
    def site_now(self) -> Site | None:
        """Its site under the noise with which it counts."""
        site, evidence = self.site, self.noise_evidence
        if site is None or self.noise is None or evidence is None:
            return site
        tau = core_noise.factor(float(gaussian_noise(self.likelihoods[0])), self.noise, evidence.residual_variance)
        return core_noise.at_noise(site, float(tau), evidence.chi2, self.effective_row_count)

    @property
    def likelihoods_now(self) -> tuple[Likelihood, ...]:
        """With the noise with which it counts."""
        return self.likelihoods if self.noise is None else (Gaussian(self.noise),)

    def in_units(self, change: Change, inputs: InputUnits) -> Member:
        """The member of s·f((x − shift)/scale) + b, the inputs changed so."""
        s, b, unit = change
        return self._replace(
            about=self.about._replace(targets=(self.target.in_units(s, b, unit),)),
            latent=self.latent.in_units(change, inputs),
            likelihoods=tuple(p.in_units(s, b) for p in self.likelihoods),
            offset=None if self.offset is None else Offset(s * self.offset.mean, abs(s) * self.offset.sd),
            noise=None if self.noise is None else self.noise * s**2,
            verdict=None if self.verdict is None else self.verdict._replace(remedy=None),
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

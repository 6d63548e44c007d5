"""What one module says of one function, inside an ensemble."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from ..categories import Categories
from ..core import noise as core_noise
from ..core import sites
from ..core.effects import Offset
from ..core.noise import NoiseEvidence
from ..core.sites import Site
from ..devices import CPU
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
    left_open: float | None = None  # variance of f at its rows that its points leave open; None: as it was published
    missed: float = 0.0  # variance of f that its own kernel has smoothed away, at its rows and at its points
    verdict: Verdict | None = None  # of screening, where somebody looked
    surprise: float = math.nan  # this, the next two and the offset are kept only where the site is not
    agreement: float = math.nan
    others_add: float = math.nan  # nats for each of its rows, by which these are more probable with the others
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
    def points_per_row(self) -> float | None:
        """Points of its site for each row of data behind it; None where the site is not kept."""
        return None if self.site is None else len(self.site.Z) / self.rows

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
        return self.latent.rows * self.weight

    @property
    def site_now(self) -> Site | None:
        """Its site under the noise with which it counts."""
        site, evidence = self.site, self.noise_evidence
        if site is None or self.noise is None or evidence is None:
            return site
        q = evidence.residual_variance
        left_open = q if self.left_open is None else self.left_open
        tau = core_noise.factor(float(gaussian_noise(self.likelihoods[0])), q, self.noise, left_open)
        rows = self.effective_row_count
        return core_noise.at_noise(site, float(tau), evidence.chi2, rows, self.missed, self.weight)

    @property
    def as_published(self) -> Member:
        """Under the noise that it says itself."""
        return self._replace(noise=None, left_open=None, missed=0.0)

    def with_noise(self, given: Gaussian) -> Member:
        """As if it had been published with this noise; without evidence about its own, what it says of f stays."""
        likelihoods = tuple(p.with_noise(given) if isinstance(p, Gaussian) else p for p in self.likelihoods)
        latent, evidence, tau = self.latent, self.noise_evidence, self.noise_factor(given)
        if evidence is not None:
            site = self.site
            if site is not None:
                site = core_noise.at_noise(site, tau, evidence.chi2, self.effective_row_count)
            latent = latent._replace(site=site, noise_evidence=evidence._replace(chi2=evidence.chi2 / tau))
        return self.as_published._replace(latent=latent, likelihoods=likelihoods)

    def noise_factor(self, given: Gaussian) -> float:
        """τ, from the noise it was published with to this one."""
        evidence = self.noise_evidence
        if evidence is None:
            return 1.0
        q = evidence.residual_variance
        return float(core_noise.factor(float(gaussian_noise(self.likelihoods[0])), q, given.values[0], q))

    @property
    def likelihoods_now(self) -> tuple[Likelihood, ...]:
        """With the noise with which it counts."""
        return self.likelihoods if self.noise is None else tuple(p.with_values(self.noise) for p in self.likelihoods)

    def in_units(self, change: Change, inputs: InputUnits) -> Member:
        """The member of s·f((x − shift)/scale) + b, the inputs changed so."""
        s, b, unit = change
        return self._replace(
            about=self.about._replace(targets=(self.target.in_units(s, b, unit),), held_back=None),
            latent=self.latent.in_units(change, inputs),
            likelihoods=tuple(p.in_units(s, b) for p in self.likelihoods),
            offset=None if self.offset is None else Offset(s * self.offset.mean, abs(s) * self.offset.sd),
            noise=None if self.noise is None else self.noise * s**2,
            left_open=None if self.left_open is None else self.left_open * s**2,
            missed=self.missed * s**2,
            verdict=None if self.verdict is None else self.verdict._replace(remedy=None),
        )


class RowsSaid(NamedTuple):
    """What the rows of K members say of their noise, as columns (K,): zero where `known` is not set, and noise one."""

    known: torch.Tensor  # bool
    noise: torch.Tensor  # under which they were published
    chi2: torch.Tensor
    residual_variance: torch.Tensor
    residual: torch.Tensor
    dof: torch.Tensor
    rows: torch.Tensor  # densities of y behind them; rows, where nothing is known
    weight: torch.Tensor

    @staticmethod
    def of(members: Sequence[Member]) -> RowsSaid:
        return RowsSaid.in_full(members).weighted([m.weight for m in members])

    @staticmethod
    def in_full(members: Sequence[Member]) -> RowsSaid:
        """As if each of them had the weight one."""
        said = [m.latent.noise_evidence for m in members]
        pairs = list(zip(members, said, strict=True))
        noise = [1.0 if e is None else m.likelihoods[0].values[0] for m, e in pairs]
        rows = [m.latent.rows if e is None else m.latent.effective_row_count for m, e in pairs]
        numbers = column([*chain.from_iterable([NOTHING_SAID if e is None else e for e in said])]).reshape(-1, 4)
        chi2, residual_variance, residual, dof = numbers.unbind(1)
        known = torch.tensor([e is not None for e in said], device="cpu")
        return RowsSaid(
            known, column(noise), chi2, residual_variance, residual, dof, column(rows), torch.ones_like(chi2)
        )

    def weighted(self, weights: Sequence[float]) -> RowsSaid:
        """Of members that count so much: those without any weight say nothing."""
        weight = column(weights)
        if bool((weight > 0).all()):
            return self._replace(weight=weight)
        known = self.known & (weight > 0)
        noise = torch.where(known, self.noise, 1.0)
        chi2, q, residual, dof = (
            torch.where(known, t, 0.0) for t in (self.chi2, self.residual_variance, self.residual, self.dof)
        )
        return RowsSaid(known, noise, chi2, q, residual, dof, self.rows, weight)

    def to(self, device: torch.device) -> RowsSaid:
        return self if device == CPU else RowsSaid(*(t.to(device) for t in self))


NOTHING_SAID = NoiseEvidence(0.0, 0.0, 0.0, 0.0)


def column(values: Sequence[float]) -> torch.Tensor:
    """Numbers of members, on the CPU; of long lists NumPy makes them sooner."""
    return torch.from_numpy(np.array(values, dtype=np.float64))


def active(members: Iterable[Member]) -> list[Member]:
    """Those that count at all."""
    return [m for m in members if m.weight > 0]


class Members(tuple[Member, ...]):
    """Members in their order, who do not change: what is read off all of them is read once."""

    def __getstate__(self) -> None:
        """Pickled without what can be read again."""

    @staticmethod
    def of(members: Sequence[Member]) -> Members:
        return members if isinstance(members, Members) else Members(members)

    def changed(self, members: Sequence[Member]) -> Members:
        """The same modules, of which merging has found out more: what they have published is not read again."""
        found = Members(members)
        vars(found).update({name: value for name, value in vars(self).items() if name in PUBLISHED})
        return found

    def weighing(self, weights: Mapping[int, float]) -> Members:
        """Some of them, by their positions, with other weights."""
        return self.changed([m._replace(weight=weights[i]) if i in weights else m for i, m in enumerate(self)])

    # --- as they count ---

    @cached_property
    def weights(self) -> list[float]:
        return [m.weight for m in self]

    @cached_property
    def counted(self) -> Sequence[Member]:
        """Those that count at all."""
        return self if min(self.weights, default=1.0) > 0 else active(self)

    @cached_property
    def weighted_rows(self) -> list[float]:
        """Of those that count: how much each does where something is pooled."""
        return [rows * weight for rows, weight in zip(self.rows, self.weights, strict=True) if weight > 0]

    @cached_property
    def said(self) -> RowsSaid:
        """What their rows say of their noise."""
        return self.said_in_full.weighted(self.weights)

    # --- as they have published it ---

    @cached_property
    def said_in_full(self) -> RowsSaid:
        """The same, as if all of them counted in full."""
        return RowsSaid.in_full(self)

    @cached_property
    def rows(self) -> list[int]:
        return [m.latent.rows for m in self]

    @cached_property
    def means(self) -> list[float]:
        return [m.latent.mean for m in self]

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple([m.latent.kernel for m in self])

    @cached_property
    def side_by_side(self) -> Kernel | None:
        """Their kernels, where all are of one structure, which is mostly one object for all."""
        first = self.kernels[0].structure if self else None
        if first is None or any([kernel.structure is not first for kernel in self.kernels]):
            return None
        return Kernel(first, torch.stack([kernel.theta for kernel in self.kernels]))

    @cached_property
    def families(self) -> dict[type[Likelihood], Likelihood]:
        """One likelihood of each family."""
        return {type(p): p for m in self for p in m.likelihoods}

    @cached_property
    def owner_numbers(self) -> list[int]:
        """For each the number of its owner, counted as they first appear; an owner has one for each function."""
        known: dict[tuple[str, int], int] = {}
        return [known.setdefault((m.about.owner, m.function), len(known)) for m in self]


PUBLISHED = frozenset(("said_in_full", "rows", "means", "kernels", "side_by_side", "families", "owner_numbers"))


def with_columns(members: Sequence[Member], first: str, *columns: Iterable[Any]) -> list[Member]:
    """Each with other values in its field `first` and those behind it; as `_replace`, but several times faster."""
    every: list[Iterable[Any]] = list(zip(*members, strict=True))  # the fields of all, one after the other
    start = Member._fields.index(first)
    every[start : start + len(columns)] = columns
    return list(map(partial(tuple.__new__, Member), zip(*every, strict=True))) if members else []


def boxes(members: Iterable[Member]) -> torch.Tensor:
    """(K, 2, D): where members have points, of those that count and have kept theirs."""
    known = [m.site.Z for m in active(members) if m.site is not None]
    if not known:
        return torch.zeros(0, 2, 0, dtype=torch.float64)
    whole, lengths = torch.cat(known), torch.tensor([Z.shape[0] for Z in known], device=known[0].device)
    corners = (torch.segment_reduce(whole, end, lengths=lengths, unsafe=True) for end in ("min", "max"))
    return torch.stack(tuple(corners), 1)


def extent(members: Iterable[Member]) -> torch.Tensor | None:
    """(2, D): the corners of the one box around all of them."""
    found = boxes(members)
    return sites.box(found.flatten(0, 1)) if len(found) else None


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

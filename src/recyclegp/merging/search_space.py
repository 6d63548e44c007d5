"""What a merge may learn, as one vector: the kernel, how much owners differ, and the noise; with priors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.effects import NO_EFFECTS, Effects
from ..kernels import Kernel, entries, learned
from ..kernels.nodes import Scale, Stationary
from ..kernels.units import alike
from .constants import EFFECTS, LEARNING, NOISE, OUTPUTS
from .noise import PooledNoise
from .owners import Owners

INDEX_SD = {"loading": OUTPUTS.loading_sd, "own": OUTPUTS.own_sd}  # of an index kernel's parameters


@dataclass(frozen=True)
class SearchSpace:
    """x = (free kernel parameters, log σ_b²/v̄, log σ_d², log lengths of g_k, log σ², log κ, log ν, log c).

    The second to fourth where owners may differ, the last four where noises are pooled, c where it is wanted.
    """

    about: Kernel  # where the prior is centred
    Z: Tensor  # points of the modules
    owners: Owners = Owners.NONE
    fixed: Kernel | None = None  # the kernel, where it is not to be learned
    level: float | None = None  # where the prior of σ² is centred; None: noises stay
    level_sd: float = NOISE.level_sd  # and how far log σ² may be from there
    missed: bool = False  # is c learned with them, which is zero otherwise?

    @staticmethod
    def of(about: Kernel, Z: Tensor, owners: Owners = Owners.NONE) -> SearchSpace:
        return SearchSpace(about, Z, owners)

    def pooling(self, level: float) -> SearchSpace:
        """With noises to be learned, which are about as large as this."""
        return replace(self, level=level)

    def at(self, kernel: Kernel) -> SearchSpace:
        """With this kernel, which is not to be learned."""
        return replace(self, fixed=kernel)

    def start(self, kernel: Kernel, effects: Effects = NO_EFFECTS, noise: PooledNoise | None = None) -> Tensor:
        """x at a kernel, at effects and at a noise; where there are none yet, at the centre of their prior."""
        offset = float(effects.offset) / self.size or EFFECTS.offset_share
        smooth = float(effects.smooth) or EFFECTS.smooth_start * self.size / self._size(kernel)
        own = (self._own_lengths if effects.stretch is None else effects.kernel(kernel).lengths(self._dimension)).log()
        noises = self._noises
        if noise is not None:
            dof = noise.dof if math.isfinite(noise.dof) else NOISE.dof
            values = [noise.level, noise.open_scale, dof, float(noise.missed_scale) or NOISE.missed]
            noises = [math.log(v) for v in values[: len(noises)]]
        tail = [*[math.log(v) for v in (offset, smooth)][: self._effects], *own[self._own].tolist(), *noises]
        return torch.cat([kernel.theta[self._free], kernel.theta.new_tensor(tail)])

    def kernel_at(self, x: Tensor) -> Kernel:
        return self._template.with_theta(self._template.theta.index_copy(0, self._free_at, x[: self._parameters]))

    def effects_at(self, x: Tensor) -> Effects:
        if not self._effects:
            return NO_EFFECTS
        values = x[self._parameters : self._parameters + self._effects].exp()
        if self._effects == 1:
            return Effects(self.size * values[0])
        return Effects(self.size * values[0], values[1], self._stretch_at(x))

    def _stretch_at(self, x: Tensor) -> Tensor | None:
        """log of the lengths of g_k over those of f."""
        if not self._lengths_differ:
            return None
        first = self._parameters + self._effects
        lengths = self._own_lengths.log().index_copy(0, self._own_at, x[first : first + len(self._own_at)])
        ratio = lengths - self.kernel_at(x).lengths(self._dimension).log()
        return torch.where(self._own_lengths.isfinite(), ratio, torch.zeros_like(ratio))

    def noise_at(self, x: Tensor) -> PooledNoise | None:
        values = x[self._parameters + self._effects + len(self._own_at) :].exp()
        if not len(values):
            return None
        return PooledNoise(values[0], values[2], values[1], values[3] if self.missed else 0.0)

    def log_prior(self, x: Tensor) -> Tensor:
        centre, sd = self._centre_and_sd
        return -0.5 * ((x - centre) / sd).square().sum()

    def metric(self, known: Curvature | None, rows: int) -> Tensor | None:
        """Where a similar search has ended, what it learned of the curvature: of so many rows, which say so much more.

        What is new here is as uncertain as its prior.
        """
        if known is None or alike(known.space.about, self.about) is None:
            return None
        mine, theirs = self._labels, known.space._labels
        shared = [name for name in mine if name in theirs]
        if not shared:
            return None
        here, there = ([own.index(name) for name in shared] for own in (mine, theirs))
        found = torch.diag(self._centre_and_sd[1].square())
        block = known.metric[there][:, there] * (known.rows / rows)
        found[torch.tensor(here)[:, None], torch.tensor(here)] = block.to(found.device)
        return found

    @property
    def _labels(self) -> list[str]:
        """What the entries of x are, in their order."""
        kernel, own = (chosen.nonzero()[:, 0].tolist() for chosen in (self._free, self._own))
        effects, noises = ["offset", "smooth"], ["level", "open", "dof", "missed"]
        lengths = [f"own length {column}" for column in own]
        return [*map(str, kernel), *effects[: self._effects], *lengths, *noises[: len(self._noises)]]

    @property
    def can_be_recorded(self) -> bool:
        """Is nothing of what a kernel does decided by numbers? Looked at of the usual ones only."""
        structure = self._template.structure
        return (
            isinstance(structure, Scale) and isinstance(structure.base, Stationary) and structure.base.columns is None
        )

    @property
    def lower(self) -> Tensor:
        return self._centre_and_sd[0] - LEARNING.reach

    @property
    def upper(self) -> Tensor:
        return self._centre_and_sd[0] + LEARNING.reach

    @property
    def _template(self) -> Kernel:
        return self.about if self.fixed is None else self.fixed

    @cached_property
    def _free(self) -> Tensor:
        free = torch.tensor(learned(self.about.structure))
        return free if self.fixed is None else torch.zeros_like(free)

    @cached_property
    def _free_at(self) -> Tensor:
        """Where these are; a GPU would have to be asked again and again what is set in `_free`."""
        return self._free.nonzero()[:, 0]

    @property
    def _parameters(self) -> int:
        return self._free_at.shape[0]

    @property
    def _effects(self) -> int:
        return {Owners.NONE: 0, Owners.OFFSET: 1, Owners.SMOOTH: 2}[self.owners]

    @property
    def _dimension(self) -> int:
        return self.Z.shape[-1]

    @cached_property
    def size(self) -> float:
        """v̄: the variance of f where the prior is centred, on average."""
        return self._size(self.about)

    def _size(self, kernel: Kernel) -> float:
        return float(kernel.diagonal(self.Z).mean())

    @cached_property
    def _own_lengths(self) -> Tensor:
        """By column (D,): those of the modules, in the middle."""
        return self.about.lengths(self._dimension)

    @property
    def _lengths_differ(self) -> bool:
        """Have owners' own functions lengths of their own? Not of outputs that go together, nor at a given kernel."""
        coupled = any(p.name in INDEX_SD for p in entries(self.about.structure))
        return self._effects == 2 and self.fixed is None and not coupled

    @cached_property
    def _own(self) -> Tensor:
        """(D,) bool: which of their lengths are learned."""
        found = self._own_lengths.isfinite() & self._lengths_differ
        return found if int(found.sum()) <= EFFECTS.most_lengths else torch.zeros_like(found)

    @cached_property
    def _own_at(self) -> Tensor:
        return self._own.nonzero()[:, 0]

    @property
    def _noises(self) -> list[float]:
        """log σ², log κ, log ν and log c before anything is known, where they are to be learned."""
        if self.level is None:
            return []
        return [math.log(v) for v in (self.level, 1.0, NOISE.dof, NOISE.missed)[: 3 + self.missed]]

    @cached_property
    def _centre_and_sd(self) -> tuple[Tensor, Tensor]:
        theta = self.about.theta[self._free]
        shares = theta.new_tensor([math.log(EFFECTS.offset_share), math.log(EFFECTS.smooth_share)][: self._effects])
        noises = theta.new_tensor(self._noises)
        noise_sds = theta.new_tensor([self.level_sd, NOISE.open_sd, NOISE.dof_sd, NOISE.missed_sd][: len(noises)])
        names = [p.name for p, free in zip(entries(self.about.structure), self._free.tolist(), strict=True) if free]
        kernel_sds = theta.new_tensor([INDEX_SD.get(name, LEARNING.prior_sd) for name in names])
        lengths = self._own_lengths.log()[self._own]
        length_sds = torch.full_like(lengths, EFFECTS.length_sd)
        sds = torch.cat([kernel_sds, torch.full_like(shares, EFFECTS.share_sd), length_sds, noise_sds])
        return torch.cat([theta, shares, lengths, noises]), sds


class Curvature(NamedTuple):
    """What a search has learned of the shape of its objective."""

    metric: Tensor  # (p, p)  inverse curvature
    space: SearchSpace  # whose entries these are
    rows: int  # of pseudo-observations behind it
    noise: PooledNoise | None = None  # where it ended, also if all have one noise then


def detached(effects: Effects, owners: int) -> Effects:
    """As numbers, once they are learned of so many owners."""
    if not effects.present:
        return NO_EFFECTS
    stretch = effects.stretch.tolist() if isinstance(effects.stretch, Tensor) else effects.stretch
    return Effects(float(effects.offset), float(effects.smooth), None if stretch is None else tuple(stretch), owners)


def detached_noise(noise: PooledNoise | None, kernel: Kernel) -> PooledNoise | None:
    """As numbers, with the kernel it was learned with."""
    if noise is None:
        return None
    return PooledNoise(float(noise.level), float(noise.dof), float(noise.open_scale), float(noise.missed_scale), kernel)

"""What a merge may learn, as one vector: the kernel, how much owners differ, and the noise; with priors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ..core.effects import NO_EFFECTS, Effects
from ..kernels import Kernel, entries, learned
from .constants import EFFECTS, LEARNING, NOISE, OUTPUTS
from .noise import NoiseModel, PooledNoise
from .owners import Owners

INDEX_SD = {"loading": OUTPUTS.loading_sd, "own": OUTPUTS.own_sd}  # of an index kernel's parameters


@dataclass(frozen=True)
class SearchSpace:
    """x = (free kernel parameters, log σ_b²/v̄, log σ_d², log σ², log ν).

    The second and third where owners may differ, the last two where noises are pooled, or kept apart.
    """

    about: Kernel  # where the prior is centred
    size: float  # v̄: the variance of f under it, on average
    owners: Owners = Owners.NONE
    fixed: Kernel | None = None  # the kernel, where it is not to be learned
    noise: NoiseModel = NoiseModel.KEPT
    level: float = 1.0  # where the prior of σ² is centred

    @staticmethod
    def of(about: Kernel, Z: Tensor, owners: Owners = Owners.NONE) -> SearchSpace:
        return SearchSpace(about, float(about.diagonal(Z).mean()), owners)

    def pooling(self, noise: NoiseModel, level: float) -> SearchSpace:
        """With a noise to be learned, which is about as large as this."""
        return replace(self, noise=noise, level=level)

    def at(self, kernel: Kernel) -> SearchSpace:
        """With this kernel, which is not to be learned."""
        return replace(self, fixed=kernel)

    def start(self, kernel: Kernel, effects: Effects = NO_EFFECTS, noise: PooledNoise | None = None) -> Tensor:
        """x at a kernel, at effects and at a noise; where there are none yet, at the centre of their prior."""
        logs = [
            math.log(float(value) / scale) if float(value) > 0 else math.log(share)
            for value, scale, share in (
                (effects.offset, self.size, EFFECTS.offset_share),
                (effects.smooth, 1.0, EFFECTS.smooth_share),
            )
        ]
        noises = [self.level, NOISE.dof]
        if noise is not None:
            noises = [float(noise.level), float(noise.dof) if math.isfinite(noise.dof) else NOISE.dof]
        tail = [*logs[: self._effects], *(math.log(v) for v in noises[: self.noise.parameters])]
        return torch.cat([kernel.theta[self._free], kernel.theta.new_tensor(tail)])

    def kernel_at(self, x: Tensor) -> Kernel:
        whole = self._template.theta.clone()
        whole[self._free] = x[: self._parameters]
        return self._template.with_theta(whole)

    def effects_at(self, x: Tensor) -> Effects:
        if not self._effects:
            return NO_EFFECTS
        values = x[self._parameters : self._parameters + self._effects].exp()
        return Effects(self.size * values[0], values[1] if self._effects == 2 else 0.0)

    def noise_at(self, x: Tensor) -> PooledNoise | None:
        values = x[self._parameters + self._effects :].exp()
        return PooledNoise(*values) if len(values) else None

    def log_prior(self, x: Tensor) -> Tensor:
        centre, sd = self._centre_and_sd
        return -0.5 * ((x - centre) / sd).square().sum()

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
    def _parameters(self) -> int:
        return int(self._free.sum())

    @property
    def _effects(self) -> int:
        return {Owners.NONE: 0, Owners.OFFSET: 1, Owners.SMOOTH: 2}[self.owners]

    @cached_property
    def _centre_and_sd(self) -> tuple[Tensor, Tensor]:
        theta = self.about.theta[self._free]
        shares = theta.new_tensor([math.log(EFFECTS.offset_share), math.log(EFFECTS.smooth_share)][: self._effects])
        noises = theta.new_tensor([math.log(self.level), math.log(NOISE.dof)][: self.noise.parameters])
        noise_sds = theta.new_tensor([NOISE.level_sd, NOISE.dof_sd][: self.noise.parameters])
        names = [p.name for p, free in zip(entries(self.about.structure), self._free.tolist(), strict=True) if free]
        kernel_sds = theta.new_tensor([INDEX_SD.get(name, LEARNING.prior_sd) for name in names])
        sds = torch.cat([kernel_sds, torch.full_like(shares, EFFECTS.share_sd), noise_sds])
        return torch.cat([theta, shares, noises]), sds


def detached(effects: Effects) -> Effects:
    """As numbers, once they are learned."""
    return Effects(float(effects.offset), float(effects.smooth))


def detached_noise(noise: PooledNoise | None) -> PooledNoise | None:
    return None if noise is None else PooledNoise(float(noise.level), float(noise.dof))

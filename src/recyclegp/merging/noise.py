"""One noise for all modules, from what their rows say about it; or noises of their own where these really differ.

A module with few rows explains its noise away: its own best value is far too small, and what it says about f far too
sure. The evidence of all modules together, as a function of a common noise σ², does not have that fault. Where owners
measure with different instruments, each noise is its own estimate shrunk towards the common one,

    log σ_k² = λ_k log s_k² + (1 − λ_k) log σ²,   s_k² = residual_k/dof_k,   λ_k = dof_k/(dof_k + ν)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import noise as core
from ..core.stacked import Stacked
from .constants import NOISE
from .member import Member
from .site_source import SiteSource


class NoiseModel(Enum):
    """What becomes of the noises that modules were published under."""

    KEPT = "kept"  # they stay
    COMMON = "common"  # one for all
    APART = "apart"  # each its own, shrunk towards a common one

    @property
    def parameters(self) -> int:
        return {NoiseModel.KEPT: 0, NoiseModel.COMMON: 1, NoiseModel.APART: 2}[self]


@dataclass(frozen=True)
class PooledNoise:
    level: float | Tensor  # σ², common; a tensor while it is learned
    dof: float | Tensor = math.inf  # ν: how many rows' worth of belief it has

    def at(self, r: Readings) -> Tensor:
        """σ_k² (K,)."""
        level = torch.as_tensor(self.level, dtype=torch.float64)
        if not isinstance(self.dof, Tensor) and math.isinf(self.dof):
            return level.expand_as(r.noise)
        share = r.dof / (r.dof + self.dof)
        return (share * r.estimate.log() + (1 - share) * level.log()).exp()

    def in_units(self, scale: float) -> PooledNoise:
        return PooledNoise(float(self.level) * scale**2, self.dof)


class Readings(NamedTuple):
    """What K members say about their noise, by their positions; zero where `known` is not set."""

    known: Tensor  # (K,) bool
    noise: Tensor  # (K,) under which they were published
    residual_variance: Tensor
    chi2: Tensor  # with their weights
    rows: Tensor  # with their weights
    residual: Tensor  # with their weights
    dof: Tensor  # with their weights: half a module leaves half as many rows for the noise

    @staticmethod
    def of(members: Sequence[Member]) -> Readings:
        table = []
        for m in members:
            e = m.noise_evidence
            if e is None or m.weight <= 0:
                table.append((False, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
                continue
            noise = float(m.likelihoods[0].values[0])
            rows = m.effective_row_count * m.weight
            said = (e.chi2 * m.weight, rows, e.residual * m.weight, e.dof * m.weight)
            table.append((True, noise, e.residual_variance, *said))
        columns = torch.tensor(table, dtype=torch.float64).T
        return Readings(columns[0] > 0, *columns[1:])

    @property
    def estimate(self) -> Tensor:
        """s_k², from each member's residuals alone; the noise it was published under, where these say nothing."""
        tiny = 1e-6
        said = (self.dof > tiny) & (self.residual > 0)
        return torch.where(said, self.residual / self.dof.clamp_min(tiny), self.noise)

    @property
    def level(self) -> float:
        """σ² from all residuals: Σ residual/Σ dof."""
        residual, dof = float(self.residual[self.known].sum()), float(self.dof[self.known].sum())
        if dof > 0 and residual > 0:
            return residual / dof
        return float(self.noise[self.known].log().mean().exp())

    def differ(self) -> bool:
        """Could the evidence prefer noises that differ? Bartlett's statistic, which is twice what they could gain."""
        ratio = (self.level / self.estimate[self.known]).log()
        return apart_is_worth(0.5 * float((self.dof[self.known] * ratio).sum()), int(self.known.sum()))

    def factors(self, pooled: PooledNoise) -> Tensor:
        """τ_k (K,); one where it is not known."""
        tau = torch.as_tensor(core.factor(self.noise, pooled.at(self), self.residual_variance))
        return torch.where(self.known, tau, torch.ones_like(tau))

    def constants(self, tau: Tensor) -> Tensor:
        """What e_k changes by, (K,)."""
        return core.constant(tau, self.chi2, self.rows)


def apart_is_worth(gain: float, modules: int) -> bool:
    """Is the gain, in nats, more than what so many modules of one noise could pretend?"""
    least, for_each = NOISE.apart_gain
    return gain > least + for_each * modules


class StackedNoise(NamedTuple):
    """The evidence of stacked sites as a function of their noises."""

    readings: Readings
    position: Tensor  # (n,)  of the member that each row is of; that of padding does not matter
    real: Tensor  # (n,) bool: no padding
    rows: Tensor  # (K,)  rows of ρ that each member has here

    @staticmethod
    def of(stacked: Stacked, readings: Readings) -> StackedNoise:
        real = stacked.member >= 0
        rows = torch.bincount(stacked.member[real], minlength=len(readings.noise)).to(torch.float64)
        here = rows > 0
        left_out = readings._replace(known=readings.known & here, chi2=readings.chi2 * here, rows=readings.rows * here)
        return StackedNoise(left_out, stacked.member.clamp_min(0), real, rows)

    def diagonal(self, tau: Tensor) -> Tensor:
        """Noise of every row of ρ, (n,), as it was published: τ_k, and one for padding."""
        return torch.where(self.real, tau[self.position], torch.ones_like(tau[self.position]))

    def constant(self, tau: Tensor) -> Tensor:
        """What log N(ρ; m·ones, RᵀKR + diag τ) lacks of the evidence beside Σe_k."""
        return (self.readings.constants(tau) + 0.5 * self.rows * tau.log()).sum()


def at_noise(store: SiteSource, readings: Readings | None, pooled: PooledNoise | None) -> SiteSource:
    """The same sites under another noise; the store itself where there is none."""
    if readings is None or pooled is None:
        return store
    tau = readings.factors(pooled)
    return store.scaled(tau.rsqrt(), readings.constants(tau))


def with_noise(members: Sequence[Member], pooled: PooledNoise | None) -> tuple[Member, ...]:
    """Members that know under which noise they count: None for those who have said nothing about theirs."""
    if pooled is None:
        return tuple(m if m.noise is None else m._replace(noise=None) for m in members)
    noises = pooled.at(Readings.of(members)).tolist()
    return tuple(
        m._replace(noise=None if m.noise_evidence is None else noise) for m, noise in zip(members, noises, strict=True)
    )

"""The noise of each module, from what all modules say about theirs.

A module with few rows explains its noise away: its own best value is far too small, and what it says about f far too
sure. The evidence of all modules together, as a function of a common noise σ², does not have that fault. But owners
measure with different instruments. So each noise is its own estimate drawn towards the common one,

    log σ_k² ~ N(log σ², 2/ν)
    log σ_k² = λ_k log s_k² + (1 − λ_k) log σ²,   s_k² = residual_k/dof_k,   λ_k = dof_k/(dof_k + ν)

ν is as large as the evidence wants it, where noises are alike very large. That evidence has σ_k integrated out: dof_k
rows say dof_k/2 about its logarithm (the curvature), and Laplace's approximation about the value above adds

    −Σ_k [ν/4 (log σ_k²/σ²)² + ½log(1 + dof_k/ν)]

What a module's points leave open of its rows is no noise. It was measured under the module's own kernel; under the
merged one it is larger or smaller, as `core.noise` says, and on the whole by a factor κ that is learned with the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import noise as core
from ..core.packing import PackedSites
from ..core.stacked import Stacked
from ..kernels import Kernel, Node
from ..kernels.units import InputUnits, in_units
from ..likelihoods import Gaussian
from .constants import NOISE
from .influence import noise_shares, of_usual_noise
from .member import Member
from .site_source import SiteSource, added


@dataclass(frozen=True)
class PooledNoise:
    level: float | Tensor  # σ², common; a tensor while it is learned
    dof: float | Tensor = math.inf  # ν: how many rows' worth of belief it has
    open_scale: float | Tensor = 1.0  # κ: of what points leave open
    kernel: Kernel | None = None  # under which they leave it open; None: as modules have said

    def at(self, r: Readings) -> Tensor:
        """σ_k² (K,)."""
        level = torch.as_tensor(self.level, dtype=torch.float64)
        if not isinstance(self.dof, Tensor) and math.isinf(self.dof):
            return level.expand_as(r.noise)
        share = r.dof / (r.dof + self.dof)
        return (share * r.estimate.log() + (1 - share) * level.log()).exp()

    def in_units(self, scale: float, inputs: InputUnits) -> PooledNoise:
        kernel = None if self.kernel is None else in_units(self.kernel, scale, inputs)
        return replace(self, level=float(self.level) * scale**2, kernel=kernel)


class Readings(NamedTuple):
    """What K members say about their noise, by their positions; zero where `known` is not set."""

    known: Tensor  # (K,) bool
    noise: Tensor  # (K,) under which they were published
    residual_variance: Tensor
    chi2: Tensor  # with their weights
    rows: Tensor  # with their weights
    residual: Tensor  # with their weights
    dof: Tensor  # with their weights: half a module leaves half as many rows for the noise
    open: Tensor  # open_k(θ_k), what its points leave open of each other under its own kernel; one where nobody asked

    @staticmethod
    def of(members: Sequence[Member], store: SiteSource) -> Readings:
        """Of members whose sites these are."""
        table = []
        for m in members:
            e = m.noise_evidence
            if e is None or m.weight <= 0:
                table.append((False, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
                continue
            noise = float(m.likelihoods[0].values[0])
            rows = m.effective_row_count * m.weight
            said = (e.chi2 * m.weight, rows, e.residual * m.weight, min(e.dof * m.weight, rows))  # dof = tr W² ≤ n
            table.append((True, noise, e.residual_variance, *said))
        known, noise, q, chi2, rows, residual, dof = torch.tensor(table, dtype=torch.float64).T
        claimed = noise * (chi2 / rows.clamp_min(1e-300)).clamp_min(1)  # as large as it says, or as its rows do
        counts = of_usual_noise(claimed, known > 0) * noise_shares(rows)
        read = Readings(
            counts > 0, noise, q, chi2 * counts, rows * counts, residual * counts, dof * counts, torch.ones_like(known)
        )
        if not read.opens:
            return read
        return read._replace(open=_left_open(store, [m.kernel for m in members]))

    @property
    def opens(self) -> bool:
        """Do points leave anything open, beside the noise?"""
        return bool((self.residual_variance > NOISE.closed * self.noise)[self.known].any())

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

    def open_now(self, pooled: PooledNoise, opened: Tensor) -> Tensor:
        """κq'_k (K,), from open_k(θ) (K,)."""
        most = math.log(NOISE.most_opened)
        ratio = (opened / self.open).log().clamp(-most, most).exp()
        return pooled.open_scale * self.residual_variance * torch.where(self.known, ratio, torch.ones_like(ratio))

    def factors(self, pooled: PooledNoise, opened: Tensor) -> Tensor:
        """τ_k (K,), from open_k(θ) (K,); one where it is not known."""
        now = self.open_now(pooled, opened)
        tau = torch.as_tensor(core.factor(self.noise, self.residual_variance, pooled.at(self), now))
        return torch.where(self.known, tau, torch.ones_like(tau))

    def opened(self, pooled: PooledNoise, store: SiteSource) -> Tensor:
        """open_k(θ) (K,) of members whose sites these are, under the pooled kernel."""
        if pooled.kernel is None or not self.opens:
            return self.open
        return _left_open(store, [pooled.kernel] * len(self.noise))

    def log_spread(self, pooled: PooledNoise) -> Tensor:
        """What integrating over σ_k adds to the evidence at the σ_k above, in nats; nothing where they are one."""
        if not isinstance(pooled.dof, Tensor) and math.isinf(pooled.dof):
            return self.noise.new_zeros(())
        away = (pooled.at(self) / pooled.level).log()
        each = pooled.dof / 4 * away.square() + 0.5 * torch.log1p(self.dof / pooled.dof)
        return -each[self.known].sum()

    def constants(self, tau: Tensor) -> Tensor:
        """What e_k changes by, (K,)."""
        return core.constant(tau, self.chi2, self.rows)


class _Open(NamedTuple):
    values: Tensor  # (K,)  by members; one for others


@torch.no_grad()
def _left_open(store: SiteSource, kernels: Sequence[Kernel]) -> Tensor:
    """open (K,) of members, each under its kernel; one for those that have no site here."""
    found = store.reduce(partial(_opened, kernels=kernels), added, store.largest, "open").values
    return torch.where(found > 0, found, torch.ones_like(found))


def _opened(packs: Iterator[PackedSites], *, kernels: Sequence[Kernel]) -> _Open:
    values = torch.zeros(len(kernels), dtype=torch.float64)
    for p in packs:
        alike: dict[Node, list[int]] = {}
        for i, member in enumerate(p.members):
            alike.setdefault(kernels[member].structure, []).append(i)
        for structure, some in alike.items():
            theta = torch.stack([kernels[p.members[i]].theta for i in some]).to(p.Z.device)
            here = torch.tensor([p.members[i] for i in some])
            values[here] = core.left_open(Kernel(structure, theta), p.Z[some]).cpu()
    return _Open(values)


class StackedNoise(NamedTuple):
    """The evidence of stacked sites as a function of their noises."""

    readings: Readings
    position: Tensor  # (n,)  of the member that each row is of; that of padding does not matter
    real: Tensor  # (n,) bool: no padding
    rows: Tensor  # (K,)  rows of ρ that each member has here
    Z: tuple[Tensor, ...] = ()  # points of sites of one size (K_b, M, D), where they leave anything open,
    members: tuple[Tensor, ...] = ()  # and whose they are (K_b,)

    @staticmethod
    def of(stacked: Stacked, readings: Readings) -> StackedNoise:
        real = stacked.member >= 0
        rows = torch.bincount(stacked.member[real], minlength=len(readings.noise)).to(torch.float64)
        here = rows > 0
        left_out = readings._replace(known=readings.known & here, chi2=readings.chi2 * here, rows=readings.rows * here)
        Z, members = [], []
        for b in stacked.blocks if left_out.opens else ():
            K, r, M = b.Rt.shape
            whose = stacked.member[b.rows].reshape(K, r).amax(-1)
            Z.append(stacked.Z[b.points].reshape(K, M, -1)[whose >= 0])
            members.append(whose[whose >= 0])
        return StackedNoise(left_out, stacked.member.clamp_min(0), real, rows, tuple(Z), tuple(members))

    def factors(self, pooled: PooledNoise, kernel: Kernel) -> Tensor:
        """τ_k (K,) under a kernel."""
        opened = self.readings.open
        for Z, members in zip(self.Z, self.members, strict=True):
            opened = opened.index_copy(0, members, core.left_open(kernel, Z).to(opened.device))
        return self.readings.factors(pooled, opened)

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
    tau = readings.factors(pooled, readings.opened(pooled, store))
    return store.scaled(tau.rsqrt(), readings.constants(tau))


def at_given_noise(
    members: Sequence[Member], store: SiteSource, given: Gaussian
) -> tuple[tuple[Member, ...], SiteSource]:
    """Members and their sites as if all of them had been published with this noise."""
    tau = torch.tensor([m.noise_factor(given) for m in members], dtype=torch.float64)
    evidence = [(0.0, 0.0) if (e := m.noise_evidence) is None else (e.chi2, m.effective_row_count) for m in members]
    chi2, rows = torch.tensor(evidence, dtype=torch.float64).T
    weights = torch.tensor([m.weight for m in members], dtype=torch.float64)
    return tuple(m.with_noise(given) for m in members), store.scaled(
        tau.rsqrt(), weights * core.constant(tau, chi2, rows)
    )


def with_noise(members: Sequence[Member], pooled: PooledNoise | None, store: SiteSource) -> tuple[Member, ...]:
    """Members that know under which noise they count: None for those who have said nothing about theirs."""
    if pooled is None:
        return tuple(m if m.noise is None else m._replace(noise=None, left_open=None) for m in members)
    readings = Readings.of(members, store)
    noises = pooled.at(readings).tolist()
    left_open = readings.open_now(pooled, readings.opened(pooled, store)).tolist()
    return tuple(
        m._replace(noise=noise, left_open=left) if known else m._replace(noise=None, left_open=None)
        for m, known, noise, left in zip(members, readings.known.tolist(), noises, left_open, strict=True)
    )

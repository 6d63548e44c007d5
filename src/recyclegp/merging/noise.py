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
Nor is what a module has missed of f because its own kernel is smoother than the merged one: of its residuals the share
1 − 1/r_k, with x_k of `core.noise` and a number c that is learned,

    r_k = 1 + c x_k/σ²        s_k² = residual_k/(r_k dof_k)        τ_k = (r_k σ_k² + κ q_k')/(σ_k₀² + q_k)

where σ_k₀² is the noise it was published under; and what it says about f at its points is so much less certain, by
g_k = (r_k − 1)σ_k².
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import noise as core
from ..core.packing import PackedSites
from ..core.stacked import Stacked
from ..kernels import Kernel
from ..kernels.units import InputUnits, in_units
from ..likelihoods import Gaussian
from .constants import NOISE
from .influence import (
    least_dof,
    noise_of_rows,
    noise_shares,
    of_enough_dof,
    of_one_noise,
    of_rows_like_theirs,
    of_usual_noise,
)
from .member import Member, Members, with_columns
from .site_source import SiteSource, added


@dataclass(frozen=True)
class PooledNoise:
    level: float | Tensor  # σ², common; a tensor while it is learned
    dof: float | Tensor = math.inf  # ν: how many rows' worth of belief it has
    open_scale: float | Tensor = 1.0  # κ: of what points leave open
    missed_scale: float | Tensor = 0.0  # c: of what modules have missed of f
    kernel: Kernel | None = None  # under which they leave it open, and missed it; None: as modules have said

    def at(self, r: Readings, missed: Tensor) -> Tensor:
        """σ_k² (K,), where modules have missed x_k (K,) of f."""
        level = torch.as_tensor(self.level, dtype=torch.float64)
        if not isinstance(self.dof, Tensor) and math.isinf(self.dof):
            return level.expand_as(r.noise)
        share = r.dof / (r.dof + self.dof)
        estimate = r.estimate / self.apparent(missed)
        return (share * estimate.log() + (1 - share) * level.log()).exp()

    @property
    def has_missed(self) -> bool:
        return isinstance(self.missed_scale, Tensor) or self.missed_scale > 0

    def apparent(self, missed: Tensor) -> Tensor:
        """r_k (K,): how many times larger than it is a noise looked."""
        return 1 + self.missed_scale * missed / self.level

    def to(self, device: torch.device) -> PooledNoise:
        """One that is known, with its kernel there."""
        return self if self.kernel is None else replace(self, kernel=self.kernel.to(device))

    def in_units(self, scale: float, inputs: InputUnits) -> PooledNoise:
        kernel = None if self.kernel is None else in_units(self.kernel, scale, inputs)
        return replace(self, level=float(self.level) * scale**2, kernel=kernel)


class UnderKernel(NamedTuple):
    """What a kernel says about the points of K members."""

    open: Tensor  # (K,)  open_k(θ)
    missed: Tensor  # (K,)  x_k


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
    shown: Tensor  # t_k: points over the numbers that its fit has found in its rows, n − tr W², at most one
    kernels: tuple[Kernel, ...] = ()  # their own

    @staticmethod
    def of(members: Sequence[Member], store: SiteSource) -> Readings:
        """Of members whose sites these are."""
        every = Members.of(members)
        known, noise, chi2, q, residual, dof, rows, weight = every.said.to(store.device)
        chi2, residual, rows = chi2 * weight, residual * weight, torch.where(known, rows * weight, 0.0)
        dof = torch.minimum(dof * weight, rows)  # tr W² ≤ n
        points = _points(members, store, weight) * weight
        shown = (points / (rows - dof).clamp_min(1e-300)).clamp_max(1.0)
        claimed = noise * (chi2 / rows.clamp_min(1e-300)).clamp_min(1)  # as large as it says, or as its rows do
        least = noise_of_rows(noise, chi2, rows, points, residual, dof)
        counts = of_usual_noise(claimed, known) * noise_shares(rows)
        counts = counts * of_rows_like_theirs(noise, least, known)
        counts = counts * of_enough_dof(dof, least_dof(noise, q, rows, points), known)
        counts = counts * of_one_noise(claimed, torch.minimum(least, _of_residuals(noise, residual, dof)), known)
        chi2, rows, residual, dof = chi2 * counts, rows * counts, residual * counts, dof * counts
        read = Readings(counts > 0, noise, q, chi2, rows, residual, dof, torch.ones_like(noise), shown, every.kernels)
        return read._replace(open=_left_open(store, every.kernels)) if read.opens else read

    def to(self, device: torch.device) -> Readings:
        *numbers, kernels = self
        return Readings._make([*(t.to(device) for t in numbers), kernels])

    def take(self, some: Tensor) -> Readings:
        """Those of some members, by their positions."""
        *numbers, kernels = self
        of_these = tuple([kernels[i] for i in some.tolist()]) if kernels else ()
        return Readings._make([*(t[some] for t in numbers), of_these])

    @property
    def opens(self) -> bool:
        """Do points leave anything open, beside the noise?"""
        return bool((self.residual_variance > NOISE.closed * self.noise)[self.known].any())

    @property
    def estimate(self) -> Tensor:
        """s_k², from each member's residuals alone; the noise it was published under, where these say nothing."""
        return _of_residuals(self.noise, self.residual, self.dof)

    @property
    def level(self) -> float:
        """σ² from all residuals: Σ residual/Σ dof."""
        residual, dof = float(self.residual[self.known].sum()), float(self.dof[self.known].sum())
        if dof > 0 and residual > 0:
            return residual / dof
        return float(self.noise[self.known].log().mean().exp())

    def level_sd(self, missed: Tensor | None = None) -> float:
        """How well the residuals know log σ², where modules have missed x_k (K,) of f: a standard deviation.

        Of three errors, only the first becomes less with more modules; the others are alike in all of them, and the
        module in the middle stands for all:

            √(2/Σdof_k)            of counting: a χ² with so many degrees of freedom
            p_k/dof_k              of fitting: p_k hyperparameters, chosen on the same rows, make residuals smaller
            log(1 + c x_k t_k/s_k²)  of missing: what is in the noise of f, if c is a standard deviation above the usual

        x_k is as if there were rows at the points alone. Where a fit has found more numbers in its rows than it has
        points, it has seen more of f, and missed so much less: t_k.
        """
        found = torch.zeros_like(self.noise) if missed is None else missed
        most = NOISE.missed * math.exp(NOISE.missed_sd)
        missing = torch.log1p(most * found * self.shown / self.estimate)[self.known]
        chosen = self.noise.new_tensor([k.structure.size + 2.0 for k in self.kernels])[self.known]  # with mean, noise
        dof = self.dof[self.known].clamp_min(1e-300)
        alike = float(((chosen / dof).square() + missing.square()).median())
        return min(NOISE.level_sd, math.sqrt(2 / float(dof.sum()) + alike))

    @property
    def low_level(self) -> float:
        """The noise of which a quarter of the members is below."""
        return float(self.estimate[self.known].quantile(0.25))

    def left_open(self, pooled: PooledNoise, under: UnderKernel) -> Tensor:
        """(r_k − 1)σ_k² + κq'_k (K,): the variance of rows that is neither noise nor said by the points."""
        most = math.log(NOISE.most_opened)
        ratio = (under.open / self.open).log().clamp(-most, most).exp()
        ratio = torch.where(self.known, ratio, torch.ones_like(ratio))
        return pooled.open_scale * self.residual_variance * ratio + self.missed(pooled, under)

    def missed(self, pooled: PooledNoise, under: UnderKernel) -> Tensor:
        """g_k (K,); zero where it is not known."""
        found = (pooled.apparent(under.missed) - 1) * pooled.at(self, under.missed)
        return torch.where(self.known, found, torch.zeros_like(found))

    def factors(self, pooled: PooledNoise, under: UnderKernel) -> Tensor:
        """τ_k (K,); one where it is not known."""
        now = self.left_open(pooled, under)
        tau = torch.as_tensor(core.factor(self.noise, self.residual_variance, pooled.at(self, under.missed), now))
        return torch.where(self.known, tau, torch.ones_like(tau))

    def under(self, pooled: PooledNoise, store: SiteSource) -> UnderKernel:
        """What the pooled kernel says of members whose sites these are."""
        nothing = torch.zeros_like(self.noise)
        if pooled.kernel is None:
            return UnderKernel(self.open, nothing)
        opened = _left_open(store, [pooled.kernel] * len(self.noise)) if self.opens else self.open
        return UnderKernel(opened, _missed(store, self, pooled.kernel) if pooled.has_missed else nothing)

    def log_spread(self, pooled: PooledNoise, missed: Tensor) -> Tensor:
        """What integrating over σ_k adds to the evidence at the σ_k above, in nats; nothing where they are one."""
        if not isinstance(pooled.dof, Tensor) and math.isinf(pooled.dof):
            return self.noise.new_zeros(())
        away = (pooled.at(self, missed) / pooled.level).log()
        each = pooled.dof / 4 * away.square() + 0.5 * torch.log1p(self.dof / pooled.dof)
        return -torch.where(self.known, each, 0.0).sum()

    def constants(self, tau: Tensor) -> Tensor:
        """What e_k changes by, (K,)."""
        return core.constant(tau, self.chi2, self.rows)


def _of_residuals(noise: Tensor, residual: Tensor, dof: Tensor) -> Tensor:
    """s_k² (K,); the noise under which they were published, where residuals say nothing."""
    tiny = 1e-6
    return torch.where((dof > tiny) & (residual > 0), residual / dof.clamp_min(tiny), noise)


def _points(members: Sequence[Member], store: SiteSource, like: Tensor) -> Tensor:
    """Of each member's site, (K,); infinitely many where there is none. Sites that lie elsewhere are not asked."""
    found = torch.full_like(like, math.inf)
    here = any(m.latent.site is not None for m in members)  # mostly the first says so
    for p in store.packs(1) if here else ():
        found[torch.tensor(p.members, device=like.device)] = float(p.Z.shape[1])
    return found


class _ByMember(NamedTuple):
    values: Tensor  # (K,)  zero for those that have no site here


@torch.no_grad()
def _left_open(store: SiteSource, kernels: Sequence[Kernel]) -> Tensor:
    """open (K,) of members, each under its kernel; one for those that have no site here."""
    found = store.reduce(partial(_opened, kernels=kernels), added, store.largest, "open").values
    return torch.where(found > 0, found, torch.ones_like(found))


def _opened(packs: Iterator[PackedSites], *, kernels: Sequence[Kernel]) -> _ByMember:
    values = torch.zeros(len(kernels), dtype=torch.float64)
    for p in packs:
        here, own = torch.tensor(p.members), [kernels[member] for member in p.members]
        for kernel, some in _side_by_side(own):
            Z = p.Z if some is None else p.Z[some]
            values[here if some is None else here[some]] = core.left_open(kernel.to(Z.device), Z).to(values.device)
    return _ByMember(values)


@torch.no_grad()
def _missed(store: SiteSource, readings: Readings, kernel: Kernel) -> Tensor:
    """x (K,) of members under this kernel."""
    summed = partial(_missed_of_packs, readings=readings, kernel=kernel)
    return store.reduce(summed, added, store.largest, "missed").values


def _missed_of_packs(packs: Iterator[PackedSites], *, readings: Readings, kernel: Kernel) -> _ByMember:
    values = torch.zeros_like(readings.noise)
    for p in packs:
        own = Smoothers.of(p.Z, torch.tensor(p.members), readings)
        values[torch.tensor(p.members)] = own.missed(kernel.to(p.Z.device)).to(values.device)
    return _ByMember(values)


class Smoothers(NamedTuple):
    """How K_b members, of which each has M points, have smoothed what their rows said."""

    Z: Tensor  # (K_b, M, D)
    members: Tensor  # (K_b,)  whose they are
    B: Tensor  # (K_b, M, M)  what is left of f(Z) when each point is predicted from the others
    expected: Tensor  # (K_b,)  of the variance of f, so much is left under their own kernels

    @staticmethod
    @torch.no_grad()
    def of(Z: Tensor, members: Tensor, readings: Readings) -> Smoothers:
        K_b, M, _ = Z.shape
        B, expected = Z.new_zeros(K_b, M, M), Z.new_zeros(K_b)
        noise = readings.noise[members].to(Z.device)
        for kernel, some in _side_by_side([readings.kernels[member] for member in members.tolist()]):
            which = slice(None) if some is None else some
            here = kernel.to(Z.device)
            B[which] = core.leave_one_out_operator(here, Z[which], noise[which])
            expected[which] = core.missed(B[which], here, Z[which])
        return Smoothers(Z, members, B, expected)

    def missed(self, kernel: Kernel) -> Tensor:
        """x_k (K_b,)."""
        return (core.missed(self.B, kernel, self.Z) - self.expected).clamp_min(0)


def _side_by_side(kernels: Sequence[Kernel]) -> Iterator[tuple[Kernel, list[int] | None]]:
    """Those of one structure as one kernel, and which they are; None for all of them. The same one is there once."""
    if all([kernel is kernels[0] for kernel in kernels]):
        yield kernels[0], None
        return
    alike: dict[int, list[int]] = {}  # by the identities of structures: it does not matter if equal ones come apart
    for i, kernel in enumerate(kernels):
        alike.setdefault(id(kernel.structure), []).append(i)
    for some in alike.values():
        theta = torch.stack([kernels[i].theta for i in some])
        yield Kernel(kernels[some[0]].structure, theta), None if len(alike) == 1 else some


class Points(NamedTuple):
    """Of sites of one size."""

    Z: Tensor  # (K_b, M, D)
    members: Tensor  # (K_b,)  whose they are


@dataclass(frozen=True)
class StackedNoise:
    """The evidence of stacked sites as a function of their noises. K is how many members have a site here."""

    readings: Readings  # of these
    position: Tensor  # (n,)  of the member that each row is of; that of padding does not matter
    real: Tensor  # (n,) bool: no padding
    rows: Tensor  # (K,)  rows of ρ that each member has here
    point_member: Tensor  # (N,)  of the member that each point is of; −1 for padding
    points: tuple[Points, ...] = ()

    @staticmethod
    def of(stacked: Stacked, readings: Readings) -> StackedNoise:
        """`readings` may be of more members than have a site here."""
        real = stacked.member >= 0
        here, position = torch.unique(stacked.member[real], return_inverse=True)
        member = torch.full_like(stacked.member, -1)
        member[real] = position
        rows = torch.bincount(position, minlength=len(here)).to(torch.float64)
        points, point_member = [], []
        for b in stacked.blocks:
            K, r, M = b.Rt.shape
            whose = member[b.rows].reshape(K, r).amax(-1).cpu()
            Z = stacked.Z[b.points].reshape(K, M, -1)[whose >= 0]
            points.append(Points(Z, whose[whose >= 0].to(readings.noise.device)))
            point_member.append(whose.repeat_interleave(M))
        own = readings.take(here.to(readings.noise.device))
        whose_points = torch.cat(point_member).to(readings.noise.device)
        return StackedNoise(own, member.clamp_min(0), real, rows, whose_points, tuple(points))

    @cached_property
    def smoothers(self) -> tuple[Smoothers, ...]:
        """Which only a search for c asks for."""
        return tuple(Smoothers.of(*some, self.readings) for some in self.points)

    @cached_property
    def opens(self) -> bool:
        """Do their points leave anything open? Asked once, and not at every step."""
        return self.readings.opens

    def under(self, pooled: PooledNoise, kernel: Kernel) -> UnderKernel:
        """What a kernel that is being learned says of the members."""
        opened, missed = self.readings.open, torch.zeros_like(self.readings.noise)
        for Z, members in self.points if self.opens else ():
            opened = opened.index_copy(0, members, core.left_open(kernel, Z).to(opened.device))
        for some in self.smoothers if pooled.has_missed else ():
            missed = missed.index_copy(0, some.members, some.missed(kernel).to(missed.device))
        return UnderKernel(opened, missed)

    def missed(self, pooled: PooledNoise, under: UnderKernel) -> Tensor | None:
        """g at every point (N,); None where nobody has missed anything."""
        if not pooled.has_missed:
            return None
        g = torch.nn.functional.pad(self.readings.missed(pooled, under), (0, 1))  # the last one for padding
        return g[self.point_member].to(self.real.device)

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
    under = readings.under(pooled, store)
    tau = readings.factors(pooled, under)
    missed = readings.missed(pooled, under) if pooled.has_missed else None
    return store.scaled(tau.rsqrt(), readings.constants(tau), missed)


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
        return tuple([m if m.noise is None else m.as_published for m in members])
    members = Members.of(members)
    readings = Readings.of(members, store)
    under = readings.under(pooled, store)
    found = pooled.at(readings, under.missed), readings.left_open(pooled, under), readings.missed(pooled, under)
    brought = with_columns(members, "noise", *(t.tolist() for t in found))
    if not bool(readings.known.all()):
        known = readings.known.tolist()
        brought = [now if k else m.as_published for m, now, k in zip(members, brought, known, strict=True)]
    return members.changed(brought)

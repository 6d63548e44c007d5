"""How far somebody nobody has met may be from what all share, by what each owner says that the others do not expect.

Effects b_k + g_k are as large for everybody, and normal. Real owners are not: a few are far from the rest, and where y
has a natural zero the largest differ most. So the effects of a new owner have a size of its own,

    f_new = f + √s e^{γh}(b + g)        s = c·ν/χ²_ν        h(x) = (f̂(x) − level)/size, at most H

with the learned covariance D of b + g. c, ν and γ are chosen by leaving out one owner at a time, at fixed
hyperparameters. What owner k says, as all others expect it, is in what is known with everybody: given all, u = R_kᵀf_k
has the mean m and the covariance C, and by ρ_k = u + ε with unit noise

    Σ_k = (I − C)⁻¹        ρ_k − E[ρ_k] = Σ_k(ρ_k − m)        Σ_k⁰ = Σ_k − R_kᵀD_kR_k

where Σ_k⁰ is without effects of its own. With BBᵀ = Σ_k⁰, z = UᵀB⁻¹(ρ_k − E[ρ_k]) and UΛUᵀ = B⁻¹R_kᵀG_kD_kG_kR_kB⁻ᵀ,
where G_k = diag e^{γh(Z_k)}, all sizes s are looked at together:

    log p(ρ_k | s, γ) = −½Σ_i [z_i²/(1 + sλ_i) + log(1 + sλ_i)] + const

    E(c, ν, γ) = Σ_k log ∫ p(ρ_k | s, γ) p(s | c, ν) ds
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ..kernels import Kernel
from .effects import SCALES, Effects, Scales
from .owner_posterior import FunctionPosterior, Level, NewOwner
from .sites import Site

Array = np.ndarray

LOG_SIZES = np.linspace(math.log(1e-4), math.log(1e6), 120)  # of s, over which is summed
LEAST_LEFT = 1e-10  # of an eigenvalue of I − C: a site that is known so well by itself says nothing about the others


@dataclass(frozen=True)
class Spread:
    """Effects of a new owner, and how large they may be."""

    effects: Effects
    scales: Scales
    level: Level | None = None  # None: as large everywhere

    def new_owner(self, shared: FunctionPosterior, kernel: Kernel) -> NewOwner:
        """With effects of their mean size."""
        return NewOwner(shared, kernel, self.effects.scaled(self.scales.mean), self.level)

    def in_units(self, scale: float, shift: float) -> Spread:
        """Those of s·f + b."""
        level = None if self.level is None else self.level.in_units(scale, shift)
        return Spread(self.effects.in_units(scale), self.scales, level)


# --- one owner left out ---------------------------------------------------------------------------


class LeftOut(NamedTuple):
    """What one owner says, as all others expect it, for each of several slopes γ."""

    powers: Array  # (slopes, r)  λ_i
    parts: Array  # (slopes, r)  z_i
    known: float = 1.0  # so much of the variance of what it says about f is known to the others

    def log_densities(self, sizes: Array) -> Array:
        """log p(ρ_k | s, γ) (slopes, S) of sizes (S,), up to a constant."""
        variance = 1 + self.powers[..., None] * sizes
        return np.asarray(-0.5 * (self.parts[..., None] ** 2 / variance + np.log(variance)).sum(-2))


@torch.no_grad()
def left_out(
    merged: FunctionPosterior, site: Site, kernel: Kernel, asked: Effects, factors: Array, *, known: bool
) -> LeftOut:
    """Of an owner with this site, which `merged`, the posterior of its function, has seen.

    Effects whose sizes are looked at are those that are `asked`, `factors` (slopes, M) times as large at its points;
    they are `known` where they are those of `merged`, which has none else.
    Matrices are as small as the site: NumPy asks less for each call.
    """
    mean, covariance = (t.cpu().numpy() for t in merged.joint(site.Z))
    Rt, rho = site.Rt.cpu().numpy(), site.rho.cpu().numpy()
    left, V = np.linalg.eigh(np.eye(len(rho)) - Rt @ covariance @ Rt.T)  # I − C
    left = left.clip(LEAST_LEFT, 1)
    residual = V @ (V.T @ (rho - Rt @ mean) / left)  # Σ(ρ − m)
    K = kernel.matrix(site.Z, site.Z)
    D = asked.matrix(kernel, site.Z, site.Z, K).cpu().numpy()
    size = 1 / left  # Σ⁰, at least the unit noise
    if known:
        size, V = np.linalg.eigh((V / left) @ V.T - Rt @ D @ Rt.T)
    inverse = (V / np.sqrt(size.clip(1))).T  # B⁻¹
    half = inverse @ Rt
    powers, U = np.linalg.eigh(half @ (factors[:, :, None] * factors[:, None, :] * D) @ half.T)
    prior = np.trace(Rt @ K.cpu().numpy() @ Rt.T)
    open_to_others = (size.clip(1) - 1).sum() / max(prior, 1e-300)  # tr(Σ⁰ − I)/tr RᵀKR
    return LeftOut(powers.clip(0), U.swapaxes(-1, -2) @ (inverse @ residual), 1 - float(open_to_others))


# --- how large effects are ------------------------------------------------------------------------


class Prior(NamedTuple):
    """What is believed of sizes before anybody is left out."""

    scale_sd: float  # of log c, about zero
    dof: tuple[float, ...]  # ν that may be, beside that of the learned variance
    least: float  # probability of other sizes, below which nothing is changed
    level_gain: float  # nats by which a slope γ must be better


class Sizes(NamedTuple):
    """Found sizes, and which slope they go with."""

    scales: Scales
    slope: int


def learn(owners: Sequence[LeftOut], slopes: Sequence[float], dof: float, prior: Prior, *, known: bool) -> Sizes | None:
    """Sizes of effects, averaged over c and ν; None where these are as they were learned.

    They were learned as s = ν/χ²_ν with ν = `dof`, or (not `known`) as nothing at all: that is one hypothesis, with a
    prior probability of a half. The other is that c and ν are unknown. A slope γ that is not zero must be better than
    both.
    """
    log_p = np.stack([own.log_densities(np.exp(LOG_SIZES)) for own in owners])  # (K, slopes, S)
    top = log_p.max(-1, keepdims=True)
    p = np.exp(log_p - top)
    constant, log_c = top.sum((0, 2)), np.linspace(-3, 3, 13) * max(prior.scale_sd, 1e-9)
    nus = [*(nu for nu in prior.dof if nu < dof), dof]
    masses = np.stack([sizes(math.exp(c), nu) for nu in nus for c in log_c])  # (models, S)
    log_prior = np.tile(-0.5 * (log_c / prior.scale_sd) ** 2, len(nus))
    evidence = np.log(np.einsum("kgs,ms->mgk", p, masses).clip(1e-300)).sum(-1) + constant  # E(c, ν, γ)
    evidence = evidence + (log_prior - np.logaddexp.reduce(log_prior))[:, None]
    each = np.logaddexp.reduce(evidence)  # (slopes,)
    flat = list(slopes).index(0.0)
    as_learned = sizes(1.0, dof)
    if known:
        before = float(np.log((p[:, flat] @ as_learned).clip(1e-300)).sum() + constant[flat])
    else:
        before = float(sum(-0.5 * np.square(own.parts[flat]).sum() for own in owners))
    best = int(each.argmax())
    if best != flat and each[best] - max(each[flat], before) > prior.level_gain:
        return Sizes(_told_apart(np.exp(evidence[:, best] - each[best]) @ masses, 0.0), best)
    share = 1 / (1 + math.exp(min(before - each[flat], 700.0)))
    if share < prior.least:
        return None
    found = np.exp(evidence[:, flat] - each[flat]) @ masses
    if known:
        return Sizes(_told_apart(share * found + (1 - share) * as_learned, 0.0), flat)
    return Sizes(_told_apart(found, 1 - share), flat)


def sizes(c: float, dof: float) -> Array:
    """Probabilities of s = c·ν/χ²_ν about each of LOG_SIZES."""
    ends = np.exp((LOG_SIZES[1:] + LOG_SIZES[:-1]) / 2)
    half = torch.full((len(ends),), 0.5 * dof, dtype=torch.float64, device="cpu")
    up_to = torch.special.gammaincc(half, 0.5 * dof * c / torch.from_numpy(ends))  # s ≤ x where χ² ≥ νc/x
    return np.diff(up_to.numpy(), prepend=0.0, append=1.0)


def _told_apart(probabilities: Array, nothing: float) -> Scales:
    """A few sizes for a density over LOG_SIZES, by its quantiles; with this probability there are no effects."""
    x, w = np.polynomial.legendre.leggauss(SCALES)
    middle = probabilities.cumsum() - 0.5 * probabilities
    values = np.exp(np.interp(0.5 * (1 + x) * probabilities.sum(), middle, LOG_SIZES))
    weights = 0.5 * w * (1 - nothing)
    none = ([0.0], [nothing]) if nothing > 0 else ([], [])
    return Scales((*none[0], *values.tolist()), (*none[1], *weights.tolist()))

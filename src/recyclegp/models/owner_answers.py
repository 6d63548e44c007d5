"""What an owner knows by itself, and how uncertain its noise is: for answers to an owner who asks for itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.effects import Scales, scales_of_few
from ..core.owner_posterior import FunctionPosterior
from ..devices import default_device
from ..likelihoods import Gaussian, GaussianMixture, NegativeBinomial, mixed
from ..merging.constants import NOISE
from ..merging.member import Member, active
from ..merging.noise import PooledNoise
from ..merging.owners import stack_sites
from .publishing import solve


def of_its_own(own: Sequence[Member]) -> FunctionPosterior:
    """An owner's modules alone: under the kernel and mean of its largest one."""
    latent = max(own, key=lambda m: m.rows).latent
    site = stack_sites([m.latent.known_site for m in own])
    with default_device(site.Z.device):  # members' sites may be elsewhere than the merge, as on a CPU beside a GPU
        return solve((latent._replace(site=site),), own[0].likelihoods[0]).posteriors[0]


def one_noise(known: Sequence[tuple[Any, float]]) -> Gaussian | None:
    """That of an owner, whose modules have noises and rows; None where a noise is not known."""
    if any(noise is None for noise, _ in known):
        return None
    return Gaussian(sum(noise * rows for noise, rows in known) / sum(rows for _, rows in known))


def noise_dof(own: Sequence[Member], everybody: Sequence[Member], pooled: PooledNoise | None) -> float:
    """How many rows' worth is known of the noise of an owner: its own and those of the belief it is drawn towards.

    Where noises are one, those of everybody; infinitely many where nobody says, or the noise was given.
    """
    if pooled is None:
        return math.inf
    asked = everybody if math.isinf(float(pooled.dof)) else own
    known = [m.noise_evidence.dof * m.weight for m in asked if m.noise_evidence is not None]
    belief = 0.0 if math.isinf(float(pooled.dof)) else float(pooled.dof)
    return math.fsum(known) + belief if known else math.inf


def uncertain(*parts: tuple[Gaussian, float, float]) -> Gaussian:
    """y with one of these noises, each known from so many degrees of freedom, and with so much probability.

    σ² is ν·s²/χ²_ν, so that y is Student's t_ν where f is known: a mixture of a few Gaussians, as for new owners.
    """
    noises, shares = _each(parts)
    if len(noises) == 1:
        return parts[0][0]
    mean = math.fsum(w * noise for w, noise in zip(shares, noises, strict=True))
    return GaussianMixture(mean, tuple(noises), tuple(shares))


def mixed_uncertain(parts: Sequence[tuple[Gaussian, float, float]]) -> Gaussian:
    """The same of many, as far as a mixture tells noises apart; shares are as weights."""
    return mixed(*_each(parts))


def _each(parts: Sequence[tuple[Gaussian, float, float]]) -> tuple[list[float], list[float]]:
    """Noises and their shares."""
    noises, shares = list[float](), list[float]()
    for given, dof, share in parts:
        scales = None if math.isinf(dof) else scales_of_few(dof + 1)
        scales = scales or Scales((1.0,), (1.0,))
        noises += [float(given.values[0]) * scale for scale in scales.values]
        shares += [share * weight for weight in scales.weights]
    return noises, shares


def dispersed_as(pooled: NegativeBinomial, own: Sequence[Member]) -> NegativeBinomial:
    """With the dispersion of an owner's counts, drawn towards the pooled one; that one where the owner says nothing.

    log r_k = λ log r̂_k + (1 − λ) log r with λ = n_k/(n_k + ν), as noises are before anything is known of ν.
    """
    said = [(p, m.weighted_rows) for m in active(own) for p in m.likelihoods if isinstance(p, NegativeBinomial)]
    known = [(math.log(p.parameters[0]), rows) for p, rows in said if p.parameters]
    if not known or not pooled.parameters:
        return pooled
    rows = math.fsum(n for _, n in known)
    estimate = math.fsum(n * value for value, n in known) / rows
    share = rows / (rows + NOISE.dof)
    return pooled.with_values(math.exp(share * estimate + (1 - share) * math.log(pooled.parameters[0])))

"""The same posterior at other points, or in fewer digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..categories import Categories
from ..core import least_squares, rounding, sites
from ..core import publishing as core
from ..core.least_squares import Solution
from ..core.noise import NoiseEvidence
from ..core.posterior import Basis, Posterior, basis
from ..core.publishing import PublishedSite
from ..errors import RecycleGPError
from ..likelihoods import Likelihood
from ..local import placement
from ..record import Latent

MOST_DIGITS = 15  # that a float64 has


class Solved(NamedTuple):
    """Every function, with its prior at its points and what is known there."""

    latents: tuple[Latent, ...]
    likelihood: Likelihood  # of all functions together
    bases: tuple[Basis, ...]
    solutions: tuple[Solution, ...]

    @property
    def posteriors(self) -> list[Posterior]:
        parts = zip(self.latents, self.bases, self.solutions, strict=True)
        return [Posterior(base, torch.tensor(p.mean, dtype=torch.float64), s.v, s.C) for p, base, s in parts]


def solve(latents: tuple[Latent, ...], likelihood: Likelihood) -> Solved:
    """Each function's site under its own prior."""
    bases = tuple(basis(latent.kernel, latent.known_site.Z, latent.jitter) for latent in latents)
    rows = (sites.to_rows(p.known_site, base.L, p.mean) for p, base in zip(latents, bases, strict=True))
    return Solved(latents, likelihood, bases, tuple(map(least_squares.solve, rows)))


def published(of: Solved, points: int | Tensor, seed: int) -> tuple[Latent, ...]:
    """Every function at other points; functions that had points in common have them again."""
    Zs = [latent.known_site.Z for latent in of.latents]
    common = all(torch.equal(Z, Zs[0]) for Z in Zs)
    found: list[Latent] = []
    for c, latent in enumerate(of.latents):
        chosen = found[0].known_site.Z if common and found else _chosen(latent, of.posteriors[c], points, seed)
        unchanged = chosen is Zs[c] or (common and chosen is Zs[0])
        found.append(latent if unchanged else _at(latent, of.bases[c], of.likelihood.parts[c], chosen))
    return tuple(found)


def coded(latents: Sequence[Latent], categories: Categories) -> tuple[Latent, ...]:
    """The same, where their points have levels: a file's kernel may read as a number what has some."""
    for latent in latents:
        categories.check_codes(latent.known_site.Z)
    return tuple(latents)


def _chosen(latent: Latent, posterior: Posterior, points: int | Tensor, seed: int) -> Tensor:
    """The points themselves, or so many of them; those that it has, if these are no more."""
    Z = latent.known_site.Z
    if isinstance(points, Tensor):
        return points
    if points >= len(Z):
        return Z
    means = posterior.predict(Z).mean
    rng = np.random.default_rng(placement.entropy(seed, Z, means))
    found = placement.over(Z, points, latent.kernel, rng)
    return found if len(found) else Z[:1]  # a kernel that is nothing leaves nothing open anywhere


def _at(latent: Latent, base: Basis, likelihood: Likelihood, points: Tensor) -> Latent:
    made = core.publish(latent.known_site, latent.jitter, latent.kernel, latent.mean, points)
    return latent._replace(
        site=made.site,
        jitter=made.jitter,
        kept=_still_kept(latent, base, made.information),
        noise_evidence=_noise_evidence_after(latent, likelihood, made),
    )


def _still_kept(latent: Latent, base: Basis, information: float) -> float | None:
    """The share of what the rows say that is left, where so many nats are."""
    if latent.kept is None:
        return None
    now = core.information(sites.to_rows(latent.known_site, base.L, latent.mean))
    return min(latent.kept, max(1e-12, latent.kept * information / max(now, 1e-300)))


def _noise_evidence_after(latent: Latent, likelihood: Likelihood, made: PublishedSite) -> NoiseEvidence | None:
    noise = likelihood.parameters[:1]
    if latent.noise_evidence is None or not noise:
        return None
    return latent.noise_evidence.published(noise[0], latent.effective_row_count, made.chi2, made.left_open)


def rounded(of: Solved, digits: Any) -> tuple[Latent, ...]:
    """The points, and what is known of f there, in fewer digits."""
    if isinstance(digits, bool) or not isinstance(digits, (int, np.integer)) or not 1 <= digits <= MOST_DIGITS:
        raise RecycleGPError(f"digits={digits!r}; pass a whole number from 1 to {MOST_DIGITS}")
    found = []
    for latent, base, own in zip(of.latents, of.bases, of.likelihood.parts, strict=True):
        Z = rounding.by_column(latent.known_site.Z, int(digits), latent.kernel.structure.discrete)
        moved = _at(latent, base, own, Z)
        found.append(_in_digits(moved, basis(moved.kernel, moved.known_site.Z, moved.jitter), int(digits)))
    return tuple(found)


def _in_digits(latent: Latent, base: Basis, digits: int) -> Latent:
    evidence = latent.noise_evidence
    if evidence is not None:
        values = rounding.significant(torch.tensor(evidence, dtype=torch.float64), digits)
        evidence = NoiseEvidence(*values.tolist())
    return latent._replace(site=rounding.site(latent.known_site, base.L, latent.mean, digits), noise_evidence=evidence)

"""Moments of f(Z) that were fitted elsewhere, as what a module is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..arrays import Array
from ..core import least_squares, linalg, sites
from ..core.convergence import Convergence
from ..core.sites import Converted
from ..errors import Argument, RecycleGPError, warn_user
from ..kernels.parsing import parse_with_values
from ..likelihoods import Likelihood, gaussian_noise
from ..likelihoods.constants import SCALES
from ..record import About, Latent, Record
from ..target import described
from ..times import TimeLike, when
from .naming import check_owner, name_or_new

if TYPE_CHECKING:
    import gpytorch

MOST_KNOWN = 2.0  # times what rows with the stated noise could know, from which on the noise is questioned
MOMENTS_JITTER = 1e-8  # of the prior variance, where the source's jitter is not given


class Moments(NamedTuple):
    """As a user has them."""

    Z: Array
    mean: Array
    covariance: Array


class Source(NamedTuple):
    """Under what they were fitted, as a user says it."""

    kernel: gpytorch.kernels.Kernel | str
    likelihood: str
    noise: float | None
    prior_mean: float
    jitter: float | None
    rows: int | None
    evidence: float


class Words(NamedTuple):
    """Who and what, as a user says it."""

    name: str | None = None
    owner: str | None = None
    time: TimeLike = None
    columns: Sequence[str] | None = None
    target: str | None = None
    unit: str | None = None
    labels: Sequence[str | None] | None = None


def from_moments(given: Moments, source: Source, words: Words) -> Record:
    """All of it checked."""
    points, columns, categories = arrays.inputs(given.Z, "Z", device="cpu")
    M, D = points.shape
    if words.columns is not None:
        columns = arrays.named_columns(words.columns, D)
    if M == 0 or len(torch.unique(points, dim=0)) < M:
        raise RecycleGPError(f"Z has {M} points, which must be distinct and at least one")
    mu, S = arrays.targets(given.mean, M, "mean", device="cpu"), _covariance(given.covariance, M)
    prior_mean, evidence = arrays.number(source.prior_mean, "prior_mean"), arrays.number(source.evidence, "evidence")
    jitter, rows = source.jitter, source.rows
    if jitter is not None and arrays.number(jitter, "jitter") < 0:
        raise RecycleGPError(f"jitter={jitter}; pass what the source added to the diagonal of K_ZZ, or 0")
    if rows is not None and (not isinstance(rows, (int, np.integer)) or rows < 1):
        raise RecycleGPError(f"rows={rows!r}; pass the number of data rows behind the moments, or None")
    observed = likelihoods.named(source.likelihood)
    if source.noise is not None:
        observed = with_noise(observed, source.noise)
    if isinstance(source.kernel, str):
        kernel = parse_with_values(source.kernel, D, categories.columns)
    else:
        from ..kernels.gpytorch_objects import from_gpytorch

        kernel = from_gpytorch(source.kernel, D)
    K = kernel.matrix(points, points)
    first = MOMENTS_JITTER * float(K.diagonal().mean()) if jitter is None else jitter
    L, used = linalg.cholesky(K, first)
    # what is added beyond the source's own jitter is added to both: they are then moments of f + noise
    S = S + (used - (jitter or 0.0)) * torch.eye(M, dtype=S.dtype)
    made = from_site(
        sites.from_moments(points, L, prior_mean, mu, S),
        L,
        About(
            name_or_new(words.name),
            check_owner(words.owner),
            None if words.time is None else when(words.time),
            "moments",
            columns,
            categories,
            (described(None, words.target, words.unit, words.labels),),
        ),
        Latent(None, kernel, prior_mean, M if rows is None else int(rows), float(used)),
        observed,
        evidence,
    )
    if rows is not None and observed.known and observed.conjugate:
        question_noise(made, L, float(gaussian_noise(observed)))
    return made


def question_noise(record: Record, L: Tensor, noise: float) -> None:
    """Can so many rows with this noise know as much? n rows at one place give f there the precision n/σ², no row more.

    In whitened coordinates HᵀH = Σ_i hhᵀ/σ² with ‖h(x)‖² ≤ k(x, x): its trace is at most Σ_i k(x_i, x_i)/σ².
    """
    latent = record.latents[0]
    site = latent.known_site
    most = latent.rows * float(latent.kernel.diagonal(site.Z).max()) / noise
    known = float(sites.to_rows(site, L, latent.mean).H.square().sum())
    if known > MOST_KNOWN * most:
        warn_user(
            f"module {record.about.name}: {latent.rows} rows with the noise variance {noise:.4g} cannot know f as well "
            f"as its covariance says, by a factor of {known / most:.2g}; check both of them"
        )


def _covariance(given: Array, M: int) -> Tensor:
    S = arrays.as_tensor(given, "covariance", "cpu")
    if S.shape != (M, M):
        raise RecycleGPError(f"covariance has shape {tuple(S.shape)} for {M} points; pass ({M}, {M})")
    largest = float(S.diagonal().abs().max())
    if float((S - S.mT).abs().max()) > 1e-5 * largest or float(torch.linalg.eigvalsh(S).min()) < -1e-6 * largest:
        raise RecycleGPError("covariance is not symmetric positive semi-definite; pass q's covariance of f(Z)")
    return S


def from_site(
    converted: Converted, L: Tensor, about: About, latent: Latent, likelihood: Likelihood, evidence: float = 0.0
) -> Record:
    """From a site made of moments, for a function that lacks one; directions that had to be floored are said aloud."""
    site, floored = converted
    message = "moments from elsewhere"
    if floored:
        message = f"{floored} of {len(site.Z)} directions of the covariance were wider than the prior and were floored"
        warn_user(
            f"module {about.name}: {message}; the local fit had not converged, or its kernel or jitter is not the one "
            "given"
        )
    # e = their ELBO − log∫ t dp
    bound = least_squares.solve(sites.to_rows(site, L, latent.mean)).bound
    known = latent._replace(site=site._replace(e=evidence - bound), convergence=Convergence(not floored, 0, message))
    return Record(about, (likelihood,), (known,))


def with_noise(likelihood: Likelihood, noise: object) -> Likelihood:
    """A likelihood with this noise variance; its other parameters as they were, or as usual."""
    if not likelihood.has_units:
        raise RecycleGPError(Argument("noise", noise), f": likelihood {likelihood.name!r} has no noise; leave it out")
    rest = likelihood.parameters[1:] if likelihood.known else (SCALES.df,) * (len(likelihood.parameter_names) - 1)
    return likelihood.with_values(arrays.number(noise, "noise", positive=True), *rest)

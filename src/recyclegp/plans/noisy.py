"""What is known of f from sums with noise, and what kernel and noise they speak for: it sees no rows.

In the coordinates of `private.Shape`, w = T⁻¹v, in which noise is alike in all directions: with G̃ = G + E without its
negative eigenvalues, b̃ = b + e, and E symmetric with the variances σ_G², and 2σ_G² on its diagonal,

    b̃ − G̃w = (b − Gw) + e − Ew  ~  N(0, N),     N = sG̃ + σ_b²I + σ_G²(E‖w‖² I + E[wwᵀ])

where the expectations are found by a few steps. Under another kernel of the same points, f(Z) − m = LTw ~ N(0, K'):

    log p(b̃ | K', s) = log N(b̃; 0, G̃QG̃ + N),     Q = (LT)⁻¹K'(LT)⁻ᵀ
    E[Σ(r − gᵀw)² | b̃, G̃, c̃] ≈ ns + t,  with the noise that is known of each

are maximised over K' and s, together with a prior: each logarithm is within about one of the plan's.
Of p that are learned, p + 1 nats must be gained: otherwise the plan, which is no guess of these sums, stands.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg, optimiser
from ..core.least_squares import CentredRows
from ..core.posterior import basis
from .prior import Prior
from .private import Shape, constant_variance
from .sums import NOISY, Sums

STEPS = 8  # of finding E[wwᵀ]
SPREAD = 1.0  # of logarithms of what is learned about the plan's, as a standard deviation; by hand
REACH = 4.0  # and how far they may go


class Seen(NamedTuple):
    """Noisy sums in coordinates in which noise is alike in all directions."""

    G: Tensor  # without negative eigenvalues
    b: Tensor
    shape: Shape
    L: Tensor  # of the plan's basis
    noise_g: float  # σ_G²
    noise_b: float  # σ_b²


class Known(NamedTuple):
    """q(w) = N(w, S) and the noise covariance of b̃ − G̃w at it, by its factor."""

    w: Tensor
    S: Tensor
    C: Tensor


def _seen(total: Sums, prior: Prior) -> Seen:
    shape = Shape.of(prior, constant_variance(prior))
    half = shape.times(total.matrix())
    values, U = torch.linalg.eigh(shape.times(half.mT))
    G = (U * values.clamp_min(0)) @ U.mT
    noise_g, noise_b = (float(total.noise[NOISY.index(name)]) for name in ("G", "b"))
    return Seen(G, shape.times(total.b[:, None])[:, 0], shape, prior.basis().L, noise_g, noise_b)


def _root(seen: Seen, L: Tensor) -> Tensor:
    """A with w = Av and v ~ N(0, I), where f(Z) − m = Lv."""
    return seen.shape.without(linalg.solve_lower(seen.L, L))


def _spread(seen: Seen, noise: Tensor | float, moment: Tensor) -> Tensor:
    """N, for this E[wwᵀ]."""
    identity = torch.eye(len(seen.b), dtype=seen.b.dtype)
    return noise * seen.G + (seen.noise_b + seen.noise_g * moment.trace()) * identity + seen.noise_g * moment


def _known(seen: Seen, A: Tensor, noise: float) -> Known:
    identity = torch.eye(len(seen.b), dtype=seen.b.dtype)
    moment = A @ A.mT
    for _ in range(STEPS):
        C = linalg.cholesky(_spread(seen, noise, moment)).L
        H, rho = linalg.solve_lower(C, seen.G @ A), linalg.solve_lower(C, seen.b[:, None])[:, 0]
        D = linalg.cholesky(identity + H.mT @ H).L
        v = linalg.solve_upper(D, linalg.solve_lower(D, (H.mT @ rho)[:, None]))[:, 0]
        half = linalg.solve_lower(D, A.mT)  # S = A(I + HᵀH)⁻¹Aᵀ
        w, S = A @ v, half.mT @ half
        moment = torch.outer(w, w) + S
    return Known(w, S, C)


@torch.no_grad()
def rows(total: Sums, prior: Prior, at: Prior | None = None) -> CentredRows:
    """Pseudo-observations of v, where f(Z) − m = Lv: of the plan's L, or of that of a prior that was learned."""
    at = prior if at is None else at
    seen = _seen(total.shifted(at.mean - prior.mean), prior)
    A = _root(seen, at.basis().L)
    C = _known(seen, A, at.noise).C
    H, rho = linalg.solve_lower(C, seen.G @ A), linalg.solve_lower(C, seen.b[:, None])[:, 0]
    e = -0.5 * len(rho) * math.log(2 * math.pi) - linalg.logdet(C)
    return CentredRows(H, rho, e, torch.zeros_like(e))


@torch.no_grad()
def evidence(total: Sums, prior: Prior) -> float:
    """log N(b̃; 0, G̃² + N): what noisy sums have in place of the bound."""
    found = rows(total, prior)
    identity = torch.eye(len(found.rho), dtype=found.rho.dtype)
    return float(found.e + _log_normal(found.rho, identity + found.H @ found.H.mT))


def _log_normal(b: Tensor, covariance: Tensor) -> Tensor:
    """log N(b; 0, covariance), but for its constant."""
    A = linalg.cholesky(covariance).L
    return -0.5 * linalg.solve_lower(A, b[:, None]).square().sum() - linalg.logdet(A)


@torch.no_grad()
def learned(total: Sums, prior: Prior) -> Prior:
    """Kernel and noise that the sums speak for; the plan's, where they say too little against it."""
    seen = _seen(total, prior)
    at = _known(seen, _root(seen, seen.L), prior.noise)
    moment = torch.outer(at.w, at.w) + at.S
    on_c, on_t = (float(total.noise[NOISY.index(name)]) for name in ("c", "t"))
    # E[Σ(r − gᵀw)²] over q(w), and over what q says of the noise: E[e] = σ_b²N⁻¹ρ, E[E]w = −σ_G²(‖w‖²I + wwᵀ)N⁻¹ρ
    size = at.w.square().sum()
    rho = linalg.solve_lower(at.C, (seen.b - seen.G @ at.w)[:, None])
    half = linalg.solve_lower(at.C, torch.cat([at.w[:, None], at.S], 1))
    shared = half[:, :1].mT @ rho - (half[:, 1:] * linalg.solve_lower(at.C, seen.G)).sum()  # wᵀN⁻¹ρ − tr SN⁻¹G
    left = total.c - 2 * seen.b @ at.w + at.w @ seen.G @ at.w + (at.S * seen.G).sum()
    left = left + 2 * (seen.noise_b + seen.noise_g * size) * shared[0, 0] - total.t.clamp_min(0)
    variance = on_c + on_t + 4 * seen.noise_b * size + 2 * seen.noise_g * size.square()
    start = torch.cat([prior.x, prior.x.new_tensor([math.log(prior.noise)])])

    def height(x: Tensor) -> Tensor:
        s = x[-1].exp()
        A = _root(seen, basis(prior.kernel_at(x[:-1]), prior.Z, prior.jitter).L)
        GA = seen.G @ A
        of_b = _log_normal(seen.b, GA @ GA.mT + _spread(seen, s, moment))
        spread = variance + 2 * total.n * s.square()
        of_c = -0.5 * ((left - total.n * s).square() / spread + spread.log())
        return of_b + of_c - 0.5 * ((x - start) / SPREAD).square().sum()

    found = optimiser.maximise_one(height, [start], start - REACH, start + REACH).x
    if not bool(height(found) - height(start) > len(start) + 1):
        return prior
    return Prior.at(prior.Z, prior.kernel_at(found[:-1]), prior.mean, math.exp(float(found[-1])), prior.effects)

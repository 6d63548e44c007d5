"""Titsias' collapsed bound from sums alone: the same whoever holds the rows.

F = −(n/2)log 2πs − ½log det Ñ − c/2s + ½v̂ᵀb/s − logdet C − t/2s,   CCᵀ = I + G/s,   v̂ = (I + G/s)⁻¹b/s
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg, optimiser
from ..core.least_squares import CentredRows
from ..errors import RecycleGPError
from ..magnitudes import LARGEST
from . import noisy
from .prior import Prior
from .sums import Sums

FARTHEST = 25.0  # the noise is searched within e^±25 of where it was: any number a table can have


class Solved(NamedTuple):
    """q(v) = N(v̂, (CCᵀ)⁻¹), and the bound there."""

    v: Tensor
    C: Tensor
    bound: Tensor


def solve(total: Sums, noise: Tensor | float) -> Solved:
    """The central collapsed model; differentiable in the sums."""
    identity = torch.eye(total.points, dtype=total.b.dtype, device=total.b.device)
    s = torch.as_tensor(noise, dtype=total.b.dtype, device=total.b.device)
    C = linalg.cholesky(identity + total.matrix() / s).L
    z = linalg.solve_lower(C, total.b[:, None] / s)
    # log N(y; m1, HᵀH + sÑ), and the trace term tr Ñ⁻¹(K − HᵀH)/2s
    constant = -0.5 * total.n * (2 * math.pi * s).log() - 0.5 * total.logdet
    value = constant - 0.5 * total.c / s + 0.5 * z.square().sum() - linalg.logdet(C) - 0.5 * total.t / s
    return Solved(linalg.solve_upper(C, z)[:, 0], C, value)


def adjoint(total: Sums, noise: float) -> Sums:
    """∂F/∂(each sum): what an owner needs beside its own rows for its share of the gradient."""
    leaves = Sums(*(t.detach().clone().requires_grad_() for t in total))
    with torch.enable_grad():
        value = solve(leaves, noise).bound
        found = torch.autograd.grad(value, leaves, allow_unused=True)
    return Sums(*(torch.zeros_like(t) if g is None else g for t, g in zip(leaves, found, strict=True)))


MOST_CHANGE = LARGEST**0.5  # of a mean: sums hold its square, and their noises that of it


class Profile(NamedTuple):
    """The noise and the change of the mean at which the bound is highest, for these sums."""

    noise: float
    change: float


@torch.no_grad()
def profile(total: Sums, noise: float, *, learn_noise: bool) -> Profile:
    """With G = UΛUᵀ both are a search over one number: m̂ has a closed form for every s.

    c − bᵀ(sI + G)⁻¹b is a parabola in the change δ of the mean, with its minimum at

        δ = (a − hᵀ(sI+G)⁻¹b) / (o − hᵀ(sI+G)⁻¹h)
    """
    values, U = torch.linalg.eigh(total.matrix())
    values = values.clamp_min(0)
    beta, eta = U.mT @ total.b, U.mT @ total.h

    def change(s: Tensor) -> Tensor:
        open_ = total.o - (eta.square() / (s + values)).sum()
        return (total.a - (eta * beta / (s + values)).sum()) / open_.clamp_min(1e-300)

    def bound(x: Tensor) -> Tensor:
        s = x[0].exp()
        d = change(s)
        c = total.c - 2 * d * total.a + d**2 * total.o
        left = c - ((beta - d * eta).square() / (s + values)).sum()
        return -0.5 * (total.n * s.log() + (1 + values / s).log().sum() + (left + total.t) / s)

    start = total.b.new_tensor([math.log(noise)])
    if learn_noise:
        start = optimiser.maximise_one(
            bound, [start], start - FARTHEST, start + FARTHEST, gradient=1e-7, tolerance=0.0
        ).x
    noise = math.exp(float(start[0])) if learn_noise else noise
    found = float(change(start.new_tensor(noise)))
    if (
        not abs(found) <= MOST_CHANGE
    ):  # rows always leave some of the mean open; numbers that do not are none of a table
        raise RecycleGPError(
            "the answers leave no mean that could be: one of the owners has sent wrong numbers; ask again"
        )
    return Profile(noise, found)


@torch.no_grad()
def value(total: Sums, prior: Prior) -> float:
    """The bound; where sums are noisy, for privacy, the evidence of what is left of them."""
    return noisy.evidence(total, prior) if total.noisy else float(solve(total, prior.noise).bound)


@torch.no_grad()
def rows(total: Sums, prior: Prior) -> CentredRows:
    """The same as pseudo-observations HᵀH = G/s, Hᵀρ = b/s, of which an ensemble is made."""
    if total.noisy:
        return noisy.rows(total, prior)
    noise = prior.noise
    values, U = torch.linalg.eigh(total.matrix() / noise)
    values = values.clamp_min(0)
    kept = values > torch.finfo(values.dtype).eps * values.max()
    root = values[kept].sqrt()
    rho = (U.mT @ total.b)[kept] / (noise * root)
    # Σe = −½(n log 2πs + log det Ñ + c/s − ‖ρ‖²)
    constant = total.n * math.log(2 * math.pi * noise) + total.logdet + total.c / noise - rho.square().sum()
    return CentredRows(root[:, None] * U.mT[kept], rho, -0.5 * constant, 0.5 * total.t / noise)

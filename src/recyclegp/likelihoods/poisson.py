"""Counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import RecycleGPError
from . import quadrature
from .base import Likelihood, Moments, Scale, Tail, weighted_mean

HALVINGS = 60  # of the interval in which a mode is looked for
SPACING = 0.02  # standard deviations, of the sum for a distribution function
POINTS = 4096  # integrated at once


@dataclass(frozen=True)
class Poisson(Likelihood):
    """y ~ Poisson(exp f)."""

    name: ClassVar[str] = "poisson"

    def check(self, y: Tensor) -> Tensor:
        if bool((y < 0).any()) or bool((y != y.round()).any()):
            raise RecycleGPError(
                "y: a poisson likelihood takes counts 0, 1, 2, …; negative or fractional values were given; "
                "use likelihood='gaussian' for measurements"
            )
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        location = torch.maximum(weighted_mean(y, w), 0.5 / w.sum(-1)).log()
        return Scale(location, torch.ones_like(location))

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return y * f - f.exp() - torch.lgamma(y + 1)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return y * mean - (mean + variance / 2).exp() - torch.lgamma(y + 1)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        about = _mode(y.detach(), mean.detach(), variance.detach())
        return quadrature.log_expectation(self, y, mean, variance, about)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        rate = (mean + variance / 2).exp()
        return Moments(rate, rate + rate.square() * variance.expm1())

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        parts = [
            Tail(_up_to(y_ - 1, m_, v_), _up_to(y_, m_, v_))
            for y_, m_, v_ in zip(*(t[:, None].split(POINTS) for t in (y, mean, variance)), strict=True)
        ]
        return Tail(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        return 0.5 * torch.maximum(y, f.exp()).clamp_min(1.0).rsqrt()  # exp(−exp f) grows beyond ±iπ/2


def _up_to(k: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """P(Y ≤ k) = E[Q(k+1, eᶠ)], with Q the regularised upper incomplete gamma function."""
    z = torch.arange(-8.0, 8.0 + SPACING, SPACING, dtype=m.dtype, device=m.device)
    weight = torch.softmax(-0.5 * z.square(), 0)
    rate = (m + v.sqrt() * z).exp()
    found = torch.special.gammaincc((k + 1).clamp_min(0.5).expand_as(rate), rate)
    return torch.where(k[:, 0] < 0, 0.0, (found * weight).sum(-1))


@torch.no_grad()
def _mode(y: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """Where p(y|f) N(f; m, v) is largest: the root of y − eᶠ = (f − m)/v, by bisection."""
    known = y.clamp_min(0.5).log()
    low = torch.where(y > 0, torch.minimum(m, known), m - v * m.clamp_max(600).exp())
    high = torch.where(y > 0, torch.maximum(m, known), m)
    for _ in range(HALVINGS):
        f = 0.5 * (low + high)
        above = y - f.exp() > (f - m) / v
        low, high = torch.where(above, f, low), torch.where(above, high, f)
    return 0.5 * (low + high)

"""Counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import Argument, RecycleGPError
from . import lognormal_counts, quadrature
from .base import Likelihood, Moments, Scale, Tail, weighted_mean
from .quantiles import bisect

HALVINGS = 60  # of the interval in which a mode is looked for


class Counts(Likelihood):
    """y = 0, 1, 2, … with mean exp f: Poisson, or with a spread of its own about that."""

    counts: ClassVar[bool] = True

    def check(self, y: Tensor) -> Tensor:
        if bool((y < 0).any()) or bool((y != y.round()).any()):
            raise RecycleGPError(
                f"y: a {self.name} likelihood takes counts 0, 1, 2, …; negative or fractional values were given; use ",
                Argument("likelihood", "gaussian"),
                " for measurements",
            )
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        location = torch.maximum(weighted_mean(y, w), 0.5 / w.sum(-1)).log()
        return Scale(location, torch.ones_like(location))

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        about = _mode(y.detach(), mean.detach(), variance.detach(), self.slope)
        return quadrature.log_expectation(self, y, mean, variance, about)

    @abstractmethod
    def slope(self, y: Tensor, f: Tensor) -> Tensor:
        """∂/∂f log p(y|f), which falls in f and is zero where exp f = y."""


@dataclass(frozen=True)
class Poisson(Counts):
    """y ~ Poisson(exp f)."""

    name: ClassVar[str] = "poisson"

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return y * f - f.exp() - torch.lgamma(y + 1)

    def slope(self, y: Tensor, f: Tensor) -> Tensor:
        return y - f.exp()

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return y * mean - (mean + variance / 2).exp() - torch.lgamma(y + 1)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        rate, v = lognormal_counts.expected_rate(mean, variance)
        return Moments(rate, rate + rate.square() * v.expm1())

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        up_to = lognormal_counts.up_to
        return Tail(up_to(y - 1, mean, variance), up_to(y, mean, variance))

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return lognormal_counts.crps(y, mean, variance)

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        return 0.5 * torch.maximum(y, f.exp()).clamp_min(1.0).rsqrt()  # exp(−exp f) grows beyond ±iπ/2


@torch.no_grad()
def _mode(y: Tensor, m: Tensor, v: Tensor, slope: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Where p(y|f) N(f; m, v) is largest: the root of ∂log p/∂f = (f − m)/v, by bisection."""
    known = y.clamp_min(0.5).log()
    low = torch.where(y > 0, torch.minimum(m, known), m + v * slope(torch.zeros_like(y), m.clamp_max(600)))
    high = torch.where(y > 0, torch.maximum(m, known), m)
    low, high = bisect(low, high, lambda f: slope(y, f) > (f - m) / v, HALVINGS)
    return 0.5 * (low + high)

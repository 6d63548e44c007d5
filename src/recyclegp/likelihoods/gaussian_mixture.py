"""Measurements of somebody nobody has met: with the noise of one of those who are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import quantiles
from .base import Tail
from .gaussian import Gaussian, log_normal, mean_distance
from .quantiles import Interval

MOST = 16  # noises that are told apart


@dataclass(frozen=True)
class GaussianMixture(Gaussian):
    """y ~ Σ_k w_k N(f, noise_k). Its one parameter is the mean noise, which is the variance of y about f."""

    noises: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()  # w_k, which add up to one

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        w, total = self._each(variance)
        return torch.logsumexp(w.log() + log_normal((y - mean)[..., None], total), -1)

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        w, total = self._each(variance)
        up_to = (w * torch.special.ndtr((y - mean)[..., None] / total.sqrt())).sum(-1)
        return Tail(up_to, up_to)

    def quantile(self, p: float, mean: Tensor, variance: Tensor) -> Tensor:
        return quantiles.of_numbers(self, p, mean, variance)

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        high = self.quantile(0.5 * (1 + level), mean, variance)
        return Interval(2 * mean - high, high)  # it is symmetric about f

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        w, total = self._each(variance)
        # E|Y − y| − ½E|Y − Y'|, and E|N(0, s²)| = s√(2/π)
        between = (total[..., :, None] + total[..., None, :]).sqrt() * math.sqrt(2 / math.pi)
        apart = (w * mean_distance((y - mean)[..., None], total.sqrt())).sum(-1)
        return apart - 0.5 * (w[:, None] * w * between).sum((-2, -1))

    def _each(self, variance: Tensor) -> tuple[Tensor, Tensor]:
        """w (K,), and the variance of y for each noise (…, K)."""
        return variance.new_tensor(self.shares), variance[..., None] + variance.new_tensor(self.noises)


def mixed(noises: Sequence[float], weights: Sequence[float]) -> Gaussian:
    """The likelihood of y with one of these noises, neighbours taken together where there are many."""
    values, order = torch.tensor(noises, dtype=torch.float64).sort()
    w = torch.tensor(weights, dtype=torch.float64)[order]
    w = w / w.sum()
    mean = float(values @ w)
    if float(values[0]) == float(values[-1]):
        return Gaussian(float(values[0]))
    part = ((w.cumsum(0) - 0.5 * w) * MOST).long().clamp(0, MOST - 1)
    shares = torch.zeros(MOST, dtype=torch.float64).index_add(0, part, w)
    sums = torch.zeros(MOST, dtype=torch.float64).index_add(0, part, w * values)
    some = shares > 0
    return GaussianMixture(mean, tuple((sums[some] / shares[some]).tolist()), tuple(shares[some].tolist()))

"""Counts that vary more than Poisson's, as those of things that come in clusters do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .. import arrays
from . import lognormal_counts
from .base import Moments, Tail, Value
from .bernoulli import Bernoulli
from .poisson import Counts

LARGE = 1e4  # r from which ratios of gamma functions are better known by Stirling's series


@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """y ~ NegativeBinomial(mean μ = exp f, dispersion r): the variance of y is μ + μ²/r; Poisson where r is large.

    It is a Poisson whose rate is μ times a Gamma(r, r) variable. With x = f − log r it is a logistic likelihood,

        log p(y|f) = log Γ(y+r)/(Γ(r) y!) + y log σ(x) + r log σ(−x)
        ∂/∂f = y − (y+r)σ(x)        ∂²/∂f² = −(y+r)σ(x)σ(−x) < 0: log-concave in f
    """

    dispersion: Value = None  # r

    name: ClassVar[str] = "negative-binomial"
    parameter_names: ClassVar[tuple[str, ...]] = ("dispersion",)
    precisions: ClassVar[frozenset[str]] = frozenset({"dispersion"})

    def __post_init__(self) -> None:
        self.check_parameters()

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        r = self._r(f)
        x, log_sigmoid = f - r.log(), torch.nn.functional.logsigmoid
        return _log_binomial(y, r) + y * log_sigmoid(x) + r * log_sigmoid(-x)

    def slope(self, y: Tensor, f: Tensor) -> Tensor:
        r = self._r(f)
        return y - (y + r) * torch.sigmoid(f - r.log())

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log σ(x) = x + log σ(−x), so that E[log σ(−x)], which is a logistic likelihood's, is all that is needed."""
        r = self._r(mean)
        x = mean - r.log()
        beyond = Bernoulli().expected_log_prob(torch.zeros_like(y), x, variance)
        return _log_binomial(y, r) + y * x + (y + r) * beyond

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        rate, v = lognormal_counts.expected_rate(mean, variance)
        # E V[y|f] + V E[y|f], with E μ² = (E μ)² exp v
        spread = (v.expm1() + v.exp() / self._r(mean)).clamp_max(arrays.LARGEST)
        return Moments(rate, rate + rate.square() * spread)

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        r, up_to = self._r(mean), lognormal_counts.up_to
        return Tail(up_to(y - 1, mean, variance, r), up_to(y, mean, variance, r))

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return lognormal_counts.crps(y, mean, variance, self._r(mean))

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        r = self._r(f)
        most = torch.minimum(torch.maximum(y, f.exp()), 0.25 * (y + r))  # of the curvature thereabouts
        return 0.5 * most.clamp_min(1.0).rsqrt()

    def _r(self, like: Tensor) -> Tensor:
        return torch.as_tensor(self.dispersion, dtype=like.dtype, device=like.device)


def _log_binomial(y: Tensor, r: Tensor) -> Tensor:
    """log Γ(y+r)/(Γ(r) y!); for large r by Stirling's series, where the difference would lose its digits."""
    few, many = r.clamp_max(LARGE), r.clamp_min(LARGE)
    series = (many - 0.5) * torch.log1p(y / many) + y * (y + many).log() - y + (1 / (y + many) - 1 / many) / 12
    ratio = torch.where(r > LARGE, series, torch.lgamma(y + few) - torch.lgamma(few))
    return ratio - torch.lgamma(y + 1)

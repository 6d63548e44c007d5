"""Two classes: by the logistic sigmoid, which is the paper's, or by the normal distribution function (probit)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.special import log_ndtr

from ..errors import Argument, RecycleGPError
from . import quadrature
from .base import Likelihood, Moments, Scale
from .constants import SCALES
from .quantiles import bisect

HALVINGS = 60  # of the interval in which a mode is looked for


class TwoClasses(Likelihood):
    """Abstract."""

    classifies: ClassVar[bool] = True

    def check(self, y: Tensor) -> Tensor:
        return zero_or_one(y)

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        zeros = torch.zeros_like(w[..., 0])
        return Scale(zeros, zeros + SCALES.separation)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return quadrature.expectation(self, y, mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        p = self.log_density(torch.ones_like(mean), mean, variance).exp().clamp(0, 1)
        return Moments(p, p * (1 - p))


@dataclass(frozen=True)
class Bernoulli(TwoClasses):
    """p(y = 1) = 1 / (1 + exp(−f))."""

    name: ClassVar[str] = "bernoulli"

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid((2 * y - 1) * f)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        about = _mode(y.detach(), mean.detach(), variance.detach())
        return quadrature.log_expectation(self, y, mean, variance, about)


@dataclass(frozen=True)
class BernoulliProbit(TwoClasses):
    """p(y = 1) = Φ(f)."""

    name: ClassVar[str] = "bernoulli-probit"

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return log_ndtr((2 * y - 1) * f)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return log_ndtr((2 * y - 1) * mean / (1 + variance).sqrt())


def zero_or_one(y: Tensor) -> Tensor:
    """{0, 1}, {False, True} or {−1, 1} → {0, 1}."""
    values = set(torch.unique(y).tolist())
    if values <= {0.0, 1.0}:
        return y
    if values <= {-1.0, 1.0}:
        return (y + 1) / 2
    shown = ", ".join(f"{v:g}" for v in sorted(values)[:5])
    raise RecycleGPError(
        f"y: a bernoulli likelihood takes two classes, 0 and 1 (or −1 and 1), got {len(values)} "
        f"values ({shown}{', …' if len(values) > 5 else ''}); say which of them is 1, as ",
        Argument("positive", f"{max(values):g}"),
        ", or fit one model per class against the rest" if len(values) > 2 else "",
    )


@torch.no_grad()
def _mode(y: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """Where p(y|f) N(f; m, v) is largest: the root of y − σ(f) = (f − m)/v, by bisection, as |y − σ(f)| ≤ 1."""
    low, high = bisect(m - v, m + v, lambda f: y - torch.sigmoid(f) > (f - m) / v, HALVINGS)
    return 0.5 * (low + high)

"""Gaussian noise whose size is itself a function of the inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Expected, Interval, Scale
from .gaussian import Gaussian, log_normal, mean_distance, normal_quantile
from .joint import AmplitudePrior, JointLikelihood

FUNCTIONS = ("f", "log noise")  # in this order
LARGEST_LOG = 100.0  # of a ratio of variances: beyond it exponentials overflow, and nothing is learned from a row
REACH, NODES = 8.0, 81  # standard deviations of g that are summed over, and terms of the sum
ROWS = 512  # whose scores are computed at once
HALVINGS = 50  # of the range in which the end of an interval is looked for


@dataclass(frozen=True)
class Heteroscedastic(JointLikelihood):
    """y ~ N(f, e^g) (chained Gaussian processes, Saul et al. 2016). Both functions see y as it is."""

    name: ClassVar[str] = "heteroscedastic"
    # A few rows cannot tell that noise varies, and would publish that it does not; a merge of many could.
    amplitudes: ClassVar[tuple[AmplitudePrior | None, ...]] = (None, AmplitudePrior(math.log(2.0), 0.5))

    def check(self, y: Tensor) -> Tensor:
        return y

    def in_units(self, scale: float, shift: float) -> Heteroscedastic:
        """It has no numbers of its own; f and g change as functions."""
        return self

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        """Of f and g in turn: a third of the variance is noise before anything is known, by a factor of e or so."""
        f = Gaussian().scale_of(y, w)
        is_g = torch.arange(len(y), device=y.device) % 2 == 1
        g = 2 * f.scale.log() + math.log(0.3)
        return Scale(torch.where(is_g, g, f.location), torch.where(is_g, torch.ones_like(g), f.scale))

    def expected_jointly(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        (m_f, m_g), (v_f, v_g) = mean.unbind(-2), variance.unbind(-2)
        y = y[..., 0, :]
        # E[e^{−g}], and E[(y − f)²]
        precision = (0.5 * v_g - m_g).clamp(-LARGEST_LOG, LARGEST_LOG).exp()
        square = (y - m_f).square() + v_f
        value = -0.5 * (math.log(2 * math.pi) + m_g + square * precision)
        by_mean = torch.stack([(y - m_f) * precision, 0.5 * (square * precision - 1)], -2)
        by_variance = torch.stack([-0.5 * precision, -0.25 * square * precision], -2)
        return Expected(value, by_mean, by_variance)

    def log_density_of(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E[N(y; m_f, v_f + e^g)] over g, of moments (n, 2)."""
        log_weight, noise = _nodes(mean[:, 1], variance[:, 1])
        spread = variance[:, :1] + noise
        return torch.logsumexp(log_weight + log_normal((y - mean[:, 0])[:, None], spread), -1)

    def distribution_of(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """P(Y ≤ y), of moments (n, 2)."""
        log_weight, noise = _nodes(mean[:, 1], variance[:, 1])
        standard = (y - mean[:, 0])[:, None] / (variance[:, :1] + noise).sqrt()
        return (log_weight.exp() * torch.special.ndtr(standard)).sum(-1)

    def crps_of(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E|Y − y| − ½E|Y − Y'|, of moments (n, 2): Y is a mixture of Gaussians."""
        found = []
        for y_, m, v in zip(*(t.split(ROWS) for t in (y, mean, variance)), strict=True):
            log_weight, noise = _nodes(m[:, 1], v[:, 1])
            w, spread = log_weight.exp(), v[:, :1] + noise
            apart = ((spread[:, :, None] + spread[:, None, :]) / (2 * math.pi)).sqrt() @ w @ w
            found.append((mean_distance((y_ - m[:, 0])[:, None], spread.sqrt()) * w).sum(-1) - apart)
        return torch.cat(found) if found else y

    def interval_of(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        """Symmetric about the mean: the half-width at which the distribution has what is wanted, by halving."""
        _, noise = _nodes(mean[:, 1], variance[:, 1])
        low = torch.zeros_like(mean[:, 0])
        high = normal_quantile(0.5 * (1 + level)) * (variance[:, 0] + noise.amax(-1)).sqrt()
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            short = self.distribution_of(mean[:, 0] + middle, mean, variance) < 0.5 * (1 + level)
            low, high = torch.where(short, middle, low), torch.where(short, high, middle)
        return Interval(mean[:, 0] - high, mean[:, 0] + high)


def _nodes(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Log-weights and e^g on a trapezoid sum over g ~ N(mean, variance): (n, J)."""
    z = torch.linspace(-REACH, REACH, NODES, dtype=mean.dtype, device=mean.device)
    log_weight = torch.log_softmax(-0.5 * z.square(), -1)
    g = mean[:, None] + variance.sqrt()[:, None] * z
    return log_weight, g.clamp(-2 * LARGEST_LOG, 2 * LARGEST_LOG).exp()

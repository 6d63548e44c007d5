"""Gaussian noise whose size is itself a function of the inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import arrays
from ..errors import Name, RecycleGPError
from .base import Change, Expected, Moments, Scale, Tail
from .constants import SCALES, AmplitudePrior
from .gaussian import Gaussian, log_normal, mean_distance, normal_quantile
from .quantiles import Interval, bisect
from .several import SeveralFunctions

FUNCTIONS = ("f", "log noise")  # in this order
LARGEST_LOG = 100.0  # of a ratio of variances: beyond it exponentials overflow, and nothing is learned from a row
REACH, NODES = 8.0, 81  # standard deviations of g that are summed over, and terms of the sum
ROWS = 512  # whose scores are computed at once
HALVINGS = 50  # of the range in which the end of an interval is looked for


@dataclass(frozen=True)
class Heteroscedastic(SeveralFunctions):
    """y ~ N(f, e^g) (chained Gaussian processes, Saul et al. 2016). Both functions see y as it is."""

    alone: str | None = None  # which of the functions, where it is one of them by itself

    name: ClassVar[str] = "heteroscedastic"
    amplitudes: ClassVar[tuple[AmplitudePrior | None, ...]] = (None, SCALES.log_noise)

    @property
    def functions(self) -> tuple[str, ...]:
        return FUNCTIONS if self.alone is None else (self.alone,)

    @property
    def meaning(self) -> str:
        return "varying noise"

    @property
    def parts(self) -> tuple[Heteroscedastic, ...]:
        return tuple(map(Heteroscedastic, self.functions))

    def check(self, y: Tensor) -> Tensor:
        return y

    def seen_by_functions(self, y: Tensor) -> Tensor:
        """Both see all of it."""
        return torch.stack([y, y])

    def in_units(self, scale: float, shift: float) -> Heteroscedastic:
        """It has no numbers of its own; f and g change as functions."""
        return self

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        """Of f and g in turn: a third of the variance is noise before anything is known, by a factor of e or so."""
        f = Gaussian().scale_of(y, w)
        is_g = torch.arange(len(y), device=y.device) % 2 == 1
        g = 2 * f.scale.log() + math.log(SCALES.noise)
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

    # --- a whole model ---

    def observed(self, at: Moments) -> Moments:
        # E[e^g] = exp(m + v/2)
        noise = _variance(at.mean[:, 1] + 0.5 * at.variance[:, 1])
        return Moments(at.mean[:, 0], at.variance[:, 0] + noise)

    def noise_at(self, at: Moments) -> Tensor:
        return _variance(at.mean[:, 1])

    def log_density_at(self, y: Tensor, at: Moments) -> Tensor:
        """log E[N(y; m_f, v_f + e^g)] over g."""
        log_weight, noise = _nodes(at.mean[:, 1], at.variance[:, 1])
        spread = at.variance[:, :1] + noise
        return torch.logsumexp(log_weight + log_normal((y - at.mean[:, 0])[:, None], spread), -1)

    def distribution_at(self, y: Tensor, at: Moments) -> Tail:
        log_weight, noise = _nodes(at.mean[:, 1], at.variance[:, 1])
        standard = (y - at.mean[:, 0])[:, None] / (at.variance[:, :1] + noise).sqrt()
        up_to = (log_weight.exp() * torch.special.ndtr(standard)).sum(-1)
        return Tail(up_to, up_to)

    def crps_at(self, y: Tensor, at: Moments) -> Tensor:
        """E|Y − y| − ½E|Y − Y'|: Y is a mixture of Gaussians."""
        found = []
        for y_, m, v in zip(*(t.split(ROWS) for t in (y, at.mean, at.variance)), strict=True):
            log_weight, noise = _nodes(m[:, 1], v[:, 1])
            w, spread = log_weight.exp(), v[:, :1] + noise
            apart = ((spread[:, :, None] + spread[:, None, :]) / (2 * math.pi)).sqrt() @ w @ w
            found.append((mean_distance((y_ - m[:, 0])[:, None], spread.sqrt()) * w).sum(-1) - apart)
        return torch.cat(found) if found else y

    def interval_at(self, at: Moments, level: float) -> Interval:
        """Symmetric about the mean: the half-width at which the distribution has what is wanted, by halving."""
        _, noise = _nodes(at.mean[:, 1], at.variance[:, 1])
        mean, widest = at.mean[:, 0], (at.variance[:, 0] + noise.amax(-1)).sqrt()

        def too_short(half: Tensor) -> Tensor:
            return self.distribution_at(mean + half, at).up_to < 0.5 * (1 + level)

        half = bisect(torch.zeros_like(mean), normal_quantile(0.5 * (1 + level)) * widest, too_short, HALVINGS).high
        return Interval(mean - half, mean + half)

    def quantile_at(self, p: float, at: Moments) -> Tensor:
        low, high = self.interval_at(at, abs(2 * p - 1))  # Y is symmetric about its mean
        return high if p > 0.5 else low

    def changes(self, scale: Any, shift: Any, unit: Any) -> list[Change]:
        """e^g is a variance: g is shifted by log s²."""
        for argument, value in (("output_scale", scale), ("output_shift", shift)):
            if isinstance(value, dict):
                raise RecycleGPError(
                    Name(argument), f": only outputs have names, and this model has {self.meaning}; give one value"
                )
        own = Gaussian().changes(scale, shift, unit)[0]
        return [own, Change(1.0, 2 * math.log(abs(own.scale)), unit)]


def _variance(logarithm: Tensor) -> Tensor:
    """A finite number, whatever a file says of g."""
    return logarithm.clamp_max(math.log(arrays.LARGEST)).exp()


def _nodes(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Log-weights and e^g on a trapezoid sum over g ~ N(mean, variance): (n, J)."""
    z = torch.linspace(-REACH, REACH, NODES, dtype=mean.dtype, device=mean.device)
    log_weight = torch.log_softmax(-0.5 * z.square(), -1)
    g = mean[:, None] + variance.sqrt()[:, None] * z
    return log_weight, g.clamp(-2 * LARGEST_LOG, 2 * LARGEST_LOG).exp()

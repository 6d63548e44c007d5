"""Positive measurements whose errors are factors: log y has Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import arrays
from ..errors import Argument, RecycleGPError
from . import lognormal_counts
from .base import Change, Moments, Tail
from .gaussian import Gaussian
from .gaussian_mixture import GaussianMixture
from .quantiles import Interval

SMALLEST = math.exp(-700.0)  # of a y in a distribution function: below it there is nothing


@dataclass(frozen=True)
class Lognormal(Gaussian):
    """log y ~ N(f, noise): everything that is learned, published and merged is that of a Gaussian log y.

    Its noise is a variance of log y: √noise is about the relative error of y. Other units of y shift f by the logarithm
    of their factor. A noise that is one of several, as for new owners, is a mixture on the scale of log y; the mean and
    the variance of y are then those at the mean noise, as an uncertain noise leaves a log-normal without moments.
    """

    noises: tuple[float, ...] = ()  # of a mixture, as in `GaussianMixture`
    shares: tuple[float, ...] = ()

    name: ClassVar[str] = "lognormal"

    @property
    def of_seen(self) -> Gaussian:
        """Of log y."""
        if self.noises:
            return GaussianMixture(self.noise, self.noises, self.shares)
        return Gaussian(self.noise)

    def with_noise(self, noise: Gaussian) -> Lognormal:
        if isinstance(noise, GaussianMixture):
            return Lognormal(noise.noise, noise.noises, noise.shares)
        return Lognormal(noise.noise)

    def check(self, y: Tensor) -> Tensor:
        wrong = int((y <= 0).sum())
        if wrong:
            raise RecycleGPError(
                f"y: a {self.name} likelihood takes positive numbers, and {wrong} of {len(y)} are zero or negative; "
                "leave those rows out, or use ",
                Argument("likelihood", "gaussian"),
            )
        return y

    def seen(self, y: Tensor) -> Tensor:
        return y.log()

    def from_seen(self, seen: Tensor) -> Tensor:
        return seen.clamp_max(lognormal_counts.LARGEST_LOG).exp()

    # --- of y itself; log_prob and expected_log_prob are of what f sees, log y ---

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        # p(y) = p(log y) · |d log y/dy| = p(log y)/y
        log_y = y.log()
        return self.of_seen.log_density(log_y, mean, variance) - log_y

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        # E[y] = exp(m + s/2) and V[y] = E[y]²(eˢ − 1) of log y ~ N(m, s), s = v + σ²
        expected, s = lognormal_counts.expected_rate(mean, variance + self._noise(mean))
        return Moments(expected, (expected.square() * s.expm1()).clamp_max(arrays.LARGEST))

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        return self.of_seen.distribution(y.clamp_min(SMALLEST).log(), mean, variance)

    def quantile(self, p: float, mean: Tensor, variance: Tensor) -> Tensor:
        return self.from_seen(self.of_seen.quantile(p, mean, variance))

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        return Interval(*map(self.from_seen, self.of_seen.interval(mean, variance, level)))

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E|Y − y| − ½E|Y − Y'| = y(2F₀ − 1) − 2E[Y](F₁ + Φ(√(s/2)) − 1), s = v + σ².

        F₀ = P(Y ≤ y), and F₁ is the same of N(m + s, s): E[Y; Y ≤ y] = E[Y]·F₁. At the mean noise.
        """
        s = variance + self._noise(mean)
        expected, _ = lognormal_counts.expected_rate(mean, s)
        z = (y.log() - mean) / s.sqrt()
        up_to, shifted = torch.special.ndtr(z), torch.special.ndtr(z - s.sqrt())
        return y * (2 * up_to - 1) - 2 * expected * (shifted + torch.special.ndtr((s / 2).sqrt()) - 1)

    def noise_at(self, at: Moments) -> Tensor:
        """V[y|f] where f is its mean."""
        return self.moments(at.mean[:, 0], torch.zeros_like(at.variance[:, 0])).variance

    # --- units ---

    def changes(self, scale: Any, shift: Any, unit: Any) -> list[Change]:
        return [change_of_logarithm(super().changes(scale, shift, unit)[0], self.name)]

    def change_of_y(self, scale: float, shift: float) -> Change | None:
        return factor_of_y(scale, shift)


def change_of_logarithm(of_y: Change, likelihood: str) -> Change:
    """What s·y does to log y: it is shifted by log s."""
    if of_y.scale <= 0 or of_y.shift != 0:
        wrong = Argument("output_scale", of_y.scale) if of_y.scale <= 0 else Argument("output_shift", of_y.shift)
        raise RecycleGPError(
            wrong, f": y of likelihood {likelihood!r} is positive in any unit; pass a positive factor, and no shift"
        )
    return Change(1.0, math.log(of_y.scale), of_y.unit)


def factor_of_y(scale: float, shift: float) -> Change | None:
    """The change of y that makes scale·f + shift of f = log y, if there is one."""
    return Change(math.exp(shift)) if scale == 1 else None

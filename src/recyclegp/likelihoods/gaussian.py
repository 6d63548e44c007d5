"""Measurements with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from .base import Likelihood, Moments, Scale, Tail, Value, weighted_mean
from .quantiles import Interval


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """y ~ N(f, noise)."""

    noise: Value = None  # a variance, in the units of y²

    name: ClassVar[str] = "gaussian"
    parameter_names: ClassVar[tuple[str, ...]] = ("noise",)
    conjugate: ClassVar[bool] = True
    has_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (type(self.noise) is float and 0 < self.noise < math.inf):  # so is nearly every one, of very many
            self.check_parameters()

    @property
    def values(self) -> tuple[Any, ...]:
        return (self.noise,)

    @property
    def parameters(self) -> tuple[float, ...]:
        return () if self.noise is None else (float(self.noise),)

    def each_with_values(self, values: Sequence[Sequence[float]]) -> list[Gaussian]:
        """They are checked together: of fifty thousand, that is most of the time."""
        wrong = any([len(row) != 1 or type(row[0]) is not float or not 0 < row[0] < math.inf for row in values])
        if wrong or type(self) is not Gaussian:
            return super().each_with_values(values)
        several = [object.__new__(Gaussian) for _ in values]
        for one, (noise,) in zip(several, values, strict=True):
            one.__dict__["noise"] = noise
        return several

    def in_units(self, scale: float, shift: float) -> Gaussian:
        return self if self.noise is None or scale == 1 else self.with_noise(Gaussian(self.noise * scale**2))

    def with_noise(self, noise: Gaussian) -> Gaussian:
        """The same family with the noise of another."""
        return noise

    def check(self, y: Tensor) -> Tensor:
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        location = weighted_mean(y, w)
        spread = weighted_mean((y - location[:, None]).square(), w).sqrt()
        return Scale(location, unless_constant(spread, y, location))

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return log_normal(y - f, self._noise(f))

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        noise = self._noise(mean)
        return log_normal(y - mean, noise) - 0.5 * variance / noise

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return log_normal(y - mean, variance + self._noise(mean))

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        return Moments(mean, variance + self._noise(mean))

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        up_to = torch.special.ndtr((y - mean) / (variance + self._noise(mean)).sqrt())
        return Tail(up_to, up_to)

    def quantile(self, p: float, mean: Tensor, variance: Tensor) -> Tensor:
        return mean + normal_quantile(p) * (variance + self._noise(mean)).sqrt()

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        half = normal_quantile(0.5 * (1 + level)) * (variance + self._noise(mean)).sqrt()
        return Interval(mean - half, mean + half)

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        sd = (variance + self._noise(mean)).sqrt()
        return mean_distance(y - mean, sd) - sd / math.sqrt(math.pi)  # E|Y − y| − ½E|Y − Y'|

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        return self._noise(f).sqrt().expand_as(y)

    def _noise(self, like: Tensor) -> Tensor:
        return torch.as_tensor(self.noise, dtype=like.dtype, device=like.device)


def gaussian_noise(likelihood: Likelihood) -> Tensor:
    """The noise variance of a likelihood that must be Gaussian, for methods that know no other."""
    if not isinstance(likelihood, Gaussian) or likelihood.noise is None:
        raise TypeError(f"this method needs gaussian data with a known noise, not {likelihood}")
    return torch.as_tensor(likelihood.noise, dtype=torch.float64)


def log_normal(difference: Tensor, variance: Tensor) -> Tensor:
    """log N(d; 0, variance)."""
    return -0.5 * (math.log(2 * math.pi) + variance.log() + difference.square() / variance)


def mean_distance(d: Tensor, sd: Tensor) -> Tensor:
    """E|Y − d| of Y ~ N(0, sd²): d(2Φ(z) − 1) + 2·sd·φ(z) with z = d/sd."""
    z = d / sd
    return d * torch.special.erf(z / math.sqrt(2)) + sd * math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp()


def normal_quantile(p: float) -> float:
    """Φ⁻¹(p): 1.96 for the central 95% interval's p = 0.975."""
    return float(torch.special.ndtri(torch.tensor(p, dtype=torch.float64)))


def unless_constant(spread: Tensor, y: Tensor, location: Tensor) -> Tensor:
    """A constant y says nothing of its own scale: its size is the only guess."""
    constant = spread <= 1e-14 * y.abs().amax(-1)
    fallback = torch.where(location == 0, torch.ones_like(location), location.abs())
    return torch.where(constant, fallback, spread)

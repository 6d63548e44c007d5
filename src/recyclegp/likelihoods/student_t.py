"""Measurements with outliers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from . import quadrature
from .base import Likelihood, Moments, Scale, Tail, Value, weighted_mean
from .gaussian import log_normal, mean_distance, unless_constant
from .quantiles import Interval, bisect

NODES = 2001  # of the sum for the distribution function
POINTS = 4096  # whose distribution is integrated at once
VALUES = 2**22  # of an integrand, held at once
NEARLY_GAUSSIAN = 200.0  # degrees of freedom from which the mixture below is a narrow peak
GRID = 128  # variances at which a quantile is solved for, or a score computed
HALVINGS = 45  # of its bracket
WIDEST = 1e6  # of that bracket, in scales; Cauchy's 97.5% is at 13
TAIL = 160  # distances at which a tail is integrated,
FARTHEST = 25.0  # up to sinh of it, in scales


@dataclass(frozen=True)
class StudentT(Likelihood):
    """y = f + √noise · t, t with so many degrees of freedom."""

    noise: Value = None  # the squared scale, in the units of y²
    df: Value = None

    name: ClassVar[str] = "student-t"
    parameter_names: ClassVar[tuple[str, ...]] = ("noise", "df")
    log_concave: ClassVar[bool] = False
    has_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_parameters()

    def in_units(self, scale: float, shift: float) -> StudentT:
        return self if self.noise is None else StudentT(self.noise * scale**2, self.df)

    def check(self, y: Tensor) -> Tensor:
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        """The median and its distance from the data, as outliers must not set the scale."""
        middle = weighted_mean(y, w)
        spread = weighted_mean((y - middle[:, None]).square(), w).sqrt()
        location = _median(y, w)
        robust = 1.4826 * _median((y - location[:, None]).abs(), w)
        return Scale(location, unless_constant(torch.where(robust > 0, robust, spread), y, location))

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        noise, df = self._parameters(f)
        constant = _log_gamma_ratio(df / 2) - 0.5 * (math.log(math.pi) + df.log() + noise.log())
        return constant - (df + 1) / 2 * torch.log1p((y - f).square() / (noise * df))

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return quadrature.expectation(self, y, mean, variance)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """A Gaussian whose precision w is Gamma(ν/2, ν/2): ∫ p(w) N(y; m, v + s²/w) dw, over t = log w."""
        noise, df = self._parameters(mean)
        return _in_parts(partial(_mixture, noise=noise, half=0.5 * df), y, mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        noise, df = self._parameters(mean)
        more = torch.where(df > 2, noise * df / (df - 2).clamp_min(1e-300), torch.inf)
        return Moments(mean, (variance + more).clamp_max(arrays.LARGEST))  # which stands for one that is infinite

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        noise, df = self._parameters(mean)
        up_to = _in_parts(partial(_distribution, noise=noise, half=0.5 * float(df)), y, mean, variance)
        return Tail(up_to, up_to)

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        """Its half-width is a smooth function of the variance alone, so that a table of it serves all points."""
        noise, df = self._parameters(mean)
        log_v = variance.clamp_min(1e-12 * float(noise)).log()
        grid = _spanning(log_v)

        def too_short(half: Tensor) -> Tensor:
            found = _distribution(half[:, None], grid.new_zeros(1), grid.exp()[:, None], noise, 0.5 * float(df))
            return ~(found >= 0.5 * (1 + level))

        widest = WIDEST * (grid.exp() + noise).sqrt()
        half = _interpolated(log_v, grid, bisect(torch.zeros_like(grid), widest, too_short, HALVINGS).high)
        return Interval(mean - half, mean + half)

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """2∫₀^∞ (1 − F(x))² dx + ∫₀^d (2F(x) − 1) dx for a symmetric F about the mean, d = |y − mean|."""
        noise, df = self._parameters(mean)
        if not len(mean):
            return mean
        distances = _in_parts(partial(_mean_distances, noise=noise, half=0.5 * float(df)), (y - mean).abs(), variance)
        return distances + self._at_the_mean(variance)

    def _at_the_mean(self, variance: Tensor) -> Tensor:
        """CRPS of y = mean: as the half-width of intervals, a smooth function of the variance alone."""
        noise, df = self._parameters(variance)
        log_v = variance.clamp_min(1e-12 * float(noise)).log()
        grid = log_v if len(log_v) <= GRID else _spanning(log_v)
        sd = (grid.exp() + noise).sqrt()
        u, du = (torch.as_tensor(t, dtype=sd.dtype, device=sd.device) for t in np.polynomial.legendre.leggauss(TAIL))
        u, du = 0.5 * FARTHEST * (u + 1), 0.5 * FARTHEST * du  # x = sd·sinh u
        x, dx = sd[:, None] * u.sinh(), sd[:, None] * u.cosh() * du
        beyond = torch.stack(
            [
                _distribution(-far[:, None], far.new_zeros(1), v, noise, 0.5 * float(df))
                for far, v in zip(x, grid.exp(), strict=True)
            ]
        )
        found = 2 * (beyond.square() * dx).sum(-1)
        return found if grid is log_v else _interpolated(log_v, grid, found)

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        noise, df = self._parameters(f)
        return ((noise * df).sqrt() / math.pi).expand_as(y)  # poles at ±i·s√ν

    def _parameters(self, like: Tensor) -> tuple[Tensor, Tensor]:
        noise, df = (torch.as_tensor(v, dtype=like.dtype, device=like.device) for v in (self.noise, self.df))
        return noise, df


def _in_parts(integral: Callable[..., Tensor], *columns: Tensor) -> Tensor:
    """An integral at each point, of some points (k, 1) at a time."""
    return torch.cat([integral(*part) for part in zip(*(t[:, None].split(POINTS) for t in columns), strict=True)])


def _median(y: Tensor, w: Tensor) -> Tensor:
    """Of the real rows of each model; of an even number the mean of the middle two, as the median of −y must be."""
    return torch.where(w > 0, y, torch.nan).nanquantile(0.5, dim=-1)


def _log_gamma_ratio(a: Tensor) -> Tensor:
    """log Γ(a + ½) − log Γ(a); for large a by its series, where the difference would lose all digits."""
    large = a.clamp_min(50.0)
    series = 0.5 * large.log() - 1 / (8 * large) + 1 / (192 * large**3) - 1 / (640 * large**5)
    return torch.where(a > 50.0, series, torch.lgamma(a + 0.5) - torch.lgamma(a))


def _log_gamma_constant(half: float) -> float:
    """log of h^h e^(−h) / Γ(h): the density of t = log w is this times exp(h·(t − eᵗ + 1))."""
    if half > 50.0:  # Stirling's series
        return 0.5 * math.log(half / (2 * math.pi)) - 1 / (12 * half) + 1 / (360 * half**3) - 1 / (1260 * half**5)
    return half * math.log(half) - half - math.lgamma(half)


def _mixture(y: Tensor, m: Tensor, v: Tensor, noise: Tensor, half: Tensor) -> Tensor:
    """log ∫ p(t) N(y; m, v + s²e^(−t)) dt for y, m, v (n, 1)."""
    h = float(half)
    if 2 * h >= NEARLY_GAUSSIAN:
        # a peak of width 1/√(h eᵗ) about the mode of the integrand, which lies below zero for an outlier
        mode = _mode(y, m, v, noise, h)
        sd = (h * mode.exp()).rsqrt()
        z = torch.arange(-14.0, 14.25, 0.25, dtype=m.dtype, device=m.device)
        t, spacing = mode + sd * z, 0.25 * sd[:, 0]
    else:  # log w has standard deviation about √(1/h), and a tail to the left that outliers live in
        step = min(0.25, 0.5 / math.sqrt(h))
        t = torch.arange(-60.0, 6.0, step, dtype=m.dtype, device=m.device)[None]
        spacing = m.new_tensor([step])
    found = []
    for y_, m_, v_, t_ in zip(
        *(a.split(max(1, VALUES // t.shape[1])) for a in (y, m, v, t.expand(len(y), -1))), strict=True
    ):
        # eᵗ − 1 − t is small where h is large
        log_p = h * (t_ - t_.expm1()) + _log_gamma_constant(h)
        found.append(torch.logsumexp(log_p + log_normal(y_ - m_, v_ + noise * (-t_).exp()), -1))
    return torch.cat(found) + spacing.log()


@torch.no_grad()
def _mode(y: Tensor, m: Tensor, v: Tensor, noise: Tensor, h: float) -> Tensor:
    """Of h(t − eᵗ) + log N(y; m, v + s²e^(−t)) in t, by bisection of its slope."""
    square = (y - m).square()
    low, high = -2.0 - (1 + square / noise).log(), torch.full_like(square, 1.0)

    def rises(t: Tensor) -> Tensor:
        part = noise * (-t).exp()
        total = v + part
        return -h * t.expm1() + 0.5 * part / total * (1 - square / total) > 0

    low, high = bisect(low, high, rises, 60)
    return 0.5 * (low + high)


def _spanning(values: Tensor) -> Tensor:
    """A few evenly spaced numbers from the least of them to the largest."""
    return torch.linspace(
        float(values.min()), float(values.max()) + 1e-9, GRID, dtype=values.dtype, device=values.device
    )


def _interpolated(at: Tensor, known: Tensor, values: Tensor) -> Tensor:
    """What is known at a few places, at others between them."""
    x, places, numbers = (t.cpu().numpy() for t in (at, known, values))
    return torch.as_tensor(np.interp(x, places, numbers), device=at.device)


def _distribution(y: Tensor, m: Tensor, v: Tensor, noise: Tensor, half: float) -> Tensor:
    """P(Y ≤ y) = ∫ Φ((y−m)/√(v + s²/w)) p(w) dw."""
    t, weight = _log_precisions(m, half)
    return (torch.special.ndtr((y - m) / (v + noise * (-t).exp()).sqrt()) * weight).sum(-1)


def _mean_distances(d: Tensor, v: Tensor, noise: Tensor, half: float) -> Tensor:
    """∫₀^d (2P(Y ≤ m + x) − 1) dx = E|Y − m − d| − E|Y − m|, under each Gaussian of the mixture."""
    t, weight = _log_precisions(d, half)
    sd = (v + noise * (-t).exp()).sqrt()
    return ((mean_distance(d, sd) - sd * math.sqrt(2 / math.pi)) * weight).sum(-1)


def _log_precisions(like: Tensor, half: float) -> tuple[Tensor, Tensor]:
    """t = log w of the mixture and their weights: p(t) ∝ exp(ν/2·(t − eᵗ)), normalised so that constants cancel."""
    low = -80 / (half + 1)  # beyond it p(t) ∝ exp(νt/2) is nothing
    t = torch.linspace(
        min(low, -12 / math.sqrt(half)), 12 / math.sqrt(half), NODES, dtype=like.dtype, device=like.device
    )
    return t, torch.softmax(half * (t - t.expm1()), 0)

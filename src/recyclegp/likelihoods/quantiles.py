"""The inverse of a predictive distribution function: bisection, with Newton's steps where they stay inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

WIDENINGS = 200  # of a bracket, each by a factor of two
STEPS = 200  # within it
NEAR = 1e-13  # of the bracket's first width: where to stop


class Interval(NamedTuple):
    low: Tensor
    high: Tensor


def bisect(low: Tensor, high: Tensor, below: Callable[[Tensor], Tensor], halvings: int) -> Interval:
    """The bracket of where `below` changes from true to false, halved so often."""
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        still = below(middle)
        low, high = torch.where(still, middle, low), torch.where(still, high, middle)
    return Interval(low, high)


class PredictiveLikelihood(Protocol):
    """What must be known of a likelihood."""

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]: ...

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor: ...

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]: ...

    def resolution(self, y: Tensor, f: Tensor) -> Tensor: ...


def of_numbers(likelihood: PredictiveLikelihood, p: float, mean: Tensor, variance: Tensor) -> Tensor:
    """y with P(Y ≤ y) = p, for a continuous Y; its derivatives are those of the inverse."""
    found = _of_numbers(likelihood, p, mean.detach(), variance.detach())
    if not (mean.requires_grad or variance.requires_grad):
        return found
    # one more of Newton's steps moves nothing, but has the gradient −∂P/∂(mean, variance) / p(y)
    density = likelihood.log_density(found, mean.detach(), variance.detach()).exp()
    return found - (likelihood.distribution(found, mean, variance)[1] - p) / density


@torch.no_grad()
def _of_numbers(likelihood: PredictiveLikelihood, p: float, mean: Tensor, variance: Tensor) -> Tensor:
    def up_to(y: Tensor) -> Tensor:
        return likelihood.distribution(y, mean, variance)[1]

    width = variance.sqrt() + likelihood.resolution(mean, mean)
    low, high = mean - width, mean + width
    for _ in range(WIDENINGS):
        above, below = up_to(low) >= p, up_to(high) < p
        if not bool((above | below).any()):
            break
        low, high = torch.where(above, 2 * low - mean, low), torch.where(below, 2 * high - mean, high)
    y = 0.5 * (low + high)
    for _ in range(STEPS):
        excess = up_to(y) - p
        low, high = torch.where(excess < 0, y, low), torch.where(excess < 0, high, y)
        guess = y - excess / likelihood.log_density(y, mean, variance).exp()
        inside = (guess > low) & (guess < high)
        following = torch.where(inside, guess, 0.5 * (low + high))
        moved = (following - y).abs()
        y = following
        if bool((moved <= NEAR * width).all()):
            break
    return y


@torch.no_grad()
def of_counts(likelihood: PredictiveLikelihood, p: float, mean: Tensor, variance: Tensor) -> Tensor:
    """The smallest count y with P(Y ≤ y) ≥ p."""

    def enough(y: Tensor) -> Tensor:
        return likelihood.distribution(y, mean, variance)[1] >= p

    low, high = torch.full_like(mean, -1.0), likelihood.moments(mean, variance)[0].ceil()
    for _ in range(WIDENINGS):
        holds = enough(high)
        if bool(holds.all()):
            break
        low, high = torch.where(holds, low, high), torch.where(holds, high, 2 * high + 1)
    while True:
        middle = (0.5 * (low + high)).floor()
        # beyond 2⁵³ numbers are further apart than one, and there is none between two neighbours
        going = (high - low > 1) & (middle > low) & (middle < high)
        if not bool(going.any()):
            return high
        holds = enough(middle)
        low, high = torch.where(going & ~holds, middle, low), torch.where(going & holds, middle, high)

"""A new y at some rows: a likelihood, and what is known of its functions there.

Of somebody nobody has met f is a mixture: how much owners differ is known from few of them. Then f has one of several
Gaussians at each row, and y what follows from each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from . import quantiles
from .base import Likelihood, Moments, Tail
from .outputs import Outputs
from .quantiles import Interval


class Observed(NamedTuple):
    likelihood: Likelihood
    at: Moments  # of all functions, (n, C)
    ways: tuple[Moments, ...] = ()  # of a mixture, which has these moments all in all;
    weights: tuple[float, ...] = ()  # each with its probability

    def map(self, change: Callable[[Tensor], Tensor]) -> Observed:
        """With all moments changed in the same way: moved, or some of the rows."""
        at, *ways = (Moments(change(m.mean), change(m.variance)) for m in (self.at, *self.ways))
        return self._replace(at=at, ways=tuple(ways))

    def moments(self) -> Moments:
        """Of y."""
        if not self.ways:
            return self.likelihood.observed(self.at)
        each = [self.likelihood.observed(way) for way in self.ways]
        mean = self._average([own.mean for own in each])
        # E V[y|way] + V E[y|way]
        return Moments(mean, self._average([own.variance + (own.mean - mean).square() for own in each]))

    def probabilities(self) -> Tensor:
        """(n, number of classes)."""
        return self._averaged(self.likelihood.probabilities)

    def log_density(self, y: Tensor) -> Tensor:
        """log p(y) of observations that `targets` has checked."""
        if not self.ways:
            return self.likelihood.log_density_at(y, self.at)
        each = torch.stack([self.likelihood.log_density_at(y, way) for way in self.ways], -1)
        return torch.logsumexp(each + each.new_tensor(self.weights).log(), -1)

    def distribution(self, y: Tensor) -> Tail:
        """P(Y < y) and P(Y ≤ y)."""
        if not self.ways:
            return self.likelihood.distribution_at(y, self.at)
        each = zip(*(self.likelihood.distribution_at(y, way) for way in self.ways), strict=True)
        return Tail(*(self._average(part) for part in each))

    def survival(self, y: Tensor) -> Tensor:
        """P(Y > y) of a new Y."""
        return self._averaged(lambda at: self.likelihood.survival_at(y, at))

    def quantile(self, p: float) -> Tensor:
        """The smallest y with P(Y ≤ y) ≥ p."""
        if self.ways and self.likelihood.ordered:
            return self.likelihood.quantile_among(p, self.probabilities())
        if not self.ways or self.likelihood.classifies:
            return self.likelihood.quantile_at(p, self.at)
        if isinstance(self.likelihood, Outputs):
            return torch.stack([own.quantile(p) for own in self.outputs()], -1)
        if self.likelihood.of_seen is not self.likelihood:  # the same quantile, of what f sees
            return self.likelihood.from_seen(self._replace(likelihood=self.likelihood.of_seen).quantile(p))
        find = quantiles.of_counts if self.likelihood.counts else quantiles.of_numbers
        return find(_Mixture(self), p, self.at.mean[:, 0], self.at.variance[:, 0])

    def interval(self, level: float) -> Interval:
        """The central interval that holds y with this probability; of counts, at least with this one."""
        if not self.ways or (self.likelihood.classifies and not self.likelihood.ordered):
            return self.likelihood.interval_at(self.at, level)
        return Interval(*(self.quantile(0.5 * (1 + side * level)) for side in (-1, 1)))

    def outputs(self) -> list[Observed]:
        """Each output by itself."""
        return [
            self.map(lambda t: t[:, c : c + 1])._replace(likelihood=own)  # noqa: B023 (called at once)
            for c, own in enumerate(self.likelihood.parts)
        ]

    def _averaged(self, question: Callable[[Moments], Tensor]) -> Tensor:
        return self._average([question(way) for way in self.ways]) if self.ways else question(self.at)

    def _average(self, each: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
        return torch.stack(list(each), -1) @ each[0].new_tensor(self.weights)


class _Mixture(NamedTuple):
    """As a search for quantiles asks; moments of f only tell it where to begin."""

    observed: Observed

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        return self.observed.distribution(y)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return self.observed.log_density(y)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        return self.observed.moments()

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        return self.observed.likelihood.resolution(y, f)

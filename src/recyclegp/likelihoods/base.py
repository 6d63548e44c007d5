"""What every likelihood p(y|f) can be asked. One class for each family; nobody asks for its name.

A likelihood is a frozen value. Its parameters are numbers in the user's units, None where they are not known, or
tensors where many models are worked on side by side: whatever they are, they broadcast against y and f.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from ..errors import RecycleGPError
from . import quantiles

Value = float | Tensor | None
POINTS = 2**14  # data points differentiated at once


class Moments(NamedTuple):
    mean: Tensor
    variance: Tensor


class Tail(NamedTuple):
    """P(Y < y) and P(Y ≤ y); equal where Y is continuous."""

    below: Tensor
    up_to: Tensor


class Interval(NamedTuple):
    low: Tensor
    high: Tensor


class Expected(NamedTuple):
    """E[log p(y|f)] and its derivatives by the mean and the variance of f."""

    value: Tensor
    by_mean: Tensor
    by_variance: Tensor


class Scale(NamedTuple):
    """Location and scale that data suggest for f: one of each for every model (B,)."""

    location: Tensor
    scale: Tensor


class Likelihood(ABC):
    """Abstract; its subclasses are final frozen dataclasses whose fields are the parameters, in the order of files."""

    name: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...]] = ()
    conjugate: ClassVar[bool] = False  # are posteriors Gaussian, with inference in closed form?
    log_concave: ClassVar[bool] = True  # in f
    has_units: ClassVar[bool] = False  # is f in the units of y, which may then be changed?
    classifies: ClassVar[bool] = False  # is y a class?
    counts: ClassVar[bool] = False  # is y a number of things, 0, 1, 2, …?

    # --- parameters ---

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.parameter_names)

    @property
    def parameters(self) -> tuple[float, ...]:
        """As numbers; () where they are not known."""
        return tuple(float(v) for v in self.values) if self.known else ()

    @property
    def known(self) -> bool:
        return all(v is not None for v in self.values)

    def with_values(self, *values: Value) -> Self:
        """The same family with other parameters, in their order."""
        return type(self)(*values)

    def with_logs(self, logs: Tensor) -> Self:
        """Parameters exp(logs) (…, q) of many models side by side."""
        return self.with_values(*logs.exp().unbind(-1))

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Every parameter, as a tensor, changed in the same way: reshaped, chosen from, moved."""
        return self.with_values(*(change(torch.as_tensor(v, dtype=torch.float64)) for v in self.values))

    def check_parameters(self) -> None:
        """Numbers must be finite and positive; tensors are the library's own and are not looked at."""
        if all(type(v) is float and 0 < v < math.inf for v in self.values):
            return  # as nearly always, and this is asked very often
        numbers = [v for v in self.values if not isinstance(v, Tensor)]
        known = [v for v in numbers if v is not None]
        if len(known) not in (0, len(numbers)) or not all(math.isfinite(v) and v > 0 for v in known):
            raise RecycleGPError(
                f"likelihood {self.name!r} takes {len(numbers)} positive parameters {self.parameter_names}, "
                f"got {tuple(known)}"
            )

    def in_units(self, scale: float, shift: float) -> Self:
        """The likelihood of y' = s·y + b."""
        if (scale, shift) != (1.0, 0.0):
            raise RecycleGPError(
                f"output_scale and output_shift do not apply to likelihood {self.name!r}, whose f has fixed "
                "units; leave them at 1 and 0"
            )
        return self

    # --- data ---

    @abstractmethod
    def check(self, y: Tensor) -> Tensor:
        """y as it is meant (labels become 0 and 1), or an error that names the remedy."""

    @abstractmethod
    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        """Where f may be expected, from y (B, n) with weights w, 0 for padding."""

    # --- densities ---

    @abstractmethod
    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """log p(y|f)."""

    @abstractmethod
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E[log p(y|f)] under f ~ N(mean, variance)."""

    def expected_with_slopes(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        """The same with its derivatives: through mean and variance, not by a quadrature of second derivatives."""
        shape = torch.broadcast_shapes(y.shape, mean.shape, variance.shape)
        columns = [t.detach().expand(shape).flatten() for t in (y, mean, variance)]
        each = self.map(lambda p: p.detach().to(mean).expand(shape).flatten())
        parts = []
        for some in torch.arange(len(columns[0]), device=mean.device).split(POINTS):
            y_, m, v = (t[some] for t in columns)
            with torch.enable_grad():
                m, v = m.requires_grad_(), v.requires_grad_()
                value = each.map(lambda p: p[some]).expected_log_prob(y_, m, v)  # noqa: B023 (called at once)
                parts.append(Expected(value.detach(), *torch.autograd.grad(value.sum(), (m, v))))
        return Expected(*(torch.cat(part).reshape(shape) for part in zip(*parts, strict=True)))

    @abstractmethod
    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log p(y) = log E[p(y|f)]."""

    @abstractmethod
    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        """Of a new y."""

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        """Distribution function of a new y."""
        raise RecycleGPError(f"coverage is not defined for likelihood {self.name!r}; use the error rate")

    def quantile(self, p: float, mean: Tensor, variance: Tensor) -> Tensor:
        """The smallest y with P(Y ≤ y) ≥ p."""
        if self.classifies:
            raise RecycleGPError(f"quantiles of y are not defined for likelihood {self.name!r}; use probabilities")
        find = quantiles.of_counts if self.counts else quantiles.of_numbers
        return find(self, p, mean, variance)

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        """The central interval that holds a new y with this probability; of counts, at least with this one."""
        if self.classifies:
            raise RecycleGPError(f"an interval for y is not defined for likelihood {self.name!r}; use that of f")
        return Interval(*(self.quantile(0.5 * (1 + side * level), mean, variance) for side in (-1, 1)))

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """∫ (P(Y ≤ t) − [y ≤ t])² dt: in the units of y, and |y − Y| where the model is certain."""
        raise RecycleGPError(f"CRPS is not defined for likelihood {self.name!r}; use log-loss or Brier's score")

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        """Width of the narrowest feature of log p(y|f) about f: integrals over f are this fine."""
        return torch.ones_like(y)


def weighted_mean(t: Tensor, w: Tensor) -> Tensor:
    """Over the last axis."""
    return (w * t).sum(-1) / w.sum(-1)

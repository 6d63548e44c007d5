"""What several functions mean together: how y follows from them.

A link is a value. Its functions have names, in an order; moments of functions have them as the last axis (n, C).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ... import arrays
from ...errors import RecycleGPError
from ...likelihoods import Heteroscedastic, Interval, Likelihood, Moments
from ...likelihoods.heteroscedastic import FUNCTIONS
from ...likelihoods.softmax import softmax_moments
from ...target import LONGEST
from .classes import codes

MOST_FUNCTIONS = 256


class Link(ABC):
    """Abstract; the three classes below are final."""

    kind: ClassVar[str]  # in files
    names: tuple[str, ...]  # of the functions

    def latent(self, mean: Tensor, variance: Tensor) -> Moments:
        """What `predict` answers, from the moments of all functions."""
        return Moments(mean, variance)

    @abstractmethod
    def observed(self, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Moments:
        """Moments of a new y."""

    @abstractmethod
    def check(self, y: Any, rows: int, device: torch.device) -> Tensor:
        """y as `log_density` wants it."""

    @abstractmethod
    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Tensor:
        """log p(y) of observations."""

    def interval(self, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood], level: float) -> Interval:
        """The central interval that holds a new y with this probability."""
        raise RecycleGPError(f"an interval for y is not defined for {self.kind}; use predict_proba")

    def quantile(self, p: float, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Tensor:
        """The smallest y with P(Y ≤ y) ≥ p."""
        raise RecycleGPError(f"quantiles of y are not defined for {self.kind}; use predict_proba")

    def united(self, other: Link) -> Link:
        """The link of models of which one has this and one has the other."""
        if type(other) is not type(self):
            raise RecycleGPError(
                f"one module has {self.kind}, another {other.kind}; merge modules of one kind, or fit one of them again"
            )
        return self


@dataclass(frozen=True)
class Outputs(Link):
    """Each function has observations of its own: several measured quantities."""

    names: tuple[str, ...]

    kind: ClassVar[str] = "outputs"

    def __post_init__(self) -> None:
        check_names(self.names, "an output")

    def observed(self, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Moments:
        each = [p.moments(m, v) for p, m, v in zip(likelihoods, mean.unbind(-1), variance.unbind(-1), strict=True)]
        return Moments(*(torch.stack(part, -1) for part in zip(*each, strict=True)))

    def check(self, y: Any, rows: int, device: torch.device) -> Tensor:
        return matrix(y, rows, self.names, device)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Tensor:
        """Of each cell (n, C); NaN where it was not seen."""
        found = []
        for c, p in enumerate(likelihoods):
            seen = torch.isfinite(y[:, c])
            known = p.check(torch.where(seen, y[:, c], y[seen, c].mean() if bool(seen.any()) else 0.0))
            density = p.log_density(known, mean[:, c], variance[:, c])
            found.append(torch.where(seen, density, torch.full_like(density, math.nan)))
        return torch.stack(found, -1)

    def interval(self, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood], level: float) -> Interval:
        parts = zip(likelihoods, mean.unbind(-1), variance.unbind(-1), strict=True)
        return Interval(
            *(torch.stack(end, -1) for end in zip(*(p.interval(m, v, level) for p, m, v in parts), strict=True))
        )

    def quantile(self, p: float, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Tensor:
        parts = zip(likelihoods, mean.unbind(-1), variance.unbind(-1), strict=True)
        return torch.stack([own.quantile(p, m, v) for own, m, v in parts], -1)

    def united(self, other: Link) -> Link:
        super().united(other)
        return Outputs((*self.names, *(name for name in other.names if name not in self.names)))


@dataclass(frozen=True)
class Classes(Link):
    """One function for each class, whose softmax are the probabilities."""

    names: tuple[str, ...]  # the labels
    likelihood: str  # the name of the one by which they were fitted

    kind: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        check_names(self.names, "a class")

    def probabilities(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E[softmax(f)], (n, C)."""
        return softmax_moments(mean, variance).probability

    def observed(self, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Moments:
        p = self.probabilities(mean, variance)
        return Moments(p, p * (1 - p))

    def check(self, y: Any, rows: int, device: torch.device) -> Tensor:
        return codes(y, rows, self.names).to(device)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Tensor:
        p = self.probabilities(mean, variance).gather(-1, y[:, None])[:, 0]
        return p.clamp_min(torch.finfo(p.dtype).tiny).log()

    def united(self, other: Link) -> Link:
        super().united(other)
        assert isinstance(other, Classes)
        if other.likelihood != self.likelihood:
            raise RecycleGPError(
                f"one module has likelihood {self.likelihood!r}, another {other.likelihood!r}; fit them with the same"
            )
        return Classes(tuple(sorted({*self.names, *other.names}, key=in_order)), self.likelihood)


@dataclass(frozen=True)
class VaryingNoise(Link):
    """y ~ N(f, e^g)."""

    names: tuple[str, ...] = FUNCTIONS

    kind: ClassVar[str] = "varying noise"

    def __post_init__(self) -> None:
        if self.names != FUNCTIONS:
            raise RecycleGPError(f"functions of varying noise are {', '.join(FUNCTIONS)}")

    def latent(self, mean: Tensor, variance: Tensor) -> Moments:
        """Of f alone."""
        return Moments(mean[:, 0], variance[:, 0])

    def observed(self, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Moments:
        # E[e^g] = exp(m + v/2)
        noise = (mean[:, 1] + 0.5 * variance[:, 1]).clamp_max(math.log(arrays.LARGEST)).exp()
        return Moments(mean[:, 0], variance[:, 0] + noise)

    def check(self, y: Any, rows: int, device: torch.device) -> Tensor:
        return arrays.targets(y, rows, device=device)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Tensor:
        return VARYING.log_density_of(y, mean, variance)

    def interval(self, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood], level: float) -> Interval:
        return VARYING.interval_of(mean, variance, level)

    def quantile(self, p: float, mean: Tensor, variance: Tensor, likelihoods: Sequence[Likelihood]) -> Tensor:
        low, high = VARYING.interval_of(mean, variance, abs(2 * p - 1))  # Y is symmetric about its mean
        return high if p > 0.5 else low


VARYING = Heteroscedastic()
KINDS: dict[str, type[Link]] = {link.kind: link for link in (Outputs, Classes, VaryingNoise)}


def in_order(label: str) -> tuple[float, str]:
    """Labels that are numbers by their size, the others by the alphabet."""
    try:
        return float(label), label
    except ValueError:
        return math.inf, label


def check_names(names: Sequence[Any], what: str) -> None:
    for name in names:
        if not isinstance(name, str) or not name or len(name) > LONGEST or not name.isprintable():
            raise RecycleGPError(f"{what} is called {str(name)[:50]!r}; use 1 to {LONGEST} printable characters")
    if len(set(names)) < len(names) or not 1 <= len(names) <= MOST_FUNCTIONS:
        raise RecycleGPError(f"{len(names)} names for {what} each; give 1 to {MOST_FUNCTIONS} that are different")


def matrix(y: Any, rows: int, names: Sequence[str], device: torch.device | None, argument: str = "y") -> Tensor:
    """(n, C) numbers, NaN where a cell was not seen; a DataFrame is matched by name."""
    if hasattr(y, "columns"):
        found = {str(c): c for c in y.columns}
        absent = [name for name in names if name not in found]
        if absent:
            raise RecycleGPError(f"{argument} lacks the columns {', '.join(absent)}; the model has {', '.join(names)}")
        y = y[[found[name] for name in names]]
    tensor = arrays.with_missing(y, argument, device)
    tensor = tensor[:, None] if tensor.ndim == 1 and len(names) == 1 else tensor
    if tensor.shape != (rows, len(names)):
        raise RecycleGPError(
            f"{argument} has shape {tuple(tensor.shape)} for {rows} rows of X and {len(names)} outputs "
            f"({', '.join(names[:5])}{', …' * (len(names) > 5)}); pass ({rows}, {len(names)})"
        )
    return tensor


def noise_of_cells(noise: Any, rows: int, names: Sequence[str]) -> Any:
    """Noise variances of all cells, (n, C), from one for each row or cell; one number, or nothing, as it is."""
    if not arrays.are_several(noise):
        return noise
    given = arrays.with_missing(noise, "noise", None)
    if given.shape in ((rows,), (rows, 1)):
        return given.reshape(-1, 1).expand(-1, len(names))
    return matrix(noise, rows, names, None, "noise")


def of_output(noise: Any, output: int, seen: Tensor) -> Any:
    """Of these, those of one output in the rows in which it was seen."""
    return noise[seen.to(noise.device), output] if isinstance(noise, Tensor) and noise.ndim else noise


def some_rows(X: Any, rows: Tensor) -> Any:
    """Some rows of an array, tensor or DataFrame."""
    if isinstance(X, Tensor):
        return X[rows.to(X.device)]
    return X.loc[rows.numpy()] if hasattr(X, "loc") else np.asarray(X)[rows.numpy()]

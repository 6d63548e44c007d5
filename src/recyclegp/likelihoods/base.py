"""What every likelihood p(y | f_1 … f_C) can do. One class for each family; nobody chooses by its name.

A likelihood is a frozen value. Its parameters, in the user's units, are numbers, None where they are not known, or
tensors where many models are worked on side by side. Methods of one function work element by element on tensors of any
shape; those of a whole model (the last section, here for C = 1) take moments (n, C), and y as users have it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..errors import Argument, Name, RecycleGPError
from . import quantiles
from .quantiles import Interval

Value = float | Tensor | None
SHOWN = 5  # functions that are named in words for people
POINTS = 2**14  # data points differentiated at once


class Moments(NamedTuple):
    mean: Tensor
    variance: Tensor


class Tail(NamedTuple):
    """P(Y < y) and P(Y ≤ y); equal where Y is continuous."""

    below: Tensor
    up_to: Tensor


class Change(NamedTuple):
    """Of the units of one function: f becomes scale·f + shift."""

    scale: float = 1.0
    shift: float = 0.0
    unit: str | None = None  # of y afterwards, if that is to be said


class Expected(NamedTuple):
    """E[log p(y|f)] and its derivatives by the mean and the variance of f."""

    value: Tensor
    by_mean: Tensor
    by_variance: Tensor


class Scale(NamedTuple):
    """Location and scale that data suggest for f: one of each for every model (B,)."""

    location: Tensor
    scale: Tensor


class Sharing(Enum):
    """What the functions of one model have in common while they are learned, beside their rows."""

    NOTHING = "nothing"
    SHAPE = "the kernel but for its amplitudes"
    KERNEL = "the kernel"


class FunctionRows(NamedTuple):
    """What one function sees of y."""

    likelihood: Likelihood  # of these observations
    y: Tensor  # (n,)
    noise: Tensor | None = None  # (n,)  variances, where these are known
    seen: Tensor | None = None  # (all rows,) bool: in which of them; None: in every one


class Likelihood(ABC):
    """Abstract; its subclasses are final frozen dataclasses whose fields are the parameters, in the order of files."""

    name: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...]] = ()
    precisions: ClassVar[frozenset[str]] = frozenset()  # those of them that are large where y varies little
    conjugate: ClassVar[bool] = False  # are posteriors Gaussian, with inference in closed form?
    log_concave: ClassVar[bool] = True  # in f
    has_units: ClassVar[bool] = False  # is f in the units of y, which may then be changed?
    classifies: ClassVar[bool] = False  # is y a class?
    names_classes: ClassVar[bool] = False  # do classes have names of their own, and are not 0 and 1?
    ordered: ClassVar[bool] = False  # are classes levels, from a lowest to a highest?
    counts: ClassVar[bool] = False  # is y a number of things, 0, 1, 2, …?
    censors: ClassVar[bool] = False  # may y say only that something is larger than it?
    sharing: ClassVar[Sharing] = Sharing.NOTHING  # of its functions
    choices: ClassVar[tuple[float, ...]] = ()  # how functions may see y, where data decide; the first is usual

    # --- parameters ---

    @property
    def value_names(self) -> tuple[str, ...]:
        """Of its parameters, one for each: a family may have as many of one kind as there are levels."""
        return self.parameter_names

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.parameter_names])

    @property
    def parameters(self) -> tuple[float, ...]:
        """As numbers; () where they are not known."""
        values = self.values
        return tuple(map(float, values)) if all([v is not None for v in values]) else ()

    @property
    def known(self) -> bool:
        return all(v is not None for v in self.values)

    def with_values(self, *values: Value) -> Self:
        """The same family with other parameters, in their order."""
        return type(self)(*values)

    def each_with_values(self, values: Sequence[Sequence[float]]) -> list[Self]:
        """As many of the same family as there are rows of parameters."""
        return [self.with_values(*row) for row in values]

    def with_parameters(self, parameters: Sequence[float]) -> Self:
        """The same with numbers that somebody gives; without them they are not known."""
        if len(parameters) not in (0, len(self.value_names)):
            raise RecycleGPError(
                f"likelihood {self.name!r} takes {len(self.value_names)} positive parameters {self.value_names}, "
                f"got {tuple(parameters)}"
            )
        return self.with_values(*parameters) if parameters else self

    def widened(self, other: Likelihood) -> Likelihood:
        """With what another of its family knows beyond it: parameters, or further levels."""
        return self if self.known else other

    def with_logs(self, logs: Tensor) -> Self:
        """Parameters exp(logs) (…, q) of many models side by side."""
        return self.with_values(*logs.exp().unbind(-1))

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Every parameter, as a tensor, changed in the same way: reshaped, chosen from, moved."""
        return self.with_values(*(change(torch.as_tensor(v, dtype=torch.float64)) for v in self.values))

    def check_parameters(self) -> None:
        """Numbers must be finite and positive; tensors are the library's own and are not looked at."""
        if all([type(v) is float and 0 < v < math.inf for v in self.values]):
            return  # as nearly always, and this is called very often
        numbers = [v for v in self.values if not isinstance(v, Tensor)]
        known = [v for v in numbers if v is not None]
        if len(known) not in (0, len(numbers)) or not all(math.isfinite(v) and v > 0 for v in known):
            raise RecycleGPError(
                f"likelihood {self.name!r} takes {len(numbers)} positive parameters {self.value_names}, "
                f"got {tuple(known)}"
            )

    def in_units(self, scale: float, shift: float) -> Self:
        """The likelihood of y' = s·y + b."""
        if (scale, shift) != (1.0, 0.0):
            raise RecycleGPError(
                Name("output_scale"),
                " and ",
                Name("output_shift"),
                f" do not apply to likelihood {self.name!r}, whose f has fixed units; leave them at 1 and 0",
            )
        return self

    # --- data ---

    @abstractmethod
    def check(self, y: Tensor) -> Tensor:
        """y as it is meant (labels become 0 and 1), or an error that names the remedy."""

    @abstractmethod
    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        """Where f may be expected, from y (B, n) with weights w, 0 for padding."""

    def for_data(self, y: Any, rows: int, classes: Sequence[Any] | None) -> Likelihood:
        """The same with what only data can tell: of classes, what they are called."""
        if classes is not None:
            raise RecycleGPError(
                Name("classes"),
                ": only likelihoods 'categorical' and 'ordinal' have any to name; leave them out, or use ",
                Name("labels"),
            )
        return self

    @property
    def own_labels(self) -> tuple[str, ...]:
        """What classes are called, where that is part of the likelihood."""
        return ()

    def with_labels(self, labels: Sequence[str]) -> Likelihood:
        """The same of classes that are called so."""
        raise RecycleGPError(f"labels are given for likelihood {self.name!r}, which has none")

    @property
    def cuts(self) -> tuple[float, ...]:
        """Of levels: the f at which each next one begins to be the more probable side; () of others."""
        return ()

    @property
    def words_of_y(self) -> tuple[str, tuple[str, ...]]:
        """What its words are, and the words: names of functions, or of levels."""
        return self.meaning, self.functions

    def seen(self, y: Tensor) -> Tensor:
        """What f sees of y, which is checked: y itself, or its logarithm."""
        return y

    def from_seen(self, seen: Tensor) -> Tensor:
        """y again, from what f sees of it."""
        return seen

    def shown(self, seen: Tensor) -> float:
        """One y, for people, of which f sees this."""
        return float(self.from_seen(seen))

    @property
    def of_seen(self) -> Likelihood:
        """The likelihood of what f sees of y."""
        return self

    def seen_by_functions(self, y: Tensor) -> Tensor:
        """(C, n)  what each function sees of y, which `targets` has checked."""
        return self.seen(y)[None]

    def rows_of_functions(self, y: Tensor, choice: float | None = None) -> tuple[FunctionRows, ...]:
        """The observations of each function, of y as `targets` has checked it; `choice` is one of `choices`."""
        return tuple(map(FunctionRows, self.parts, self.seen_by_functions(y)))

    # --- probabilities ---

    @abstractmethod
    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """log p(y|f), of y as f sees it."""

    @abstractmethod
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E[log p(y|f)] under f ~ N(mean, variance), of y as f sees it."""

    def expected_with_slopes(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        """The same with its derivatives: through mean and variance, not by a quadrature of second derivatives."""
        shape = np.broadcast_shapes(y.shape, mean.shape, variance.shape)
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
        raise self._undefined("coverage is", "the error rate")

    def compared(self, y: Tensor) -> Tensor:
        """What a prediction of y is compared with; NaN where that is not known."""
        return y

    def quantile(self, p: float, mean: Tensor, variance: Tensor) -> Tensor:
        """The smallest y with P(Y ≤ y) ≥ p."""
        if self.classifies:
            raise self._undefined("quantiles of y are", "predict_proba")
        find = quantiles.of_counts if self.counts else quantiles.of_numbers
        return find(self, p, mean, variance)

    def quantile_among(self, p: float, probabilities: Tensor) -> Tensor:
        """The same of levels with these probabilities (n, K)."""
        raise self._undefined("quantiles of y are", "predict_proba")

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        """The central interval that holds a new y with this probability; of counts, at least with this one."""
        if self.classifies:
            raise self._undefined("an interval for y is", "predict_proba, or that of f")
        return Interval(*(self.quantile(0.5 * (1 + side * level), mean, variance) for side in (-1, 1)))

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """∫ (P(Y ≤ t) − [y ≤ t])² dt: in the units of y, and |y − Y| where the model is certain."""
        raise self._undefined("CRPS is", "log-loss or Brier's score")

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        """Width of the narrowest feature of log p(y|f) about f: integrals over f are this fine."""
        return torch.ones_like(y)

    def _undefined(self, what: str, instead: str) -> RecycleGPError:
        of = f"likelihood {self.name!r}" if len(self.functions) == 1 else self.meaning
        return RecycleGPError(f"{what} not defined for {of}; use {instead}")

    # --- a whole model: y as users have it, and moments (n, C) of all functions ---

    @property
    def functions(self) -> tuple[str, ...]:
        """What its functions are called."""
        return ("f",)

    @property
    def meaning(self) -> str:
        """What its functions are, in words for people."""
        return "one function"

    @property
    def words(self) -> str:
        """Which functions there are, for people."""
        shown = ", ".join(self.functions[:SHOWN]) + (", …" if len(self.functions) > SHOWN else "")
        return f"{len(self.functions)} {self.meaning}: {shown}" if self.predicts_all else f"{self.meaning}: {shown}"

    @property
    def predicts_all(self) -> bool:
        """Does `predict` answer with every function, in a column each?"""
        return False

    @property
    def parts(self) -> tuple[Likelihood, ...]:
        """Of the observations of each function by itself."""
        return (self,)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that y may be, in the order of their probabilities."""
        return ("0", "1") if self.classifies else ()

    def with_parts(self, parts: Sequence[Sequence[Likelihood]]) -> tuple[Likelihood, ...]:
        """What y may be in a model of such functions, each of which has these likelihoods."""
        return tuple(parts[0])

    def united(self, other: Likelihood) -> Likelihood:
        """What the functions of two models are together, where these may have different ones."""
        if other.meaning != self.meaning:
            raise RecycleGPError(
                f"one module has {self.meaning}, another {other.meaning}; merge modules of one kind, or fit one of "
                "them again"
            )
        return self

    def targets(self, y: Any, rows: int, device: torch.device | None) -> Tensor:
        """y, checked."""
        return self.check(arrays.targets(y, rows, device=device))

    def answered(self, at: Moments) -> Moments:
        """What `predict` answers."""
        return Moments(at.mean[..., 0], at.variance[..., 0])

    def observed(self, at: Moments) -> Moments:
        """Moments of a new y."""
        return self.moments(at.mean[:, 0], at.variance[:, 0])

    def probabilities(self, at: Moments) -> Tensor:
        """(n, number of classes)."""
        if not self.classifies:
            raise RecycleGPError(
                "predict_proba and predict_class need classes, and this model has likelihood "
                f"{self.name!r}; use predict_y"
            )
        p = self.observed(at).mean
        return torch.stack([1 - p, p], -1)

    def noise_at(self, at: Moments) -> Tensor:
        """Noise variance of y at each row."""
        if not self.has_units:
            raise RecycleGPError(f"predict_noise: likelihood {self.name!r} has no noise; use predict_y")
        return torch.full_like(at.mean[:, 0], self.parameters[0])

    def log_density_at(self, y: Tensor, at: Moments) -> Tensor:
        """log p(y) of observations that `targets` has checked."""
        return self.log_density(y, at.mean[:, 0], at.variance[:, 0])

    def quantile_at(self, p: float, at: Moments) -> Tensor:
        """The smallest y with P(Y ≤ y) ≥ p."""
        return self.quantile(p, at.mean[:, 0], at.variance[:, 0])

    def interval_at(self, at: Moments, level: float) -> Interval:
        """The central interval that holds a new y with this probability."""
        return self.interval(at.mean[:, 0], at.variance[:, 0], level)

    def distribution_at(self, y: Tensor, at: Moments) -> Tail:
        """Distribution function of a new y."""
        return self.distribution(y, at.mean[:, 0], at.variance[:, 0])

    def survival_at(self, y: Tensor, at: Moments) -> Tensor:
        """P(Y > y) of a new Y."""
        if self.classifies:
            raise self._undefined("P(Y > y) is", "predict_proba")
        return 1 - self.distribution_at(y, at).up_to

    def crps_at(self, y: Tensor, at: Moments) -> Tensor:
        """∫ (P(Y ≤ t) − [y ≤ t])² dt."""
        return self.crps(y, at.mean[:, 0], at.variance[:, 0])

    def only(self, functions: Sequence[int]) -> Likelihood:
        """That of some of its functions, as an owner has them who lacks the others."""
        return self

    def changes(self, scale: Any, shift: Any, unit: Any) -> list[Change]:
        """Of each function, where y is measured in other units: scale·y + shift."""
        s, b = arrays.number(scale, "output_scale"), arrays.number(shift, "output_shift")
        if abs(s) < 1 / arrays.LARGEST:
            raise RecycleGPError(Argument("output_scale", s), "; pass a number that is not zero")
        return [Change(s, b, unit)]

    def rescaled(self, changes: Sequence[Change]) -> Likelihood:
        """The likelihood of y in other units, by how its functions change."""
        return self.in_units(changes[0].scale, changes[0].shift)

    def change_of_y(self, scale: float, shift: float) -> Change | None:
        """The change of the units of y that makes scale·f + shift of f; None where none does."""
        return Change(scale, shift) if self.has_units else None


def weighted_mean(t: Tensor, w: Tensor) -> Tensor:
    """Over the last axis."""
    return (w * t).sum(-1) / w.sum(-1)

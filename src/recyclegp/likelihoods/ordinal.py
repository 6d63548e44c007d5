"""Levels in an order: none < mild < severe, or answers from 1 to 5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr, ndtri

from ..errors import Argument, RecycleGPError
from . import quadrature
from .base import Likelihood, Moments, Scale, Tail, Value, weighted_mean
from .constants import SCALES
from .labels import codes, in_order, is_a_number, ordered_levels, texts
from .quantiles import Interval
from .several import check_names

MOST_LEVELS = 32
SHOWN = 6  # levels in an error


class Cuts(NamedTuple):
    """Between which f + noise is where a level was seen; beyond the ends there is no cut."""

    low: Tensor
    high: Tensor
    lowest: Tensor  # bool: is it the lowest level, so that `low` is none?
    highest: Tensor


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """Cumulative probit: P(y = k) = Φ(b_{k+1} − f) − Φ(b_k − f), with cuts −∞ = b_0 < b_1 < … < b_K = ∞ of K levels.

    The first cut b_1 is zero, as the mean of f takes its place, and the noise one, as the kernel's variance does. So f
    means the same for all owners: P(y is not the lowest level) = Φ(f), which is `BernoulliProbit`, with which it shares
    f. The parameters are the K − 2 gaps between the other cuts. Log-concave in f. Inside y is a position 0 … K − 1;
    answers are in numbers if all levels are numbers, else they are positions.
    """

    labels: tuple[str, ...] = ()  # of the levels, from the lowest to the highest; () where they are not known
    gaps: tuple[Value, ...] = ()

    name: ClassVar[str] = "ordinal"
    parameter_names: ClassVar[tuple[str, ...]] = ("gap",)
    classifies: ClassVar[bool] = True
    names_classes: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.labels:
            check_names(self.labels, "a level")
        if len(self.labels) == 1 or len(self.labels) > MOST_LEVELS or len(self.gaps) not in (0, len(self.value_names)):
            raise RecycleGPError(
                f"likelihood {self.name!r} takes 2 to {MOST_LEVELS} levels, and a gap for each but two of them; got "
                f"{len(self.labels)} and {len(self.gaps)}"
            )
        self.check_parameters()

    # --- parameters and levels ---

    @property
    def value_names(self) -> tuple[str, ...]:
        return self.parameter_names * max(0, len(self.labels) - 2)

    @property
    def values(self) -> tuple[Any, ...]:
        return self.gaps or (None,) * len(self.value_names)

    @property
    def known(self) -> bool:
        return bool(self.labels) and super().known

    @property
    def cuts(self) -> tuple[float, ...]:
        return tuple(accumulate(self.parameters, initial=0.0)) if self.known else ()

    def with_values(self, *values: Value) -> Ordinal:
        return Ordinal(self.labels, values)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.labels

    @property
    def own_labels(self) -> tuple[str, ...]:
        return self.labels

    def with_labels(self, labels: Sequence[str]) -> Ordinal:
        return Ordinal(tuple(labels))

    def widened(self, other: Likelihood) -> Likelihood:
        both = isinstance(other, Ordinal) and self.known and other.known
        if not (both and len(other.own_labels) > len(self.labels)):
            return super().widened(other)
        assert isinstance(other, Ordinal)
        return Ordinal(other.labels, (*self.gaps, *other.gaps[len(self.gaps) :]))

    @property
    def words_of_y(self) -> tuple[str, tuple[str, ...]]:
        return "levels", self.labels

    # --- data ---

    def for_data(self, y: Any, rows: int, classes: Sequence[Any] | None) -> Ordinal:
        """With its levels: in the order that somebody says, that a column of pandas has, or of their size."""
        if isinstance(classes, str):
            raise RecycleGPError(
                Argument("classes", classes), "; pass a list of levels, from the lowest to the highest"
            )
        found = texts(y, rows)
        if classes is not None:
            labels = texts(list(classes), None, "classes")
            _check_number(labels)
            strange = sorted({*found} - {*labels}, key=in_order)
            if strange:
                raise RecycleGPError(
                    f"y holds the levels {_shown(strange)}, and ",
                    Argument("classes"),
                    f" names {_shown(labels)}; name all of them, from the lowest to the highest",
                )
            return Ordinal(tuple(labels))
        labels = ordered_levels(y) or sorted({*found}, key=in_order)
        if ordered_levels(y) is None and not all(map(is_a_number, labels)):
            raise RecycleGPError(
                f"y holds the levels {_shown(labels)}, whose order nobody has said; pass ",
                Argument("classes"),
                " with all levels from the lowest to the highest, as none,mild,severe",
            )
        _check_number(labels)
        return Ordinal(tuple(labels))

    def targets(self, y: Any, rows: int, device: torch.device | None) -> Tensor:
        """Positions of the levels."""
        return codes(y, rows, self.labels).to(device=device, dtype=torch.float64)

    def check(self, y: Tensor) -> Tensor:
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        """The f that expects as much of the lowest level as there is."""
        spare = 0.5 / w.sum(-1)
        lowest = weighted_mean((y == 0).to(w.dtype), w)
        location = -math.sqrt(1 + SCALES.separation**2) * ndtri(lowest.clamp(spare, 1 - spare))
        return Scale(location, torch.full_like(location, SCALES.separation))

    # --- probabilities ---

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return _log_between(self._cuts(y), f, torch.ones_like(f))

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return quadrature.expectation(self, y, mean, variance)

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        # E[Φ(b − f)] = Φ((b − m)/√(1 + v))
        return _log_between(self._cuts(y), mean, (1 + variance).sqrt())

    def probabilities(self, at: Moments) -> Tensor:
        mean, variance = at.mean[:, 0], at.variance[:, 0]
        each = [self.log_density(torch.full_like(mean, float(k)), mean, variance) for k in range(len(self.labels))]
        return torch.stack(each, -1).exp()

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        """Of the level as a number."""
        p = self.probabilities(Moments(mean[:, None], variance[:, None]))
        numbers = self._numbers(mean)
        expected = p @ numbers
        return Moments(expected, (p * (numbers - expected[:, None]).square()).sum(-1))

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        """Of positions."""
        low, high, lowest, highest = self._cuts(y)
        sd = (1 + variance).sqrt()
        below, up_to = ndtr((low - mean) / sd), ndtr((high - mean) / sd)
        return Tail(torch.where(lowest, torch.zeros_like(below), below), torch.where(highest, 1.0, up_to))

    def compared(self, y: Tensor) -> Tensor:
        return self._numbers(y)[y.long()]

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The ranked probability score, Σ_k (P(Y ≤ k) − [y ≤ k])² times the distance to the next level."""
        return self.crps_at(y, Moments(mean[:, None], variance[:, None]))

    def crps_at(self, y: Tensor, at: Moments) -> Tensor:
        up_to = self.probabilities(at).cumsum(-1)[:, :-1]
        reached = y[:, None] <= torch.arange(up_to.shape[1], dtype=y.dtype, device=y.device)
        return (up_to - reached.to(up_to.dtype)).square() @ self._numbers(up_to).diff()

    def quantile(self, p: float, mean: Tensor, variance: Tensor) -> Tensor:
        return self.quantile_among(p, self.probabilities(Moments(mean[:, None], variance[:, None])))

    def quantile_among(self, p: float, probabilities: Tensor) -> Tensor:
        """Of the level as a number: the lowest one with P(Y ≤ y) ≥ p."""
        passed = (probabilities.cumsum(-1)[:, :-1] < p).sum(-1)
        return self._numbers(probabilities)[passed]

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        return Interval(*(self.quantile(0.5 * (1 + side * level), mean, variance) for side in (-1, 1)))

    def survival_at(self, y: Tensor, at: Moments) -> Tensor:
        """P(Y > y), of a y in the numbers of the levels."""
        p = self.probabilities(at)
        return (p * (self._numbers(p) > y[:, None]).to(p.dtype)).sum(-1)

    # --- inside ---

    def _numbers(self, like: Tensor) -> Tensor:
        """(K,)  what the levels are as numbers."""
        count = len(self.labels)
        found = [float(text) for text in self.labels] if all(map(is_a_number, self.labels)) else []
        if any(a >= b for a, b in pairwise(found)):  # numbers, but in another order
            found = []
        return torch.tensor(found or list(range(count)), dtype=like.dtype, device=like.device)

    def _cuts(self, y: Tensor) -> Cuts:
        """b_k and b_{k+1} of each position k: zero and the gaps up to there."""
        low, high = torch.zeros_like(y), torch.zeros_like(y)
        for j, gap in enumerate(self.gaps, start=1):
            known = torch.as_tensor(gap, dtype=y.dtype, device=y.device)
            low = low + torch.where(y > j, known, 0.0)
            high = high + torch.where(y >= j, known, 0.0)
        return Cuts(low, high, y == 0, y == len(self.labels) - 1)


def _log_between(cuts: Cuts, mean: Tensor, sd: Tensor) -> Tensor:
    """log(Φ(u) − Φ(l)) for u = (high − m)/s and l = (low − m)/s, of which one is infinite at either end."""
    low, high, lowest, highest = cuts
    one = torch.ones_like(high)
    upper = (torch.where(highest, low + one, high) - mean) / sd  # where there is no cut, any number above the other
    lower = (torch.where(lowest, high - one, low) - mean) / sd
    end = log_ndtr(torch.where(lowest, upper, -lower))
    # on the side where Φ is small: Φ(u) − Φ(l) = Φ(−l) − Φ(−u), and log(a − b) = log a + log(1 − e^(log b − log a))
    turned = upper + lower > 0
    large = log_ndtr(torch.where(turned, -lower, upper))
    less = log_ndtr(torch.where(turned, -upper, lower)) - large
    between = large + (-less.clamp_max(-1e-300).expm1()).log()
    return torch.where(lowest | highest, end, between)


def _check_number(labels: Sequence[str]) -> None:
    if len(set(labels)) < len(labels):
        raise RecycleGPError(Argument("classes"), f": a level is named twice in {_shown(labels)}; name each once")
    if len(labels) < 2:
        raise RecycleGPError(
            f"y has one level only ({_shown(labels)}); pass ",
            Argument("classes"),
            " with all that a row could have had, from the lowest to the highest",
        )
    if len(labels) > MOST_LEVELS:
        raise RecycleGPError(
            f"y has {len(labels)} levels; an {Ordinal.name} likelihood takes at most {MOST_LEVELS}; use ",
            Argument("likelihood", "gaussian"),
            " for measurements",
        )


def _shown(labels: Sequence[str]) -> str:
    return ", ".join(labels[:SHOWN]) + (", …" if len(labels) > SHOWN else "")

"""Any number of classes, by one function for each, whose softmax are the probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..errors import Argument, RecycleGPError
from .base import Expected, Likelihood, Moments, Scale, Sharing
from .constants import SCALES
from .labels import codes, in_order, texts
from .several import SeveralFunctions, check_names
from .softmax import softmax_moments


class Categorical(SeveralFunctions):
    """Abstract: p(y = c) = exp(f_c) / Σ exp(f_j). Its two families differ in how they are fitted."""

    labels: tuple[str, ...]  # () of one of the functions alone
    classifies: ClassVar[bool] = True
    names_classes: ClassVar[bool] = True
    sharing: ClassVar[Sharing] = Sharing.KERNEL

    @property
    def functions(self) -> tuple[str, ...]:
        return self.labels or ("f",)

    @property
    def meaning(self) -> str:
        return "classes"

    @property
    def predicts_all(self) -> bool:
        return bool(self.labels)

    @property
    def parts(self) -> tuple[Likelihood, ...]:
        return (type(self)(),) * len(self.functions)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.labels

    @property
    def own_labels(self) -> tuple[str, ...]:
        return self.labels

    def with_labels(self, labels: Sequence[str]) -> Likelihood:
        return type(self)(tuple(labels))  # type: ignore[call-arg]

    def united(self, other: Likelihood) -> Likelihood:
        super().united(other)
        assert isinstance(other, Categorical)
        if type(other) is not type(self):
            raise RecycleGPError(
                f"one module has likelihood {self.name!r}, another {other.name!r}; fit them with the same"
            )
        return self._with_labels({*self.labels, *other.labels})

    def only(self, functions: Sequence[int]) -> Likelihood:
        return self._with_labels({self.labels[c] for c in functions})

    def _with_labels(self, labels: set[str]) -> Likelihood:
        return type(self)(tuple(sorted(labels, key=in_order)))  # type: ignore[call-arg]

    # --- data ---

    def for_data(self, y: Any, rows: int, classes: Sequence[Any] | None) -> Likelihood:
        """With the classes that y has, and those that it could have had."""
        labels = {*texts(y, rows), *([] if classes is None else texts(list(classes), None, "classes"))}
        if len(labels) < 2:
            raise RecycleGPError(
                f"y has one class only ({', '.join(labels)}); pass ",
                Argument("classes"),
                " with all that a row could have had, or leave this data set out: what is always so says nothing about "
                "what else could be",
            )
        return self._with_labels(labels)

    def seen_by_functions(self, y: Tensor) -> Tensor:
        """1 where a row is of the function's class, else 0."""
        return torch.nn.functional.one_hot(y, len(self.labels)).to(torch.float64).mT.contiguous()

    def check(self, y: Tensor) -> Tensor:
        return y

    # --- a whole model ---

    def targets(self, y: Any, rows: int, device: torch.device | None) -> Tensor:
        """The position of each row's class among the labels."""
        return codes(y, rows, self.labels).to(device)

    def answered(self, at: Moments) -> Moments:
        return at if self.labels else super().answered(at)

    def probabilities(self, at: Moments) -> Tensor:
        """E[softmax(f)], (n, C)."""
        if not self.labels:
            self._refuse()
        return softmax_moments(at.mean, at.variance).probability

    def observed(self, at: Moments) -> Moments:
        p = self.probabilities(at)
        return Moments(p, p * (1 - p))

    def log_density_at(self, y: Tensor, at: Moments) -> Tensor:
        p = self.probabilities(at).gather(-1, y[:, None])[:, 0]
        return p.clamp_min(torch.finfo(p.dtype).tiny).log()


@dataclass(frozen=True)
class SoftmaxCategorical(Categorical):
    """Fitted by the softmax itself. Each function sees y as 1 where it is its class, else 0."""

    labels: tuple[str, ...] = ()

    name: ClassVar[str] = "categorical-softmax"

    def __post_init__(self) -> None:
        check_labels(self.labels)

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        return Scale(torch.zeros_like(w[:, 0]), torch.full_like(w[:, 0], SCALES.separation))

    def expected_jointly(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        # E[log p(y|f)] = m_y − E[log Σ exp f]
        flat = [t.mT.reshape(-1, t.shape[-2]) for t in (mean, variance)]
        log_sum, probability, curvature = softmax_moments(*flat)
        lead, n = mean.shape[:-2], mean.shape[-1]

        def by_function(t: Tensor) -> Tensor:
            return t.reshape(*lead, n, -1).mT

        value = (y * mean).sum(-2) - log_sum.reshape(*lead, n)
        return Expected(value, y - by_function(probability), -0.5 * by_function(curvature))


def check_labels(labels: tuple[str, ...]) -> None:
    if labels:
        check_names(labels, "a class")

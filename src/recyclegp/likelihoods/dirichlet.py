"""Classes as regression: the Dirichlet-Gaussian approximation (Milios et al. 2018).

A row of class c gives a Dirichlet distribution over probabilities the parameter 1 + ε for c and ε for every other
class. A Dirichlet variable is a vector of Gamma variables divided by their sum; each Gamma variable is approximated by
a log-normal one of the same mean and variance. So the logarithm of every class is a Gaussian observation of its own
function, with a noise that is known: C regressions in closed form, and no coupling between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Expected, FunctionRows, Scale
from .categorical import Categorical, check_labels
from .constants import DIRICHLET
from .gaussian import Gaussian


@dataclass(frozen=True)
class DirichletCategorical(Categorical):
    """p(y = c) = exp(f_c) / Σ exp(f_j), with a Gaussian observation of each f_c in every row."""

    labels: tuple[str, ...] = ()

    name: ClassVar[str] = "categorical"
    choices: ClassVar[tuple[float, ...]] = DIRICHLET.compared

    def __post_init__(self) -> None:
        check_labels(self.labels)

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        return Scale(torch.zeros_like(w[:, 0]), torch.ones_like(w[:, 0]))

    def expected_jointly(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        self._refuse()  # its functions are fitted one by one

    def rows_of_functions(self, y: Tensor, choice: float | None = None) -> tuple[FunctionRows, ...]:
        """A regression for each class; `choice` is ε."""
        epsilon = DIRICHLET.epsilon if choice is None else choice
        return tuple(self.observations(own, epsilon) for own in self.seen_by_functions(y))

    @staticmethod
    def observations(is_class: Tensor, epsilon: float = DIRICHLET.epsilon) -> FunctionRows:
        """The mean and the variance of the logarithm of a log-normal with a Gamma variable's moments."""
        alpha = is_class.to(torch.float64) + epsilon
        noise = torch.log1p(1 / alpha)  # σ² = log(1/α + 1)
        return FunctionRows(Gaussian(), alpha.log() - 0.5 * noise, noise)  # log α − σ²/2

"""Classes as regression: the Dirichlet-Gaussian approximation (Milios et al. 2018).

A row of class c gives a Dirichlet distribution over probabilities the parameter 1 + ε for c and ε for every other
class. A Dirichlet variable is a vector of Gamma variables divided by their sum; each Gamma variable is approximated by
a log-normal one of the same mean and variance. So the logarithm of every class is a Gaussian observation of its own
function, with a noise that is known: C regressions in closed form, and no coupling between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from .base import Expected, Scale
from .joint import JointLikelihood

EPSILON = 0.01  # of a class that was not seen in a row, unless rows say clearly otherwise
EPSILONS = (0.003, 0.01, 0.03)  # that are compared: the smaller, the surer of itself is a model of classes apart


class GaussianRows(NamedTuple):
    """Observations of one function: what was seen, and how noisy that is."""

    y: Tensor
    noise: Tensor


@dataclass(frozen=True)
class DirichletCategorical(JointLikelihood):
    """p(y = c) = exp(f_c) / Σ exp(f_j), with a Gaussian observation of each f_c in every row."""

    name: ClassVar[str] = "categorical"
    classifies: ClassVar[bool] = True

    def check(self, y: Tensor) -> Tensor:
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        return Scale(torch.zeros_like(w[:, 0]), torch.ones_like(w[:, 0]))

    def expected_jointly(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        self._refuse()  # its functions are fitted one by one

    @staticmethod
    def observations(is_class: Tensor, epsilon: float = EPSILON) -> GaussianRows:
        """The mean and the variance of the logarithm of a log-normal with a Gamma variable's moments."""
        alpha = is_class.to(torch.float64) + epsilon
        noise = torch.log1p(1 / alpha)  # σ² = log(1/α + 1)
        return GaussianRows(alpha.log() - 0.5 * noise, noise)  # log α − σ²/2

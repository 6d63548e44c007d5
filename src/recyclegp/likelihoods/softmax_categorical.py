"""Any number of classes, by one function for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Expected, Scale
from .joint import JointLikelihood
from .softmax import softmax_moments

SEPARATION = 2.0  # of f between classes that can be told apart: its scale a priori


@dataclass(frozen=True)
class SoftmaxCategorical(JointLikelihood):
    """p(y = c) = exp(f_c) / Σ exp(f_j). Each function sees y as 1 where it is its class, else 0."""

    name: ClassVar[str] = "categorical-softmax"
    classifies: ClassVar[bool] = True

    def check(self, y: Tensor) -> Tensor:
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        return Scale(torch.zeros_like(w[:, 0]), torch.full_like(w[:, 0], SEPARATION))

    def expected_jointly(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        # E[log p(y|f)] = m_y − E[log Σ exp f]
        flat = [t.mT.reshape(-1, t.shape[-2]) for t in (mean, variance)]
        log_sum, probability, curvature = softmax_moments(*flat)
        lead, n = mean.shape[:-2], mean.shape[-1]

        def by_function(t: Tensor) -> Tensor:
            return t.reshape(*lead, n, -1).mT

        value = (y * mean).sum(-2) - log_sum.reshape(*lead, n)
        return Expected(value, y - by_function(probability), -0.5 * by_function(curvature))

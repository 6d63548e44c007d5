"""Likelihoods of several functions at once: p(y | f_1 … f_C).

Each function is a Gaussian process of its own, and q is independent between them. What couples them is the likelihood
alone, through E_q[log p(y | f_1 … f_C)]. Functions are the axis before the last: (…, C, n) for n observations.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, NoReturn

import torch
from torch import Tensor

from ..errors import RecycleGPError
from .base import Expected, Likelihood, Moments


class AmplitudePrior(NamedTuple):
    """Of the logarithm of a function's variance, in units of its scale."""

    centre: float
    sd: float


class JointLikelihood(Likelihood):
    """Abstract. Its scalar questions are refused: one function of several says nothing about y alone."""

    amplitudes: ClassVar[tuple[AmplitudePrior | None, ...]] = ()  # of its functions, where more is known than usual

    @abstractmethod
    def expected_jointly(self, y: Tensor, mean: Tensor, variance: Tensor) -> Expected:
        """E[log p(y|f)] (…, n) of y as each function sees it (…, C, n), and its slopes (…, C, n)."""

    def differentiable(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The same value, through which derivatives by mean and variance pass."""
        found: Tensor = _WithSlopes.apply(self, y, mean, variance)  # type: ignore[no-untyped-call]
        return found

    # --- one function alone ---

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        self._refuse()

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        self._refuse()

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        self._refuse()

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise RecycleGPError(
            f"likelihood {self.name!r} speaks of several functions together, and this is one of them; ask the model "
            "that has all of them"
        )


class _WithSlopes(torch.autograd.Function):
    """A value whose slopes are known with it."""

    refused: ClassVar[tuple[None, None]] = (None, None)  # neither the likelihood nor y has a derivative

    @staticmethod
    def forward(ctx: Any, likelihood: JointLikelihood, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        value, by_mean, by_variance = likelihood.expected_jointly(y, mean.detach(), variance.detach())
        ctx.save_for_backward(by_mean, by_variance)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        by_mean, by_variance = ctx.saved_tensors
        g = gradients[0][..., None, :]
        return (*_WithSlopes.refused, g * by_mean, g * by_variance)

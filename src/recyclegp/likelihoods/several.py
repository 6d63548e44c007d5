"""Likelihoods of several functions at once: p(y | f_1 … f_C).

Each function is a Gaussian process of its own, and q is independent between them. What couples them is the likelihood
alone, through E_q[log p(y | f_1 … f_C)]. Where many models are fitted side by side, functions are the axis before the
last: (…, C, n) for n observations. Moments for predictions have them last: (n, C).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor

from .. import arrays
from ..errors import Message, Name, RecycleGPError
from ..target import MOST_FUNCTIONS as MOST_FUNCTIONS
from ..target import check_names as check_names
from .base import Change, Expected, Likelihood, Moments
from .constants import AmplitudePrior


class SeveralFunctions(Likelihood):
    """Abstract. Methods of one function are refused: one of several says nothing about y alone."""

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

    # --- a whole model: each family has these in its own way, or not at all ---

    def with_parts(self, parts: Sequence[Sequence[Likelihood]]) -> tuple[Likelihood, ...]:
        return (self,)

    def changes(self, scale: Any, shift: Any, unit: Any) -> list[Change]:
        """Classes have no other units."""
        if any(isinstance(value, Mapping) for value in (scale, shift, unit)) or (
            (arrays.number(scale, "output_scale"), arrays.number(shift, "output_shift"), unit) != (1.0, 0.0, None)
        ):
            raise RecycleGPError(
                Message.joined([Name("output_scale"), Name("output_shift")]),
                " and ",
                Name("unit"),
                f" do not apply to {self.meaning}; leave them out, at 1 and 0",
            )
        return [Change()] * len(self.functions)

    def rescaled(self, changes: Sequence[Change]) -> Likelihood:
        return self


class _WithSlopes(torch.autograd.Function):
    """A value whose slopes are known with it."""

    refused: ClassVar[tuple[None, None]] = (None, None)  # neither the likelihood nor y has a derivative

    @staticmethod
    def forward(ctx: Any, likelihood: SeveralFunctions, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        value, by_mean, by_variance = likelihood.expected_jointly(y, mean.detach(), variance.detach())
        ctx.save_for_backward(by_mean, by_variance)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        by_mean, by_variance = ctx.saved_tensors
        g = gradients[0][..., None, :]
        return (*_WithSlopes.refused, g * by_mean, g * by_variance)

"""What a model asks when it is asked: Gaussian processes of one function, or of several that go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..core.effects import Scales
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import Joint, Predicted
from ..devices import retry_on_oom
from ..errors import RecycleGPError

DrawnParts = tuple[list[Joint], Scales | None]  # which add up to f; the second, effects, is scaled in each draw


class Process(Protocol):
    """c functions at inputs X (n, D). Different processes of one model are independent of each other."""

    def moments(self, X: Tensor) -> Predicted:
        """Mean and variance, (n, c) both."""

    def each(self, X: Tensor) -> list[Joint]:
        """Mean (n,) and covariance (n, n) of every function."""

    def together(self, X: Tensor) -> Joint:
        """Of all functions at all rows, one function behind the other: (c·n,) and (c·n, c·n)."""


class OneFunction(NamedTuple):
    """The usual one."""

    posterior: FunctionPosterior

    def moments(self, X: Tensor) -> Predicted:
        mean, variance = finite(retry_on_oom(lambda: self.posterior.to(X.device).predict(X)))
        return Predicted(mean[:, None], variance[:, None])

    def each(self, X: Tensor) -> list[Joint]:
        return [self.together(X)]

    def together(self, X: Tensor) -> Joint:
        return Joint(*finite(retry_on_oom(lambda: self.posterior.to(X.device).joint(X))))


def finite(found: Sequence[Tensor]) -> Sequence[Tensor]:
    """Never a silent NaN, whatever file a model comes from."""
    if not all(bool(torch.isfinite(part.detach()).all()) for part in found):
        raise RecycleGPError(
            "predictions are not finite numbers: the model's kernel or what it says overflows there; rescale X, or "
            "make the model again from data of ordinary size"
        )
    return found

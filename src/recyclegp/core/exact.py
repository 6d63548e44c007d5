"""The posterior of f given all pseudo-observations at once, for everybody or as one owner sees it.

    LLᵀ = A      α = A⁻¹(ρ − m Rᵀ1)
    mean(x) = m + c(x)ᵀα        var(x) = k(x,x) − ‖L⁻¹c(x)‖²        c(x) = Rᵀk(Z,x)

For one owner, whose function is f + b_k + g_k, its own rows of c and the prior variance have the effects' covariance
added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..devices import memory_factor
from ..kernels import Kernel
from . import linalg
from .effects import NO_EFFECTS, Effects, Offset
from .posterior import Joint, Predicted
from .stacked import Stacked

NUMBERS = 2**24  # in the covariances of pseudo-observations and points that are held at once


class ExactPosterior(NamedTuple):
    kernel: Kernel
    mean: Tensor
    stacked: Stacked
    L: Tensor  # (n, n)
    alpha: Tensor  # (n,)
    owner: int | None = None  # whose function it is of; the shared one unless given
    effects: Effects = NO_EFFECTS  # by which that differs from the shared one

    @property
    def dimension(self) -> int:
        return self.stacked.Z.shape[-1]

    def predict(self, X: Tensor) -> Predicted:
        """Mean and variance at each row of X (n, D), in chunks."""
        size = max(1, int(memory_factor(X.device) * NUMBERS / max(len(self.alpha), len(self.stacked.Z))))
        parts = [self._predict(chunk) for chunk in X.split(size)]
        return Predicted(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _predict(self, X: Tensor) -> Predicted:
        c = self._cross(X)
        prior = self.kernel.diagonal(X)
        if self.effects.present:
            prior = prior + self.effects.diagonal(self.kernel, X)
        variance = prior - linalg.solve_lower(self.L, c).square().sum(0)
        return Predicted(self.mean + c.mT @ self.alpha, variance.clamp_min(0))

    def joint(self, X: Tensor) -> Joint:
        """Mean and covariance at the rows of X (…, n, D); one solve for the whole batch."""
        *batch, n, D = X.shape
        c = self._cross(X.reshape(-1, D))
        mean = (self.mean + c.mT @ self.alpha).reshape(*batch, n)
        W = linalg.solve_lower(self.L, c).mT.reshape(*batch, n, len(self.alpha))
        prior = self.kernel.matrix(X, X)
        return Joint(mean, prior + self.effects.matrix(self.kernel, X, X, prior) - W @ W.mT)

    def _cross(self, X: Tensor) -> Tensor:
        """c = Rᵀk(Z, X), (n, number of points), with the owner's effects where there is one."""
        K = self.kernel.matrix(self.stacked.Z, X)
        if self.owner is None:
            return self.stacked.observe(K)
        own = (self.stacked.point_owner == self.owner).to(K.dtype)[:, None]
        # R is block-diagonal, so that what is added at the owner's points reaches the owner's rows only
        return self.stacked.observe(K + own * self.effects.matrix(self.kernel, self.stacked.Z, X, K))

    def offset(self, owner: int) -> Offset:
        """b_k given everything: mean σ_b²a_kᵀα and variance σ_b² − σ_b⁴a_kᵀA⁻¹a_k, with a_k its rows of Rᵀ1."""
        s = self.effects.offset
        a = torch.where(self.stacked.owner == owner, self.stacked.ones, torch.zeros_like(self.stacked.ones))
        variance = s - s**2 * linalg.solve_lower(self.L, a[:, None]).square().sum()
        return Offset(float(s * (a @ self.alpha)), float(torch.as_tensor(variance).clamp_min(0).sqrt()))

    def to(self, device: torch.device) -> ExactPosterior:
        return self if self.alpha.device == device else self.map(lambda t: t.to(device))

    def copy(self) -> ExactPosterior:
        """One that may be written to."""
        return self.map(torch.Tensor.clone)

    def map(self, change: Callable[[Tensor], Tensor]) -> ExactPosterior:
        """Every tensor in it changed in the same way."""
        kernel = self.kernel.with_theta(change(self.kernel.theta))
        mean, L, alpha = change(self.mean), change(self.L), change(self.alpha)
        return self._replace(kernel=kernel, mean=mean, stacked=self.stacked.map(change), L=L, alpha=alpha)

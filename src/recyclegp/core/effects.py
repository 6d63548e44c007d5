"""How owners differ: owner k sees f_k = f + b_k + g_k, a constant of its own and a smooth function of its own.

    b_k ~ N(0, σ_b²)        g_k ~ GP(0, σ_d² k)        D_k = σ_b²11ᵀ + σ_d²K_kk

Both are integrated out exactly. At σ_b = σ_d = 0 there are none, and everybody sees the shared f.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

Value = float | Tensor


@dataclass(frozen=True)
class Effects:
    """The two variances; tensors while they are learned."""

    offset: Value = 0.0  # σ_b², in the units of y²
    smooth: Value = 0.0  # σ_d², as a share of the kernel's own variance

    @property
    def present(self) -> bool:
        return any(isinstance(v, Tensor) or v > 0 for v in (self.offset, self.smooth))

    @property
    def offset_sd(self) -> float:
        """σ_b."""
        return math.sqrt(float(self.offset))

    @property
    def smooth_sd(self) -> float:
        """σ_d."""
        return math.sqrt(float(self.smooth))

    def in_units(self, scale: float) -> Effects:
        """Those of s·f: a share stays a share."""
        return Effects(self.offset * scale**2, self.smooth)

    def covariance(self, prior: Tensor) -> Tensor:
        """Of b_k + g_k between points where f has this prior covariance (or, point by point, variance)."""
        return self.smooth * prior + self.offset

    def observed(self, RKR: Tensor, ones: Tensor) -> Tensor:
        """R_kᵀD_kR_k = σ_b²(R_kᵀ1)(R_kᵀ1)ᵀ + σ_d²R_kᵀK_kkR_k, (…, r, r)."""
        return self.offset * (ones[..., :, None] * ones[..., None, :]) + self.smooth * RKR


NO_EFFECTS = Effects()


class Offset(NamedTuple):
    """What is known of one owner's b_k."""

    mean: float
    sd: float


def stacked_covariance(
    gram: Tensor, ones: Tensor, owner: Tensor, effects: Effects, noise: Tensor | None = None
) -> Tensor:
    """A = I + RᵀKR + blockdiag_k(R_kᵀD_kR_k), from RᵀKR (n, n), Rᵀ1 (n,) and the owner of each row (n,).

    `noise` (n,) is the variance of each pseudo-observation where it is not one.
    """
    noise = torch.ones_like(ones) if noise is None else noise
    if not effects.present:
        return gram + torch.diag_embed(noise)
    offset, smooth = (
        torch.as_tensor(v, dtype=gram.dtype, device=gram.device) for v in (effects.offset, effects.smooth)
    )
    return _stacked_covariance(gram, ones, owner, offset, smooth, noise)


class _StackedCovariance(torch.autograd.Function):
    """Written out because autograd would keep, and run through, a dozen matrices of this size."""

    @staticmethod
    def forward(
        ctx: Any, gram: Tensor, ones: Tensor, owner: Tensor, offset: Tensor, smooth: Tensor, noise: Tensor
    ) -> Tensor:
        ctx.save_for_backward(gram, ones, owner, smooth)
        same = (owner[:, None] == owner[None, :]).to(gram.dtype)
        own = torch.outer(offset * ones, ones).add_(smooth * gram)
        A = own.mul_(same).add_(gram)
        A.diagonal().add_(noise)
        return A

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gram, ones, owner, smooth = ctx.saved_tensors
        slope = gradients[0]
        own = slope * (owner[:, None] == owner[None, :])
        by_smooth = torch.dot(own.flatten(), gram.flatten())
        by_offset = ones @ own @ ones
        return own.mul_(smooth).add_(slope), None, None, by_offset, by_smooth, slope.diagonal().clone()


_stacked_covariance: Callable[..., Tensor] = _StackedCovariance.apply

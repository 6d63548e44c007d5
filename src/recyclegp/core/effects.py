"""How owners differ: owner k sees f_k = f + b_k + g_k, a constant of its own and a smooth function of its own.

    b_k ~ N(0, σ_b²)        g_k ~ GP(0, σ_d² k')        D_k = σ_b²11ᵀ + σ_d²K'_kk

k' is the kernel of f with lengths of its own: what owners share and where they depart from it need not be equally
smooth. Both are integrated out exactly. At σ_b = σ_d = 0 there are none, and everybody sees the shared f.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import Kernel
from .offset import Offset as Offset

SCALES = 8  # by which a variance is scaled that is not known for certain
FEWEST_DOF, MANY_DOF = 2, 200  # of it: what is known before anything is seen, and what is as good as certainty

Value = float | Tensor


@dataclass(frozen=True)
class Effects:
    """The two variances, and how long g_k's lengths are beside those of f; tensors while they are learned."""

    offset: Value = 0.0  # σ_b², in the units of y²
    smooth: Value = 0.0  # σ_d², as a share of the kernel's own variance
    stretch: tuple[float, ...] | Tensor | None = None  # log of the ratio, by column (D,); None: they are the same
    owners: int | None = None  # of how many the variances were learned; None: they are taken as known

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
        """Those of s·f: shares and ratios stay what they are."""
        return replace(self, offset=self.offset * scale**2)

    def scaled(self, scale: float) -> Effects:
        """With variances so many times as large."""
        return replace(self, offset=scale * self.offset, smooth=scale * self.smooth)

    def kernel(self, shared: Kernel) -> Kernel:
        """k', as large as that of f."""
        if self.stretch is None:
            return shared
        return shared.lengthened(torch.as_tensor(self.stretch, dtype=torch.float64, device=shared.theta.device))

    def matrix(self, shared: Kernel, X1: Tensor, X2: Tensor, prior: Tensor | None = None) -> Tensor:
        """Covariances of b_k + g_k between points; `prior` are those of f, where they are known."""
        if self.stretch is not None or prior is None:
            prior = self.kernel(shared).matrix(X1, X2)
        return self.smooth * prior + self.offset

    def diagonal(self, shared: Kernel, X: Tensor) -> Tensor:
        """Variances of b_k + g_k."""
        return self.smooth * self.kernel(shared).diagonal(X) + self.offset

    def observed(self, RKR: Tensor, ones: Tensor) -> Tensor:
        """R_kᵀD_kR_k = σ_b²(R_kᵀ1)(R_kᵀ1)ᵀ + σ_d²R_kᵀK'_kkR_k, (…, r, r)."""
        return self.offset * (ones[..., :, None] * ones[..., None, :]) + self.smooth * RKR


NO_EFFECTS = Effects()


class Scales(NamedTuple):
    """How many times as large as learned the variances of effects may be, with probabilities."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def relative(self) -> tuple[float, ...]:
        """To their mean."""
        return tuple(s / self.mean for s in self.values)

    @property
    def mean(self) -> float:
        return math.fsum(w * s for w, s in zip(self.weights, self.values, strict=True))


def scales_of_few(owners: float) -> Scales | None:
    """Of variances learned from so many owners; None where these are so many that they are known.

    K effects leave ν = K − 1 degrees of freedom for their variance: it is s·σ̂² with s = ν/χ²_ν, so that the effect of a
    new owner is Student's t_ν. Over u, of which s is a quantile, Gauss and Legendre's rule has the 97.5% point of t
    right to 1%; and a largest s, so that also t_2 has a variance.
    """
    dof = max(owners - 1, FEWEST_DOF)
    if dof > MANY_DOF:
        return None
    from scipy.special import gammaincinv

    x, w = np.polynomial.legendre.leggauss(SCALES)
    values = 0.5 * dof / gammaincinv(0.5 * dof, 0.5 * (1 + x))
    return Scales(tuple(values.tolist()), tuple((0.5 * w).tolist()))


def stacked_covariance(
    gram: Tensor,
    ones: Tensor,
    owner: Tensor,
    effects: Effects,
    noise: Tensor | None = None,
    own: Tensor | None = None,
) -> Tensor:
    """A = I + RᵀKR + blockdiag_k(R_kᵀD_kR_k), from RᵀKR (n, n), Rᵀ1 (n,) and the owner of each row (n,).

    `noise` (n,) is the variance of each pseudo-observation where it is not one, `own` is RᵀK'R where it is not RᵀKR.
    """
    noise = torch.ones_like(ones) if noise is None else noise
    if not effects.present:
        return gram + torch.diag_embed(noise)
    # a number is written there by the GPU itself, which nobody waits for
    variances = effects.offset, effects.smooth
    offset, smooth = (v if isinstance(v, Tensor) else gram.new_full((), v) for v in variances)
    return _stacked_covariance(gram, gram if own is None else own, ones, owner, offset, smooth, noise)


class _StackedCovariance(torch.autograd.Function):
    """Written out because autograd would keep, and run through, a dozen matrices of this size."""

    @staticmethod
    def forward(
        ctx: Any, gram: Tensor, own: Tensor, ones: Tensor, owner: Tensor, offset: Tensor, smooth: Tensor, noise: Tensor
    ) -> Tensor:
        ctx.save_for_backward(own, ones, owner, smooth)
        same = (owner[:, None] == owner[None, :]).to(gram.dtype)
        A = torch.outer(offset * ones, ones).add_(smooth * own).mul_(same).add_(gram)
        A.diagonal().add_(noise)
        return A

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        own, ones, owner, smooth = ctx.saved_tensors
        slope = gradients[0]
        within = slope * (owner[:, None] == owner[None, :])
        by_smooth = torch.dot(within.flatten(), own.flatten())
        by_offset = ones @ within @ ones
        return slope, within.mul_(smooth), None, None, by_offset, by_smooth, slope.diagonal().clone()


_stacked_covariance: Callable[..., Tensor] = _StackedCovariance.apply

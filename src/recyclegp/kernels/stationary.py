"""Correlations that fall with the distance: φ(d), for points measured in lengthscales.

GPyTorch has the same formulas. They stand here again because a kernel must be a value: a function of plain tensors
with any number of leading axes, accurate for points far from zero, and cheap to differentiate. The derivative by the
lengthscales, which learning asks for hundreds of times, costs one more product of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch import Tensor

FEW_COLUMNS = 16  # up to here taking differences one by one is as fast as a product of matrices (on a CPU)


class Form(Enum):
    """Stationary kernels whose only parameters are lengthscales."""

    RBF = "rbf"
    MATERN12 = "matern12"
    MATERN32 = "matern32"
    MATERN52 = "matern52"


def correlation(form: Form, log_lengthscale: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
    """φ of the distances between X1 (…, n, D) and X2 (…, m, D) in lengthscales (…, D) or (…, 1)."""
    if X1.requires_grad or X2.requires_grad:  # points that move: rare, and any derivative may be wanted
        scale = log_lengthscale.exp()[..., None, :]
        return FORMULAS[form](squared_distance(X1 / scale, X2 / scale))
    return _of_lengthscales(form, log_lengthscale, X1, X2)


def squared_distance(A: Tensor, B: Tensor) -> Tensor:
    """‖a − b‖² for the rows of A (…, n, D) and B (…, m, D), differentiable in both."""
    if A.shape[-1] == 1:
        return (A - B.mT).square()
    # ‖a‖² + ‖b‖² − 2aᵀb loses the fewer digits the closer the points are to zero
    middle = A.detach().mean(-2, keepdim=True)
    A, B = A - middle, B - middle
    joint = A.square().sum(-1, keepdim=True) + B.square().sum(-1, keepdim=True).mT
    return (joint - 2 * (A @ B.mT)).clamp_min(0)


def _root(s: Tensor) -> Tensor:
    """√s, with derivative zero where two points coincide."""
    return s.clamp_min(1e-300).sqrt()


def _rbf(s: Tensor) -> Tensor:
    return torch.exp(-0.5 * s)


def _matern12(s: Tensor) -> Tensor:
    return torch.exp(-_root(s))


def _matern32(s: Tensor) -> Tensor:
    r = math.sqrt(3) * _root(s)
    return (1 + r) * torch.exp(-r)


def _matern52(s: Tensor) -> Tensor:
    r = math.sqrt(5) * _root(s)
    return (1 + r + r.square() / 3) * torch.exp(-r)


# φ as functions of the squared distance, for autograd
FORMULAS: dict[Form, Callable[[Tensor], Tensor]] = {
    Form.RBF: _rbf,
    Form.MATERN12: _matern12,
    Form.MATERN32: _matern32,
    Form.MATERN52: _matern52,
}


# --- the same with fixed points, where only lengthscales are differentiated: fewer passes over the matrix ---


def _evaluate(form: Form, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """φ(d) and −2 dφ/d(d²) = −φ'(d)/d."""
    if form is Form.RBF:
        value = _exponent(A, B).exp_()
        return value, value
    d = _distance(A, B)
    if form is Form.MATERN12:
        value = torch.exp(-d)
        return value, torch.where(d > 0, value / d, 0.0)  # only ever multiplied by a distance, so by zero at zero
    r = d.mul_(math.sqrt(3 if form is Form.MATERN32 else 5))
    decay = torch.exp(-r)
    if form is Form.MATERN32:
        return (1 + r).mul_(decay), decay.mul_(3)
    slope = (1 + r).mul_(decay)
    # (1 + r + r²/3)e^(−r)
    return r.square_().mul_(decay).div_(3).add_(slope), slope.mul_(5 / 3)


def _exponent(A: Tensor, B: Tensor) -> Tensor:
    """−½‖a − b‖²."""
    if A.shape[-1] == 1:
        return (A - B.mT).square_().mul_(-0.5)
    # aᵀb − ½‖a‖² − ½‖b‖² as one product of matrices with two more columns
    middle = A.mean(-2, keepdim=True)
    A, B = A - middle, B - middle
    a, b = (t.square().sum(-1, keepdim=True).mul_(-0.5) for t in (A, B))
    left, right = torch.cat([A, a, torch.ones_like(a)], -1), torch.cat([B, torch.ones_like(b), b], -1)
    return (left @ right.mT).clamp_max_(0)


def _distance(A: Tensor, B: Tensor) -> Tensor:
    """‖a − b‖. The root of a small difference of large squares would be wrong in its eighth digit."""
    if A.is_cuda or A.shape[-1] > FEW_COLUMNS:
        return squared_distance(A, B).sqrt_()
    return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist")


class _Correlation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: Form, log_lengthscale: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        scale = log_lengthscale.exp()[..., None, :]
        A, B = X1 / scale, X2 / scale
        value, slope = _evaluate(form, A, B)
        if ctx.needs_input_grad[1]:
            ctx.shape = log_lengthscale.shape
            ctx.save_for_backward(A, B, slope)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        A, B, slope = ctx.saved_tensors
        # ∂φ/∂log ℓ_d = (−2 dφ/d(d²))·(a_d − b_d)², summed over all pairs with weights W = G∘(…)
        W = gradients[0] * slope
        middle = A.mean(-2, keepdim=True)
        A, B = A - middle, B - middle
        rows, columns = W.sum(-1)[..., None], W.sum(-2)[..., None]
        total = (rows * A.square()).sum(-2) + (columns * B.square()).sum(-2) - 2 * (A * (W @ B)).sum(-2)
        # what several matrices or columns share collects the gradients of all of them
        return None, total.sum_to_size(ctx.shape), None, None


_of_lengthscales: Callable[..., Tensor] = _Correlation.apply

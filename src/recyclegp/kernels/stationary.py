"""Correlations that fall with the distance: φ(d), for points measured in lengthscales.

GPyTorch has the same formulas. They stand here again because a kernel must be a value: a function of plain tensors
with any number of leading axes, accurate for points far from zero, and cheap to differentiate. The derivatives by
lengthscales and variance, which learning asks for hundreds of times, cost one more product of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch import Tensor

FEW_COLUMNS = 16  # up to here taking differences one by one is as fast as a product of matrices (on a CPU)
FAR = 1e6  # half the squared distance from the middle, in lengthscales, beyond which a product of matrices loses digits


class Form(Enum):
    """Stationary kernels whose only parameters are lengthscales."""

    RBF = "rbf"
    MATERN12 = "matern12"
    MATERN32 = "matern32"
    MATERN52 = "matern52"


def correlation(form: Form, log_lengthscale: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
    """φ of the distances between X1 (…, n, D) and X2 (…, m, D) in lengthscales (…, D) or (…, 1)."""
    return covariance(form, torch.zeros_like(log_lengthscale[..., :1]), log_lengthscale, X1, X2)


def covariance(form: Form, log_variance: Tensor, log_lengthscale: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
    """vφ, for variances v (…, 1)."""
    if X1.requires_grad or X2.requires_grad:  # points that move: rare, and any derivative may be wanted
        scale = log_lengthscale.exp()[..., None, :]
        return log_variance.exp()[..., None] * _formula(form, squared_distance(X1 / scale, X2 / scale))
    return _of_parameters(form, log_variance, log_lengthscale, X1, X2)


def squared_distance(A: Tensor, B: Tensor) -> Tensor:
    """‖a − b‖² for the rows of A (…, n, D) and B (…, m, D), differentiable in both."""
    if A.shape[-1] == 1:
        return (A - B.mT).square()
    # ‖a‖² + ‖b‖² − 2aᵀb loses the fewer digits the closer the points are to zero
    middle = A.detach().mean(-2, keepdim=True)
    A, B = A - middle, B - middle
    joint = A.square().sum(-1, keepdim=True) + B.square().sum(-1, keepdim=True).mT
    return (joint - 2 * (A @ B.mT)).clamp_min(0)


def _formula(form: Form, s: Tensor) -> Tensor:
    """φ as a function of the squared distance, for autograd."""
    if form is Form.RBF:
        return torch.exp(-0.5 * s)
    r = s.clamp_min(1e-300).sqrt()  # with derivative zero where two points coincide
    if form is Form.MATERN12:
        return torch.exp(-r)
    r = math.sqrt(3 if form is Form.MATERN32 else 5) * r
    return (1 + r if form is Form.MATERN32 else 1 + r + r.square() / 3) * torch.exp(-r)


# --- the same with fixed points, where only parameters are differentiated: fewer passes over the matrix ---


def _evaluate(form: Form, log_variance: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """vφ(d) and −2v dφ/d(d²) = −vφ'(d)/d."""
    if form is Form.RBF:
        value = _exponent(log_variance[..., None], A, B).exp_()
        return value, value
    variance, d = log_variance.exp()[..., None], _distance(A, B)
    if form is Form.MATERN12:
        value = torch.exp(-d).mul_(variance)
        return value, torch.where(d > 0, value / d, 0.0)  # only ever multiplied by a distance, so by zero at zero
    r = d.mul_(math.sqrt(3 if form is Form.MATERN32 else 5))
    decay = torch.exp(-r).mul_(variance)
    if form is Form.MATERN32:
        return (1 + r).mul_(decay), decay.mul_(3)
    slope = (1 + r).mul_(decay)
    # (1 + r + r²/3)e^(−r)
    return r.square_().mul_(decay).div_(3).add_(slope), slope.mul_(5 / 3)


def _exponent(log_variance: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """log v − ½‖a − b‖²."""
    if A.shape[-1] == 1:
        d = A - B.mT
        return torch.addcmul(log_variance, d, d, value=-0.5, out=d)
    # aᵀb − ½‖a‖² − ½‖b‖² as one product of matrices with two more columns
    middle = A.mean(-2, keepdim=True)
    near, other = A - middle, B - middle
    a, b = (t.square().sum(-1, keepdim=True).mul_(-0.5) for t in (near, other))
    if a.numel() and b.numel() and float(torch.minimum(a.amin(), b.amin())) < -FAR:
        return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist").square_().mul_(-0.5).add_(log_variance)
    left = torch.cat([near, a + log_variance, torch.ones_like(a)], -1)
    right = torch.cat([other, torch.ones_like(b), b], -1)
    product = left @ right.mT
    return torch.minimum(product, log_variance, out=product)


def _distance(A: Tensor, B: Tensor) -> Tensor:
    """‖a − b‖. The root of a small difference of large squares would be wrong in its eighth digit."""
    if A.is_cuda or A.shape[-1] > FEW_COLUMNS:
        return squared_distance(A, B).sqrt_()
    return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist")


class _Covariance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: Form, log_variance: Tensor, log_lengthscale: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        scale = log_lengthscale.exp()[..., None, :]
        A, B = X1 / scale, X2 / scale
        value, slope = _evaluate(form, log_variance, A, B)
        if any(ctx.needs_input_grad):
            ctx.shapes = log_variance.shape, log_lengthscale.shape
            # ∂vφ/∂log v = vφ, which is the slope of an RBF
            ctx.save_for_backward(A, B, slope, value if ctx.needs_input_grad[1] and value is not slope else None)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        A, B, slope, value = ctx.saved_tensors
        D = A.shape[-1]
        # ∂vφ/∂log ℓ_d = (−2v dφ/d(d²))·(a_d − b_d)², summed over all pairs with weights W = G∘(…)
        W = gradients[0] * slope
        middle = A.mean(-2, keepdim=True)
        A, B = A - middle, B - middle
        # [1 a a²]ᵀW, in one pass over W: Σ W(a − b)² = Σ a²ᵀW − 2(aᵀW)b + (1ᵀW)b²
        sums = (torch.cat([torch.ones_like(A[..., :1]), A, A.square()], -1).mT @ W).mT
        total, first, second = sums.split([1, D, D], -1)
        lengthscale = (second - 2 * first * B + total * B.square()).sum(-2)
        variance = total.sum(-2) if value is None else (gradients[0] * value).sum((-2, -1))[..., None]
        # what several matrices or columns share collects the gradients of all of them
        shapes = ctx.shapes
        return None, variance.sum_to_size(shapes[0]), lengthscale.sum_to_size(shapes[1]), None, None


_of_parameters: Callable[..., Tensor] = _Covariance.apply

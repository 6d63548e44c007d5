"""Correlations that fall with the distance: φ(d), for points measured in lengthscales.

GPyTorch has the same formulas. They stand here again because a kernel must be a value: a function of plain tensors
with any number of leading axes, accurate for points far from zero, and cheap to differentiate. The derivatives by
lengthscales and variance, which learning asks for hundreds of times, cost one more product of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..devices import holds

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
    if not torch.is_grad_enabled():  # what autograd would remember is not made
        scale = log_lengthscale.exp()[..., None, :]
        return evaluate(form, log_variance, X1 / scale, X2 / scale, Wanted.NOTHING).value
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


class Values(NamedTuple):
    """vφ, and what its derivative by lengthscales is made of, if that was asked for."""

    value: Tensor
    by_length: Tensor | None = None  # ∂vφ/∂log ℓ, where one lengthscale stands for all columns
    slope: Tensor | None = None  # −2v dφ/d(d²) = −vφ'(d)/d, where each column has its own


class Wanted(Enum):
    """Of the derivative by lengthscales."""

    NOTHING = "nothing"
    BY_LENGTH = "by length"
    SLOPE = "slope"


def evaluate(form: Form, log_variance: Tensor, A: Tensor, B: Tensor, wanted: Wanted) -> Values:
    """Written for few passes over the matrix, and fewer new ones: where it is large, memory is what takes time."""
    log_variance = log_variance[..., None]
    if form is Form.RBF:
        return _rbf(log_variance, A, B, wanted)
    r = _distance(A, B)
    if form is Form.MATERN12:
        value = torch.sub(log_variance, r).exp_()
        if wanted is Wanted.SLOPE:  # only ever multiplied by a distance, so by zero at zero
            return Values(value, slope=torch.where(r > 0, value / r, 0.0))
        return Values(value, by_length=r.mul_(value) if wanted is Wanted.BY_LENGTH else None)
    r.mul_(math.sqrt(3 if form is Form.MATERN32 else 5))
    decay = torch.sub(log_variance, r).exp_()  # v e^(−r)
    more = r + 1
    if form is Form.MATERN32:
        value = more.mul_(decay)  # (1 + r)e^(−r)
        if wanted is Wanted.SLOPE:
            return Values(value, slope=decay.mul_(3))
        return Values(value, by_length=r.square_().mul_(decay) if wanted is Wanted.BY_LENGTH else None)
    slope = more.mul_(decay)  # (1 + r)e^(−r)
    square = r.square_().mul_(1 / 3)
    value = decay.mul_(square).add_(slope)  # (1 + r + r²/3)e^(−r)
    if wanted is Wanted.SLOPE:
        return Values(value, slope=slope.mul_(5 / 3))
    return Values(value, by_length=square.mul_(slope) if wanted is Wanted.BY_LENGTH else None)


def _rbf(log_variance: Tensor, A: Tensor, B: Tensor, wanted: Wanted) -> Values:
    value = _exponent(log_variance, A, B)
    if wanted is not Wanted.BY_LENGTH:
        value.exp_()
        return Values(value, slope=value)
    square = torch.sub(log_variance, value)  # ½d²
    value.exp_()
    return Values(value, by_length=square.mul_(value).mul_(2))  # d²e^(−d²/2)


def _exponent(log_variance: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """log v − ½‖a − b‖²."""
    if A.shape[-1] == 1:
        d = A - B.mT
        return torch.addcmul(log_variance, d, d, value=-0.5, out=d)
    # aᵀb − ½‖a‖² − ½‖b‖² as one product of matrices with two more columns
    middle = A.mean(-2, keepdim=True)
    near, other = A - middle, B - middle
    half = A.new_full((A.shape[-1], 1), -0.5)  # a product sums over few columns faster than a sum does
    a, b = near.square() @ half, other.square() @ half
    if a.numel() and b.numel() and not holds(~(torch.minimum(a.amin(), b.amin()) < -FAR)):
        return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist").square_().mul_(-0.5).add_(log_variance)
    left = torch.cat([near, a + log_variance, torch.ones_like(a)], -1)
    right = torch.cat([other, torch.ones_like(b), b], -1)
    product = left @ right.mT
    return torch.minimum(product, log_variance, out=product)


def _distance(A: Tensor, B: Tensor) -> Tensor:
    """‖a − b‖. The root of a small difference of large squares would be wrong in its eighth digit."""
    if A.shape[-1] == 1:
        return (A - B.mT).abs_()
    if A.is_cuda or A.shape[-1] > FEW_COLUMNS:
        return squared_distance(A, B).sqrt_()
    return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist")


class _Covariance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: Form, log_variance: Tensor, log_lengthscale: Tensor, X1: Tensor, X2: Tensor) -> Tensor:
        scale = log_lengthscale.exp()[..., None, :]
        A, B = X1 / scale, X2 / scale
        one_length = log_lengthscale.shape[-1] == 1
        wanted = Wanted.NOTHING
        if ctx.needs_input_grad[2]:
            wanted = Wanted.BY_LENGTH if one_length else Wanted.SLOPE
        found = evaluate(form, log_variance, A, B, wanted)
        if any(ctx.needs_input_grad):
            ctx.shapes = log_variance.shape, log_lengthscale.shape
            value = found.value if ctx.needs_input_grad[1] else None  # ∂vφ/∂log v = vφ
            ctx.save_for_backward(A, B, value, found.by_length, found.slope if wanted is Wanted.SLOPE else None)
        return found.value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        A, B, value, by_length, slope = ctx.saved_tensors
        (G,) = gradients
        # what several matrices or columns share collects the gradients of all of them
        lengthscale = None
        if by_length is not None:
            lengthscale = _inner(G, by_length).sum_to_size(ctx.shapes[1])
        elif slope is not None:
            lengthscale = by_column(G * slope, A, B).sum_to_size(ctx.shapes[1])
        variance = None if value is None else _inner(G, value).sum_to_size(ctx.shapes[0])
        return None, variance, lengthscale, None, None


def _inner(G: Tensor, T: Tensor) -> Tensor:
    """Σ G∘T of each matrix, (…, 1)."""
    if G.ndim == 2:  # of a single one without a new matrix, which may be large
        return (G.flatten() @ T.flatten())[None]
    return (G * T).sum((-2, -1))[..., None]


def by_column(W: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """Σ W(a_d − b_d)² over all pairs, by columns d: of W = G∘slope the derivatives by log ℓ_d."""
    D, middle = A.shape[-1], A.mean(-2, keepdim=True)
    A, B = A - middle, B - middle
    # [1 a a²]ᵀW, in one pass over W: Σ W(a − b)² = Σ a²ᵀW − 2(aᵀW)b + (1ᵀW)b²
    sums = (torch.cat([torch.ones_like(A[..., :1]), A, A.square()], -1).mT @ W).mT
    total, first, second = sums.split([1, D, D], -1)
    return (second - 2 * first * B + total * B.square()).sum(-2)


_of_parameters: Callable[..., Tensor] = _Covariance.apply

"""The exact evidence of many models with a stationary kernel, and its derivatives from the factor that gave the value.

The same as `bounds.log_marginal` of the kernel's matrix. What is n × n is made and used up for a few models at a time,
in a core's own cache; of what autograd would keep until all values are known, only a handful of numbers are left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..devices import memory_factor
from ..errors import NotPositiveDefiniteError
from ..kernels.stationary import Form, Wanted, by_column, evaluate
from . import linalg
from .bounds import log_sharpness

AT_ONCE = 2**17  # numbers in the matrices that a core works on at once


def log_marginal(
    form: Form,
    log_variance: Tensor,
    log_lengthscale: Tensor,
    X: Tensor,
    y: Tensor,
    mean: Tensor,
    noise: Tensor,
    w: Tensor,
) -> Tensor:
    """(B,)  log N(y; m1, vφ(X, X) + σ²W⁻²), for B variances (B, 1), lengthscales (B, D) or (B, 1), means and noises.

    Derivatives are by these alone. As in `bounds.log_marginal` a row with w = 0 is padding. A model whose matrix no
    jitter mends has NaN.
    """
    return _log_marginal(log_variance, log_lengthscale, mean, noise, form, X, y, w)


class _Evidence(NamedTuple):
    """Values (b,) and their derivatives: by log v (b, 1), by log ℓ (b, D) or (b, 1), by m and by σ² (b,)."""

    value: Tensor
    by_variance: Tensor
    by_length: Tensor
    by_mean: Tensor
    by_noise: Tensor


class _LogMarginal(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        log_variance: Tensor,
        log_lengthscale: Tensor,
        mean: Tensor,
        noise: Tensor,
        form: Form,
        X: Tensor,
        y: Tensor,
        w: Tensor,
    ) -> Tensor:
        most, derivatives = memory_factor(y.device) * AT_ONCE, any(ctx.needs_input_grad)
        size = max(1, int(most / max(1, y.shape[-1] ** 2)))
        some = zip(*(t.split(size) for t in (log_variance, log_lengthscale, X, y, mean, noise, w)), strict=True)
        parts = [_some(form, derivatives, *own) for own in some]
        found = _Evidence(*(torch.cat(part) for part in zip(*parts, strict=True)))
        ctx.save_for_backward(*found[1:])
        return found.value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        by_variance, by_length, by_mean, by_noise = ctx.saved_tensors
        (g,) = gradients
        return g[:, None] * by_variance, g[:, None] * by_length, g * by_mean, g * by_noise, None, None, None, None


_log_marginal: Callable[..., Tensor] = _LogMarginal.apply


def _some(
    form: Form,
    derivatives: bool,
    log_variance: Tensor,
    log_lengthscale: Tensor,
    X: Tensor,
    y: Tensor,
    mean: Tensor,
    noise: Tensor,
    w: Tensor,
) -> _Evidence:
    """With A = WKW + σ²I, α = A⁻¹W(y − m1) and S = ½(ααᵀ − A⁻¹):

    ∂/∂σ² = tr S        ∂/∂m = 1ᵀWα        ∂/∂θ = Σ S∘W(∂K/∂θ)W        ∂/∂log v = Σ S∘WKW = tr SA − σ² tr S
    """
    nothing = _Evidence(*(torch.full_like(t, torch.nan) for t in (mean, log_variance, log_lengthscale, mean, mean)))
    Z = X / log_lengthscale.exp()[..., None, :]
    one_length = log_lengthscale.shape[-1] == 1
    wanted = (Wanted.BY_LENGTH if one_length else Wanted.SLOPE) if derivatives else Wanted.NOTHING
    K, by_length, slope = evaluate(form, log_variance, Z, Z, wanted)
    real = (w > 0).to(w.dtype)
    plain = bool((w == 1).all())
    A = K if plain else K * w[..., :, None] * w[..., None, :]
    if A is slope:  # an rbf is its own slope
        A = K.clone()
    # a row of padding (w = 0) becomes an independent standard normal observed at zero, and costs nothing
    A.diagonal(dim1=-2, dim2=-1).add_(real * noise[..., None] + (1 - real))
    try:
        L, jitter = linalg.cholesky(A)
    except NotPositiveDefiniteError:
        return nothing
    z = linalg.solve_lower(L, (w * (y - mean[..., None]))[..., None])
    n, chi2 = real.sum(-1), z.square().sum((-2, -1))
    # Mahalanobis term: ½ (y−m)ᵀ(K+σ²W⁻²)⁻¹(y−m)
    value = log_sharpness(w).sum(-1) - 0.5 * n * math.log(2 * math.pi) - 0.5 * chi2 - linalg.logdet(L)
    if not derivatives:
        return nothing._replace(value=value)
    alpha = linalg.solve_upper(L, z)
    inverse = linalg.inverse(L).mT  # LAPACK writes columns; transposed, the same matrix lies in rows, as K does
    trace = 0.5 * (alpha.square().sum((-2, -1)) - (real * inverse.diagonal(dim1=-2, dim2=-1)).sum(-1))
    # tr SA = ½(χ² − n), where A has the jitter, too
    by_variance = 0.5 * (chi2 - n) - (noise + jitter) * trace
    D = by_length if slope is None else slope
    assert D is not None
    if not plain:
        D = D * w[..., :, None] * w[..., None, :]
    S = inverse.mul_(-0.5).addcmul_(alpha, alpha.mT, value=0.5).mul_(D)
    lengthscale = S.sum((-2, -1))[:, None] if one_length else by_column(S, Z, Z)
    return _Evidence(value, by_variance[:, None], lengthscale, (w * alpha[..., 0]).sum(-1), trace)

"""The objectives, one function per equation, each of quantities and not of models.

(ensemble) and the block-marginal evidence are one formula, evaluated by `least_squares.solve` on rows
gathered with and without the residual (mathematics: "merging is ridge regression").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import linalg
from .least_squares import CentredRows


def log_sharpness(w: Tensor) -> Tensor:
    """log w of rows whose noise is σ²/w², which their log densities have beside those of noise σ²; 0 for padding."""
    return torch.where(w > 0, w, torch.ones_like(w)).log()


def log_marginal(K: Tensor, y: Tensor, mean: Tensor, noise: Tensor, w: Tensor) -> Tensor:
    """log N(y; m1, K + σ²W⁻²): the exact evidence of a local Gaussian model.

    A row's noise is σ²/w²: that of all rows where w = 1; a row with w = 0 is padding, and is not there.
    """
    return _log_marginal(K, y, mean, noise, w)


class _LogMarginal(torch.autograd.Function):
    """From the factor that gave the value: with A = WKW + σ²I, α = A⁻¹W(y − m1) and S = ½(ααᵀ − A⁻¹),

    ∂/∂K = WSW        ∂/∂σ² = tr S        ∂/∂y = −Wα        ∂/∂m = 1ᵀWα
    """

    @staticmethod
    def forward(ctx: Any, K: Tensor, y: Tensor, mean: Tensor, noise: Tensor, w: Tensor) -> Tensor:
        A = (w[..., :, None] * K).mul_(w[..., None, :])
        # a row of padding (w = 0) becomes an independent standard normal observed at zero, and costs nothing
        real = (w > 0).to(w.dtype)
        A.diagonal(dim1=-2, dim2=-1).add_(real * noise[..., None] + (1 - real))
        L = linalg.cholesky(A).L
        z = linalg.solve_lower(L, (w * (y - mean[..., None]))[..., None])
        if any(ctx.needs_input_grad):
            alpha = linalg.solve_upper(L, z)
            # LAPACK writes columns; transposed, the same matrix lies in rows, as K does
            slope = torch.cholesky_inverse(L).mT.mul_(-0.5).addcmul_(alpha, alpha.mT, value=0.5)
            slope.diagonal(dim1=-2, dim2=-1).mul_(real)  # of padding, α and all of A⁻¹ but its diagonal are zero
            trace = slope.diagonal(dim1=-2, dim2=-1).sum(-1)
            if not torch.equal(w, real):  # rows have noises of their own; without them two passes are saved
                slope.mul_(w[..., :, None]).mul_(w[..., None, :])
            ctx.save_for_backward(slope, w * alpha[..., 0], trace)
        # Mahalanobis term: ½ (y−m)ᵀ(K+σ²W⁻²)⁻¹(y−m)
        mahalanobis = 0.5 * z.square().sum((-2, -1))
        constant = log_sharpness(w).sum(-1) - 0.5 * real.sum(-1) * math.log(2 * math.pi)
        return constant - mahalanobis - linalg.logdet(L)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        slope, alpha, trace = ctx.saved_tensors
        (g,) = gradients
        return g[..., None, None] * slope, -g[..., None] * alpha, g * alpha.sum(-1), g * trace, None


_log_marginal: Callable[..., Tensor] = _LogMarginal.apply


def collapsed(V: Tensor, k: Tensor, y: Tensor, mean: Tensor, noise: Tensor, w: Tensor) -> Tensor:
    """eq. (local) for Gaussian data at its best q(u), whose rows have the noise σ²/w²: Titsias' collapsed bound.

    The same as `least_squares.solve` on the data's rows, for learning: one product of features V (…, M, n) instead of
    their scaled copies.
    """
    if bool((w == 1).all()):  # neither padding nor noise that differs: some passes over the features are saved
        return _collapsed(V, k.sum(-1), y - mean[..., None], noise, y.shape[-1], 0.0)
    n, sharp = (w > 0).sum(-1), log_sharpness(w).sum(-1)
    return _collapsed(V * w[..., None, :], (w.square() * k).sum(-1), w * (y - mean[..., None]), noise, n, sharp)


class _Collapsed(torch.autograd.Function):
    """Of weighted features, w(y − m) = r, Σw²k = k, and Σ log w = `sharp`, for n rows.

    With P = VVᵀ/σ², v̂ = (I+P)⁻¹Vr/σ², at which the bound is stationary, and e = r − Vᵀv̂:

    ∂/∂V = (v̂eᵀ + V − (I+P)⁻¹V)/σ²        ∂/∂r = −e/σ²        ∂/∂k = −1/2σ²
    ∂/∂σ² = (−n + ‖e‖²/σ² + M − tr(I+P)⁻¹)/2σ² + slack/σ²
    """

    @staticmethod
    def forward(
        ctx: Any, V: Tensor, k: Tensor, r: Tensor, noise: Tensor, n: Tensor | int, sharp: Tensor | float
    ) -> Tensor:
        M = V.shape[-2]
        identity = torch.eye(M, dtype=V.dtype, device=V.device)
        P = V @ V.mT / noise[..., None, None]
        C = linalg.cholesky(identity + P).L
        v = torch.cholesky_solve(V @ r[..., None] / noise[..., None, None], C)
        e = r - (v.mT @ V)[..., 0, :]
        # χ²: ‖Vᵀv̂ − r‖²/σ² + ‖v̂‖²
        residual = e.square().sum(-1) / noise
        chi2 = residual + v.square().sum((-2, -1))
        # Trace term: tr Q/2σ²
        slack = 0.5 * (k / noise - P.diagonal(dim1=-2, dim2=-1).sum(-1)).clamp_min(0)
        if any(ctx.needs_input_grad):
            ctx.rows = n
            ctx.save_for_backward(V, C, v, e, residual, slack, noise)
        constant = sharp - 0.5 * n * (2 * math.pi * noise).log()
        return constant - 0.5 * chi2 - linalg.logdet(C) - slack

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        V, C, v, e, residual, slack, noise = ctx.saved_tensors
        M = V.shape[-2]
        identity = torch.eye(M, dtype=V.dtype, device=V.device)
        inverse = torch.cholesky_solve(identity.expand_as(C), C)
        open_ = (slack > 0).to(V.dtype)  # where rounding has left less than nothing, it stays nothing
        rate = gradients[0] / noise
        # the rate goes into the factors, which are small beside their products
        slope = (rate[..., None, None] * (open_[..., None, None] * identity - inverse)) @ V
        slope.addcmul_(rate[..., None, None] * v, e[..., None, :])
        trace = M - inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
        by_noise = rate * (0.5 * (-ctx.rows + residual + trace) + slack)
        return slope, -0.5 * rate * open_, -rate[..., None] * e, by_noise, None, None


_collapsed: Callable[..., Tensor] = _Collapsed.apply


def kl(v: Tensor, C: Tensor) -> Tensor:
    """KL[N(v̂, (CCᵀ)⁻¹) ‖ N(0, I)] of the whitened values."""
    M = C.shape[-1]
    identity = torch.eye(M, dtype=C.dtype, device=C.device)
    # Trace term: tr (CCᵀ)⁻¹ = ‖C⁻¹‖²
    trace = linalg.solve_lower(C, identity).square().sum((-2, -1))
    return 0.5 * (trace + v.square().sum(-1) - M) + linalg.logdet(C)


def local(expected: Tensor, v: Tensor, C: Tensor) -> Tensor:
    """eq. (local): Σ_i E_q[log p(y_i|f_i)] − KL[q ‖ p]; of several functions together, less all their divergences."""
    return expected.sum(-1) - _of_functions(kl(v, C), expected)


def expected_rows(rows: CentredRows, v: Tensor, C: Tensor) -> Tensor:
    """E_q[log t] of centred rows: the expected log-ratio Σ_k E[log q_k − log p_k] of (ensemble)."""
    spread = linalg.solve_lower(C, rows.H.mT).square().sum((-2, -1))
    chi2 = ((rows.H @ v[..., None])[..., 0] - rows.rho).square().sum(-1)
    return rows.e - rows.slack - 0.5 * (chi2 + spread)


def combined(expected: Tensor, rows: CentredRows, v: Tensor, C: Tensor) -> Tensor:
    """eq. (combined): new data's expected log-likelihood beside the modules' expected log-ratios."""
    return expected.sum(-1) + _of_functions(expected_rows(rows, v, C) - kl(v, C), expected)


def _of_functions(each: Tensor, expected: Tensor) -> Tensor:
    """Added up over the functions of a problem, where it has several."""
    return each if each.ndim < expected.ndim else each.sum(-1)

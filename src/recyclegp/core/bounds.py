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


def log_marginal(K: Tensor, y: Tensor, mean: Tensor, noise: Tensor, w: Tensor) -> Tensor:
    """log N(y; m1, K + σ²I): the exact evidence of a local Gaussian model, of the rows with w = 1."""
    return _log_marginal(K, y, mean, noise, w)


class _LogMarginal(torch.autograd.Function):
    """∂/∂K = ½(ααᵀ − A⁻¹) with A = K + σ²I and α = A⁻¹(y − m1), from the factor that gave the value."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, y: Tensor, mean: Tensor, noise: Tensor, w: Tensor) -> Tensor:
        A = (w[..., :, None] * K).mul_(w[..., None, :])
        # a row of padding (w = 0) becomes an independent standard normal observed at zero, and costs nothing
        A.diagonal(dim1=-2, dim2=-1).add_(w * noise[..., None] + (1 - w))
        L = linalg.cholesky(A).L
        z = linalg.solve_lower(L, (w * (y - mean[..., None]))[..., None])
        if any(ctx.needs_input_grad):
            alpha = linalg.solve_upper(L, z)
            # LAPACK writes columns; transposed, the same matrix lies in rows, as K does
            slope = torch.cholesky_inverse(L).mT.mul_(-0.5).addcmul_(alpha, alpha.mT, value=0.5)
            slope.diagonal(dim1=-2, dim2=-1).mul_(w)  # of padding, α and all of A⁻¹ but its diagonal are zero
            ctx.save_for_backward(slope, alpha[..., 0])
        # Mahalanobis term: ½ (y−m)ᵀ(K+σ²I)⁻¹(y−m)
        mahalanobis = 0.5 * z.square().sum((-2, -1))
        return -mahalanobis - linalg.logdet(L) - 0.5 * w.sum(-1) * math.log(2 * math.pi)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        slope, alpha = ctx.saved_tensors
        (g,) = gradients
        # ∂/∂y = −α, ∂/∂m = 1ᵀα, and ∂/∂σ² = tr ∂/∂K
        trace = slope.diagonal(dim1=-2, dim2=-1).sum(-1)
        return g[..., None, None] * slope, -g[..., None] * alpha, g * alpha.sum(-1), g * trace, None


_log_marginal: Callable[..., Tensor] = _LogMarginal.apply


def collapsed(V: Tensor, k: Tensor, y: Tensor, mean: Tensor, noise: Tensor, w: Tensor) -> Tensor:
    """eq. (local) for Gaussian data at its best q(u), of the rows with w = 1: Titsias' collapsed bound.

    The same as `least_squares.solve` on the data's rows, for learning: one product of features V (…, M, n) instead of
    their scaled copies.
    """
    if not bool(w.all()):  # there is padding; without it a pass over the features is saved
        V = V * w[..., None, :]
    return _collapsed(V, k, y, mean, noise, w)


class _Collapsed(torch.autograd.Function):
    """With P = VVᵀ/σ², v̂ = (I+P)⁻¹Vr/σ², at which the bound is stationary, and e = r − Vᵀv̂ for r = w(y − m):

    ∂/∂V = (v̂eᵀ + V − (I+P)⁻¹V)/σ²        ∂/∂m = Σwe/σ²        ∂/∂k = −w/2σ²
    ∂/∂σ² = (−n + ‖e‖²/σ² + M − tr(I+P)⁻¹)/2σ² + slack/σ²
    """

    @staticmethod
    def forward(ctx: Any, V: Tensor, k: Tensor, y: Tensor, mean: Tensor, noise: Tensor, w: Tensor) -> Tensor:
        M, n = V.shape[-2], w.sum(-1)
        r = w * (y - mean[..., None])
        identity = torch.eye(M, dtype=V.dtype, device=V.device)
        P = V @ V.mT / noise[..., None, None]
        C = linalg.cholesky(identity + P).L
        v = torch.cholesky_solve(V @ r[..., None] / noise[..., None, None], C)
        e = r - (V.mT @ v)[..., 0]
        # Misfit: ‖Vᵀv̂ − r‖²/σ² + ‖v̂‖²
        residual = e.square().sum(-1) / noise
        misfit = residual + v.square().sum((-2, -1))
        # Trace term: tr Q/2σ²
        slack = 0.5 * ((w * k).sum(-1) / noise - P.diagonal(dim1=-2, dim2=-1).sum(-1)).clamp_min(0)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(V, C, v, e, residual, slack, noise, w)
        return -0.5 * n * (2 * math.pi * noise).log() - 0.5 * misfit - linalg.logdet(C) - slack

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        V, C, v, e, residual, slack, noise, w = ctx.saved_tensors
        M, n = V.shape[-2], w.sum(-1)
        identity = torch.eye(M, dtype=V.dtype, device=V.device)
        inverse = torch.cholesky_solve(identity.expand_as(C), C)
        open_ = (slack > 0).to(V.dtype)  # where rounding has left less than nothing, it stays nothing
        rate = gradients[0] / noise
        slope = (open_[..., None, None] * identity - inverse) @ V + v @ e[..., None, :]
        trace = M - inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            rate[..., None, None] * slope,
            -0.5 * (rate * open_)[..., None] * w,
            -rate[..., None] * e * w,
            rate * (e * w).sum(-1),
            rate * (0.5 * (-n + residual + trace) + slack),
            None,
        )


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
    misfit = ((rows.H @ v[..., None])[..., 0] - rows.rho).square().sum(-1)
    return rows.e - rows.slack - 0.5 * (misfit + spread)


def combined(expected: Tensor, rows: CentredRows, v: Tensor, C: Tensor) -> Tensor:
    """eq. (combined): new data's expected log-likelihood beside the modules' expected log-ratios."""
    return expected.sum(-1) + _of_functions(expected_rows(rows, v, C) - kl(v, C), expected)


def _of_functions(each: Tensor, expected: Tensor) -> Tensor:
    """Added up over the functions of a problem, where it has several."""
    return each if each.ndim < expected.ndim else each.sum(-1)

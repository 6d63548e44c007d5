"""What a module's rows say about their noise, and its site at another noise than it was published under.

A Gaussian module is the likelihood of its rows, y = Wu + r with r ~ N(0, σ²I + Q), compressed to

    log p(y | u, σ²) = −(n/2)log 2πσ² − logdet B − ½(χ² + ‖Rᵀu − ρ‖²)        BBᵀ = I + Q/σ²

where Q is what the points leave open. At another noise σ'², and under another kernel, the covariance of r is taken to
be larger by one factor,

    τ = (σ'² + q')/(σ² + q),   q = tr Q/n        R, ρ → R/√τ, ρ/√τ        e → e + ½χ²(1 − 1/τ) − (n/2)log τ

which is exact where the points express the rows (q = q' = 0): then the evidence of a merge, as a function of the noise,
is that of all the rows. Rows are between the points, so that q goes with what the points leave open of each other,

    q' = κ q · open(θ')/open(θ)        open(θ) = mean_j 1/[K_ZZ(θ)⁻¹]_jj

What a fit calls noise is more than noise where its kernel θ is smoother than f. With A = K_ZZ(θ) + σ²I, each point is
predicted from the others as if there was a row at each; of f of kernel θ' that leaves, beside noise, the variance

    missed(θ') = mean_j [A⁻¹K_ZZ(θ')A⁻¹]_jj/[A⁻¹]_jj²        x = missed(θ') − missed(θ), as far as it is positive

more than the fit has counted on. So σ² is the sum of true noise and of something that is proportional to x, and what
the fit says about f(Z) is about a smoother function: f(Z) + δ, where δ has the same variance g at each point. Without
δ, ρ ~ N(Rᵀf(Z), I + gRᵀR), LLᵀ = I + gRᵀR,

    R, ρ → RL⁻ᵀ, L⁻¹ρ        e → e − logdet L
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..kernels import Kernel
from . import linalg
from .noise_evidence import NoiseEvidence as NoiseEvidence
from .sites import Site

NUGGET = 1e-6  # of the variance: what points leave open of each other is not known more finely


def left_open(kernel: Kernel, Z: Tensor) -> Tensor:
    """open(θ): the variance of f at one point that the other points leave open, on average; (…) for Z (…, M, D)."""
    return _left_open(kernel.matrix(Z, Z))


class _LeftOpen(torch.autograd.Function):
    """With P = K⁻¹ and S = P diag(P)⁻¹, ∂(mean_j 1/P_jj)/∂K = SSᵀ/M: half the work of going back through a factor."""

    @staticmethod
    def forward(ctx: Any, K: Tensor) -> Tensor:
        identity = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
        floor = NUGGET * K.diagonal(dim1=-2, dim2=-1).mean(-1)  # where all is nugget, it is what is differentiated
        P = linalg.inverse(linalg.cholesky(K + floor[..., None, None] * identity).L)
        p = P.diagonal(dim1=-2, dim2=-1)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(P / p[..., None, :])
        return (1 / p).mean(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (S,) = ctx.saved_tensors
        M = S.shape[-1]
        slope = S @ S.mT * (gradients[0] / M)[..., None, None]
        diagonal = slope.diagonal(dim1=-2, dim2=-1)
        diagonal += NUGGET * diagonal.mean(-1, keepdim=True)  # the floor has its share of every variance
        return slope


_left_open: Callable[[Tensor], Tensor] = _LeftOpen.apply


def leave_one_out_operator(kernel: Kernel, Z: Tensor, noise: Tensor) -> Tensor:
    """B = diag(A⁻¹)⁻¹A⁻¹ (…, M, M): Bf is what is left of f(Z) when each point is predicted from the others."""
    K = kernel.matrix(Z, Z)
    identity = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    floor = noise + NUGGET * K.diagonal(dim1=-2, dim2=-1).mean(-1)
    L = linalg.cholesky(K + floor[..., None, None] * identity).L
    half = linalg.solve_lower(L, identity.expand_as(L))  # A⁻¹ = L⁻ᵀL⁻¹
    A = half.mT @ half
    return A / A.diagonal(dim1=-2, dim2=-1)[..., None]


def missed(B: Tensor, kernel: Kernel, Z: Tensor) -> Tensor:
    """missed(θ') (…): [B K_ZZ Bᵀ]_jj on average, but no more than f varies by."""
    K = kernel.matrix(Z, Z)
    return torch.minimum(((B @ K) * B).sum(-1).mean(-1), K.diagonal(dim1=-2, dim2=-1).mean(-1))


def factor(
    old: Tensor | float, residual_variance: Tensor | float, new: Tensor | float, new_residual_variance: Tensor | float
) -> Tensor | float:
    """τ, from σ² and q to σ'² and q'."""
    return (new + new_residual_variance) / (old + residual_variance)


def constant(tau: Tensor, chi2: Tensor | float, rows: Tensor | float) -> Tensor:
    """What e changes by: ½χ²(1 − 1/τ) − (n/2)log τ."""
    return 0.5 * chi2 * (1 - 1 / tau) - 0.5 * rows * tau.log()


def at_noise(site: Site, tau: float, chi2: float, rows: float, missed: float = 0.0, weight: float = 1.0) -> Site:
    """The site of rows whose covariance is τ times as large, and who have missed g of f; it will count so much."""
    t = site.e.new_tensor(tau)
    Rt, rho, e = site.Rt / t.sqrt(), site.rho / t.sqrt(), site.e + constant(t, chi2, rows)
    if missed > 0:
        L = missed_factor(Rt, t.new_tensor(missed * weight))
        Rt, rho = linalg.solve_lower(L, Rt), linalg.solve_lower(L, rho[:, None])[:, 0]
        e = e - linalg.logdet(L) / weight
    return Site(site.Z, Rt, rho, e)


def missed_factor(Rt: Tensor, g: Tensor) -> Tensor:
    """L (…, r, r) with LLᵀ = I + gRᵀR, for g (…)."""
    identity = torch.eye(Rt.shape[-2], dtype=Rt.dtype, device=Rt.device)
    return linalg.cholesky(identity + g[..., None, None] * (Rt @ Rt.mT)).L

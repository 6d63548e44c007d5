"""The objectives, one function per equation, each of quantities and not of models.

(ensemble) and the block-marginal evidence are one formula, evaluated by `least_squares.solve` on rows
gathered with and without the residual (mathematics: "merging is ridge regression").
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import linalg
from .least_squares import Rows


def log_marginal(K: Tensor, y: Tensor, mean: Tensor | float, noise: Tensor) -> Tensor:
    """log N(y; m1, K + σ²I): the exact evidence of a local Gaussian model."""
    identity = torch.eye(len(y), dtype=K.dtype, device=K.device)
    L = linalg.cholesky(K + noise * identity).L
    z = linalg.solve_lower(L, (y - mean)[:, None])[:, 0]
    # Mahalanobis term: ½ (y−m)ᵀ(K+σ²I)⁻¹(y−m)
    mahalanobis = 0.5 * z.square().sum()
    return -mahalanobis - linalg.logdet(L) - 0.5 * len(y) * math.log(2 * math.pi)


def kl(v: Tensor, C: Tensor) -> Tensor:
    """KL[N(v̂, (CCᵀ)⁻¹) ‖ N(0, I)] of the whitened values."""
    identity = torch.eye(len(v), dtype=C.dtype, device=C.device)
    # Trace term: tr (CCᵀ)⁻¹ = ‖C⁻¹‖²
    trace = linalg.solve_lower(C, identity).square().sum()
    return 0.5 * (trace + v.square().sum() - len(v)) + linalg.logdet(C)


def local(expected: Tensor, v: Tensor, C: Tensor) -> Tensor:
    """eq. (local): Σ_i E_q[log p(y_i|f_i)] − KL[q ‖ p]."""
    return expected.sum() - kl(v, C)


def expected_rows(rows: Rows, v: Tensor, C: Tensor) -> Tensor:
    """E_q[log t] of centred rows: the expected log-ratio Σ_k E[log q_k − log p_k] of (ensemble)."""
    spread = linalg.solve_lower(C, rows.H.mT).square().sum()
    return rows.e - rows.slack - 0.5 * ((rows.H @ v - rows.rho).square().sum() + spread)


def combined(expected: Tensor, rows: Rows, v: Tensor, C: Tensor) -> Tensor:
    """eq. (combined): new data's expected log-likelihood beside the modules' expected log-ratios."""
    return expected.sum() + expected_rows(rows, v, C) - kl(v, C)

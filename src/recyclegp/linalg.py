"""The one Cholesky, triangular solves and the one QR. Nothing is ever inverted."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .errors import RecycleGPError

RELATIVE_JITTER = 1e-10  # of the mean diagonal: small beside any noise a model can learn
LARGEST_JITTER = 1e-3  # a matrix that needs more is not a covariance with rounding errors


class Factor(NamedTuple):
    """L Lᵀ = A + jitter·I, with the jitter in A's own units."""

    L: Tensor
    jitter: float


def cholesky(A: Tensor, jitter: float = 0.0) -> Factor:
    """Factor A (…, n, n), growing the jitter tenfold until it succeeds; says what it added."""
    scale = A.detach().diagonal(dim1=-2, dim2=-1).mean().item() if A.numel() else 1.0
    if not 0 < scale < math.inf:  # also catches NaN
        raise RecycleGPError(
            f"a covariance matrix has mean diagonal {scale}; check the inputs for huge or non-finite "
            "values and the kernel for parameters that overflow"
        )
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    while True:
        L, info = torch.linalg.cholesky_ex(A + jitter * identity if jitter else A)
        if not info.any():
            return Factor(L, jitter)
        jitter = max(10 * jitter, RELATIVE_JITTER * scale)
        if jitter > LARGEST_JITTER * scale:
            raise RecycleGPError(
                "a covariance matrix is not positive definite even with jitter; use fewer or more "
                "distinct inducing points, a shorter lengthscale, or a larger noise"
            )


def solve_lower(L: Tensor, B: Tensor) -> Tensor:
    """L⁻¹ B."""
    return torch.linalg.solve_triangular(L, B, upper=False)


def solve_upper(L: Tensor, B: Tensor) -> Tensor:
    """L⁻ᵀ B."""
    return torch.linalg.solve_triangular(L.mT, B, upper=True)


def solve_right(L: Tensor, B: Tensor) -> Tensor:
    """B L⁻¹."""
    return torch.linalg.solve_triangular(L, B, upper=False, left=False)


def logdet(L: Tensor) -> Tensor:
    """log det L, half of log det L Lᵀ."""
    return L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class Triangle(NamedTuple):
    """‖Av − b‖² = ‖Tv − c‖² + residual for every v, with T of at most as many rows as columns."""

    T: Tensor
    c: Tensor
    residual: Tensor


def compress(A: Tensor, b: Tensor) -> Triangle:
    """Thin QR of [A b]: the same least-squares problem in at most M rows."""
    M = A.shape[-1]
    if A.shape[0] == 0:
        return Triangle(A, b, b.new_zeros(()))
    factor = torch.linalg.qr(torch.cat([A, b[:, None]], dim=1), mode="r").R
    return Triangle(factor[:M, :M], factor[:M, M], factor[M:, M].square().sum())

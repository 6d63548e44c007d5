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
    """Factor A (…, n, n), growing the jitter of those that fail tenfold until they succeed.

    Says the largest jitter it added.
    """
    scale = A.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
    if not bool(((scale > 0) & (scale < math.inf)).all()):  # also catches NaN
        raise RecycleGPError(
            "a covariance matrix has a diagonal that is not positive and finite; check the inputs for huge "
            "values and the kernel for parameters that overflow"
        )
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    added = torch.full_like(scale, jitter)
    while True:
        L, info = torch.linalg.cholesky_ex(A + added[..., None, None] * identity if added.any() else A)
        failed = info > 0
        if not bool(failed.any()):
            return Factor(L, float(added.max()) if added.numel() else jitter)
        added = torch.where(failed, torch.maximum(10 * added, RELATIVE_JITTER * scale), added)
        if bool((added > LARGEST_JITTER * scale).any()):
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

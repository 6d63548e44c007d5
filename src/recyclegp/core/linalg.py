"""The one Cholesky, triangular solves and the one QR. Nothing is inverted but where a derivative is an inverse."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..devices import holds
from ..errors import NotPositiveDefiniteError

RELATIVE_JITTER = 1e-10  # of the mean diagonal: small beside any noise a model can learn
HALVED = 2048  # rows: a larger inverse on a GPU is that of its halves, and products
LARGEST_JITTER = 1e-3  # a matrix that needs more is not a covariance with rounding errors


class Factor(NamedTuple):
    """L Lᵀ = A + jitter·I, with the jitter in A's own units."""

    L: Tensor  # (…, n, n)
    jitter: Tensor  # (…)


def cholesky(A: Tensor, jitter: Tensor | float = 0.0) -> Factor:
    """Factor A (…, n, n), growing the jitter of those that fail tenfold until they succeed.

    Of many matrices, one that no jitter mends comes back as NaN, so that its problem can stop alone;
    where none is left it is an error.
    """
    added = A.new_zeros(A.shape[:-2]) + jitter
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    none = isinstance(jitter, float) and jitter == 0
    L, info = torch.linalg.cholesky_ex(A if none else A + added[..., None, None] * identity)
    # what is not finite anywhere is not finite on the diagonal
    fine = (info == 0) & torch.isfinite(L.detach().diagonal(dim1=-2, dim2=-1).sum(-1))
    return Factor(L, added) if holds(fine.all()) else _with_more_jitter(A, added, identity)


def _with_more_jitter(A: Tensor, added: Tensor, identity: Tensor) -> Factor:
    """Of matrices among which one has failed."""
    scale = A.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
    hopeless = ~((scale > 0) & (scale < math.inf))  # also catches NaN
    if A.numel() and bool(hopeless.all()):
        raise NotPositiveDefiniteError(
            "a covariance matrix has a diagonal that is not positive and finite; check the inputs for huge "
            "values and the kernel for parameters that overflow"
        )
    largest = LARGEST_JITTER if A.dtype is torch.float64 else 0.0  # single precision is for what is well conditioned
    while True:
        L, info = torch.linalg.cholesky_ex(A + added[..., None, None] * identity)
        failed = (info > 0) & ~hopeless
        if not bool(failed.any()):
            break
        added = torch.where(failed, torch.maximum(10 * added, RELATIVE_JITTER * scale), added)
        hopeless = hopeless | (added > largest * scale)
        if bool(hopeless.all()):
            raise NotPositiveDefiniteError(
                "a covariance matrix is not positive definite even with jitter; use fewer or more "
                "distinct inducing points, a shorter lengthscale, or a larger noise"
            )
    if bool(hopeless.any()):
        L = torch.where(hopeless[..., None, None], torch.full_like(L, torch.nan), L)
    return Factor(L, added)


def solve_lower(L: Tensor, B: Tensor) -> Tensor:
    """L⁻¹ B."""
    return torch.linalg.solve_triangular(L, B, upper=False)


def solve_upper(L: Tensor, B: Tensor) -> Tensor:
    """L⁻ᵀ B."""
    return torch.linalg.solve_triangular(L.mT, B, upper=True)


def solve_right(L: Tensor, B: Tensor) -> Tensor:
    """B L⁻¹."""
    return torch.linalg.solve_triangular(L, B, upper=False, left=False)


def solve_right_upper(L: Tensor, B: Tensor) -> Tensor:
    """B L⁻ᵀ."""
    return torch.linalg.solve_triangular(L.mT, B, upper=True, left=False)


def inverse(L: Tensor) -> Tensor:
    """(LLᵀ)⁻¹, whole, as derivatives of log-determinants need it."""
    if not L.is_cuda:
        return torch.cholesky_inverse(L)
    if L.ndim > 2:  # for many at once torch takes a routine that no recording of a GPU's work may hold
        W = solve_lower(L, torch.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand_as(L))
        return W.mT @ W
    return inverse_by_halves(L, HALVED)


def inverse_by_halves(L: Tensor, small: int) -> Tensor:
    """The same by products of its halves: there torch solves for all of the identity, which is 2.4 times the work.

    With B = L₂₁L₁₁⁻¹ and S = (L₂₂L₂₂ᵀ)⁻¹ it is  [ (L₁₁L₁₁ᵀ)⁻¹ + BᵀSB   −BᵀS ]
                                                  [       −SB              S  ]
    """
    found = torch.empty_like(L)
    _fill_inverse(L, found, small)
    return found


def _fill_inverse(L: Tensor, found: Tensor, small: int) -> None:
    n = len(L)
    if n <= small:
        found.copy_(torch.cholesky_inverse(L))
        return
    h = n // 2
    S = found[h:, h:]
    _fill_inverse(L[:h, :h], found[:h, :h], small)
    _fill_inverse(L[h:, h:], S, small)
    B = solve_right(L[:h, :h], L[h:, :h])
    SB = S @ B
    found[:h, :h].addmm_(B.mT, SB)
    found[h:, :h], found[:h, h:] = SB.neg_(), SB.mT


def logdet(L: Tensor) -> Tensor:
    """log det L, half of log det L Lᵀ."""
    return L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class Triangle(NamedTuple):
    """‖Av − b‖² = ‖Tv − c‖² + residual for every v, with T of at most as many rows as columns."""

    T: Tensor
    c: Tensor
    residual: Tensor


class Equations(NamedTuple):
    """Av ≈ b."""

    A: Tensor  # (…, n, M)
    b: Tensor  # (…, n)


def compress(*parts: Equations) -> Triangle:
    """Thin QR of [A b], parts below each other: the same least-squares problem in at most M rows."""
    A, b = parts[0]
    M, rows = A.shape[-1], sum(part.A.shape[-2] for part in parts)
    if rows == 0:
        return Triangle(A, b, b.sum(-1))
    # laid out by columns, as LAPACK wants it, and factored in place: one copy instead of four
    columns = A.new_empty((*A.shape[:-2], M + 1, rows))
    begin = 0
    for A, b in parts:
        end = begin + A.shape[-2]
        columns[..., :M, begin:end], columns[..., M, begin:end] = A.mT, b
        begin = end
    augmented = columns.mT
    reflected = augmented.new_empty((*A.shape[:-2], min(augmented.shape[-2:])))
    torch.geqrf(augmented, out=(augmented, reflected))
    factor = augmented[..., : M + 1, :].triu()
    return Triangle(factor[..., :M, :M], factor[..., :M, M], factor[..., M:, M].square().sum(-1))

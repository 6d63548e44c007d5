"""Prior and pseudo-observations → predictive: the ONE conditional used by module, ensemble and update.

A jitter ε added to K_** is part of the kernel: k(x, x') + ε·[x is x']. It must therefore also be
added wherever one of the points Z_* meets itself in another set of inducing points (`same`), or a
slack is invented out of nothing. Predictions are of the smooth part of f, where it is not added.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import kernels, linalg


class Basis(NamedTuple):
    """The values of f ~ GP(m, k_θ) at Z_*, whitened: u_* = m1 + Lv with v ~ N(0, I).

    With leading axes, as many of them side by side; `real` then says which points are not padding.
    """

    tree: str
    theta: Tensor
    Z: Tensor  # (…, M, D)
    L: Tensor  # (…, M, M)
    jitter: Tensor  # (…)
    real: Tensor | None = None  # (…, M) bool


class Posterior(NamedTuple):
    """q(v) = N(v, (CCᵀ)⁻¹) on a basis, about the constant mean."""

    basis: Basis
    mean: Tensor
    v: Tensor
    C: Tensor


def basis(
    tree: str, theta: Tensor, Z: Tensor, jitter: Tensor | float | None = None, real: Tensor | None = None
) -> Basis:
    """LLᵀ = K_** + εI; without a given jitter the smallest relative one that succeeds."""
    K = kernels.matrix(tree, theta, Z, Z)
    if jitter is None:
        jitter = linalg.RELATIVE_JITTER * K.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
    if real is not None:  # a point of padding is worth nothing: independent of all others, and of f
        identity = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
        K = torch.where(real[..., :, None] & real[..., None, :], K, identity)
    L, added = linalg.cholesky(K, jitter)
    return Basis(tree, theta, Z, L, added, real)


class Same(NamedTuple):
    """Index pairs (i, j) with A[i] identical to B[j]."""

    i: Tensor
    j: Tensor


def features(base: Basis, X: Tensor, same: Same | None = None) -> Tensor:
    """V = L⁻¹K_*X (…, M, n): the values of the basis functions at X."""
    K = kernels.matrix(base.tree, base.theta, base.Z, X)
    if same is not None and len(same.i):
        K = K.index_put((same.i, same.j), base.jitter, accumulate=True)
    if base.real is not None:
        K = K.masked_fill(~base.real[..., None], 0.0)
    return linalg.solve_lower(base.L, K)


def predict(post: Posterior, X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of f at each row of X."""
    V = features(post.basis, X)
    W = linalg.solve_lower(post.C, V)
    prior = kernels.diagonal(post.basis.tree, post.basis.theta, X)
    # mean = m + Vᵀv̂,  var = k(x,x) − ΣV² + ΣW²
    variance = prior - V.square().sum(0) + W.square().sum(0)
    return post.mean + V.mT @ post.v, variance.clamp_min(0)


def covariance(post: Posterior, X: Tensor) -> Tensor:
    """Joint covariance of f at the rows of X."""
    V = features(post.basis, X)
    W = linalg.solve_lower(post.C, V)
    return kernels.matrix(post.basis.tree, post.basis.theta, X, X) - V.mT @ V + W.mT @ W

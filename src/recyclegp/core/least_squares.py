"""Merging is ridge regression: minimise ‖Hv − ρ̃‖² + ‖v‖² over the whitened values v ~ N(0, I).

Everything the library computes is an arrangement of the functions here. A row of data, a local
model and a whole ensemble all say the same kind of thing about f, "Rᵀf(Z) is ρ with unit noise",
and `gather` turns each of them into rows (H, ρ) of one regression on the values at Z_*:

    exact fit   = gather(all rows as one block, marginal)      collapsed fit = gather(each row alone)
    publish     = gather(one module,  marginal)                merge         = gather(every module)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from . import linalg


class Rows(NamedTuple):
    """Pseudo-observations Hv + m·ones ≈ ρ with unit noise, and the constants of their likelihood.

    Every tensor here may have leading axes: as many problems side by side, none aware of the others.
    """

    H: Tensor  # (…, r, M)
    rho: Tensor  # (…, r)
    ones: Tensor  # (…, r)  Rᵀ1: what a constant function would be observed as
    e: Tensor  # (…)  log-likelihood constant, summed over blocks
    slack: Tensor  # (…)  nats Z_* cannot express (zero where the residual was marginalised)


class CentredRows(NamedTuple):
    """Pseudo-observations Hv ≈ ρ̃ with unit noise: the constant mean is settled, and taken out of them."""

    H: Tensor  # (…, r, M)
    rho: Tensor  # (…, r)
    e: Tensor  # (…)
    slack: Tensor  # (…)


def gather(H: Tensor, RKR: Tensor, rho: Tensor, ones: Tensor, e: Tensor, *, marginal: bool) -> Rows:
    """Blocks H_k = R_kᵀV_kᵀ (…, K, r, M), RKR = R_kᵀK_kkR_k (…, K, r, r), ρ_k and R_kᵀ1 (…, K, r), e_k (…, K).

    marginal=False keeps Jensen's slack (ensemble bound); marginal=True integrates each block's
    residual out (block-marginal evidence), with B_kB_kᵀ = I + R_kᵀQ_kR_k, Q_k = K_kk − V_kᵀV_k.
    """
    slack = torch.zeros_like(e[..., 0])
    if marginal:
        identity = torch.eye(RKR.shape[-1], dtype=H.dtype, device=H.device)
        B = linalg.cholesky(identity + RKR - H @ H.mT).L
        # H_k ← B_k⁻¹H_k,  ρ_k ← B_k⁻¹ρ_k,  e_k ← e_k − logdet B_k
        columns = linalg.solve_lower(B, torch.cat([H, rho[..., None], ones[..., None]], dim=-1))
        H, rho, ones = columns[..., :-2], columns[..., -2], columns[..., -1]
        e = e - linalg.logdet(B)
    else:
        slack = jensen_slack(H, RKR)
    return Rows(H.flatten(-3, -2), rho.flatten(-2), ones.flatten(-2), e.sum(-1), slack)


def jensen_slack(H: Tensor, RKR: Tensor) -> Tensor:
    """slack = ½ Σ_k tr(R_kᵀQ_kR_k) = ½ Σ_k (tr R_kᵀK_kkR_k − ‖H_k‖²); rounding may leave it a little negative."""
    lost = RKR.diagonal(dim1=-2, dim2=-1).sum(-1) - H.square().sum((-2, -1))
    return 0.5 * lost.clamp_min(0).sum(-1)


def centre(rows: Rows, mean: Tensor | float) -> CentredRows:
    """ρ̃ = ρ − m·Rᵀ1: observations of v alone."""
    return CentredRows(rows.H, rows.rho - _column(mean) * rows.ones, rows.e, rows.slack)


def stack(parts: Sequence[CentredRows]) -> CentredRows:
    """Several sources of evidence about one function: rows stack, constants add."""
    H, rho, e, slack = zip(*parts, strict=True)
    return CentredRows(torch.cat(H, -2), torch.cat(rho, -1), sum(e), sum(slack))


def compress(*parts: CentredRows) -> CentredRows:
    """The same problem, of all parts together, in at most M rows: what no v can explain goes into e."""
    T, c, residual = linalg.compress(*(linalg.Equations(rows.H, rows.rho) for rows in parts))
    e, slack = sum([rows.e for rows in parts[1:]], parts[0].e), sum([rows.slack for rows in parts[1:]], parts[0].slack)
    return CentredRows(T, c, e - 0.5 * residual, slack)


def whiten(rows: CentredRows, L: Tensor, prior: Tensor) -> CentredRows:
    """Compressed rows G(u − m1) ≈ ρ̃ as rows about v, u = m1 + Lv; `prior` is Σ_k tr R_kᵀK_kkR_k of their blocks.

    H = GL⁻ᵀ, and QS = G makes GL⁻ᵀ = Q(SL⁻ᵀ), where SL⁻ᵀ is a triangle again: M rows are whitened, not all of them.
    slack = ½ Σ_k tr(R_kᵀQ_kR_k) = ½ (Σ_k tr R_kᵀK_kkR_k − ‖H‖²), as in `jensen_slack`.
    """
    T = linalg.solve_right_upper(L, rows.H)
    lost = (prior - T.square().sum((-2, -1))).clamp_min(0)
    return rows._replace(H=T, slack=rows.slack + 0.5 * lost)


class Solution(NamedTuple):
    """q(v) = N(v̂, (I+P)⁻¹) with CCᵀ = I + P, and the value of the bound there."""

    v: Tensor  # (…, M)
    C: Tensor  # (…, M, M)
    bound: Tensor  # (…)


def solve(rows: CentredRows) -> Solution:
    """The maximiser over q(u_*) and the bound there."""
    C = _factor(rows.H)
    v = _ridge(rows.H, C, rows.rho)
    # E, L_E = Σe_k − ½(‖Hv̂ − ρ̃‖² + ‖v̂‖²) − ½logdet(I+P) − slack
    # (the residual is evaluated as such, not as a difference of huge numbers)
    chi2 = (_at(rows.H, v) - rows.rho).square().sum(-1) + v.square().sum(-1)
    return Solution(v, C, rows.e - 0.5 * chi2 - linalg.logdet(C) - rows.slack)


def best_mean(rows: Rows) -> Tensor:
    """m̂, the constant prior mean that maximises the bound: one more, unpenalised, column of the same regression."""
    best = _ridge(rows.H, _factor(rows.H), rows.ones)
    unexplained = rows.ones - _at(rows.H, best)
    # onesᵀ(ones − H best) = ‖ones − H best‖² + ‖best‖², without cancellation
    information = unexplained.square().sum(-1) + best.square().sum(-1)
    return (unexplained * rows.rho).sum(-1) / information.clamp_min(1e-300)


def _factor(H: Tensor) -> Tensor:
    """C with CCᵀ = I + HᵀH."""
    identity = torch.eye(H.shape[-1], dtype=H.dtype, device=H.device)
    return linalg.cholesky(identity + H.mT @ H).L


def _ridge(H: Tensor, C: Tensor, target: Tensor) -> Tensor:
    """(I+P)⁻¹Hᵀ target."""
    return torch.cholesky_solve(H.mT @ target[..., None], C)[..., 0]


def _at(H: Tensor, v: Tensor) -> Tensor:
    """Hv."""
    return (H @ v[..., None])[..., 0]


def _column(mean: Tensor | float) -> Tensor | float:
    """A constant for each problem, to stand beside its rows."""
    return mean[..., None] if isinstance(mean, Tensor) else mean

"""Where a model that was fitted elsewhere is published: at points, none of them a row, that keep what its rows say.

Observations Rᵀf(X) with unit noise say ½logdet A about f, where A = I + RᵀK_XX R. Given f(Z), less is left of it:

    kept(Z) = ½logdet A − ½logdet A(Z)        A(Z) = I + Rᵀ(K_XX − K_XZ K_ZZ⁻¹ K_ZX)R

Points are chosen one by one, each to keep the most. With r the variance of f(z) that is still open, and c its covariance
with Rᵀf(X), that is −½log(1 − cᵀA⁻¹c/r): choosing by variance over the region, as a fit does, takes about twice as many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import linalg
from ..kernels import Kernel, continuous_columns
from .candidates import candidates, is_row, spread
from .constants import IMPORTED, PLACEMENT, PUBLISHED
from .request import Share


class Known(NamedTuple):
    """Observations Rᵀf(X) + unit noise, of which those that decide where points go."""

    X: Tensor  # (n, D)
    Rt: Tensor  # (r, n)


class Chosen(NamedTuple):
    points: Tensor  # (M, D), the most telling first
    kept: float  # of what the observations say


def place(known: Known, rows: Tensor, kernel: Kernel, wanted: Share | int, entropy: list[int]) -> Tensor:
    """So many points about the rows, or as few as keep such a share if no more than `most` do.

    They lie between neighbouring rows. Where that cannot keep the share, as where f is rough in many inputs, they lie
    nearer to rows, without being any; not if fewer points than rows are asked for, which shall not give rows away.
    """
    share, most = (wanted.kept, wanted.most) if isinstance(wanted, Share) else (1.0, wanted)
    by_number = not isinstance(wanted, Share)
    steps = IMPORTED.nearer[:1] if by_number and most <= len(rows) else IMPORTED.nearer
    best: Chosen | None = None
    for near, for_each_row in steps:
        count = most if by_number else min(most, for_each_row * len(rows))
        rng = np.random.default_rng(entropy)  # the same candidates, but nearer
        found = _nearer(_candidates(rows, count, kernel, rng), rows, near, kernel)
        last = near == steps[-1][0]
        chosen = choose(known, found, kernel, count, share, give_up=not (last or by_number))
        if best is None or chosen.kept > best.kept:
            best = chosen
        if best.kept >= min(share, IMPORTED.kept):
            break
    assert best is not None
    return best.points


def _candidates(rows: Tensor, count: int, kernel: Kernel, rng: np.random.Generator) -> Tensor:
    batched = kernel.with_theta(kernel.theta.detach()[None])
    found = candidates(rows[None], [len(rows)], count, batched, [rng])
    return found.points[0, found.present[0]]


def _nearer(points: Tensor, rows: Tensor, near: float, kernel: Kernel) -> Tensor:
    """Each at such a share of its way from the nearest row."""
    if near == 1 or not continuous_columns(kernel.structure, rows.shape[1]):
        return points
    scale = spread(rows[None], torch.ones_like(rows[None, :, :1], dtype=torch.bool))[0]
    closest = rows[torch.cdist(points / scale, rows / scale).argmin(1)]
    found = closest + near * (points - closest)
    return found[~is_row(found, rows)]


@torch.no_grad()
def choose(known: Known, points: Tensor, kernel: Kernel, count: int, share: float, *, give_up: bool) -> Chosen:
    """At most `count` of the points, one by one, until a share (and a little more) is kept.

    With give_up, it ends where even points as good as the last one would not keep the share.
    """
    X, Rt = known
    A = linalg.cholesky(torch.eye(len(Rt), dtype=Rt.dtype) + Rt @ kernel.matrix(X, X) @ Rt.mT).L
    total = float(linalg.logdet(A))  # ½logdet A, of which its factor's is all
    C = linalg.solve_lower(A, Rt @ kernel.matrix(X, points)).mT.contiguous()  # rows A^(-½)c
    prior = kernel.diagonal(points)
    noise = 1 / Rt.square().sum(0).amax()  # of the most precise value: points that tell less apart add only rounding
    floor = prior * min(PLACEMENT.residual_floor, max(IMPORTED.least_residual, float(noise / prior.mean())))
    open_, told = prior.clone(), C.square().sum(1)  # r, and cᵀA⁻¹c
    columns = points.new_zeros(len(points), min(count, len(points)))  # of the Cholesky factor of f at all candidates
    enough = 1 - PUBLISHED.spare * (1 - share)
    picks: list[int] = []
    kept = 0.0
    for step in range(columns.shape[1]):
        explained = torch.where(open_ > floor, told / open_, torch.zeros_like(prior))
        pick = int(explained.argmax())
        gain = -0.5 * math.log1p(-min(float(explained[pick]), 1 - 1e-12))
        if gain <= 1e-12 * total:
            break
        kept += gain
        picks.append(pick)
        if kept >= enough * total:
            break
        if give_up and kept + (columns.shape[1] - step - 1) * gain < share * total:
            break
        root = open_[pick].rsqrt()
        column = kernel.matrix(points, points[pick : pick + 1])[:, 0] - columns[:, :step] @ columns[pick, :step]
        column = column * root
        columns[:, step] = column
        _explain(C, told, column, C[pick] * root)
        open_ = (open_ - column.square()).clamp_min(0)
        open_[pick] = 0
    return Chosen(points[picks], kept / total if total > 0 else 1.0)


def _explain(C: Tensor, told: Tensor, column: Tensor, u: Tensor) -> None:
    """f is known in one more direction, of which u = A^(-½)c is what the observations see: C and told as they are then.

    c ← c − (column) A^(½)u  and  A ← A − A^(½)uuᵀA^(½), whose root is A^(½)(I − uuᵀ)^(½). With (I − uuᵀ)^(-½) = I + γuuᵀ,
    γ = (1/√(1 − uᵀu) − 1)/uᵀu, that is  C ← (C − column uᵀ)(I + γuuᵀ) = C + wuᵀ,  w = γ(Cu − uᵀu column) − column.
    """
    size = min(float(u @ u), 1 - 1e-12)
    along = C @ u
    w = (1 / math.sqrt(1 - size) - 1) / size * (along - size * column) - column
    told.add_(2 * w * along + w.square() * size).clamp_min_(0)
    C.addr_(w, u)

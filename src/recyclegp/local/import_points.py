"""Where a model that was fitted elsewhere is published: at points, none of them a row, that keep what its rows say.

Observations Rᵀf(X) with unit noise say ½logdet A about f, where A = I + RᵀK_XX R. Given f(Z), less is left of it:

    kept(Z) = ½logdet A − ½logdet A(Z)        A(Z) = I + Rᵀ(K_XX − K_XZ K_ZZ⁻¹ K_ZX)R

Points are chosen one by one, each to keep the most. With r the variance of f(z) that is still open, and c its
covariance with Rᵀf(X), that is −½log(1 − cᵀA⁻¹c/r): choosing by variance over the region, as a fit does, takes about
twice as many.
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

AT_ONCE = 1024  # points or rows whose distances are compared


class Known(NamedTuple):
    """Observations Rᵀf(X) + unit noise, of which those that decide where points go."""

    X: Tensor  # (n, D)
    Rt: Tensor  # (r, n)


class Chosen(NamedTuple):
    points: Tensor  # (M, D), the most telling first
    kept: float  # of what the observations say


class Way(NamedTuple):
    """Where to look for points."""

    near: float  # to rows, as a share of how far a fit's points lie from them
    most: int  # points
    among: int  # candidates are for so many


def place(known: Known, rows: Tensor, kernel: Kernel, wanted: Share | int, entropy: list[int]) -> Tensor:
    """So many points about the rows, or as few as keep such a share if no more than `most` do.

    They lie between neighbouring rows, as those of a fit, and are no more than the rows. Where that cannot keep the
    share, as where f is rough in many inputs, they lie half as far from rows, or are more than these, or both. More
    than rows give every row away to whoever computes it: what is known of f then lies in as many directions as there
    are rows, and only rows lie in all of these. Where nothing keeps the share, fewer of the most telling are taken.
    """
    share = wanted.kept if isinstance(wanted, Share) else 1.0
    best: Chosen | None = None
    ways = _ways(rows, kernel, wanted)
    for way in ways:
        rng = np.random.default_rng(entropy)  # the same candidates, but nearer
        found = _nearer(_candidates(rows, way.among, kernel, rng), rows, way.near, kernel)
        give_up = isinstance(wanted, Share) and way != ways[-1]
        chosen = choose(known, found, kernel, way.most, share, give_up=give_up)
        if best is None or chosen.kept > best.kept:
            best = chosen
        if best.kept >= min(share, IMPORTED.kept):
            break
    assert best is not None
    if isinstance(wanted, Share) and best.kept < min(share, IMPORTED.kept):
        return best.points[: IMPORTED.otherwise * len(rows)]
    return best.points


def _ways(rows: Tensor, kernel: Kernel, wanted: Share | int) -> list[Way]:
    """The least telling first, each once."""
    n = len(rows)
    limits = [(near, min(IMPORTED.most, each * n)) for near, each in IMPORTED.ways]
    if isinstance(wanted, Share):
        ways = [Way(near, min(wanted.most, most), most) for near, most in limits]
    elif wanted <= n:  # who asks for fewer points than rows shall not get them nearer to these
        ways = [Way(1.0, wanted, wanted)]
    else:  # at least as good as those that are chosen automatically
        ways = [Way(near, wanted, max(wanted, most)) for near, most in limits]
    if _recorded(rows, kernel):
        ways = [way._replace(near=1.0) for way in ways]
    return list(dict.fromkeys(ways))


def _recorded(rows: Tensor, kernel: Kernel) -> bool:
    """Has an input whole numbers, or values that come again? There rounding would make a row of what is near one."""
    free = rows[:, continuous_columns(kernel.structure, rows.shape[1])]
    whole = (free == free.round()).all(0)
    again = torch.tensor([len(torch.unique(column)) < len(rows) for column in free.mT], dtype=torch.bool)
    return bool((whole | again).any())


def _candidates(rows: Tensor, count: int, kernel: Kernel, rng: np.random.Generator) -> Tensor:
    batched = kernel.with_theta(kernel.theta.detach()[None])
    found = candidates(rows[None], [len(rows)], count, batched, [rng])
    return found.points[0, found.present[0]]


class _Nearest(NamedTuple):
    """Of each point: the nearest row, and how far it is, in distances from there to the next row."""

    row: Tensor  # (P,)
    distance: Tensor  # (P,)


def _nearest(points: Tensor, rows: Tensor, free: list[int]) -> _Nearest:
    """In standard deviations of the columns that are numbers."""
    scale = spread(rows[None], torch.ones_like(rows[None, :, :1], dtype=torch.bool))[0]
    points, rows = ((t / scale)[:, free] for t in (points, rows))
    found = [torch.cdist(some, rows).min(1) for some in points.split(AT_ONCE)]
    row, distance = torch.cat([f.indices for f in found]), torch.cat([f.values for f in found])
    places = torch.unique(rows, dim=0)  # rows of several levels may be at one
    if len(places) == 1:
        return _Nearest(row, torch.full_like(distance, torch.inf))
    next_one = torch.cat(
        [torch.cdist(some, places).topk(2, largest=False).values[:, 1] for some in rows.split(AT_ONCE)]
    )
    return _Nearest(row, distance / next_one[row])


def _nearer(points: Tensor, rows: Tensor, near: float, kernel: Kernel) -> Tensor:
    """Each at such a share of its way from the nearest row; levels stay.

    Those that by chance are beside a row, between neighbours of which they lie, are left out.
    """
    free = continuous_columns(kernel.structure, rows.shape[1])
    if not free:
        return points
    nearest = _nearest(points, rows, free)
    apart = nearest.distance >= PLACEMENT.way[0]
    if bool(apart.any()):
        points, nearest = points[apart], _Nearest(*(t[apart] for t in nearest))
    closest, found = rows[nearest.row][:, free], points.clone()
    found[:, free] = closest + near * (points[:, free] - closest) if near < 1 else points[:, free]
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
    floor = prior * min(IMPORTED.most_residual, max(IMPORTED.least_residual, float(noise / prior.mean())))
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
    """f is known in one more direction, of which the observations see u = A^(-½)c: C and told as they are then.

    c ← c − (column) A^(½)u  and  A ← A − A^(½)uuᵀA^(½), whose root is A^(½)(I − uuᵀ)^(½). With γ so that
    (I − uuᵀ)^(-½) = I + γuuᵀ, that is γ = (1/√(1 − uᵀu) − 1)/uᵀu, these are

    C ← (C − column uᵀ)(I + γuuᵀ) = C + wuᵀ        w = γ(Cu − uᵀu column) − column
    """
    size = min(float(u @ u), 1 - 1e-12)
    along = C @ u
    w = (1 / math.sqrt(1 - size) - 1) / size * (along - size * column) - column
    told.add_(2 * w * along + w.square() * size).clamp_min_(0)
    C.addr_(w, u)

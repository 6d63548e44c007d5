"""Where to put points: spread over the data's region for publishing, by slack for merging.

Both are pivoted Cholesky factorisations of a kernel matrix, by which each new point takes its share
from the variance that is left.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from . import kernel_units, kernels
from .errors import RecycleGPError

RESIDUAL_FLOOR = 1e-6  # of the prior variance: points closer than this add rounding, not knowledge
COVER_FLOOR = 1e-8  # Z_* may be denser: its jitter is shared by all modules
POOL = 4096  # data rows looked at
CROWD = 4  # candidates per point wanted
TARGETS = 512  # points whose variance is to be explained
SMALLEST_PIVOT = 0.05  # of the largest variance left


def generator(seed: int, X: Tensor) -> np.random.Generator:
    """Randomness from (seed, the data): different for different data, never the global state."""
    digest = hashlib.sha256(np.ascontiguousarray(X.detach().cpu().numpy()).tobytes()).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest[:16], dtype=np.uint32)])


def candidates(X: Tensor, rng: np.random.Generator, count: int, lengths: Tensor) -> Tensor:
    """Points that cover the region of X, none of them a row of X.

    Each lies part of the way from a row to one of its near neighbours; where all rows coincide
    there is no region, and points scatter about the one place within the kernel's lengthscales.
    """
    rows = _distinct(X[torch.as_tensor(rng.permutation(len(X))[:POOL], device=X.device)])
    n, D = rows.shape
    if n == 1:
        steps = torch.as_tensor(rng.standard_normal((count, D)), device=X.device)
        return rows + 0.1 * lengths * steps
    spread = rows.std(0).clamp_min(1e-300)
    scaled = rows / torch.where(rows.std(0) > 0, spread, torch.ones_like(spread))
    picks = torch.as_tensor(np.resize(rng.permutation(n), count), device=X.device)
    near = min(n - 1, max(2, D + 1))
    parts = []
    for chunk in picks.split(512):
        distance = torch.cdist(scaled[chunk], scaled)
        distance[torch.arange(len(chunk)), chunk] = torch.inf
        neighbours = distance.topk(near, largest=False).indices
        choice = torch.as_tensor(rng.integers(near, size=len(chunk)), device=X.device)
        other = rows[neighbours[torch.arange(len(chunk)), choice]]
        step = torch.as_tensor(rng.uniform(0.2, 0.5, size=(len(chunk), 1)), device=X.device)
        parts.append(rows[chunk] + step * (other - rows[chunk]))
    points = _distinct(torch.cat(parts))
    points = points[~_is_row(points, X)]
    if not len(points):
        raise RecycleGPError("X: its rows are as close together as floats can be; subtract an offset from X first")
    return points


def _distinct(X: Tensor) -> Tensor:
    """Rows without repetitions, in their first order (torch.unique would sort them)."""
    _, first = np.unique(X.detach().cpu().numpy(), axis=0, return_index=True)
    return X[torch.as_tensor(np.sort(first), device=X.device)]


def _is_row(points: Tensor, X: Tensor) -> Tensor:
    alike = X[torch.isin(X[:, 0], points[:, 0])]  # few of a million rows share even one coordinate
    _, label = torch.unique(torch.cat([alike, points]), dim=0, return_inverse=True)
    return torch.isin(label[len(alike) :], label[: len(alike)])


def place(X: Tensor, count: int, tree: str, theta: Tensor, rng: np.random.Generator) -> Tensor:
    """At most `count` points over the region of X, none of them a row of it."""
    points = candidates(X, rng, max(CROWD * count, 400), kernel_units.lengths(tree, theta, X.shape[1]))
    return points[spread(points, count, tree, theta, first=int(rng.integers(len(points))))]


@torch.no_grad()
def spread(points: Tensor, count: int, tree: str, theta: Tensor, first: int) -> list[int]:
    """Greedy reduction of the variance left over all points, after a first one given at random.

    The random first point is what makes modules over one region publish at different places.
    """
    targets = points[: min(len(points), TARGETS)]
    prior = kernels.diagonal(tree, theta, points)
    residual = prior.clone()
    F = kernels.matrix(tree, theta, targets, points)  # residual covariance of targets and candidates
    factor = points.new_zeros(len(points), min(count, len(points)))
    chosen: list[int] = []
    for step in range(factor.shape[1]):
        # A pivot far below the largest would leave K_ZZ badly conditioned, however much it saves.
        usable = residual > torch.maximum(RESIDUAL_FLOOR * prior, SMALLEST_PIVOT * residual.max())
        saving = torch.where(usable, F.square().sum(0) / residual, torch.zeros_like(prior))
        pivot = first if not chosen and saving[first] > 0 else int(saving.argmax())
        if not saving[pivot] > 0:
            break
        chosen.append(pivot)
        root = residual[pivot].sqrt()
        column = _eliminate(factor, residual, pivot, step, _column(points, pivot, tree, theta))
        F -= torch.outer(F[:, pivot] / root, column)
    return chosen


def _column(points: Tensor, pivot: int, tree: str, theta: Tensor) -> Tensor:
    return kernels.matrix(tree, theta, points, points[pivot : pivot + 1])[:, 0]


def _eliminate(factor: Tensor, residual: Tensor, pivot: int, step: int, column: Tensor) -> Tensor:
    """One column of a pivoted Cholesky factor, in place; the residual variances shrink by its square."""
    column = column - factor[:, :step] @ factor[pivot, :step]
    column = column / residual[pivot].sqrt()
    factor[:, step] = column
    residual -= column.square()
    residual[pivot] = 0
    residual.clamp_min_(0)
    return column


@torch.no_grad()
def cover(points: Tensor, count: int, tolerance: float, tree: str, theta: Tensor, precision: Tensor) -> list[int]:
    """Greedy Z_* among the modules' own points, best first: pivot on Λ_jj·r_jj until their sum is small.

    `precision` is Λ_jj at each point. The cheap pivot costs O(M) per point and step; the full saving of
    slack, Σ_k r_zkΛ_k r_kz / r_zz, would need every pair of points. As tr(Λ_kQ_k) ≤ M_k Σ_j Λ_jj·r_jj, the
    sum that is left bounds the slack that is left.
    """
    prior = kernels.diagonal(tree, theta, points)
    residual = prior.clone()
    factor = points.new_zeros(len(points), min(count, len(points)))
    chosen: list[int] = []
    for step in range(factor.shape[1]):
        score = torch.where(residual > COVER_FLOOR * prior, precision * residual, torch.zeros_like(residual))
        pivot = int(score.argmax())
        if float(score.sum()) <= tolerance or not score[pivot] > 0:
            break
        chosen.append(pivot)
        _eliminate(factor, residual, pivot, step, _column(points, pivot, tree, theta))
    return chosen

"""Where to put points: spread over the data's region for publishing, by slack for merging.

Both are pivoted Cholesky factorisations of a kernel matrix, by which each new point takes its share
from the variance that is left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import kernel_units, kernels
from .errors import RecycleGPError
from .posterior import Basis, basis

RESIDUAL_FLOOR = 1e-6  # of the prior variance: points closer than this add rounding, not knowledge
COVER_FLOOR = 1e-8  # Z_* may be denser: its jitter is shared by all modules
POOL = 4096  # data rows looked at
CROWD = 4  # candidates per point wanted, and ten times as many where that is few
TARGETS = 512  # points whose variance is to be explained
SMALLEST_PIVOT = 0.05  # of the largest variance left
TOGETHER = 2**21  # covariances of candidates held at once


class Points(NamedTuple):
    """Inducing points of B models side by side, the fewer ones padded."""

    Z: Tensor  # (B, M, D)
    real: Tensor  # (B, M) bool

    def at(self, lanes: Tensor) -> Points:
        return Points(self.Z[lanes], self.real[lanes])

    def basis(self, tree: str, theta: Tensor) -> Basis:
        return basis(tree, theta, self.Z, real=None if bool(self.real.all()) else self.real)

    def of(self, lane: int) -> Tensor:
        return self.Z[lane][self.real[lane]]


def entropy(seed: int, X: Tensor) -> list[int]:
    """Randomness from (seed, the data): different for different data, never the global state."""
    digest = hashlib.sha256(np.ascontiguousarray(X.detach().cpu().numpy()).tobytes()).digest()
    return [seed, *np.frombuffer(digest[:16], dtype=np.uint32).tolist()]


def crowds(
    parts: Sequence[Tensor], wanted: int, tree: str, theta: Tensor, rngs: Sequence[np.random.Generator]
) -> list[Tensor]:
    """Candidates for `wanted` points of each X (n, D): they cover its region, and none of them is a row of it.

    Each lies part of the way from a row to one of its near neighbours; where all rows coincide
    there is no region, and points scatter about the one place within the kernel's lengthscales θ (B, p).
    """
    count, D = max(CROWD * wanted, min(10 * CROWD * wanted, 400)), parts[0].shape[1]
    device = parts[0].device
    pools = [_distinct(X[_tensor(rng.permutation(len(X))[:POOL], device)]) for X, rng in zip(parts, rngs, strict=True)]
    sizes = _tensor([len(rows) for rows in pools], device)
    most = [min(len(rows) - 1, max(2, D + 1)) for rows in pools]  # neighbours it may lean towards
    picks = _tensor(
        [np.resize(rng.permutation(len(rows)), count) for rows, rng in zip(pools, rngs, strict=True)], device
    )
    which = _tensor([rng.integers(max(k, 1), size=count) for k, rng in zip(most, rngs, strict=True)], device)
    steps = _tensor([rng.uniform(0.2, 0.5, size=(count, 1)) for rng in rngs], device)
    rows = torch.nn.utils.rnn.pad_sequence(pools, batch_first=True)
    neighbours = _neighbours(rows, sizes, picks, which, max(most))
    lane = torch.arange(len(rows), device=device)[:, None]
    found = rows[lane, picks] + steps * (rows[lane, neighbours] - rows[lane, picks])
    alone = [i for i, k in enumerate(most) if k == 0]
    for i in alone:
        scatter = _tensor(rngs[i].standard_normal((count, D)), device)
        found[i] = rows[i, 0] + 0.1 * kernel_units.lengths(tree, theta[i], D) * scatter
    return [_new(points, X) for points, X in zip(found, parts, strict=True)]


def _tensor(values: object, device: torch.device) -> Tensor:
    return torch.as_tensor(np.asarray(values), device=device)


def _neighbours(rows: Tensor, sizes: Tensor, picks: Tensor, which: Tensor, most: int) -> Tensor:
    """For each picked row (B, c) the index of its `which`-th nearest other row, among rows (B, n, D)."""
    B, n, _ = rows.shape
    if n == 1:
        return torch.zeros_like(picks)
    present = (torch.arange(n, device=rows.device) < sizes[:, None])[..., None]
    middle = (rows * present).sum(1, keepdim=True) / sizes[:, None, None]
    sd = ((rows - middle).square() * present).sum(1, keepdim=True).div((sizes[:, None, None] - 1).clamp_min(1)).sqrt()
    scaled = rows / torch.where(sd > 0, sd.clamp_min(1e-300), torch.ones_like(sd))
    parts = []
    for lanes in torch.arange(B, device=rows.device).split(max(1, TOGETHER // (512 * n))):
        lane = lanes[:, None]
        columns = []
        for some, ranks in zip(picks[lanes].split(512, 1), which[lanes].split(512, 1), strict=True):
            distance = torch.cdist(scaled[lane, some], scaled[lanes])
            distance = distance.masked_fill(~present[lanes].mT, torch.inf).scatter(2, some[..., None], torch.inf)
            nearest = distance.topk(most, largest=False).indices
            columns.append(nearest.gather(2, ranks[..., None])[..., 0])
        parts.append(torch.cat(columns, 1))
    return torch.cat(parts)


def _new(points: Tensor, X: Tensor) -> Tensor:
    """Those that are no row of X, without repetitions."""
    points = _distinct(points)
    points = points[~_is_row(points, X)]
    if not len(points):
        raise RecycleGPError("X: its rows are as close together as floats can be; subtract an offset from X first")
    return points


def _distinct(X: Tensor) -> Tensor:
    """Rows without repetitions, in their first order (torch.unique would sort them)."""
    rows = X.detach().cpu().numpy()
    if len(np.unique(rows[:, 0])) == len(rows):  # one column is enough to tell them apart
        return X
    _, first = np.unique(rows, axis=0, return_index=True)
    return X[torch.as_tensor(np.sort(first), device=X.device)]


def _is_row(points: Tensor, X: Tensor) -> Tensor:
    alike = X[torch.isin(X[:, 0], points[:, 0])]  # few of a million rows share even one coordinate
    if not len(alike):
        return torch.zeros(len(points), dtype=torch.bool, device=X.device)
    _, label = torch.unique(torch.cat([alike, points]), dim=0, return_inverse=True)
    return torch.isin(label[len(alike) :], label[: len(alike)])


def place(
    crowds: Sequence[Tensor], count: int, tree: str, theta: Tensor, rngs: Sequence[np.random.Generator]
) -> Points:
    """At most `count` points from each crowd of candidates, for the kernels θ (B, p)."""
    sizes = torch.tensor([len(c) for c in crowds], device=theta.device)
    first = torch.tensor([int(rng.integers(len(c))) for rng, c in zip(rngs, crowds, strict=True)], device=theta.device)
    points = torch.nn.utils.rnn.pad_sequence(list(crowds), batch_first=True)
    present = torch.arange(points.shape[1], device=theta.device) < sizes[:, None]
    lanes = max(1, TOGETHER // (min(points.shape[1], TARGETS) * points.shape[1]))
    columns = (points, present, theta, first)
    chosen = torch.cat(
        [spread(p, a, count, tree, t, f) for p, a, t, f in zip(*(c.split(lanes) for c in columns), strict=True)]
    )
    real = chosen >= 0
    kept = int(real.sum(-1).max())
    chosen, real = chosen[:, :kept].clamp_min(0), real[:, :kept]
    return Points(points[torch.arange(len(points), device=theta.device)[:, None], chosen], real)


def over(X: Tensor, count: int, tree: str, theta: Tensor, rng: np.random.Generator) -> Tensor:
    """At most `count` points over the region of one X, none of them a row of it."""
    lane = theta.detach()[None]
    return place(crowds([X], count, tree, lane, [rng]), count, tree, lane, [rng]).of(0)


@torch.no_grad()
def spread(points: Tensor, present: Tensor, count: int, tree: str, theta: Tensor, first: Tensor) -> Tensor:
    """Greedy reduction of the variance left over all points (B, P, D), after a first one given at random.

    The random first point is what makes modules over one region publish at different places. Returns
    indices (B, ≤ count), −1 behind the last of a lane for which no more point is worth having.
    """
    B, P, _ = points.shape
    lanes = torch.arange(B, device=points.device)
    targets = min(P, TARGETS)
    prior = kernels.diagonal(tree, theta, points)
    residual = prior * present
    # F: covariance of targets and candidates. Point j would save S_j / r_jj with S_j = Σ_t F_tj² of what is left
    # of F = F₀ − Σ_i a_i b_iᵀ, which is never formed: S and Fᵀa follow from F₀, a_i and b_i.
    F = kernels.matrix(tree, theta, points[:, :targets], points) * present[:, :targets, None]
    S = F.square().sum(-2)
    a, b = points.new_zeros(B, targets, min(count, P)), points.new_zeros(B, P, min(count, P))
    chosen = torch.full((B, b.shape[2]), -1, device=points.device)
    for step in range(b.shape[2]):
        # A pivot far below the largest would leave K_ZZ badly conditioned, however much it saves.
        usable = residual > torch.maximum(RESIDUAL_FLOOR * prior, SMALLEST_PIVOT * residual.amax(-1, keepdim=True))
        saving = torch.where(usable, S / residual, torch.zeros_like(prior))
        pivot = saving.argmax(-1)
        if step == 0:
            pivot = torch.where(saving[lanes, first] > 0, first, pivot)
        live = saving[lanes, pivot] > 0
        if not bool(live.any()):
            break
        chosen[:, step] = torch.where(live, pivot, -1)
        scale = torch.where(live, residual[lanes, pivot].rsqrt(), torch.zeros_like(prior[:, 0]))[:, None]
        done = b[lanes, pivot, :step, None]
        column = kernels.matrix(tree, theta, points, points[lanes, pivot][:, None])[..., 0]
        b[..., step] = scale * (column - (b[..., :step] @ done)[..., 0])
        a[..., step] = scale * (F[lanes, :, pivot] - (a[..., :step] @ done)[..., 0])
        new_a, new_b = a[..., step, None], b[..., step]
        Fa = (F.mT @ new_a - b[..., :step] @ (a[..., :step].mT @ new_a))[..., 0]
        S = (S - 2 * new_b * Fa + new_b.square() * new_a.square().sum(-2)).clamp_min(0)
        residual = (residual - new_b.square()).clamp_min(0)
        residual[lanes, pivot] = 0
    return chosen


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
        column = kernels.matrix(tree, theta, points, points[pivot : pivot + 1])[:, 0]
        column = (column - factor[:, :step] @ factor[pivot, :step]) / residual[pivot].sqrt()
        factor[:, step] = column
        residual = (residual - column.square()).clamp_min(0)
        residual[pivot] = 0
    return chosen

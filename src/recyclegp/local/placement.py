"""Where a module's points go: spread over its data's region, none of them a row.

Of the candidates the points are chosen one by one, each to leave as little variance as possible (a pivoted Cholesky
factorisation of the kernel matrix).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import threads
from ..core.posterior import Basis, basis, features
from ..devices import memory_factor
from ..kernels import Kernel, continuous_columns
from .candidates import COVARIANCES, Candidates, as_index, candidates, spread
from .constants import PLACEMENT

__all__ = ["Candidates", "Points", "candidates", "entropies", "entropy", "moved", "over", "place"]


WORDS = struct.Struct("=4I")


class Points(NamedTuple):
    """Inducing points of B models side by side, the fewer ones padded."""

    Z: Tensor  # (B, M, D)
    real: Tensor  # (B, M) bool

    def select(self, chosen: Tensor) -> Points:
        return Points(self.Z[chosen], self.real[chosen])

    def first(self, counts: Sequence[int]) -> Points:
        """Of each model at most so many."""
        position = torch.arange(self.Z.shape[1], device=self.Z.device)
        return self._replace(real=self.real & (position < torch.tensor(counts, device=self.Z.device)[:, None]))

    def basis(self, kernel: Kernel) -> Basis:
        return basis(kernel, self.Z, real=None if bool(self.real.all()) else self.real)

    def of(self, i: int) -> Tensor:
        return self.Z[i][self.real[i]]


def entropy(seed: int, X: Tensor, y: Tensor) -> list[int]:
    """Where random numbers begin, from (seed, the data): never from the global state."""
    return entropies(seed, X[None], y[None])[0]


def entropies(seed: int, X: Tensor, y: Tensor) -> list[list[int]]:
    """The same of data sets side by side, X (B, n, D) and y (B, n).

    The targets count, too: owners who share a grid of inputs must not publish at the same points. Only their order
    does, in either direction, so that a change of their units changes nothing; nor does one of the inputs' units.
    """
    ranks = _ranks(y.detach().cpu().numpy())
    mirrored = ranks.max(-1, keepdims=True) - ranks
    differing = ranks != mirrored
    first = differing.argmax(-1)[:, None]
    turned = np.take_along_axis(ranks, first, -1) > np.take_along_axis(mirrored, first, -1)
    ranks = np.ascontiguousarray(np.where(turned, mirrored, ranks))
    rows = _without_units(X.detach().cpu().numpy())
    found = []
    for x, order in zip(rows, ranks, strict=True):
        digest = hashlib.sha256(x)
        digest.update(order)
        found.append([seed, *WORDS.unpack(digest.digest()[:16])])
    return found


def _without_units(X: np.ndarray) -> np.ndarray:
    """Where in its column's range each value lies, (B, n, D), in steps that are far longer than rounding.

    The number of steps is no fraction: values at regular distances would lie where one step ends and the next begins,
    and rounding would decide.
    """
    low, high = X.min(-2, keepdims=True), X.max(-2, keepdims=True)
    width = np.where(high > low, high / 2 - low / 2, 1.0)  # half of it, which is never too large for a float
    steps = np.floor((X / 2 - low / 2) / width * PLACEMENT.steps_hashed + 0.5).astype(np.int64)
    return np.ascontiguousarray(steps)  # a DataFrame's columns come in the other order, which a digest cannot read


def _ranks(y: np.ndarray) -> np.ndarray:
    """The place of each value among the different ones of its row, (B, n)."""
    order = y.argsort(-1)
    ordered = np.take_along_axis(y, order, -1)
    place = np.zeros(y.shape, dtype=np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=-1, out=place[:, 1:])
    ranks = np.empty_like(place)
    np.put_along_axis(ranks, order, place, -1)
    return ranks


def place(
    found: Candidates,
    count: int,
    kernel: Kernel,
    rngs: Sequence[np.random.Generator],
    enough: Tensor | None = None,
    workers: threads.Workers = threads.ALONE,
) -> Points:
    """At most `count` points from each model's candidates, for its kernel, one of B side by side.

    Where the variance left is `enough` (B,) on average, no more points are added. Where rows are noisy, it counts less.
    """
    points, present, noise = found
    sizes = present.sum(-1).tolist()
    first = as_index([int(rng.integers(n)) for rng, n in zip(rngs, sizes, strict=True)], points.device)
    each = min(points.shape[1], PLACEMENT.targets) * points.shape[1]
    size = max(1, int(memory_factor(points.device) * COVARIANCES / each))

    def selected(some: Tensor) -> Tensor:
        limit = None if enough is None else enough[some]
        own = None if noise is None else noise[some]
        return select_by_variance(points[some], present[some], count, kernel.select(some), first[some], limit, own)

    chosen = torch.cat(workers.map(selected, torch.arange(len(points), device=points.device).split(size)))
    real = chosen >= 0
    kept = int(real.sum(-1).max())
    chosen, real = chosen[:, :kept].clamp_min(0), real[:, :kept]
    return Points(points[torch.arange(len(points), device=points.device)[:, None], chosen], real)


def over(X: Tensor, count: int, kernel: Kernel, rng: np.random.Generator) -> Tensor:
    """At most `count` points over the region of one X, none of them a row of it."""
    batched = kernel.with_theta(kernel.theta.detach()[None])
    return place(candidates(X[None], [len(X)], count, batched, [rng]), count, batched, [rng]).of(0)


def moved(points: Points, kernel: Kernel, X: Tensor, w: Tensor) -> Points:
    """Points moved to where they explain more of the variance of f at the rows X (B, n, D), in units of their noises.

    A few steps of Adam; points that are chosen among candidates are a good start, and none ends at a row.
    """
    if not continuous_columns(kernel.structure, X.shape[2]):
        return points
    unit, precision = spread(X, (w > 0)[..., None]), w.square()
    unit[..., list(kernel.structure.discrete)] = 0.0
    shift = torch.zeros_like(points.Z).requires_grad_()
    adam = torch.optim.Adam([shift], lr=PLACEMENT.step)
    with torch.enable_grad():
        for _ in range(PLACEMENT.steps):
            V = features(points._replace(Z=points.Z + unit * shift).basis(kernel), X)
            explained = (V.square().sum(-2) * precision).sum(-1) / (kernel.diagonal(X) * precision).sum(-1)
            adam.zero_grad()
            (-explained.sum()).backward()
            adam.step()
    found = points._replace(Z=points.Z + unit * shift.detach())
    # points that have come so close to each other that they add rounding, not knowledge, stay where they were
    pivots = found.basis(kernel).L.diagonal(dim1=-2, dim2=-1).square()
    fine = (pivots > PLACEMENT.residual_floor * kernel.diagonal(found.Z)) | ~points.real
    return points._replace(Z=torch.where(fine.all(-1)[:, None, None], found.Z, points.Z))


@torch.no_grad()
def select_by_variance(
    points: Tensor,
    present: Tensor,
    count: int,
    kernel: Kernel,
    first: Tensor,
    enough: Tensor | None = None,
    noise: Tensor | None = None,
) -> Tensor:
    """Greedy reduction of the variance left over all points (B, P, D), after a first one given at random.

    With noises (B, P) the variance at a point counts by the share of it that a row there would explain, k/(k + noise),
    beside that of a row with the least of the noises.
    The random first point is what makes modules over one region publish at different places. Returns
    indices (B, ≤ count), −1 behind the last of a model for which no more point is worth having.
    """
    B, P, _ = points.shape
    index = torch.arange(B, device=points.device)
    targets = min(P, PLACEMENT.targets)
    prior = kernel.diagonal(points)
    residual = prior * present
    weight = present.to(prior)
    if noise is not None:
        weight = weight * (prior + noise.amin(-1, keepdim=True)) / (prior + noise)
    # F: covariance of targets and candidates. Point j would save S_j / r_jj with S_j = Σ_t F_tj² of what is left
    # of F = F₀ − Σ_i a_i b_iᵀ, which is never formed: S and Fᵀa follow from F₀, a_i and b_i.
    F = kernel.matrix(points[:, :targets], points) * weight[:, :targets, None].sqrt()
    S = F.square().sum(-2)
    a, b = points.new_zeros(B, targets, min(count, P)), points.new_zeros(B, P, min(count, P))
    chosen = torch.full((B, b.shape[2]), -1, device=points.device)
    for step in range(b.shape[2]):
        # A pivot far below the largest would leave K_ZZ badly conditioned, however much it saves.
        usable = residual > torch.maximum(
            PLACEMENT.residual_floor * prior, PLACEMENT.smallest_pivot * residual.amax(-1, keepdim=True)
        )
        saving = torch.where(usable, S / residual, torch.zeros_like(prior))
        pivot = saving.argmax(-1)
        if step == 0:
            pivot = torch.where(saving[index, first] > 0, first, pivot)
        live = saving[index, pivot] > 0
        if enough is not None:
            live &= (weight * residual).sum(-1) > enough * weight.sum(-1)
        if not bool(live.any()):
            break
        chosen[:, step] = torch.where(live, pivot, -1)
        scale = torch.where(live, residual[index, pivot].rsqrt(), torch.zeros_like(prior[:, 0]))[:, None]
        done = b[index, pivot, :step, None]
        column = kernel.matrix(points, points[index, pivot][:, None])[..., 0]
        b[..., step] = scale * (column - (b[..., :step] @ done)[..., 0])
        a[..., step] = scale * (F[index, :, pivot] - (a[..., :step] @ done)[..., 0])
        new_a, new_b = a[..., step, None], b[..., step]
        Fa = (F.mT @ new_a - b[..., :step] @ (a[..., :step].mT @ new_a))[..., 0]
        S = (S - 2 * new_b * Fa + new_b.square() * new_a.square().sum(-2)).clamp_min(0)
        residual = (residual - new_b.square()).clamp_min(0)
        residual[index, pivot] = 0
    return chosen

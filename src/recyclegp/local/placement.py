"""Where a module's points go: spread over its data's region, none of them a row.

Candidates lie between neighbouring rows; of these the points are chosen one by one, each to leave as little variance
as possible (a pivoted Cholesky factorisation of the kernel matrix). In columns that hold codes of levels, which the
kernel knows, a point has the level of a row; where all columns do, points can only be combinations that occur.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import threads
from ..core.posterior import Basis, basis, features
from ..devices import memory_factor
from ..errors import RecycleGPError
from ..kernels import Kernel, continuous_columns
from ..kernels.units import lengths

RESIDUAL_FLOOR = 1e-6  # of the prior variance: points closer than this add rounding, not knowledge
ROWS_SEEN = 4096  # data rows between which candidates may lie
CANDIDATES, FEW = 4, 5  # per point wanted, and so many times as many where these are few
TARGETS = 512  # points whose variance is to be explained
SMALLEST_PIVOT = 0.05  # of the largest variance left
COVARIANCES = 2**21  # of candidates, held at once
STEPS, STEP = 8, 0.1  # by which points are moved, in standard deviations of the rows


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
    does, in either direction, so that a change of their units changes nothing.
    """
    ranks = _ranks(y.detach().cpu().numpy())
    mirrored = ranks.max(-1, keepdims=True) - ranks
    differing = ranks != mirrored
    first = differing.argmax(-1)[:, None]
    turned = np.take_along_axis(ranks, first, -1) > np.take_along_axis(mirrored, first, -1)
    ranks = np.ascontiguousarray(np.where(turned, mirrored, ranks))
    rows = np.ascontiguousarray(X.detach().cpu().numpy())
    found = []
    for x, order in zip(rows, ranks, strict=True):
        digest = hashlib.sha256(x)
        digest.update(order)
        found.append([seed, *np.frombuffer(digest.digest()[:16], dtype=np.uint32).tolist()])
    return found


def _ranks(y: np.ndarray) -> np.ndarray:
    """The place of each value among the different ones of its row, (B, n)."""
    order = y.argsort(-1)
    ordered = np.take_along_axis(y, order, -1)
    place = np.zeros(y.shape, dtype=np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=-1, out=place[:, 1:])
    ranks = np.empty_like(place)
    np.put_along_axis(ranks, order, place, -1)
    return ranks


class Candidates(NamedTuple):
    """Where points of B models may go, the fewer ones padded behind."""

    points: Tensor  # (B, P, D)
    present: Tensor  # (B, P) bool
    noise: Tensor | None = None  # (B, P)  of the row that each lies beside, where rows have noises of their own


def candidates(
    X: Tensor,
    sizes: Sequence[int],
    wanted: int,
    kernel: Kernel,
    rngs: Sequence[np.random.Generator],
    noise: Tensor | None = None,
) -> Candidates:
    """Candidates for `wanted` points of each of B models: they cover the region of its rows, and none of them is a row.

    Of X (B, n, D) each has its first so many rows, with noises (B, n) where these differ.

    Each candidate lies part of the way from a row to its near neighbours: in every column to another one of them, and
    by another part of the way. On the line between two rows a point would give both of them away to whoever can guess
    them, and where columns are whole numbers to everybody.
    Where all rows coincide there is no region, and points scatter about the one place within the lengthscales of its
    kernel, one of B side by side. A level is that of the row.
    """
    count, D = max(CANDIDATES * wanted, min(FEW * CANDIDATES * wanted, 400)), X.shape[2]
    free = continuous_columns(kernel.structure, D)
    if not free:
        return _combinations(X, sizes, count, rngs)
    pools = _pools(X, sizes, rngs, free[0], noise)
    place = _places(pools, free)
    most = [min(n - 1, max(2, len(free) + 1)) for n in place.counts]  # neighbours it may lean towards
    drawn = [_drawn(rng, n, k, count, D) for rng, n, k in zip(rngs, pools.sizes, most, strict=True)]
    picks, which, steps = (_tensor(np.stack(some), X.device) for some in zip(*drawn, strict=True))
    neighbours = _neighbours(pools.rows[..., free], place.numbers, picks, which, max(most))
    each = torch.arange(len(X), device=X.device)[:, None]
    there = pools.rows[each[..., None], neighbours, torch.arange(D, device=X.device)]
    start = pools.rows[each, picks]
    found = start + steps * (there - start)
    fixed = list(kernel.structure.discrete)
    for i in (i for i, k in enumerate(most) if k == 0):
        scatter = _tensor(rngs[i].standard_normal((count, D)), X.device)
        unit, size = lengths(kernel.select(i), D), pools.rows[i, 0].abs()
        unit = torch.where(torch.isfinite(unit), unit, torch.where(size > 0, size, torch.ones_like(size)))
        found[i] = pools.rows[i, 0] + 0.1 * unit * scatter
    found[..., fixed] = start[..., fixed]
    return _new(found, X, sizes, free[0], None if pools.noise is None else pools.noise[each, picks])


def _combinations(X: Tensor, sizes: Sequence[int], most: int, rngs: Sequence[np.random.Generator]) -> Candidates:
    """The different rows of each model, no more than so many: of inputs that are all levels."""
    parts = [torch.unique(x[:n], dim=0) for x, n in zip(X, sizes, strict=True)]
    parts = [
        p if len(p) <= most else p[_tensor(np.sort(rng.permutation(len(p))[:most]), X.device)]
        for p, rng in zip(parts, rngs, strict=True)
    ]
    padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
    counts = _tensor([len(p) for p in parts], X.device)
    return Candidates(padded, torch.arange(padded.shape[1], device=X.device) < counts[:, None])


class _Places(NamedTuple):
    """Where rows are but for their levels: rows of one place have one number; −1 for padding."""

    numbers: Tensor  # (B, n)
    counts: list[int]


def _places(pools: _Pools, free: list[int]) -> _Places:
    _, n, D = pools.rows.shape
    position = torch.arange(n, device=pools.rows.device)
    numbers = torch.where(position < _tensor(pools.sizes, position.device)[:, None], position, -1)
    if len(free) == D:
        return _Places(numbers, pools.sizes)
    for i, size in enumerate(pools.sizes):
        numbers[i, :size] = torch.unique(pools.rows[i, :size][:, free], dim=0, return_inverse=True)[1]
    return _Places(numbers, (numbers.amax(-1) + 1).tolist())


def _drawn(
    rng: np.random.Generator, rows: int, neighbours: int, count: int, D: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each candidate a row, the neighbour it leans towards in each column, and how far."""
    order = rng.permutation(rows)
    picks = order[:count] if count <= rows else np.resize(order, count)
    return picks, rng.integers(max(neighbours, 1), size=(count, D)), rng.uniform(0.2, 0.8, size=(count, D))


class _Pools(NamedTuple):
    """Different rows of B models, some of them where there are many, padded behind."""

    rows: Tensor  # (B, n, D)
    sizes: list[int]
    noise: Tensor | None  # (B, n)


def _pools(
    X: Tensor, sizes: Sequence[int], rngs: Sequence[np.random.Generator], key: int, noise: Tensor | None
) -> _Pools:
    seen = [min(n, ROWS_SEEN) for n in sizes]
    order = np.zeros((len(sizes), max(seen)), dtype=np.int64)
    for i, (n, rng) in enumerate(zip(sizes, rngs, strict=True)):
        order[i, : seen[i]] = rng.permutation(n)[:ROWS_SEEN]
    some = torch.arange(len(X), device=X.device)[:, None], _tensor(order, X.device)
    rows, noise = X[some], None if noise is None else noise[some]
    repeating = _repeating(rows, seen, key)
    if not repeating:
        return _Pools(rows, seen, noise)
    kept = [torch.arange(n, device=X.device) for n in seen]
    for i in repeating:
        kept[i] = _distinct(rows[i, : seen[i]], key)

    def chosen(t: Tensor) -> Tensor:
        parts = [part[of_them] for part, of_them in zip(t, kept, strict=True)]
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)

    return _Pools(chosen(rows), [len(k) for k in kept], None if noise is None else chosen(noise))


def _repeating(rows: Tensor, sizes: Sequence[int], key: int) -> set[int]:
    """Models of which two rows may be the same: in the column `key` they are."""
    behind = torch.arange(rows.shape[1], device=rows.device) >= _tensor(sizes, rows.device)[:, None]
    ordered = rows[..., key].masked_fill(behind, torch.inf).sort(-1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]) & torch.isfinite(ordered[:, 1:])
    return set(twice.any(-1).nonzero()[:, 0].tolist())


def _tensor(values: object, device: torch.device) -> Tensor:
    return torch.as_tensor(np.asarray(values), device=device)


def _neighbours(rows: Tensor, places: Tensor, picks: Tensor, which: Tensor, most: int) -> Tensor:
    """For each picked row (B, c) the indices of its `which`-th (B, c, k) nearest rows elsewhere, of rows (B, n, D)."""
    B, n, _ = rows.shape
    if most == 0:
        return torch.zeros_like(which)
    present = (places >= 0)[..., None]
    scaled = rows / _spread(rows, present)
    parts = []
    for index in torch.arange(B, device=rows.device).split(
        max(1, int(memory_factor(rows.device) * COVARIANCES / (512 * n)))
    ):
        each = index[:, None]
        columns = []
        for some, ranks in zip(picks[index].split(512, 1), which[index].split(512, 1), strict=True):
            distance = torch.cdist(scaled[each, some], scaled[index])
            here = places[index].gather(1, some)[..., None] == places[index][:, None]
            distance = distance.masked_fill(~present[index].mT | here, torch.inf)
            nearest = distance.topk(most, largest=False).indices
            columns.append(nearest.gather(2, ranks))
        parts.append(torch.cat(columns, 1))
    return torch.cat(parts)


def _spread(rows: Tensor, present: Tensor) -> Tensor:
    """Standard deviation of each column (B, 1, D), of the rows (B, n, D) that are no padding; one where it is zero."""
    count = present.sum(1, keepdim=True)
    middle = (rows * present).sum(1, keepdim=True) / count
    sd = ((rows - middle).square() * present).sum(1, keepdim=True).div((count - 1).clamp_min(1)).sqrt()
    return torch.where(sd > 0, sd.clamp_min(1e-300), torch.ones_like(sd))


def _new(points: Tensor, X: Tensor, sizes: Sequence[int], key: int, noise: Tensor | None) -> Candidates:
    """Of points (B, P, D) those that are no row of X (B, n, D), without repetitions."""
    present = torch.ones_like(points[..., 0], dtype=torch.bool)
    # few share even one coordinate with a row or with each other
    twice = _repeating(points, [points.shape[1]] * len(points), key)
    ordered = X[..., key].sort(-1).values
    nearest = torch.searchsorted(ordered, points[..., key].contiguous()).clamp_max(ordered.shape[1] - 1)
    meets = (ordered.gather(1, nearest) == points[..., key]).any(-1).nonzero()[:, 0].tolist()
    for i in twice | set(meets):
        left = _distinct(points[i], key)
        left = left[~_is_row(points[i, left], X[i, : sizes[i]], key)]
        if not len(left):
            raise RecycleGPError("X: its rows are as close together as floats can be; subtract an offset from X first")
        points[i, : len(left)] = points[i, left]
        if noise is not None:
            noise[i, : len(left)] = noise[i, left]
        present[i, len(left) :] = False
    return Candidates(points, present, noise)


def _distinct(X: Tensor, key: int) -> Tensor:
    """Which rows are the first of their kind, in their order (torch.unique would sort them)."""
    rows = X.detach().cpu().numpy()
    if len(np.unique(rows[:, key])) == len(rows):  # one column is enough to tell them apart
        return torch.arange(len(X), device=X.device)
    _, first = np.unique(rows, axis=0, return_index=True)
    return torch.as_tensor(np.sort(first), device=X.device)


def _is_row(points: Tensor, X: Tensor, key: int) -> Tensor:
    alike = X[torch.isin(X[:, key], points[:, key])]  # few of a million rows share even one coordinate
    if not len(alike):
        return torch.zeros(len(points), dtype=torch.bool, device=X.device)
    _, label = torch.unique(torch.cat([alike, points]), dim=0, return_inverse=True)
    return torch.isin(label[len(alike) :], label[: len(alike)])


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
    first = _tensor([int(rng.integers(n)) for rng, n in zip(rngs, sizes, strict=True)], points.device)
    each = min(points.shape[1], TARGETS) * points.shape[1]
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
    unit, precision = _spread(X, (w > 0)[..., None]), w.square()
    unit[..., list(kernel.structure.discrete)] = 0.0
    shift = torch.zeros_like(points.Z).requires_grad_()
    adam = torch.optim.Adam([shift], lr=STEP)
    with torch.enable_grad():
        for _ in range(STEPS):
            V = features(points._replace(Z=points.Z + unit * shift).basis(kernel), X)
            explained = (V.square().sum(-2) * precision).sum(-1) / (kernel.diagonal(X) * precision).sum(-1)
            adam.zero_grad()
            (-explained.sum()).backward()
            adam.step()
    return points._replace(Z=points.Z + unit * shift.detach())


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
    targets = min(P, TARGETS)
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
        usable = residual > torch.maximum(RESIDUAL_FLOOR * prior, SMALLEST_PIVOT * residual.amax(-1, keepdim=True))
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

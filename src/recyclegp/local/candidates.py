"""Where a module's points may go: between neighbouring rows, at none of them.

In columns that hold codes of levels, which the kernel knows, a candidate has the level of a row; where all columns do,
candidates can only be combinations that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..devices import memory_factor
from ..errors import RecycleGPError
from ..kernels import Kernel, continuous_columns
from .constants import PLACEMENT

COVARIANCES = 2**21  # of candidates, held at once


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
    count, D = PLACEMENT.candidates * wanted, X.shape[2]
    count = max(count, min(PLACEMENT.more * count, PLACEMENT.few))
    free = continuous_columns(kernel.structure, D)
    if not free:
        return _combinations(X, sizes, count, rngs)
    pools = _pools(X, sizes, rngs, free[0], noise)
    place = _places(pools, free)
    most = [min(n - 1, max(2, len(free) + 1)) for n in place.counts]  # neighbours it may lean towards
    picks, which, steps = (as_index(drawn, X.device) for drawn in _drawn(rngs, pools.sizes, most, count, D))
    neighbours = _neighbours(pools.rows[..., free], place.numbers, picks, which, max(most))
    each = torch.arange(len(X), device=X.device)[:, None]
    there = pools.rows[each[..., None], neighbours, torch.arange(D, device=X.device)]
    start = pools.rows[each, picks]
    found = start + steps * (there - start)
    fixed = list(kernel.structure.discrete)
    for i in (i for i, k in enumerate(most) if k == 0):
        scatter = as_index(rngs[i].standard_normal((count, D)), X.device)
        unit, size = kernel.select(i).lengths(D), pools.rows[i, 0].abs()
        unit = torch.where(torch.isfinite(unit), unit, torch.where(size > 0, size, torch.ones_like(size)))
        found[i] = pools.rows[i, 0] + PLACEMENT.scatter * unit * scatter
    found[..., fixed] = start[..., fixed]
    return _new(found, X, sizes, free[0], None if pools.noise is None else pools.noise[each, picks])


def _combinations(X: Tensor, sizes: Sequence[int], most: int, rngs: Sequence[np.random.Generator]) -> Candidates:
    """The different rows of each model, no more than so many: of inputs that are all levels."""
    parts = [torch.unique(x[:n], dim=0) for x, n in zip(X, sizes, strict=True)]
    parts = [
        p if len(p) <= most else p[as_index(np.sort(rng.permutation(len(p))[:most]), X.device)]
        for p, rng in zip(parts, rngs, strict=True)
    ]
    padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
    counts = as_index([len(p) for p in parts], X.device)
    return Candidates(padded, torch.arange(padded.shape[1], device=X.device) < counts[:, None])


class _Places(NamedTuple):
    """Where rows are but for their levels: rows of one place have one number; −1 for padding."""

    numbers: Tensor  # (B, n)
    counts: list[int]


def _places(pools: _Pools, free: list[int]) -> _Places:
    _, n, D = pools.rows.shape
    position = torch.arange(n, device=pools.rows.device)
    numbers = torch.where(position < as_index(pools.sizes, position.device)[:, None], position, -1)
    if len(free) == D:
        return _Places(numbers, pools.sizes)
    for i, size in enumerate(pools.sizes):
        numbers[i, :size] = torch.unique(pools.rows[i, :size][:, free], dim=0, return_inverse=True)[1]
    return _Places(numbers, (numbers.amax(-1) + 1).tolist())


class _Drawn(NamedTuple):
    """For each candidate of each model a row, the neighbour it leans towards in each column, and how far."""

    picks: np.ndarray  # (B, count)
    towards: np.ndarray  # (B, count, D)
    way: np.ndarray  # (B, count, D)


def _drawn(
    rngs: Sequence[np.random.Generator], rows: Sequence[int], neighbours: Sequence[int], count: int, D: int
) -> _Drawn:
    """From the random numbers of each; all that can be done with them together is."""
    B = len(rngs)
    order = np.empty((B, max(rows)), dtype=np.int64)
    towards, way = np.empty((B, count * D), dtype=np.int64), np.empty((B, count * D))
    for i, (rng, n, k) in enumerate(zip(rngs, rows, neighbours, strict=True)):
        order[i, :n] = rng.permutation(n)
        towards[i] = rng.integers(max(k, 1), size=count * D)
        rng.random(out=way[i])
    picks = np.take_along_axis(order, np.arange(count) % np.array(rows)[:, None], 1)  # all rows before one comes again
    nearest, farthest = PLACEMENT.way
    way = nearest + (farthest - nearest) * way
    return _Drawn(picks, towards.reshape(B, count, D), way.reshape(B, count, D))


class _Pools(NamedTuple):
    """Different rows of B models, some of them where there are many, padded behind."""

    rows: Tensor  # (B, n, D)
    sizes: list[int]
    noise: Tensor | None  # (B, n)


def _pools(
    X: Tensor, sizes: Sequence[int], rngs: Sequence[np.random.Generator], key: int, noise: Tensor | None
) -> _Pools:
    seen = [min(n, PLACEMENT.rows_seen) for n in sizes]
    order = np.zeros((len(sizes), max(seen)), dtype=np.int64)
    for i, (n, rng) in enumerate(zip(sizes, rngs, strict=True)):
        order[i, : seen[i]] = rng.permutation(n)[: PLACEMENT.rows_seen]
    some = torch.arange(len(X), device=X.device)[:, None], as_index(order, X.device)
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
    behind = torch.arange(rows.shape[1], device=rows.device) >= as_index(sizes, rows.device)[:, None]
    ordered = _sorted(rows[..., key].masked_fill(behind, torch.inf))
    twice = (ordered[:, 1:] == ordered[:, :-1]) & torch.isfinite(ordered[:, 1:])
    return set(twice.any(-1).nonzero()[:, 0].tolist())


def _sorted(values: Tensor) -> Tensor:
    """Each row of them in order: NumPy is several times as fast, where it can reach them."""
    if values.device.type != "cpu":
        return values.sort(-1).values
    return torch.from_numpy(np.sort(values.numpy(), axis=-1))


def as_index(values: object, device: torch.device) -> Tensor:
    """Numbers from NumPy, there."""
    return torch.as_tensor(np.asarray(values), device=device)


def _neighbours(rows: Tensor, places: Tensor, picks: Tensor, which: Tensor, most: int) -> Tensor:
    """For each picked row (B, c) the indices of its `which`-th (B, c, k) nearest rows elsewhere, of rows (B, n, D)."""
    B, n, D = rows.shape
    if most == 0:
        return torch.zeros_like(which)
    present = (places >= 0)[..., None]
    scaled = rows / spread(rows, present)
    found = _along_a_line(scaled.masked_fill(~present, torch.inf)[..., 0], picks, which, most) if D == 1 else None
    if found is not None:
        return found
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


def _along_a_line(values: Tensor, picks: Tensor, which: Tensor, most: int) -> Tensor | None:
    """The same for rows of one column (B, n), infinite where they are padding: the nearest are neighbours in order.

    None where two rows, or two distances from one, are equal: then it is a matter of chance which is nearer.
    """
    B, n = values.shape
    ordered, order = values.sort(-1)
    where = torch.empty_like(order).scatter_(1, order, torch.arange(n, device=order.device).expand(B, n))
    beside = torch.cat([torch.arange(-most, 0), torch.arange(1, most + 1)]).to(order.device)
    near = where.gather(1, picks)[..., None] + beside  # (B, c, 2·most)
    there = near.clamp(0, n - 1)
    distance = (ordered.gather(1, there.flatten(1)).reshape(near.shape) - values.gather(1, picks)[..., None]).abs()
    nearest, index = distance.masked_fill(near != there, torch.inf).topk(min(most + 1, 2 * most), largest=False)
    for sorted_ in (ordered, nearest):
        if bool(((sorted_[..., 1:] == sorted_[..., :-1]) & sorted_[..., 1:].isfinite()).any()):
            return None
    return order.gather(1, there.gather(2, index.gather(2, which)).flatten(1)).reshape(which.shape)


def spread(rows: Tensor, present: Tensor) -> Tensor:
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
    ordered = _sorted(X[..., key])
    nearest = torch.searchsorted(ordered, points[..., key].contiguous()).clamp_max(ordered.shape[1] - 1)
    meets = (ordered.gather(1, nearest) == points[..., key]).any(-1).nonzero()[:, 0].tolist()
    for i in twice | set(meets):
        left = _distinct(points[i], key)
        left = left[~is_row(points[i, left], X[i, : sizes[i]], key)]
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


def is_row(points: Tensor, X: Tensor, key: int = 0) -> Tensor:
    """Which points are rows of X, in all columns; `key` is one in which few are alike."""
    alike = X[torch.isin(X[:, key], points[:, key])]  # few of a million rows share even one coordinate
    if not len(alike):
        return torch.zeros(len(points), dtype=torch.bool, device=X.device)
    _, label = torch.unique(torch.cat([alike, points]), dim=0, return_inverse=True)
    return torch.isin(label[len(alike) :], label[: len(alike)])

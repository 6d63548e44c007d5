"""Attacks on inputs: what published points give away about the rows between which they lie.

The attacker has the points, and knows how the library places them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

NEAR = 0.01  # of the typical distance between neighbouring rows: as good as the row itself
EXACT = 1e-6  # of a unit, or of a distance: what double precision leaves
STEPS = (0.2, 0.8)  # how far from one row to another a point may lie
WHOLE = 1e-8  # of a unit


class Nearness(NamedTuple):
    """How near points are to rows, in units of the median distance from a row to the next."""

    median: float  # from a point to the nearest row
    fresh: float  # from a fresh row of the same population to the nearest row
    recovered: float  # share of the rows that have a point within a hundredth


def nearness(points: np.ndarray, rows: np.ndarray, fresh: np.ndarray) -> Nearness:
    scale = spread(rows)
    tree = cKDTree(rows / scale)
    between = tree.query(rows / scale, k=2)[0][:, 1]
    typical = float(np.median(between[between > 0])) if (between > 0).any() else 1.0
    from_rows = cKDTree(points / scale).query(rows / scale)[0]
    return Nearness(
        float(np.median(tree.query(points / scale)[0])) / typical,
        float(np.median(tree.query(fresh / scale)[0])) / typical,
        float(np.mean(from_rows <= NEAR * typical)),
    )


def spread(rows: np.ndarray) -> np.ndarray:
    sd = rows.std(0)
    return np.where(sd > 0, sd, 1.0)


def on_lines(points: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """For each candidate row how far the nearest point is from a line between it and another one, in its length.

    Nothing is between two rows by accident where there are two columns or more: a distance of zero says that both
    are rows. One column has no room beside the line, and no answer: all distances are infinite.
    """
    found = np.full(len(candidates), np.inf)
    if candidates.shape[1] < 2:
        return found
    scaled, Z = candidates / spread(candidates), points / spread(candidates)
    many = min(len(scaled), 3 * (scaled.shape[1] + 1))
    neighbours = cKDTree(scaled).query(scaled, k=many)[1]
    for a, others in enumerate(neighbours):
        direction = scaled[others[others != a]] - scaled[a]  # (k, D)
        length = (direction**2).sum(1)
        direction, length, others = direction[length > 0], length[length > 0], others[others != a][length > 0]
        from_a = Z - scaled[a]  # (M, D)
        step = from_a @ direction.T / length
        away = ((from_a[:, None] - step[..., None] * direction) ** 2).sum(-1) / length
        away = np.where((step > STEPS[0]) & (step < STEPS[1]), away, np.inf).min(0) ** 0.5
        found[a] = min(found[a], away.min(initial=np.inf))
        np.minimum.at(found, others, away)
    return found


def nearest_values(points: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Each point rounded to the values that its columns can have: a guess at a row."""
    return np.round(points / units) * units


def shared_step(point: np.ndarray, units: np.ndarray, largest: np.ndarray) -> np.ndarray | None:
    """Two complete rows (2, D) from one point between them, where every column is in whole units.

    If the point is a + t(b − a) with one t for all columns, each column that differs by d units, `largest` at most,
    says t up to a few possibilities, and only the right one makes all columns whole at once. None where no t does.
    """
    z = point / units
    moving = np.flatnonzero(np.abs(_off_whole(z)) > WHOLE)
    if len(moving) < 3:  # one column, or two, have several explanations
        return None
    moving = moving[np.argsort(largest[moving])]
    first = moving[0]
    whole = np.floor(z[first]) + np.arange(-largest[first], largest[first] + 1)
    t = ((z[first] - whole)[:, None] / _differences(largest[first])).ravel()
    t = np.unique(t[(t >= STEPS[0]) & (t <= 0.5)])  # from the nearer of the two
    for column in moving[1:]:
        d = _differences(largest[column])
        parts = np.array_split(t, 1 + len(t) * len(d) // 10**6)  # so that little is held at once
        t = np.concatenate([p[(np.abs(_off_whole(z[column] - p[:, None] * d)) < WHOLE).any(1)] for p in parts])
    if len(t) == 0:
        return None
    step = t.max()  # half of it would do with twice the differences
    b_minus_a = np.zeros(len(z))
    b_minus_a[moving] = [_difference(z[c], step, largest[c]) for c in moving]
    a = np.round(z - step * b_minus_a)
    return np.stack([a, a + b_minus_a]) * units


def _differences(largest: int) -> np.ndarray:
    """−largest … largest without zero, the smallest first."""
    d = np.arange(1, largest + 1)
    return np.stack([d, -d], 1).ravel()


def _difference(value: float, step: float, largest: int) -> int:
    """The smallest d for which value − step·d is whole."""
    d = _differences(largest)
    return int(d[(np.abs(_off_whole(value - step * d)) < WHOLE).argmax()])


def _off_whole(values: np.ndarray) -> np.ndarray:
    return values - np.round(values)


def among(guesses: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which guesses (m, D) are a row, to rounding."""
    scale = spread(rows)
    return cKDTree(rows / scale).query(guesses / scale, p=np.inf)[0] < EXACT


def solved(points: np.ndarray, rows: np.ndarray, units: np.ndarray) -> float:
    """The share of the rows that `shared_step` finds."""
    largest = np.ceil(np.ptp(points, axis=0) / units).astype(int)
    pairs = [found for found in (shared_step(z, units, largest) for z in points) if found is not None]
    if not pairs:
        return 0.0
    guesses = np.unique(np.concatenate(pairs), axis=0)
    return float(among(guesses, rows).sum() / len(np.unique(rows, axis=0)))

"""Who agrees with whom: a distance between every two owners, and places on a plane that show the distances.

At a point x that two modules a and b know something about, t² = (m_a − m_b)²/(v_a + v_b) compares what they say of f.
It counts with w = (1 − v_a/k_a)(1 − v_b/k_b), how much of their prior variances k both have lost there. The distance of
two owners is the root of the mean of t² over the points of their modules: about 1, or less, where they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..models.module import Module
from ..plot.scale import Array
from ..plot.scene import MOST_MODELS, Scene, scenes

MOST_OWNERS = 60  # on a map
MOST_MODULES = MOST_MODELS  # of them together, each compared with every other
MOST_PLACES = 4000  # points at which every module is asked
LITTLE = 0.05  # of what two owners could know in common, on average over their points: below it nothing can be said


class Place(NamedTuple):
    """One owner on the map."""

    owner: str
    modules: list[int]  # positions
    x: float
    y: float


class Pair(NamedTuple):
    a: int
    b: int
    distance: float | None  # None where they know too little in common
    shared: float  # mean of w


class OwnerMap(NamedTuple):
    places: list[Place]
    pairs: list[Pair]
    shown: float  # share of the squared distances that two dimensions show


def owner_map(modules: Sequence[Module], function: str | None = None) -> OwnerMap | None:
    """Of those who have this function, or the first; None where there is nothing to compare, or too much."""
    if len(modules) > MOST_MODULES:
        return None
    drawn = scenes(modules, function=function)[0]
    owners = list(dict.fromkeys(s.origin.owner or "" for s in drawn.subjects))
    if not 2 <= len(owners) <= MOST_OWNERS:
        return None
    number = np.array([owners.index(s.origin.owner or "") for s in drawn.subjects])
    positions = [i for i, m in enumerate(modules) if any(s.model is m for s in drawn.subjects)]
    squares, weights, places = compared(drawn, number)
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = weights / places
        distances = np.where(shared >= LITTLE, np.sqrt(squares / weights), np.nan)
    np.fill_diagonal(distances, 0.0)
    xy, shown = plane(np.log1p(through_others(distances)))
    return OwnerMap(
        [
            Place(owner, [positions[i] for i in np.flatnonzero(number == k)], float(xy[k, 0]), float(xy[k, 1]))
            for k, owner in enumerate(owners)
        ],
        [
            Pair(a, b, None if np.isnan(distances[a, b]) else float(distances[a, b]), float(shared[a, b]))
            for a in range(len(owners))
            for b in range(a)
        ],
        shown,
    )


def compared(drawn: Scene, number: Array) -> tuple[Array, Array, Array]:
    """Σ w t², Σ w and how many points, of every two owners; `number` says whose each module is."""
    points = [s.whole_points for s in drawn.subjects]
    step = -(-sum(map(len, points)) // MOST_PLACES)
    points = [Z[::step] for Z in points]
    X = np.concatenate(points)
    whose = np.repeat(number, [len(Z) for Z in points])
    mean, variance, known = [], [], []
    for s in drawn.subjects:
        m, v = s.predict_whole(X)
        prior = s.prior_variance(X)
        mean.append(m)
        variance.append(v)
        known.append(np.clip(1 - v / np.maximum(prior, 1e-300), 0, 1))
    n = int(number.max()) + 1
    squares, weights, places = np.zeros((3, n, n))
    for i, a in enumerate(number):
        for j, b in enumerate(number[:i]):
            if a == b:
                continue
            here = (whose == a) | (whose == b)
            w = (known[i] * known[j])[here]
            t = (mean[i] - mean[j])[here] ** 2 / (variance[i] + variance[j])[here].clip(1e-300)
            for p, q in ((a, b), (b, a)):
                squares[p, q] += float(w @ t)
                weights[p, q] += float(w.sum())
                places[p, q] += len(w)
    return squares, weights, places


def through_others(distances: Array) -> Array:
    """Unknown distances are the shortest way over others; of those nobody connects, the median."""
    found = np.where(np.isnan(distances), np.inf, distances)
    for k in range(len(found)):
        found = np.minimum(found, found[:, k, None] + found[None, k, :])
    known = found[np.isfinite(found) & (found > 0)]
    return np.where(np.isfinite(found), found, np.median(known) if len(known) else 1.0)


def plane(distances: Array) -> tuple[Array, float]:
    """Classical scaling: −½ J D² J = X Xᵀ, of which the two largest eigenvalues are kept."""
    n = len(distances)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    two = np.argsort(-values)[:2]
    xy = vectors[:, two] * np.sqrt(values[two].clip(0))
    xy *= np.where(
        np.abs(xy).max(0) == xy.max(0), 1.0, -1.0
    )  # the farthest is on the positive side, whatever LAPACK says
    whole = float(np.abs(values).sum())
    return xy, float(values[two].clip(0).sum()) / whole if whole > 0 else 1.0

"""Who agrees with whom: a distance between every two owners, and places on a plane that show the distances.

At a point x that two modules a and b know something about, t² = (m_a − m_b)²/(v_a + v_b) compares what they say of f.
It counts with w = (1 − v_a/k_a)(1 − v_b/k_b), how much of their prior variances k both have lost there. The distance of
two owners is the root of the mean of t² over the points of their modules: about 1, or less, where they agree.

Verdicts are found by a merged model, so v is what it makes of it: where honest owners differ by a constant or a
function of their own, v has that variance as well; and where it takes the noise of all rows to be one, v is at that
noise, which small owners often guess too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..models.module import Module
from ..plot.scale import Array
from ..plot.scene import MOST_MODELS, scenes

MOST_OWNERS = 60  # on a map
MOST_MODULES = MOST_MODELS  # of them together, each compared with every other
MOST_PLACES = 4000  # points at which every module is asked
GOLDEN = np.pi * (3 - 5**0.5)  # an angle of which no few multiples are alike
MOST_STEPS, SETTLED = 500, 1e-7  # of placing them on a plane; a step that is worth less is the last
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


class Leeway(NamedTuple):
    """What the merged model has learned about everybody: within it, honest owners differ."""

    offset_sd: float = 0.0  # of a constant of each
    smooth_sd: float = 0.0  # of a function of each, times the shared one's
    noise: tuple[float, ...] = ()  # by position: the variance of a module's noise there, over that of its own estimate

    @property
    def owners_differ(self) -> bool:
        return self.offset_sd > 0 or self.smooth_sd > 0


NO_LEEWAY = Leeway()


class Said(NamedTuple):
    """What modules say at the points of all of them."""

    owners: list[str]
    number: Array  # (K,): which of the owners each module is of
    positions: list[int]  # of these modules among all
    whose: Array  # (n,): at whose point it is said
    mean: Array  # (K, n)
    variance: Array
    prior: Array  # variance of f where nothing is known

    @property
    def known(self) -> Array:
        """How much of its prior variance each has lost."""
        return np.clip(1 - self.variance / np.maximum(self.prior, 1e-300), 0, 1)


def said_by(modules: Sequence[Module], function: str | None = None) -> Said | None:
    """By those who have this function, or the first; None where there is nothing to compare, or too much."""
    if len(modules) > MOST_MODULES:
        return None
    drawn = scenes(modules, function=function)[0]
    owners = list(dict.fromkeys(s.origin.owner or "" for s in drawn.subjects))
    if not 2 <= len(owners) <= MOST_OWNERS:
        return None
    number = np.array([owners.index(s.origin.owner or "") for s in drawn.subjects])
    positions = [i for i, m in enumerate(modules) if any(s.model is m for s in drawn.subjects)]
    points = [s.whole_points for s in drawn.subjects]
    step = -(-sum(map(len, points)) // MOST_PLACES)
    points = [Z[::step] for Z in points]
    X = np.concatenate(points)
    whose = np.repeat(number, [len(Z) for Z in points])
    mean, variance = zip(*(s.predict_whole(X) for s in drawn.subjects), strict=True)
    prior = [s.prior_variance(X) for s in drawn.subjects]
    return Said(owners, number, positions, whose, np.stack(mean), np.stack(variance), np.stack(prior))


def owner_map(said: Said, leeway: Leeway = NO_LEEWAY) -> OwnerMap:
    """Every owner on a plane."""
    squares, weights, places = compared(said, leeway)
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = weights / places
        distances = np.where(shared >= LITTLE, np.sqrt(squares / weights), np.nan)
    np.fill_diagonal(distances, 0.0)
    xy, shown = plane(np.log1p(through_others(distances)))
    modules = [[said.positions[i] for i in np.flatnonzero(said.number == k)] for k in range(len(said.owners))]
    return OwnerMap(
        [Place(*place) for place in zip(said.owners, modules, *xy.T.tolist(), strict=True)],
        [
            Pair(a, b, None if np.isnan(distances[a, b]) else float(distances[a, b]), float(shared[a, b]))
            for a in range(len(said.owners))
            for b in range(a)
        ],
        shown,
    )


def compared(said: Said, leeway: Leeway = NO_LEEWAY) -> tuple[Array, Array, Array]:
    """Σ w t², Σ w and how many points, of every two owners."""
    n, known = len(said.owners), said.known
    # v' = 1/(1/k + (1/v − 1/k)/τ): what the rows say, (1/v − 1/k), is worth 1/τ as much under τ times their noise
    variance = said.variance
    if leeway.noise:
        tau = np.array([leeway.noise[i] for i in said.positions])[:, None]
        variance = said.prior * variance * tau / (said.prior + (tau - 1) * variance).clip(1e-300)
    # and the variance of what is each owner's alone
    spread = variance + leeway.offset_sd**2 + leeway.smooth_sd**2 * said.prior
    squares, weights, places = np.zeros((3, n, n))
    for i, a in enumerate(said.number):
        for j, b in enumerate(said.number[:i]):
            if a == b:
                continue
            here = (said.whose == a) | (said.whose == b)
            w = (known[i] * known[j])[here]
            t = (said.mean[i] - said.mean[j])[here] ** 2 / (spread[i] + spread[j])[here].clip(1e-300)
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
    """Places whose distances are as near to these as places on a plane can be.

    Two axes of classical scaling would put whoever is far away in a third direction among those who agree. So these are
    only the beginning: the stress Σ (d − δ)² is then made smaller by majorisation, X ← B(X)X/n, which never makes it
    larger.

    Returns:
        The places, and which share of the squared distances δ² they show: 1 − Σ (d − δ)²/Σ δ².
    """
    whole = float(np.sum(distances**2))
    if whole == 0:
        return np.zeros((len(distances), 2)), 1.0
    xy = classical(distances)
    stress = _stress(xy, distances)
    if stress > SETTLED * whole:  # owners at the very same place could never part
        angle = GOLDEN * np.arange(len(xy))
        xy = xy + 0.01 * distances.mean() * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    before = np.inf
    for _ in range(MOST_STEPS):
        if before - stress <= SETTLED * whole:
            break
        d = _gaps(xy)
        # B_ij = −δ_ij/d_ij, and rows sum to zero
        B = -np.divide(distances, d, out=np.zeros_like(d), where=d > 1e-12)
        np.fill_diagonal(B, -B.sum(1))
        xy = B @ xy / len(distances)
        before, stress = stress, _stress(xy, distances)
    return xy, 1 - stress / whole


def _gaps(xy: Array) -> Array:
    found: Array = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
    return found


def _stress(xy: Array, distances: Array) -> float:
    return float(np.sum((_gaps(xy) - distances) ** 2))


def classical(distances: Array) -> Array:
    """Classical scaling: −½ J D² J = X Xᵀ, of which the two largest eigenvalues are kept."""
    n = len(distances)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    two = np.argsort(-values)[:2]
    xy = vectors[:, two] * np.sqrt(values[two].clip(0))
    # the farthest is on the positive side, whatever LAPACK says
    return xy * np.where(np.abs(xy).max(0) == xy.max(0), 1.0, -1.0)

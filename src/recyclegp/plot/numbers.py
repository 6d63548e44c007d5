"""What is drawn, as arrays: curves along one input, maps over two. Pictures and HTML pages show the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import RecycleGPError
from ..models.naming import NEW
from .scale import Array, Band
from .scene import Scene, extent
from .subject import Marks, Owner, Subject, plain, together

FEWEST_PLACES, MOST_PLACES = 201, 801  # places along a curve
PLACES_PER_LENGTHSCALE = 12  # so that no bend of a curve is cut
NOTHING_INSIDE = "region: none of the modules has points there, so there is nothing to draw; choose a larger one"
MAP_SIDE = 81  # places along each side of a map


class Curve(NamedTuple):
    """One model along one input."""

    subject: Subject
    x: Array
    centre: Array
    low: Array  # the 95% band of f, or of what the scale makes of it
    high: Array
    banded: bool  # is the band drawn? Many on top of each other would show nothing
    noisy: Band | None  # the 95% band of a new y, where that is another; of a new owner's where owners differ
    Z: Array  # the model's points, along this input
    at: Array | None  # the centre at those points; None for slices, on which they do not lie
    owners: list[tuple[Owner, Array]]  # of an ensemble whose owners differ: each one's centre at the same places


class Panel(NamedTuple):
    """One input, the others fixed."""

    column: int
    label: str
    limits: tuple[float, float]
    fixed: float | None  # where the other panels hold this input
    curves: list[Curve]
    lanes: list[Marks]  # points that are marked below the curves, a lane for each of these


class Map(NamedTuple):
    """One model over two inputs."""

    subject: Subject
    x: Array
    y: Array
    centre: Array  # [y, x]; NaN beyond the points of a module among others
    sd: Array  # of f


# --- along one input ---


def panels(scene: Scene, most: int) -> list[Panel]:
    """The `most` inputs along which the models vary most, in the order of the columns."""
    base = scene.middle
    found = [panel(scene, j, base) for j in range(len(base))]
    if not any(p.curves for p in found):
        raise RecycleGPError(NOTHING_INSIDE)
    return [found[j] for j in largest([_variation(p) for p in found], most)]


def largest(values: Sequence[float], most: int) -> list[int]:
    """Positions of the `most` largest, in their order."""
    return sorted(np.argsort(-np.asarray(values), kind="stable")[:most].tolist())


def along(base: Array, column: int, x: Array) -> Array:
    """Rows with these values in a column, the other inputs held at `base`."""
    X = np.tile(base, (len(x), 1))
    X[:, column] = x
    return X


def panel(scene: Scene, column: int, base: Array) -> Panel:
    """One input, the others held at `base`."""
    low, high = scene.region[column]
    curves = [_curve(scene, s, column, base) for s in scene.subjects]
    return Panel(
        column,
        plain(scene.columns[column]),
        (low, high),
        fixed=base[column] if len(base) > 1 else None,
        curves=[c for c in curves if c is not None],
        lanes=lanes(scene),
    )


def lanes(scene: Scene) -> list[Marks]:
    """Points that lie on no curve: an ensemble's and its modules'; all points where the curves are slices."""
    chosen = [s.own for s in scene.subjects if s.merged]
    beside = [s.own for s in scene.subjects if not s.merged]
    if len(scene.columns) == 1:
        beside = []
    elif scene.crowded and beside:
        beside = [together(beside)]
    return [*chosen, *beside, *scene.members]


def _curve(scene: Scene, subject: Subject, column: int, base: Array) -> Curve | None:
    low, high = reach(scene, subject, column)
    if low >= high:  # the model has no points in the region that was asked for
        return None
    x = np.linspace(low, high, _places(subject, column, high - low))
    X = along(base, column, x)
    banded = (subject.merged or not scene.crowded) and not scene.scale.classes
    # Where there is an ensemble, only it has a second band, of y: two bands for every model would hide each other.
    shows_y = subject.merged or not scene.any_merged
    return Curve(
        subject,
        x,
        *scene.read(subject, X),
        banded=banded,
        noisy=_band_of_y(scene, subject, X) if banded and shows_y else None,
        Z=subject.Z[:, column],
        at=scene.read(subject, subject.Z).centre if len(base) == 1 else None,
        owners=[(o, scene.read(subject, X, o.name).centre) for o in subject.owners],
    )


def _band_of_y(scene: Scene, subject: Subject, X: Array) -> Band | None:
    owner = NEW if subject.owners_differ else None
    if scene.scale.varies:
        return subject.interval(X, owner)
    return scene.scale.band_of_y(subject.likelihoods, *subject.predict(X, owner))


def reach(scene: Scene, subject: Subject, column: int) -> tuple[float, float]:
    """A module among others is drawn where it has points: elsewhere it would only repeat its prior."""
    low, high = scene.region[column]
    if len(scene.subjects) > 1 and not subject.merged:
        left, right = extent(subject, column)
        return max(low, left), min(high, right)
    return low, high


def _places(subject: Subject, column: int, width: float) -> int:
    wanted = PLACES_PER_LENGTHSCALE * width / subject.length(column)
    return int(np.clip(wanted, FEWEST_PLACES, MOST_PLACES))


def _variation(panel: Panel) -> float:
    """How far the centre moves along an input, on average over the ensembles, or over the modules if there are none."""
    merged = [c for c in panel.curves if c.subject.merged]
    moves = [float(np.ptp(c.centre)) for c in merged or panel.curves]
    return sum(moves) / max(1, len(moves))


# --- over two inputs ---


def maps(scene: Scene, most: int) -> list[Map]:
    """At most so many models; ensembles are never left out in favour of modules."""
    found = [map_of(scene, subject) for subject in scene.first(most)]
    if not any(np.isfinite(m.sd).any() for m in found):
        raise RecycleGPError(NOTHING_INSIDE)
    return found


def map_of(scene: Scene, subject: Subject) -> Map:
    """One model over both inputs."""

    def said(X: Array) -> Array:
        mean, variance = subject.predict(X)
        read = scene.read(subject, X) if scene.scale.classes else scene.scale.read(mean, variance)
        return np.stack([read.centre, np.sqrt(variance)], axis=1)

    x, y, values = over(scene, subject, MAP_SIDE, said)
    return Map(subject, x, y, values[..., 0], values[..., 1])


def over(scene: Scene, subject: Subject, side: int, said: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """Places along both inputs, and what is said there, [y, x, …]; NaN beyond the points of a module among others."""
    x, y = (np.linspace(low, high, side) for low, high in scene.region)
    X = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    inside = np.ones(len(X), dtype=bool)
    for j, (low, high) in enumerate(reach(scene, subject, j) for j in (0, 1)):
        inside &= (low <= X[:, j]) & (high >= X[:, j])
    known = said(X[inside])
    values = np.full((len(X), known.shape[1]), np.nan)
    values[inside] = known
    return x, y, values.reshape(side, side, -1)

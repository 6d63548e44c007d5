"""What is drawn, as arrays: curves along one input, maps over two. Pictures and the page show the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from .. import arrays, kernel_units
from ..errors import RecycleGPError
from .scale import Array, Scale
from .scene import Scene, Subject, extent
from .style import HALF

COARSEST, FINEST = 121, 801  # places along a curve
PER_LENGTH = 12  # of them in the kernel's lengthscale
SIDE = 81  # places along each side of a map
LEVELS = (0.2, 0.5, 0.8)  # probabilities that have a contour
TALLEST = 2.5  # a rate's band is cut off at so many times the highest rate: it grows exponentially with ignorance


class Curve(NamedTuple):
    """One model along one input."""

    subject: Subject
    x: Array
    centre: Array
    low: Array  # the 95% band of f, or of what the scale makes of it
    high: Array
    noisy: tuple[Array, Array] | None  # the 95% band of a new y, where that is another
    Z: Array  # its points along this input …
    at: Array | None  # … and the centre there; None where the others lie beside the slice


class Panel(NamedTuple):
    """One input, the others fixed."""

    column: int
    label: str
    limits: tuple[float, float]
    curves: list[Curve]


class Map(NamedTuple):
    """One model over two inputs."""

    subject: Subject
    x: Array
    y: Array
    centre: Array  # [y, x]
    sd: Array  # of f


# --- along one input ---


def panels(scene: Scene, most: int, at: Any = None) -> list[Panel]:
    """The `most` inputs along which the models vary most, in the order of the columns."""
    D = len(scene.columns)
    base = middle(scene, at)
    found = [_panel(scene, j, base) for j in range(D)]
    kept = np.sort(np.argsort([-_variation(p) for p in found], kind="stable")[:most])
    return [found[j] for j in kept]


def middle(scene: Scene, at: Any = None) -> Array:
    """Where the other inputs stay: at the median of all points, unless given."""
    if at is None:
        return np.median(scene.points, axis=0)
    base: Array = arrays.as_tensor(at, "at", "cpu").numpy().reshape(-1)
    if len(base) != len(scene.columns):
        raise RecycleGPError(f"at has {len(base)} numbers for {len(scene.columns)} input columns; pass one each")
    return base


def _panel(scene: Scene, column: int, base: Array) -> Panel:
    low, high = scene.region[column]
    curves = [_curve(scene, s, column, base) for s in scene.subjects]
    return Panel(column, scene.columns[column], (low, high), [c for c in curves if c is not None])


def _curve(scene: Scene, subject: Subject, column: int, base: Array) -> Curve | None:
    """A module among others is drawn where it has points: elsewhere it would only repeat its prior."""
    low, high = scene.region[column]
    if len(scene.subjects) > 1 and not subject.merged:
        left, right = extent(subject, column)
        low, high = max(low, left), min(high, right)
        if low >= high:  # outside the region that was asked for
            return None
    x = np.linspace(low, high, _places(subject, column, high - low))
    X = np.tile(base, (len(x), 1))
    X[:, column] = x
    mean, variance = subject.predict(X)
    noise = scene.scale.noise(subject.model)
    half = None if noise is None else HALF * np.sqrt(variance + noise)
    return Curve(
        subject,
        x,
        *scene.scale.read(mean, variance),
        noisy=None if half is None else (mean - half, mean + half),
        Z=subject.Z[:, column],
        at=scene.read(subject, subject.Z).centre if len(base) == 1 else None,
    )


def _places(subject: Subject, column: int, width: float) -> int:
    spec = subject.model.kernel_spec
    lengths = kernel_units.lengths(spec.tree, spec.tensor(), len(subject.order))
    wanted = PER_LENGTH * width / float(lengths[subject.order.index(column)])
    return int(np.clip(wanted, COARSEST, FINEST))


def _variation(panel: Panel) -> float:
    """How far the centre moves along an input; ensembles decide where there are any."""
    merged = [c for c in panel.curves if c.subject.merged]
    return float(np.mean([np.ptp(c.centre) for c in merged or panel.curves] or [0.0]))


def height(panels: Sequence[Panel], scale: Scale) -> tuple[float, float]:
    """Limits of the vertical axis, the same in all panels."""
    curves = [c for p in panels for c in p.curves]
    if scale.is_probability or not curves:
        return 0.0, 1.0
    low = min(float(np.min(c.low if c.noisy is None else c.noisy[0])) for c in curves)
    high = max(float(np.max(c.high if c.noisy is None else c.noisy[1])) for c in curves)
    if scale.is_rate:
        return 0.0, min(1.05 * high, TALLEST * max(float(np.max(c.centre)) for c in curves))
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room


# --- over two inputs ---


def maps(scene: Scene, most: int) -> list[Map]:
    """At most so many models; ensembles are never left out in favour of modules."""
    by_rank = sorted(range(len(scene.subjects)), key=lambda i: not scene.subjects[i].merged)
    return [_map(scene, scene.subjects[i]) for i in sorted(by_rank[:most])]


def _map(scene: Scene, subject: Subject) -> Map:
    x, y = (np.linspace(low, high, SIDE) for low, high in scene.region)
    X = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    mean, variance = subject.predict(X)
    centre = scene.scale.read(mean, variance).centre
    return Map(subject, x, y, centre.reshape(SIDE, SIDE), np.sqrt(variance).reshape(SIDE, SIDE))


def levels(values: Sequence[Array], scale: Scale | None = None) -> list[float]:
    """Where contours are drawn, the same in all maps."""
    if scale is not None and scale.is_probability:
        return list(LEVELS)
    low, high = spread(values)
    return [float(v) for v in MaxNLocator(6).tick_values(low, high) if low < v < high]


def spread(values: Sequence[Array], scale: Scale | None = None) -> tuple[float, float]:
    """The range of colours, the same in all maps."""
    if scale is not None and scale.is_probability:
        return 0.0, 1.0
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)

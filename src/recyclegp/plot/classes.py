"""Several classes: probabilities along one input, and over two the regions in which each is the likeliest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from scipy.ndimage import distance_transform_cdt

from ..errors import RecycleGPError
from . import maps, numbers
from .lines import HOLDING, LANE_HEIGHT, Key, as_text, mark_held, more
from .scale import Array
from .scene import MOST_TOLD_APART, Scene
from .style import FAINT, PALETTE, few_ticks, first, tidy
from .subject import Marks, Subject, plain, together

PLACES = 301  # along a curve
MAP_SIDE = 161  # places along each side of a map: borders between classes are sharp
MOST_MODELS = 8  # in one figure
MOST_SLICES = 4  # inputs of each model
SHAPES = "osD^vP*X"  # of modules' points, which have no colour here: colours are classes
FAINTEST = 0.12  # colour of a class where all are equally likely


class Along(NamedTuple):
    """One model along one input."""

    column: int
    x: Array
    p: Array  # (n, C)
    fixed: float | None  # where the other panels hold this input


def size(scene: Scene) -> tuple[float, float]:
    """Inches that its panels need, wide and high."""
    (wide, high), D, several = _grid(scene), len(scene.columns), len(_shown(scene)) > 1
    if D == 2:
        return (4.0 * wide, 3.5 * high + 0.7) if wide > 1 else (5.2, 4.3 * high + 0.7)
    return 8.0 if D == 1 else 2.9 * wide + 0.6, (2.5 if several else 4.0) * high + 0.9


def _grid(scene: Scene) -> tuple[int, int]:
    """Panels beside and below each other."""
    count, D = len(_shown(scene)), len(scene.columns)
    if D != 2:
        return min(D, MOST_SLICES), count
    wide = 2 if count == 4 else min(count, 3)
    return wide, -(-count // wide)


def fill(figure: FigureBase, scene: Scene) -> tuple[list[Axes], Key]:
    """Draw all models; the legend is left to the caller."""
    (wide, high), D = _grid(scene), len(scene.columns)
    count = len(_shown(scene)) if D == 2 else high * wide
    grid = figure.subplots(high, wide, squeeze=False, sharex="all" if D <= 2 else "col", sharey=True)
    axes = first(grid, count)
    key = draw(scene, axes)
    for i, ax in enumerate(axes):
        ax.label_outer()
        if i + wide >= count:  # nothing is below it
            ax.xaxis.set_tick_params(labelbottom=True)
            ax.set_xlabel(axes[count - 1 if D <= 2 else i].get_xlabel())
    return axes, key


def draw(scene: Scene, axes: Sequence[Axes]) -> Key:
    """One axes for each model; of more than two inputs as many for each, for those that matter most."""
    shown, D = _shown(scene), len(scene.columns)
    if not axes or len(axes) % len(shown) or (D <= 2 and len(axes) != len(shown)):
        wanted = "one" if D <= 2 else "as many"
        raise RecycleGPError(f"ax has {len(axes)} axes for {len(shown)} models of classes; pass {wanted} for each")
    each = len(axes) // len(shown)
    for d, subject in enumerate(shown):
        if D == 2:
            _draw_region(axes[d], scene, subject)
        else:
            _draw_curves(axes[d * each : (d + 1) * each], scene, subject)
    return _key(scene)


def probabilities(scene: Scene, subject: Subject, X: Array) -> Array:
    """(n, C) of the figure's classes; 0 of those that the model has not met. X in the figure's columns."""
    found = np.zeros((len(X), len(scene.scale.classes)))
    found[:, [scene.scale.classes.index(name) for name in subject.model.classes]] = subject.probabilities(X)
    return found


def along(scene: Scene, subject: Subject, most: int) -> list[Along]:
    """The `most` inputs along which probabilities move most, in the order of the columns."""
    base, found = scene.middle, []
    for j, (low, high) in enumerate(_reach(scene, subject)):
        x = np.linspace(low, high, PLACES)
        p = probabilities(scene, subject, numbers.along(base, j, x))
        found.append(Along(j, x, p, base[j] if len(base) > 1 else None))
    return [found[j] for j in numbers.largest([float(np.ptp(own.p, axis=0).sum()) for own in found], most)]


def region(scene: Scene, subject: Subject, side: int) -> tuple[Array, Array, Array]:
    """Places along both inputs, and p there: [y, x, class], NaN beyond the points of a module among others."""
    _reach(scene, subject)  # which must not be empty
    return numbers.over(scene, subject, side, lambda X: probabilities(scene, subject, X))


def strength(p: Array) -> Array:
    """How strong the colour of the likeliest class is: 1 where it is certain."""
    C = p.shape[-1]
    return FAINTEST + (1 - FAINTEST) * np.clip((np.nan_to_num(p).max(-1) - 1 / C) / (1 - 1 / C), 0, 1)


def leads(p: Array) -> list[Array | None]:
    """By how much each class leads the others; None where it does so everywhere, or nowhere."""
    found = [p[..., c] - np.delete(p, c, axis=-1).max(-1) for c in range(p.shape[-1])]
    return [lead if np.nanmin(lead) < 0 < np.nanmax(lead) else None for lead in found]


def colours(count: int) -> list[str]:
    """One for each class; more than the palette has come from a larger one, whose neighbours are alike."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    table = cycle([to_hex(c) for c in matplotlib.colormaps["tab20"].colors])  # type: ignore[attr-defined]
    return [next(table) for _ in range(count)]


# --- along one input ---


def _draw_curves(axes: Sequence[Axes], scene: Scene, subject: Subject) -> None:
    lanes = points(scene, subject)
    shapes = _shapes(scene)
    for ax, own in zip(axes, along(scene, subject, len(axes)), strict=False):
        for c, colour in enumerate(colours(len(scene.scale.classes))):
            if scene.scale.classes[c] in subject.model.classes:
                ax.plot(own.x, own.p[:, c], color=colour, lw=1.8, zorder=3)
        depth = min(0.4, LANE_HEIGHT / 1.6 * (len(lanes) + 0.5)) if lanes else 0.0
        low = -1.02 * depth / (1 - depth)  # room below zero for the lanes of points
        label = as_text(plain(scene.columns[own.column]))
        tidy(ax, xlim=tuple(scene.region[own.column]), ylim=(low, 1.02), xlabel=label)
        few_ticks(ax)
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        for k, marks in enumerate(lanes):
            Z, level = marks.Z[:, own.column], low * (k + 0.8) / (len(lanes) + 0.5)
            shape = shapes.get(marks.label, "o")
            ax.plot(Z, np.full(len(Z), level), shape, color=FAINT, ms=3.2, mew=0, clip_on=True, zorder=2)
        mark_held(ax, own.fixed)
    axes[0].set_ylabel("probability")
    if len(_shown(scene)) > 1:
        axes[0].set_title(as_text(subject.label), loc="left", fontsize=10, fontweight="bold")


def points(scene: Scene, subject: Subject) -> list[Marks]:
    """Of modules, each by itself; all in one where there are many."""
    marks = [m for m in scene.marks(subject) if not m.chosen]
    return marks if len(marks) <= len(SHAPES) else [together(marks)]


# --- over two inputs ---


def _draw_region(ax: Axes, scene: Scene, subject: Subject) -> None:
    """The likeliest class as colour, and how certain it is as strength."""
    x, y, p = region(scene, subject, MAP_SIDE)
    known = np.isfinite(p).all(-1)
    best = np.where(known, np.nan_to_num(p).argmax(-1), 0)
    shade = np.where(known, strength(p), 0.0)[..., None]
    palette = np.array([to_rgb(c) for c in colours(p.shape[-1])])
    on_white = shade * palette[best] + (1 - shade)
    maps.image(ax, x, y, on_white, interpolation="nearest")
    for c, lead in enumerate(leads(p)):
        if lead is not None:
            ax.contour(x, y, lead, levels=[0], colors="white", linewidths=1.0, zorder=1)
            _write_name(ax, x, y, lead, scene.scale.classes[c])
    shapes = _shapes(scene)
    for m in scene.marks(subject):
        if not m.chosen:
            ax.plot(*m.Z.T, ls="none", zorder=3, **_dot(shapes.get(m.label, "o")))
    maps.frame(ax, scene, subject.label if len(_shown(scene)) > 1 else "")


def _write_name(ax: Axes, x: Array, y: Array, lead: Array, name: str) -> None:
    """The name of a class where its region is widest."""
    depth = distance_transform_cdt(np.pad(np.nan_to_num(lead, nan=-1.0) > 0, 1), "taxicab")[1:-1, 1:-1]
    deepest = np.argwhere(depth == depth.max())
    i, j = deepest[len(deepest) // 2]
    text = ax.text(x[j], y[i], as_text(plain(name)), ha="center", va="center", fontsize=9, zorder=4)
    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


# --- both ---


def _shown(scene: Scene) -> list[Subject]:
    return scene.first(MOST_MODELS)


def _reach(scene: Scene, subject: Subject) -> list[tuple[float, float]]:
    """A module among others is drawn where it has points."""
    found = [numbers.reach(scene, subject, j) for j in range(len(scene.columns))]
    if any(low >= high for low, high in found):
        raise RecycleGPError(numbers.NOTHING_INSIDE)
    return found


def _shapes(scene: Scene) -> dict[str, str]:
    """A shape for each module by its label; none where there are more than shapes."""
    labels = list(dict.fromkeys(m.label for s in _shown(scene) for m in scene.marks(s) if not m.chosen))
    return dict(zip(labels, SHAPES, strict=False)) if len(labels) <= len(SHAPES) else {}


def _dot(shape: str) -> dict[str, Any]:
    return {"marker": shape, "color": "white", "ms": 4.5, "mec": "black", "mew": 0.7}


def _key(scene: Scene) -> Key:
    """Colours are classes, shapes are modules."""
    names = scene.scale.classes
    over = len(scene.columns) == 2
    entries: Key = [
        (Patch(color=c, lw=0) if over else Line2D([], [], color=c, lw=2), as_text(plain(name)))
        for name, c in list(zip(names, colours(len(names)), strict=True))[: 2 * MOST_TOLD_APART]
    ]
    entries += more(len(names) - 2 * MOST_TOLD_APART)
    if over:
        entries.append((Patch(color="#d9d9d9", lw=0), "paler: less certain"))
    shapes = _shapes(scene)
    dots = shapes.items() or [("modules", "o")]
    for label, shape in dots:
        style = _dot(shape) if over else {"marker": shape, "color": FAINT, "ms": 5, "mew": 0}
        entries.append((Line2D([], [], ls="none", **style), f"points of {as_text(label)}"))
    if len(scene.columns) > 2:
        entries.append(HOLDING)
    return entries

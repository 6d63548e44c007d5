"""Several classes: probabilities along one input, and over two the regions in which each is the likeliest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from ..errors import RecycleGPError
from . import numbers
from .figure import DPI
from .joint_scene import Drawn, JointScene
from .lines import LANE_HEIGHT, Key, as_text, more
from .scale import Array
from .scene import MOST_TOLD_APART, plain
from .style import FAINT, PALETTE, tidy

PLACES = 301  # along a curve
MAP_SIDE = 161  # places along each side of a map: borders between classes are sharp
MOST_MODELS = 8  # in one figure
MOST_SLICES = 4  # inputs of each model
SHAPES = "osD^vP*X"  # of modules' points, which have no colour here: colours are classes
FAINTEST = 0.12  # colour of a class where all are equally likely


class Region(NamedTuple):
    """One model over two inputs."""

    x: Array
    y: Array
    p: Array  # [y, x, class]; NaN beyond the points of a module among others


def new(scene: JointScene, at: Any) -> tuple[Figure, list[Axes], Key]:
    shown = _shown(scene)
    D = len(scene.columns)
    if D == 2:
        wide = 2 if len(shown) == 4 else min(len(shown), 3)
        high = -(-len(shown) // wide)
        size = (5.2 * wide, 4.3 * high + 0.7) if wide == 1 else (4.0 * wide, 3.5 * high + 0.7)
    else:
        wide, high = (1, len(shown)) if D == 1 else (min(D, MOST_SLICES), len(shown))
        size = (8.0 if D == 1 else 2.9 * wide + 0.6, (4.0 if len(shown) == 1 else 2.5) * high + 0.9)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = list(figure.subplots(high, wide, squeeze=False, sharex="all" if D <= 2 else "col", sharey=True).flat)
    count = len(shown) if D <= 2 else high * wide
    for empty in axes[count:]:
        empty.remove()
    on(scene, axes[:count], at, legend=False)
    for i, ax in enumerate(axes[:count]):
        ax.label_outer()
        if i + wide >= count:  # nothing is below it
            ax.xaxis.set_tick_params(labelbottom=True)
            ax.set_xlabel(axes[count - 1 if D <= 2 else i].get_xlabel())
    return figure, axes[:count], _key(scene)


def on(scene: JointScene, axes: Sequence[Axes], at: Any, *, legend: bool = True) -> None:
    """One axes for each model; of more than two inputs as many for each, for those that matter most."""
    shown, D = _shown(scene), len(scene.columns)
    if D <= 2 and len(axes) != len(shown):
        raise RecycleGPError(f"ax has {len(axes)} axes for {len(shown)} models of classes; pass one for each")
    if not axes or len(axes) % len(shown):
        raise RecycleGPError(f"ax has {len(axes)} axes for {len(shown)} models of classes; pass as many for each")
    for d, drawn in enumerate(shown):
        if D == 2:
            _draw_region(axes[d], scene, drawn)
        else:
            each = len(axes) // len(shown)
            _draw_curves(axes[d * each : (d + 1) * each], scene, drawn, at)
    if legend:
        axes[0].legend(*_key(scene), fontsize=8, framealpha=0.8)


def probabilities(scene: JointScene, drawn: Drawn, X: Array) -> Array:
    """(n, C) of the figure's classes; 0 of those that the model has not met. X in the figure's columns."""
    found = np.zeros((len(X), len(scene.link.names)))
    own = [scene.link.names.index(name) for name in drawn.model.classes]
    found[:, own] = np.asarray(drawn.model.predict_proba(scene.subject(drawn).rows(X)))
    return found


def colours(count: int) -> list[str]:
    """One for each class; more than the palette has come from a larger one, whose neighbours are alike."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    table = cycle([to_hex(c) for c in matplotlib.colormaps["tab20"].colors])  # type: ignore[attr-defined]
    return [next(table) for _ in range(count)]


# --- along one input ---


def _draw_curves(axes: Sequence[Axes], scene: JointScene, drawn: Drawn, at: Any) -> None:
    base = numbers.middle(scene.first, at)
    found = [_along(scene, drawn, j, base) for j in range(len(base))]
    moves = [-float(np.ptp(p, axis=0).sum()) for _, p in found]
    kept = np.sort(np.argsort(moves, kind="stable")[: len(axes)])
    lanes = _lanes(scene, drawn)
    for ax, j in zip(axes, kept, strict=False):
        x, p = found[j]
        for c, colour in enumerate(colours(len(scene.link.names))):
            if scene.link.names[c] in drawn.model.classes:
                ax.plot(x, p[:, c], color=colour, lw=1.8, zorder=3)
        depth = min(0.4, LANE_HEIGHT / 1.6 * (len(lanes) + 0.5)) if lanes else 0.0
        low = -1.02 * depth / (1 - depth)  # room below zero for the lanes of points
        label = as_text(plain(scene.columns[j]))
        tidy(ax, xlim=tuple(scene.first.region[j]), ylim=(low, 1.02), xlabel=label)
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        for k, (Z, shape) in enumerate(lanes):
            level = low * (k + 0.8) / (len(lanes) + 0.5)
            ax.plot(Z[:, j], np.full(len(Z), level), shape, color=FAINT, ms=3.2, mew=0, clip_on=True, zorder=2)
        if len(base) > 1:
            ax.axvline(base[j], color=FAINT, lw=0.8, ls=(0, (1, 2)), zorder=0.5)
    axes[0].set_ylabel("probability")
    if len(_shown(scene)) > 1:
        axes[0].set_title(as_text(plain(drawn.label)), loc="left", fontsize=10, fontweight="bold")


def _along(scene: JointScene, drawn: Drawn, column: int, base: Array) -> tuple[Array, Array]:
    low, high = _reach(scene, drawn)[column]
    x = np.linspace(low, high, PLACES)
    X = np.tile(base, (PLACES, 1))
    X[:, column] = x
    return x, probabilities(scene, drawn, X)


def _lanes(scene: JointScene, drawn: Drawn) -> list[tuple[Array, str]]:
    """Points of modules, a lane for each; all in one where there are many."""
    marks, shapes = scene.marks(drawn), _shapes(scene)
    if len(marks) > len(SHAPES):
        return [(np.concatenate([m.Z for m in marks]), "o")] if marks else []
    return [(m.Z, shapes.get(m.label, "o")) for m in marks]


# --- over two inputs ---


def _draw_region(ax: Axes, scene: JointScene, drawn: Drawn) -> None:
    """The likeliest class as colour, and how certain it is as strength."""
    x, y, p = _region(scene, drawn)
    C = p.shape[-1]
    known = np.isfinite(p).all(-1)
    best = np.where(known, np.nan_to_num(p).argmax(-1), 0)
    certainty = np.clip((np.nan_to_num(p).max(-1) - 1 / C) / (1 - 1 / C), 0, 1)
    strength = np.where(known, FAINTEST + (1 - FAINTEST) * certainty, 0.0)[..., None]
    palette = np.array([to_rgb(c) for c in colours(C)])
    image = strength * palette[best] + (1 - strength)  # on white
    dx, dy = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
    extent = (x[0] - dx, x[-1] + dx, y[0] - dy, y[-1] + dy)
    ax.imshow(image, origin="lower", aspect="auto", extent=extent, interpolation="nearest", zorder=0)
    for c in range(C):
        others = np.delete(p, c, axis=-1).max(-1)
        lead = p[..., c] - others
        if np.nanmin(lead) < 0 < np.nanmax(lead):
            ax.contour(x, y, lead, levels=[0], colors="white", linewidths=1.0, zorder=1)
            _write_name(ax, x, y, lead, scene.link.names[c])
    shapes = _shapes(scene)
    for m in scene.marks(drawn):
        ax.plot(*m.Z.T, ls="none", zorder=3, **_dot(shapes.get(m.label, "o")))
    ax.set(xlim=scene.first.region[0], ylim=scene.first.region[1])
    ax.set(xlabel=as_text(plain(scene.columns[0])), ylabel=as_text(plain(scene.columns[1])))
    if len(_shown(scene)) > 1:
        ax.set_title(as_text(plain(drawn.label)), loc="left", fontsize=10, fontweight="bold")
    for spine in ax.spines.values():
        spine.set_color(FAINT)


def _write_name(ax: Axes, x: Array, y: Array, lead: Array, name: str) -> None:
    """The name of a class where its region is widest."""
    i, j = _deepest(np.nan_to_num(lead, nan=-1.0) > 0)
    text = ax.text(x[j], y[i], as_text(plain(name)), ha="center", va="center", fontsize=9, zorder=4)
    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def _deepest(inside: np.ndarray) -> tuple[int, int]:
    """A place of a region that is furthest from its border, which is worn off until nothing would be left."""
    worn = np.pad(inside, 1)
    while worn.any():
        left = worn
        worn = np.zeros_like(left)
        inner = left[1:-1, 1:-1] & left[:-2, 1:-1] & left[2:, 1:-1] & left[1:-1, :-2] & left[1:-1, 2:]
        worn[1:-1, 1:-1] = inner
    places = np.argwhere(left) - 1
    i, j = places[len(places) // 2]
    return int(i), int(j)


def _region(scene: JointScene, drawn: Drawn) -> Region:
    x, y = (np.linspace(low, high, MAP_SIDE) for low, high in scene.first.region)
    X = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    inside = np.ones(len(X), dtype=bool)
    for j, (low, high) in enumerate(_reach(scene, drawn)):
        inside &= (low <= X[:, j]) & (high >= X[:, j])
    p = np.full((len(X), len(scene.link.names)), np.nan)
    p[inside] = probabilities(scene, drawn, X[inside])
    return Region(x, y, p.reshape(MAP_SIDE, MAP_SIDE, -1))


# --- both ---


def _shown(scene: JointScene) -> list[Drawn]:
    """At most so many models; ensembles are never left out in favour of modules."""
    by_rank = sorted(range(len(scene.drawn)), key=lambda i: not scene.drawn[i].merged)
    return [scene.drawn[i] for i in sorted(by_rank[:MOST_MODELS])]


def _reach(scene: JointScene, drawn: Drawn) -> list[tuple[float, float]]:
    """A module among others is drawn where it has points."""
    part, subject = scene.functions[drawn.model.functions[0]], scene.subject(drawn)
    found = [numbers.reach(part, subject, j) for j in range(len(scene.columns))]
    if any(low >= high for low, high in found):
        raise RecycleGPError(numbers.NOTHING_INSIDE)
    return found


def _shapes(scene: JointScene) -> dict[str, str]:
    """A shape for each module by its label; none where there are more than shapes."""
    labels = list(dict.fromkeys(m.label for d in _shown(scene) for m in scene.marks(d)))
    return dict(zip(labels, SHAPES, strict=False)) if len(labels) <= len(SHAPES) else {}


def _dot(shape: str) -> dict[str, Any]:
    return {"marker": shape, "color": "white", "ms": 4.5, "mec": "black", "mew": 0.7}


def _key(scene: JointScene) -> Key:
    """Colours are classes, shapes are modules."""
    names = scene.link.names
    over = len(scene.columns) == 2
    entries: list[tuple[Any, str]] = [
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
        entries.append((Line2D([], [], color=FAINT, lw=0.8, ls=(0, (1, 2))), "where the other panels hold it"))
    return Key([h for h, _ in entries], [t for _, t in entries])

"""Where things go: panels on the axes of a caller, or on those of a new figure with legend and title."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from ..errors import RecycleGPError
from ..models.ensemble import Ensemble
from . import lines, maps, numbers
from .lines import Key, as_text
from .scale import Model
from .scene import Scene

MOST_SLICES = 12  # inputs in one figure
MOST_MAPS = 8  # models in one figure of maps
DPI = 130
MOST_MOVING = "The {} of {} inputs that move the mean most, each"


def on(scene: Scene, ax: Any, at: Any = None) -> None:
    """Draw on the caller's axes; the first of them holds the legend."""
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    for a in axes:
        if not isinstance(a, Axes):
            raise TypeError(f"ax: pass matplotlib axes, not {type(a).__name__}")
    D, n = len(scene.columns), len(scene.subjects)
    if D == 2:
        if len(axes) not in (n, 2 * n):
            raise RecycleGPError(
                f"ax has {len(axes)} axes for {n} model{'s' * (n > 1)} of two inputs; pass {n} for the means, or "
                f"{2 * n} for the means and then the standard deviations"
            )
        shown = numbers.maps(scene, n)
        figure = axes[0].figure
        maps.draw(figure, axes[:n], axes[n:], shown, scene)
        key = maps.key(shown, scene)
    else:
        if not 1 <= len(axes) <= D:
            raise RecycleGPError(f"ax has {len(axes)} axes for {D} input column{'s' * (D > 1)}; pass one for each")
        panels = numbers.panels(scene, len(axes), at)
        lines.draw(axes, panels, scene)
        axes[0].set_ylabel(as_text(scene.scale.label))
        key = lines.brief(panels, scene)
    if len(key.labels) > 1:
        axes[0].legend(*key, fontsize=8, framealpha=0.8)


def new(scene: Scene, at: Any = None, title: str | None = None) -> tuple[Figure, list[Axes]]:
    """Draw a new figure, with a legend below and a title above its axes."""
    figure = Figure(figsize=size(scene), dpi=DPI, layout="constrained")
    axes, key = fill(figure, scene, at)
    explain(figure, key, headline(scene) if title is None else title)
    return figure, axes


def size(scene: Scene) -> tuple[float, float]:
    """Inches that its panels need, wide and high."""
    D = len(scene.columns)
    if D == 2:
        wide, high, side = _grid_of_maps(min(len(scene.subjects), MOST_MAPS))
        return 2 * side * wide, 0.75 * side * high + 0.9
    wide, high = _grid_of_lines(min(D, MOST_SLICES))
    return (8, 5) if D == 1 else (3.0 * wide + 0.6, 2.5 * high + 1.2)


def fill(figure: FigureBase, scene: Scene, at: Any = None) -> tuple[list[Axes], Key]:
    """Draw all panels of a scene into a figure, or a part of one; the legend is left to the caller."""
    return _maps(figure, scene) if len(scene.columns) == 2 else _lines(figure, scene, at)


def along(scene: Scene, axes: list[Axes], at: Any = None) -> Key:
    """Draw curves on these axes; the legend is left to the caller."""
    panels = numbers.panels(scene, len(axes), at)
    lines.draw(axes, panels, scene)
    axes[0].set_ylabel(as_text(scene.scale.label))
    return lines.key(panels, scene)


def explain(figure: Figure, key: Key, title: str) -> None:
    """The legend below, and the title above."""
    width = figure.get_size_inches()[0]
    longest = max(len(label) for label in key.labels)
    columns = max(1, min(len(key.labels), int(width / (0.5 + 0.078 * longest))))
    figure.legend(*key, loc="outside lower left", frameon=False, fontsize=9, ncols=columns)
    figure.suptitle(as_text(title), x=0.01, ha="left", fontsize=11)


def headline(scene: Scene) -> str:
    """What is in the figure, in a few words."""
    modules = [s for s in scene.subjects if not s.merged]
    said = [f"{m.label}, {_rows(m.model)}" for m in modules] if len(modules) == 1 else []
    said += [f"{len(modules)} modules"] if len(modules) > 1 else []
    for s in scene.subjects:
        if isinstance(s.model, Ensemble):
            said.append(f"ensemble of {len(s.model.names):,} module{'s' * (len(s.model.names) > 1)}, {_rows(s.model)}")
    text = " · ".join(said)
    text = text if modules else text.capitalize()
    D = len(scene.columns)
    if D == 2 and len(scene.subjects) > MOST_MAPS:
        text += f"; maps of {MOST_MAPS} of them"
    if scene.left_out:
        text += f"; {scene.left_out:,} more are left out"
    if D > 2:
        text += f"\n{MOST_MOVING.format(MOST_SLICES, D) if MOST_SLICES < D else 'Each input'} varied alone"
    if scene.fixed:
        text += f"{', ' if D > 2 else chr(10)}{'at' if D > 2 else 'At'} {scene.fixed}"
    return text


def _rows(model: Model) -> str:
    return f"{model.rows:,} row{'s' * (model.rows > 1)}"


def _grid_of_maps(count: int) -> tuple[int, int, float]:
    """Models beside and below each other, and inches that the side of a map has."""
    wide = 1 if count <= 3 else 2
    return wide, math.ceil(count / wide), 4.6 if wide == 1 else 3.4


def _maps(figure: FigureBase, scene: Scene) -> tuple[list[Axes], Key]:
    shown = numbers.maps(scene, MOST_MAPS)
    wide, high, _ = _grid_of_maps(len(shown))
    # Means are together and deviations are together, because each group shares one scale of colours.
    grid = figure.subplots(high, 2 * wide, squeeze=False, sharex=True, sharey=True)
    centres, sds = list(grid[:, :wide].flat), list(grid[:, wide:].flat)
    for empty in (*centres[len(shown) :], *sds[len(shown) :]):
        empty.remove()
    centres, sds = centres[: len(shown)], sds[: len(shown)]
    maps.draw(figure, centres, sds, shown, scene)
    for ax in (*centres, *sds):
        ax.label_outer()
    return [*centres, *sds], maps.key(shown, scene)


def _grid_of_lines(count: int) -> tuple[int, int]:
    """Panels beside and below each other."""
    high = math.ceil(count / 4)
    return math.ceil(count / high), high


def _lines(figure: FigureBase, scene: Scene, at: Any) -> tuple[list[Axes], Key]:
    panels = numbers.panels(scene, MOST_SLICES, at)
    wide, high = _grid_of_lines(len(panels))
    grid = figure.subplots(high, wide, squeeze=False, sharey=True)
    axes = list(grid.flat)
    for empty in axes[len(panels) :]:
        empty.remove()
    lines.draw(axes[: len(panels)], panels, scene)
    for row in grid:
        row[0].set_ylabel(as_text(scene.scale.label))
    return axes[: len(panels)], lines.key(panels, scene)

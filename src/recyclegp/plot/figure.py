"""Where things go: panels on the axes of a caller, or on those of a new figure with legend and title."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from ..errors import RecycleGPError
from . import classes, lines, maps, numbers
from .lines import Key, as_text
from .numbers import Panel
from .ranges import Range
from .scale import Model
from .scene import Scene
from .style import first

MOST_SLICES = 12  # inputs in one figure
MOST_MAPS = 8  # models in one figure of maps, or of classes
DPI = 130
HEIGHT = 2.7  # inches of one output among others, over one input
MOST_MOVING = "The {} of {} inputs that move the mean most, each"


def on(scenes: Sequence[Scene], ax: Any) -> None:
    """Draw on the caller's axes, as many for each scene; the first of each holds a legend."""
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    for a in axes:
        if not isinstance(a, Axes):
            raise TypeError(f"ax: pass matplotlib axes, not {type(a).__name__}")
    if len(scenes) > 1 and (not axes or len(axes) % len(scenes)):
        raise RecycleGPError(
            f"ax has {len(axes)} axes for {len(scenes)} functions; pass as many for each, one after the other"
        )
    each = len(axes) // len(scenes)
    for k, scene in enumerate(scenes):
        _on(scene, axes[k * each : (k + 1) * each])


def _on(scene: Scene, axes: list[Axes]) -> None:
    D, n = len(scene.columns), len(scene.subjects)
    if scene.scale.classes:
        key = classes.draw(scene, axes)
    elif D == 2:
        if len(axes) not in (n, 2 * n):
            raise RecycleGPError(
                f"ax has {len(axes)} axes for {n} model{'s' * (n > 1)} of two inputs; pass {n} for the means, or "
                f"{2 * n} for the means and then the standard deviations"
            )
        shown = numbers.maps(scene, n)
        maps.draw(axes[0].figure, axes[:n], axes[n:], shown, scene)
        key = maps.key(shown, scene)
    else:
        if not 1 <= len(axes) <= D:
            raise RecycleGPError(f"ax has {len(axes)} axes for {D} input column{'s' * (D > 1)}; pass one for each")
        key = _along(scene, axes, len(axes), lines.brief)
    if len(key) > 1:
        axes[0].legend(*zip(*key, strict=True), fontsize=8, framealpha=0.8)


def new(scenes: Sequence[Scene], title: str | None = None) -> tuple[Figure, list[Axes]]:
    """Draw a new figure, with a legend below and a title above its axes; scenes stand below each other."""
    one_input = len(scenes[0].columns) == 1
    sizes = [(8.0, HEIGHT) if one_input and len(scenes) > 1 else _size(scene) for scene in scenes]
    more = 0.9 if len(scenes) > 1 else 0.0
    width, height = max(wide for wide, _ in sizes), sum(high for _, high in sizes) + more
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    if len(scenes) == 1:
        found = [_fill(figure, scenes[0])]
    elif one_input:
        rows = list(figure.subplots(len(scenes), 1, sharex=True))
        found = [([ax], _along(scene, [ax])) for scene, ax in zip(scenes, rows, strict=True)]
        for ax in rows:
            ax.label_outer()
    else:
        parts = figure.subfigures(len(scenes), 1, squeeze=False, height_ratios=[h for _, h in sizes])[:, 0]
        found = [_fill(part, scene) for part, scene in zip(parts, scenes, strict=True)]
    explain(figure, _together([key for _, key in found]), headline(scenes) if title is None else title)
    return figure, [ax for some, _ in found for ax in some]


def _together(keys: Sequence[Key]) -> Key:
    """Everything once, in the order of the longest."""
    if len(keys) == 1:
        return keys[0]
    found: dict[str, Any] = {}
    for key in sorted(keys, key=len, reverse=True):
        for handle, label in key:
            found.setdefault(label, handle)
    return [(handle, label) for label, handle in found.items()]


def _size(scene: Scene) -> tuple[float, float]:
    """Inches that its panels need, wide and high."""
    D = len(scene.columns)
    if scene.scale.classes:
        return classes.size(scene)
    if D == 2:
        wide, high, side = _grid_of_maps(min(len(scene.subjects), MOST_MAPS))
        return 2 * side * wide, 0.75 * side * high + 0.9
    wide, high = _grid_of_lines(min(D, MOST_SLICES))
    return (8, 5) if D == 1 else (3.0 * wide + 0.6, 2.5 * high + 1.2)


def _fill(figure: FigureBase, scene: Scene) -> tuple[list[Axes], Key]:
    """Draw all panels of a scene into a figure, or a part of one; the legend is left to the caller."""
    if scene.scale.classes:
        return classes.fill(figure, scene)
    return _maps(figure, scene) if len(scene.columns) == 2 else _lines(figure, scene)


def _along(scene: Scene, axes: list[Axes], wide: int = 1, key: Callable[..., Key] = lines.key) -> Key:
    """Draw along as many inputs as there are axes, so many of which stand beside each other."""
    panels = numbers.panels(scene, len(axes))
    along(scene, axes, panels, wide)
    return key(panels, scene)


def along(
    scene: Scene, axes: Sequence[Axes], panels: Sequence[Panel], wide: int = 1, span: Range | None = None
) -> None:
    """Draw these panels, so many of which stand beside each other."""
    lines.draw(axes, panels, scene, span)
    for ax in axes[::wide]:
        ax.set_ylabel(as_text(scene.scale.label))


def explain(figure: Figure, key: Key, title: str) -> None:
    """The legend below, and the title above."""
    width = figure.get_size_inches()[0]
    longest = max(len(label) for _, label in key)
    columns = max(1, min(len(key), int(width / (0.5 + 0.078 * longest))))
    figure.legend(*zip(*key, strict=True), loc="outside lower left", frameon=False, fontsize=9, ncols=columns)
    figure.suptitle(as_text(title), x=0.01, ha="left", fontsize=11)


def headline(scenes: Sequence[Scene]) -> str:
    """What is in the figure, in a few words."""
    scene = scenes[0]
    subjects = list({id(s.model): s for each in scenes for s in each.subjects}.values())
    modules = [s for s in subjects if not s.merged]
    said = [f"{m.label}, {_rows(m.model)}" for m in modules] if len(modules) == 1 else []
    said += [f"{len(modules)} modules"] if len(modules) > 1 else []
    for s in subjects:
        if s.merged:
            count = len(s.origin.modules)
            said.append(f"ensemble of {count:,} module{'s' * (count > 1)}, {_rows(s.model)}")
    text = " · ".join(said)
    text = text if modules else text.capitalize()
    D = len(scene.columns)
    text += f"; {scene.kind}" * bool(scene.kind)
    if len(scene.subjects) > MOST_MAPS and (D == 2 or scene.scale.classes):
        text += f"; {'maps of ' * (D == 2)}{MOST_MAPS} of them" + " are drawn" * (D != 2)
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
    centres, sds = first(grid[:, :wide], len(shown)), first(grid[:, wide:], len(shown))
    maps.draw(figure, centres, sds, shown, scene)
    for ax in (*centres, *sds):
        ax.label_outer()
    return [*centres, *sds], maps.key(shown, scene)


def _grid_of_lines(count: int) -> tuple[int, int]:
    """Panels beside and below each other."""
    high = math.ceil(count / 4)
    return math.ceil(count / high), high


def _lines(figure: FigureBase, scene: Scene) -> tuple[list[Axes], Key]:
    count = min(len(scene.columns), MOST_SLICES)
    wide, high = _grid_of_lines(count)
    axes = first(figure.subplots(high, wide, squeeze=False, sharey=True), count)
    return axes, _along(scene, axes, wide)

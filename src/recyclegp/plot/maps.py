"""Two inputs: a map of the mean (or probability, or rate) and one of the standard deviation of f, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

from . import ranges
from .lines import Key, as_text, more
from .numbers import Map
from .scale import Array, Scale
from .scene import DASHES, MOST_TOLD_APART, Scene
from .style import BLACK, CHOSEN, FAINT, few_ticks
from .subject import Marks, plain

DOT_SHAPES = dict(zip(DASHES, "osD^", strict=True))  # what dashes are for lines
MEAN_COLOURS, SD_COLOURS = "cividis", "Greys"  # on grey the modules' colours stand out
CONTOUR_DASHES = dict(zip(ranges.PROBABILITY_CONTOURS, (":", "-", "--"), strict=True))


def draw(figure: FigureBase, centres: Sequence[Axes], sds: Sequence[Axes], maps: Sequence[Map], scene: Scene) -> None:
    """One model on each of `centres`, and its standard deviation on each of `sds`, which may be none."""
    _draw(figure, centres, maps, [m.centre for m in maps], quantity(scene), scene, scene.scale)
    if sds:
        _draw(figure, sds, maps, [m.sd for m in maps], spread(scene), scene, None)


def _draw(
    figure: FigureBase,
    axes: Sequence[Axes],
    maps: Sequence[Map],
    values: Sequence[Array],
    what: str,
    scene: Scene,
    scale: Scale | None,
) -> None:
    """Maps that share their colours and contours; a scale of None is that of standard deviations."""
    low, high, log = ranges.spread(values, scale)
    norm = (LogNorm if log else Normalize)(low, high)
    levels = ranges.contours(values, scale)
    styles = CONTOUR_DASHES if scale is not None and scale.is_probability else {}
    for ax, m, v in zip(axes, maps, values, strict=True):
        colours = SD_COLOURS if scale is None else MEAN_COLOURS
        shown = image(ax, m.x, m.y, v, cmap=colours, norm=norm, interpolation="bilinear")
        _contours(ax, m, v, levels, BLACK if scale is None else "white", styles)
        _points(ax, m, scene, BLACK if scale is None else "white")
        frame(ax, scene, what if len(scene.subjects) == 1 else f"{m.subject.label}: {what}")
    bar = figure.colorbar(shown, ax=list(axes), aspect=20 * min(2, len(maps)), pad=0.02)
    if log:
        bar.set_ticks(ranges.Range(low, high, log).round_values(8), minor=False)
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        bar.minorticks_off()


def image(ax: Axes, x: Array, y: Array, values: Array, **style: Any) -> AxesImage:
    """Each pixel is centred on the place it was computed for, so that the outermost reach half a pixel further."""
    dx, dy = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
    extent = (x[0] - dx, x[-1] + dx, y[0] - dy, y[-1] + dy)
    return ax.imshow(values, origin="lower", aspect="auto", extent=extent, zorder=0, **style)


def frame(ax: Axes, scene: Scene, title: str) -> None:
    """The region of both inputs, with their names."""
    ax.set(xlim=scene.region[0], ylim=scene.region[1])
    few_ticks(ax)
    ax.set(xlabel=as_text(plain(scene.columns[0])), ylabel=as_text(plain(scene.columns[1])))
    ax.set_title(as_text(title), loc="left", fontsize=10, fontweight="bold")
    for spine in ax.spines.values():
        spine.set_color(FAINT)


def quantity(scene: Scene) -> str:
    """What the first map of a model shows."""
    scale = scene.scale
    return scale.label if scale.is_probability or scale.is_rate else f"mean of {scale.function}"


def spread(scene: Scene) -> str:
    """What the second one shows."""
    return f"sd of {scene.scale.function}"


def _contours(ax: Axes, m: Map, values: Array, levels: Sequence[float], colour: str, styles: dict[float, str]) -> None:
    levels = ranges.within(levels, values)
    if levels:
        drawn = [styles.get(v, "-") for v in levels]
        lines = ax.contour(m.x, m.y, values, levels=levels, colors=colour, linestyles=drawn, linewidths=0.9, zorder=2)
        labels = ax.clabel(lines, fmt=lambda v: f"{v:g}", fontsize=7)
        if colour == "white":  # lines may cross bright colours, on which only a dark edge makes them visible
            for drawn_on in (lines, *labels):
                drawn_on.set_path_effects([withStroke(linewidth=1.8, foreground="#00000070")])


def _points(ax: Axes, m: Map, scene: Scene, ink: str) -> None:
    """Modules' points as dots; Z_* as rings around them, since Z_* is mostly chosen from the modules' points."""
    for marks in scene.marks(m.subject):
        ax.plot(*marks.Z.T, ls="none", zorder=3, **(_ring(ink) if marks.chosen else _dot(marks)))


def _dot(marks: Marks) -> dict[str, Any]:
    return {"marker": DOT_SHAPES[marks.dashes], "color": marks.colour, "ms": 4.5, "mec": "white", "mew": 0.6}


def _ring(colour: str) -> dict[str, Any]:
    return {"marker": "o", "mfc": "none", "mec": colour, "ms": 7.5, "mew": 1.0}


def key(maps: Sequence[Map], scene: Scene) -> Key:
    """The legend: which points are whose."""
    known = {(k.label, k.colour, k.dashes): k for m in maps for k in scene.marks(m.subject) if not k.chosen}
    modules = list(known.values())
    named = modules[:MOST_TOLD_APART]
    entries: Key = [(Line2D([], [], ls="none", **{**_dot(k), "ms": 6}), as_text(k.label)) for k in named]
    entries += more(len(modules) - MOST_TOLD_APART)
    if any(m.subject.merged for m in maps):
        entries.append((Line2D([], [], ls="none", **_ring(FAINT)), CHOSEN))
    return entries

"""Two inputs: a map of the mean (or probability, or rate) and one of the standard deviation of f, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from . import numbers
from .lines import Key, as_text
from .numbers import Array, Map
from .scene import CROWD, Marks, Scene, Subject
from .style import BLACK, FAINT

MEAN, SD = "cividis", "Greys"  # on grey the modules' colours stand out
STYLES = (":", "-", "--")  # of the contours at 0.2, 0.5 and 0.8
NAMES = {"f": "mean of f", "rate of y": "rate of y"}


def draw(figure: FigureBase, axes: Sequence[Axes], sds: Sequence[Axes], maps: Sequence[Map], scene: Scene) -> None:
    """Centres on `axes`, standard deviations on `sds` (or nowhere), one colour scale for each of the two."""
    centres, widths = [m.centre for m in maps], [m.sd for m in maps]
    for ax, m in zip(axes, maps, strict=True):
        image = _image(ax, m, m.centre, MEAN, numbers.spread(centres, scene.scale))
        styles: Any = STYLES if scene.scale.is_probability else "-"
        _contours(ax, m, m.centre, numbers.levels(centres, scene.scale), "white", styles)
        _frame(ax, m, scene, f"{m.subject.label}: {what(scene)}")
    figure.colorbar(image, ax=list(axes), label=what(scene), **_bar(len(maps)))
    for ax, m in zip(sds, maps, strict=bool(sds)):
        image = _image(ax, m, m.sd, SD, numbers.spread(widths))
        _contours(ax, m, m.sd, numbers.levels(widths), BLACK, "-")
        _frame(ax, m, scene, f"{m.subject.label}: sd of f")
    if sds:
        figure.colorbar(image, ax=list(sds), label="sd of f", **_bar(len(maps)))


def what(scene: Scene) -> str:
    return NAMES.get(scene.scale.label, scene.scale.label)


def marks(subject: Subject, scene: Scene) -> list[Marks]:
    """Whose points belong on a model's map: its own, or those of the modules it was merged from."""
    if not subject.merged:
        return [Marks(subject.label, subject.colour, subject.Z)]
    inside = set(subject.model.names)
    drawn = [s for s in scene.subjects if not s.merged and s.model.name in inside]
    return [*(Marks(s.label, s.colour, s.Z) for s in drawn), *subject.members]


def key(scene: Scene) -> Key:
    from .lines import _dot

    entries = list(dict.fromkeys((m.label, m.colour) for s in scene.subjects for m in marks(s, scene)))
    handles = [_dot(colour, "o") for _, colour in entries[:CROWD]]
    labels = [as_text(label) for label, _ in entries[:CROWD]]
    return Key(handles, labels)


def _image(ax: Axes, m: Map, values: Array, colours: str, limits: tuple[float, float]) -> Any:
    # pixels are centred on the places that were asked
    dx, dy = (m.x[1] - m.x[0]) / 2, (m.y[1] - m.y[0]) / 2
    extent = (m.x[0] - dx, m.x[-1] + dx, m.y[0] - dy, m.y[-1] + dy)
    style: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear", "zorder": 0}
    return ax.imshow(values, cmap=colours, vmin=limits[0], vmax=limits[1], extent=extent, **style)


def _contours(ax: Axes, m: Map, values: Array, levels: Sequence[float], colour: str, styles: Any) -> None:
    levels = [v for v in levels if values.min() < v < values.max()]
    if levels:
        if not isinstance(styles, str):
            styles = [STYLES[numbers.LEVELS.index(v)] for v in levels]
        lines = ax.contour(m.x, m.y, values, levels=levels, colors=colour, linestyles=styles, linewidths=0.9, zorder=2)
        ax.clabel(lines, fmt=lambda v: f"{v:g}", fontsize=7)


def _frame(ax: Axes, m: Map, scene: Scene, title: str) -> None:
    for each in marks(m.subject, scene):
        ax.plot(*each.Z.T, "o", color=each.colour, ms=4.5, mec="white", mew=0.6, ls="none", zorder=3)
    if m.subject.merged:
        ax.plot(*m.subject.Z.T, "*", color="white", ms=5, mec=BLACK, mew=0.5, ls="none", zorder=3.5)
    ax.set(xlim=scene.region[0], ylim=scene.region[1])
    ax.set(xlabel=as_text(scene.columns[0]), ylabel=as_text(scene.columns[1]))
    ax.set_title(as_text(title), loc="left", fontsize=10, fontweight="bold")
    for spine in ax.spines.values():
        spine.set_color(FAINT)


def _bar(count: int) -> dict[str, Any]:
    return {"aspect": 25 if count < 3 else 40, "pad": 0.02}

"""Means with bands along one input: the whole figure in 1-D, one slice each where there are more inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from . import ranges
from .numbers import Curve, Panel
from .scene import CROWD, Marks, Scene
from .style import FAINT, inducing, tidy

LANE = 0.1  # inches, for each lane of points
DARK, MIDDLE, LIGHT, LIGHTEST = 0.3, 0.2, 0.12, 0.07  # opacity of bands
BANDS = {"f": "f", "P(y = 1)": "P(y = 1)", "rate of y": "the rate"}


class Key(NamedTuple):
    """What a legend says."""

    handles: list[Any]
    labels: list[str]


def draw(axes: Sequence[Axes], panels: Sequence[Panel], scene: Scene) -> None:
    span = ranges.height(panels, scene.scale)
    for ax, panel in zip(axes, panels, strict=True):
        for curve in panel.curves:
            _draw(ax, curve, scene)
        if panel.fixed is not None:
            ax.axvline(panel.fixed, color=FAINT, lw=0.8, ls=(0, (1, 2)), zorder=0.5)
        # lanes are below everything that the scale measures
        lane = LANE / max(0.5, ax.get_window_extent().height / ax.figure.dpi)
        depth = min(0.5, lane * (len(panel.lanes) + 0.5)) if panel.lanes else 0.0
        ax.set_yscale("log" if span.log else "linear")
        tidy(ax, xlim=panel.limits, ylim=(span.lowered(depth), span.high), xlabel=as_text(panel.label))
        if span.log:
            ax.set_yticks(span.round_values(6))
            ax.set_yticks([], minor=True)
            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        else:
            ax.yaxis.set_major_locator(_Above(span.low))
        for k, marks in enumerate(panel.lanes):
            Z = marks.Z[:, panel.column]
            inside = Z[(panel.limits[0] <= Z) & (panel.limits[1] >= Z)]
            inducing(ax, inside, marks.colour, level=depth * (k + 0.6) / (len(panel.lanes) + 0.5), mark=_mark(marks))


class _Above(MaxNLocator):
    """Ticks, but none among the lanes of points."""

    def __init__(self, low: float) -> None:
        super().__init__(nbins=7, steps=[1, 2, 2.5, 5, 10])
        self._low = low

    def tick_values(self, vmin: float, vmax: float) -> Any:
        values = np.asarray(super().tick_values(vmin, vmax))
        return values[values >= self._low - 1e-9 * abs(vmax - vmin)]


def _draw(ax: Axes, curve: Curve, scene: Scene) -> None:
    s, alone = curve.subject, len(scene.subjects) == 1
    above = 4 if s.merged else 2
    if curve.banded:
        opacity = DARK if alone else LIGHT if s.merged else MIDDLE
        ax.fill_between(curve.x, curve.low, curve.high, color=s.colour, alpha=opacity, lw=0, zorder=above - 0.5)
        if curve.noisy is not None:
            ax.fill_between(curve.x, *curve.noisy, color=s.colour, alpha=LIGHT if alone else LIGHTEST, lw=0, zorder=1)
        if s.merged and not alone:  # a band that lies on others needs an edge
            for limit in (curve.low, curve.high):
                ax.plot(curve.x, limit, color=s.colour, lw=0.7, alpha=0.7, zorder=above - 0.5)
    ax.plot(curve.x, curve.centre, s.dashes, color=s.colour, lw=1.8 if s.merged else 1.5, zorder=above)
    if curve.at is not None and not s.merged:
        size = 3.5 if scene.crowded else 5.5
        ax.plot(curve.Z, curve.at, "o", color=s.colour, ms=size, mec="white", mew=0.7, zorder=5)


def key(panels: Sequence[Panel], scene: Scene) -> Key:
    """One entry for each model, then what the bands and marks are."""
    alone = len(scene.subjects) == 1
    colour = scene.subjects[0].colour if alone else FAINT
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=s.colour, ls=s.dashes, lw=2), as_text(s.label)) for s in scene.subjects[:CROWD]
    ]
    left = len(scene.subjects) + scene.left_out - CROWD
    if left > 0:
        entries.append((Line2D([], [], ls="none"), f"… and {left:,} more"))
    if any(c.banded for p in panels for c in p.curves):
        entries.append((Patch(color=colour, alpha=DARK, lw=0), f"95% band of {BANDS[scene.scale.label]}"))
        if any(c.noisy is not None for p in panels for c in p.curves):
            entries.append((Patch(color=colour, alpha=LIGHT, lw=0), "95% band of y"))
    if any(c.at is not None and not c.subject.merged for p in panels for c in p.curves):
        entries.append((dot(colour, "o"), "published points"))
    several = sum(s.merged for s in scene.subjects) > 1
    names = {s.label for s in scene.subjects}
    for lane in panels[0].lanes:
        if lane.chosen:
            text = f"$Z_*$ of {as_text(lane.label)}" if several else "points $Z_*$"
        elif lane.label in names:  # its colour is in the legend already
            text = "" if any(t == "published points" for _, t in entries) else "published points"
        else:
            text = f"points of {as_text(lane.label)}" if lane.colour != FAINT else lane.label
        if text:
            entries.append((dot(FAINT if text == "published points" else lane.colour, _mark(lane)), text))
    if panels[0].fixed is not None:
        entries.append((Line2D([], [], color=FAINT, lw=0.8, ls=(0, (1, 2))), "where the other panels hold it"))
    return Key([h for h, _ in entries], [t for _, t in entries])


def dot(colour: str, mark: str) -> Line2D:
    return Line2D([], [], color=colour, marker=mark, ls="none", ms=6, mew=1.4 if mark == "|" else 0)


def _mark(lane: Marks) -> str:
    return "^" if lane.chosen else "|"


def as_text(text: str) -> str:
    """For matplotlib, as it stands: names may hold dollars, which would begin a formula, or start with the
    underscore that hides a label."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text

"""Means with bands along one input: the whole figure in 1-D, one slice each where there are more inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from . import ranges
from .numbers import Curve, Panel
from .scene import MOST_TOLD_APART, Scene
from .style import CHOSEN, FAINT, few_ticks, inducing, mark_of, tidy
from .subject import Marks

LANE_HEIGHT = 0.1  # inches, for each lane of points
DARK, MIDDLE, LIGHT, LIGHTEST = 0.3, 0.2, 0.12, 0.07  # opacity of bands


Key = list[tuple[Any, str]]  # what a legend shows, and what it says of it
HOLDING = (Line2D([], [], color=FAINT, lw=0.8, ls=(0, (1, 2))), "where the other panels hold it")


def draw(axes: Sequence[Axes], panels: Sequence[Panel], scene: Scene, span: ranges.Range | None = None) -> None:
    """`span` is how far the vertical axis reaches, where that is not as far as everything does."""
    span = ranges.height(panels, scene.scale) if span is None else span
    for ax, panel in zip(axes, panels, strict=True):
        for curve in panel.curves:
            _draw(ax, curve, scene)
        mark_held(ax, panel.fixed)
        # Points are marked in lanes below the curves, for which the axis is made longer.
        lane = LANE_HEIGHT / max(0.5, ax.get_window_extent().height / ax.figure.dpi)
        depth = min(0.5, lane * (len(panel.lanes) + 0.5)) if panel.lanes else 0.0
        ax.set_yscale("log" if span.log else "linear")
        tidy(ax, xlim=panel.limits, ylim=(span.lowered(depth), span.high), xlabel=as_text(panel.label))
        few_ticks(ax)
        if span.log:
            ax.set_yticks(span.round_values(6))
            ax.set_yticks([], minor=True)
            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        else:
            ax.yaxis.set_major_locator(_TicksAboveLanes(span.low))
        for k, marks in enumerate(panel.lanes):
            Z = marks.Z[:, panel.column]
            inside = Z[(panel.limits[0] <= Z) & (panel.limits[1] >= Z)]
            inducing(ax, inside, marks.colour, level=depth * (k + 0.6) / (len(panel.lanes) + 0.5), mark=_mark(marks))


def mark_held(ax: Axes, fixed: float | None) -> None:
    """Where the other panels hold this input."""
    if fixed is not None:
        ax.axvline(fixed, color=FAINT, lw=0.8, ls=(0, (1, 2)), zorder=0.5)


class _TicksAboveLanes(MaxNLocator):
    """Ticks of the vertical axis, but none beside the lanes of points, where nothing is measured."""

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
        if s.merged and not alone:  # its band lies on those of the modules and would not be seen without edges
            for limit in (curve.low, curve.high):
                ax.plot(curve.x, limit, color=s.colour, lw=0.7, alpha=0.7, zorder=above - 0.5)
    for owner, centre in curve.owners:
        ax.plot(curve.x, centre, owner.dashes, color=owner.colour, lw=0.9, zorder=above - 0.3)
    ax.plot(curve.x, curve.centre, s.dashes, color=s.colour, lw=1.8 if s.merged else 1.5, zorder=above)
    if curve.at is not None and not s.merged:
        size = 3.5 if scene.crowded else 5.5
        ax.plot(curve.Z, curve.at, "o", color=s.colour, ms=size, mec="white", mew=0.7, zorder=5)


def key(panels: Sequence[Panel], scene: Scene) -> Key:
    """One entry for each model, then what the bands and marks are."""
    curves = [c for p in panels for c in p.curves]
    colour = scene.subjects[0].colour if len(scene.subjects) == 1 else FAINT
    entries: Key = [*_names(scene), *_owners(scene)]
    if any(c.banded for c in curves):
        entries.append((Patch(color=colour, alpha=DARK, lw=0), f"95% band of {scene.scale.band_label}"))
    if any(c.noisy is not None for c in curves):
        whose = "a new owner's y" if any(s.owners_differ for s in scene.subjects) else "y"
        varies = ", whose noise varies" if scene.scale.varies else ""
        entries.append((Patch(color=colour, alpha=LIGHT, lw=0), f"95% band of {whose}{varies}"))
    if any(c.at is not None and not c.subject.merged for c in curves):
        entries.append((dot(colour, "o"), "published points"))
    for marks, text in _explained(panels[0].lanes, scene):
        entries.append((dot(marks.colour, _mark(marks)), text))
    if panels[0].fixed is not None:
        entries.append(HOLDING)
    return entries


def brief(panels: Sequence[Panel], scene: Scene) -> Key:
    """Names only, for axes that have little room."""
    explained = _explained(panels[0].lanes, scene)
    points = [(dot(m.colour, "|"), text) for m, text in explained if any(m is k for k in scene.members)]
    return [*_names(scene), *_owners(scene), *points]


def _names(scene: Scene) -> Key:
    # Of too many models the first are named, ensembles before modules.
    named = sorted(scene.subjects, key=lambda s: not s.merged) if scene.crowded else scene.subjects
    lines = [(Line2D([], [], color=s.colour, ls=s.dashes, lw=2), as_text(s.label)) for s in named[:MOST_TOLD_APART]]
    return [*lines, *more(len(scene.subjects) + scene.left_out - MOST_TOLD_APART)]


def _owners(scene: Scene) -> Key:
    """The thin lines, one entry for each colour and name."""
    found = dict.fromkeys((o.label, o.colour, o.dashes) for s in scene.subjects for o in s.owners)
    what = scene.scale.band_label
    return [(Line2D([], [], color=c, ls=dashes, lw=0.9), f"{what} of {as_text(label)}") for label, c, dashes in found]


def more(count: int) -> Key:
    return [(Line2D([], [], ls="none"), f"… and {count:,} more")] if count > 0 else []


def _explained(lanes: Sequence[Marks], scene: Scene) -> Iterator[tuple[Marks, str]]:
    """What a legend says of the lanes. Modules that are drawn share one entry, as their lines show the colours."""
    several = sum(marks.chosen for marks in lanes) > 1
    for marks in lanes:
        if marks.chosen:
            yield marks, f"points of {as_text(marks.label)}" if several else CHOSEN
        elif marks.colour == FAINT:  # too many modules to have colours of their own
            yield marks, marks.label
        elif any(marks is m for m in scene.members):
            yield marks, f"points of {as_text(marks.label)}"
    own = [m for m in lanes if not m.chosen and m.colour != FAINT and not any(m is k for k in scene.members)]
    if own:
        yield own[0]._replace(colour=own[0].colour if len(scene.subjects) == 1 else FAINT), "published points"


def dot(colour: str, mark: str) -> Line2D:
    return Line2D([], [], color=colour, marker=mark, ls="none", ms=6, mew=1.4 if mark == "|" else 0)


def _mark(lane: Marks) -> str:
    return mark_of(lane.chosen, len(lane.Z))


def as_text(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar would begin a formula, and a leading underscore hides a label."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text

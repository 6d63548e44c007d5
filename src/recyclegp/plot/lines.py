"""Means with bands along one input: the whole figure in 1-D, one slice each where there are more inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from . import numbers
from .numbers import Curve, Panel
from .scene import CROWD, Scene
from .style import FAINT, inducing, tidy

LANE = 0.028  # of the height, between the marks of one module and the next
DARK, MIDDLE, LIGHT = 0.3, 0.2, 0.1  # opacity of a band of f, of f among others, of y


class Key(NamedTuple):
    """What a legend says."""

    handles: list[Any]
    labels: list[str]


def draw(axes: Sequence[Axes], panels: Sequence[Panel], scene: Scene) -> None:
    limits = numbers.height(panels, scene.scale)
    for ax, panel in zip(axes, panels, strict=True):
        _lanes(ax, panel, scene)
        for curve in panel.curves:
            _draw(ax, curve, len(scene.subjects))
        tidy(ax, xlim=panel.limits, ylim=limits, xlabel=as_text(panel.label))


def _draw(ax: Axes, curve: Curve, among: int) -> None:
    s = curve.subject
    above = 4 if s.merged else 2
    if among <= CROWD or s.merged:  # many bands on top of each other say nothing
        opacity = DARK if among == 1 else MIDDLE
        ax.fill_between(curve.x, curve.low, curve.high, color=s.colour, alpha=opacity, lw=0, zorder=above - 0.5)
        if curve.noisy is not None:
            ax.fill_between(curve.x, *curve.noisy, color=s.colour, alpha=LIGHT, lw=0, zorder=1)
    ax.plot(curve.x, curve.centre, s.dashes, color=s.colour, lw=2.0 if s.merged else 1.5, zorder=above)
    if curve.at is not None and not s.merged:
        size = 5.5 if among <= CROWD else 3.5
        ax.plot(curve.Z, curve.at, "o", color=s.colour, ms=size, mec="white", mew=0.7, zorder=above + 0.2)


def _lanes(ax: Axes, panel: Panel, scene: Scene) -> None:
    """Along the lower edge: the ensembles' Z_*, above them their modules' points, one lane each."""
    low, high = panel.limits
    level = 0.02
    for s in scene.subjects:
        if s.merged:
            Z = s.Z[:, panel.column]
            inducing(ax, Z[(Z >= low) & (Z <= high)], s.colour, level=level)
            level += 1.4 * LANE
        elif len(scene.columns) > 1 and len(scene.subjects) <= CROWD:
            Z = s.Z[:, panel.column]
            inducing(ax, Z[(Z >= low) & (Z <= high)], s.colour, level=level, mark="|")
            level += LANE
        for marks in s.members:
            Z = marks.Z[:, panel.column]
            inducing(ax, Z[(Z >= low) & (Z <= high)], marks.colour, level=level, mark="|")
            level += LANE


def key(panels: Sequence[Panel], scene: Scene) -> Key:
    """One entry for each model, and what the bands and marks are."""
    entries: list[tuple[Any, str]] = []
    single = len(scene.columns) == 1
    for s in scene.subjects[:CROWD]:
        mark: dict[str, Any] = {} if s.merged or not single else {"marker": "o", "mec": "white", "ms": 6}
        entries.append((Line2D([], [], color=s.colour, ls=s.dashes, lw=2, **mark), s.label))
    left = len(scene.subjects) + scene.left_out - CROWD
    if left > 0:
        entries.append((Line2D([], [], ls="none"), f"… and {left:,} more"))
    if len(scene.subjects) == 1 and single and not scene.subjects[0].merged:
        entries.append((_dot(FAINT, "o"), "published points"))
    colour = scene.subjects[0].colour if len(scene.subjects) == 1 else FAINT
    entries.append((Patch(color=colour, alpha=DARK, lw=0), f"95% band of {_quantity(scene)}"))
    if any(c.noisy is not None for p in panels for c in p.curves):
        entries.append((Patch(color=colour, alpha=LIGHT, lw=0), "95% band of y"))
    if any(s.merged for s in scene.subjects):
        merged = next(s for s in scene.subjects if s.merged)
        entries.append((_dot(merged.colour, "^"), "points $Z_*$"))
    members = [m for s in scene.subjects for m in s.members]
    for m in members:
        entries.append((_dot(m.colour, "|"), m.label if len(members) == 1 else f"points of {m.label}"))
    if not single and not members:
        entries.append((_dot(colour, "|"), "published points"))
    return Key([h for h, _ in entries], [t if "$Z_*$" in t else as_text(t) for _, t in entries])


def _quantity(scene: Scene) -> str:
    return {"f": "f", "rate of y": "the rate"}.get(scene.scale.label, "p")


def _dot(colour: str, mark: str) -> Line2D:
    return Line2D([], [], color=colour, marker=mark, ls="none", ms=6, mew=1.2 if mark == "|" else 0)


def as_text(text: str) -> str:
    """For matplotlib, as it stands: names may hold dollars, which would be formulas, or begin with the
    underscore that hides a label."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text

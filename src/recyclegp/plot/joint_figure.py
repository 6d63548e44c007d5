"""Figures of several functions: a part for each output, class probabilities or regions, and bands that vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import RecycleGPError
from ..models.joint.links import Classes, VaryingNoise
from . import classes
from . import figure as figures
from .figure import DPI
from .joint_scene import JointScene
from .lines import Key
from .scene import plain

HEIGHT = 2.7  # inches of one output over one input


def new(scene: JointScene, at: Any = None, title: str | None = None) -> tuple[Figure, list[Axes]]:
    """Draw a new figure, with a legend below and a title above its axes."""
    if isinstance(scene.link, Classes):
        figure, axes, key = classes.new(scene, at)
    elif len(scene.functions) == 1:
        figure = Figure(figsize=figures.size(scene.first), dpi=DPI, layout="constrained")
        axes, key = figures.fill(figure, scene.first, at)
        if isinstance(scene.link, VaryingNoise):
            key = _noise_varies(key)
    else:
        figure, axes, key = _below_each_other(scene, at)
    figures.explain(figure, key, headline(scene) if title is None else title)
    return figure, axes


def on(scene: JointScene, ax: Any, at: Any = None) -> None:
    """Draw on the caller's axes: as many for each output, or one for each model of classes."""
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    for a in axes:
        if not isinstance(a, Axes):
            raise TypeError(f"ax: pass matplotlib axes, not {type(a).__name__}")
    if isinstance(scene.link, Classes):
        classes.on(scene, axes, at)
        return
    C = len(scene.functions)
    if not axes or len(axes) % C:
        raise RecycleGPError(f"ax has {len(axes)} axes for {C} functions; pass as many for each, one after the other")
    each = len(axes) // C
    for c, part in enumerate(scene.functions.values()):
        figures.on(part, axes[c * each : (c + 1) * each], at)


def headline(scene: JointScene) -> str:
    """What is in the figure, in a few words."""
    modules = [d for d in scene.drawn if not d.merged]
    said = [f"{plain(m.label)}, {m.model.rows:,} rows" for m in modules] if len(modules) == 1 else []
    said += [f"{len(modules)} modules"] if len(modules) > 1 else []
    for d in scene.drawn:
        if d.merged:
            count = len(getattr(d.model, "names", ()))
            said.append(f"ensemble of {count:,} module{'s' * (count > 1)}, {d.model.rows:,} rows")
    text = " · ".join(said)
    text = text if modules else text.capitalize()
    kind = "noise that varies" if isinstance(scene.link, VaryingNoise) else f"{len(scene.link.names)} {scene.link.kind}"
    D = len(scene.columns)
    return f"{text}; {kind}" + ("\nEach input varied alone" if D > 2 else "")


def _below_each_other(scene: JointScene, at: Any) -> tuple[Figure, list[Axes], Key]:
    """A part of the figure for each function; over one input they share it."""
    own = list(scene.functions.values())
    sizes = [(8.0, HEIGHT) if len(scene.columns) == 1 else figures.size(s) for s in own]
    total = sum(h for _, h in sizes) + 0.9
    figure = Figure(figsize=(max(w for w, _ in sizes), total), dpi=DPI, layout="constrained")
    if len(scene.columns) == 1:
        axes = list(figure.subplots(len(own), 1, sharex=True))
        found = [(([ax]), figures.along(s, [ax], at)) for ax, s in zip(axes, own, strict=True)]
        for ax in axes:
            ax.label_outer()
    else:
        parts = figure.subfigures(len(own), 1, squeeze=False, height_ratios=[h for _, h in sizes])[:, 0]
        found = [figures.fill(part, s, at) for part, s in zip(parts, own, strict=True)]
    return figure, [ax for some, _ in found for ax in some], _together([key for _, key in found])


def _together(keys: Sequence[Key]) -> Key:
    """Everything once, in the order of the longest."""
    found: dict[str, Any] = {}
    for key in sorted(keys, key=lambda k: -len(k.labels)):
        for handle, label in zip(*key, strict=True):
            found.setdefault(label, handle)
    return Key(list(found.values()), list(found))


def _noise_varies(key: Key) -> Key:
    """Say so of the band of y."""
    varies = ("95% band of y", "95% band of a new owner's y")
    return Key(key.handles, [f"{t}, whose noise varies" if t in varies else t for t in key.labels])

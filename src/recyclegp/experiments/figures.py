"""What the experiments' figures share: one palette, one way to draw a band, one mark for inducing points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from .core import Row

# Okabe & Ito: distinguishable with any colour vision
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW)
FAINT = "#8a8a8a"
MERGED, CENTRAL = VERMILION, BLACK
DPI = 110


def new(width: float = 10.0, height: float = 6.0) -> Figure:
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def tidy(panel: Axes, title: str | None = None, **labels: Any) -> None:
    """No box, a title on the left."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["bottom", "left"]].set_color(FAINT)
    panel.set(**labels)
    if title is not None:
        panel.set_title(title, loc="left", fontsize=10, fontweight="bold")


def band(panel: Axes, x: Any, mean: Any, variance: Any, colour: str, label: str | None, **style: Any) -> None:
    """A mean with its central 95% band."""
    half = 1.96 * np.sqrt(variance)
    panel.fill_between(x, mean - half, mean + half, color=colour, alpha=0.25, lw=0, zorder=1)
    panel.plot(x, mean, color=colour, label=label, zorder=3, **{"lw": 1.6, **style})


def outline(panel: Axes, x: Any, mean: Any, variance: Any, colour: str = CENTRAL, label: str | None = None) -> None:
    """A model to compare with: dashed mean, dotted limits of its 95% band."""
    panel.plot(x, mean, "--", color=colour, lw=1.2, zorder=4, label=label)
    for sign in (-1.96, 1.96):
        panel.plot(x, mean + sign * np.sqrt(variance), ":", color=colour, lw=0.9, zorder=4)


def inducing(panel: Axes, Z: Any, colour: str, label: str | None = None, level: float = 0.02) -> None:
    """Triangles along the lower edge, at the inducing inputs."""
    across = panel.get_xaxis_transform()
    panel.plot(
        Z,
        np.full(len(Z), level),
        "^",
        color=colour,
        ms=5,
        mew=0,
        transform=across,
        clip_on=False,
        label=label,
        zorder=5,
    )


def rows_of(panel: Axes, x: Any, y: Any, colour: str = FAINT, label: str | None = None, size: float = 4) -> None:
    """Data rows as faint dots."""
    panel.scatter(x, y, s=size, color=colour, alpha=0.35, lw=0, zorder=0, label=label, rasterized=True)


def contours(panel: Axes, x: Any, y: Any, p: Any, levels: Sequence[float], colour: str = BLACK) -> None:
    """Probabilities over the plane, with labelled contours; p has one row for each y."""
    panel.contourf(x, y, p, levels=np.linspace(0, 1, 21), cmap="cividis", zorder=0)
    lines = panel.contour(x, y, p, levels=list(levels), colors=colour, linewidths=1.2, zorder=2)
    panel.clabel(lines, fmt=lambda v: f"{v:g}", fontsize=8)


def excess(panel: Axes, rows: Sequence[Row], best: str) -> None:
    """How far each model's NLPD is above that of the model named `best`, on a logarithmic scale."""
    least = next(r.nlpd for r in rows if r.model == best)
    shown = [r for r in rows if r.model != best]
    values = np.array([r.nlpd - least for r in shown])
    above = np.where(values > 0, values, np.nan)  # a logarithm has no place for those below; they stay at the edge
    left = 10 ** np.floor(np.log10(np.nanmin(above) / 2)) if np.isfinite(above).any() else 1e-4
    places, colours = np.arange(len(shown))[::-1], [colour_of(r.model) for r in shown]
    at = np.maximum(np.nan_to_num(above, nan=left), left)
    panel.set_xscale("log")
    panel.set_xlim(left, 4 * at.max())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    known = np.isfinite(values)
    panel.hlines(places, left, at, color=colours, lw=1.2, alpha=0.6)
    panel.scatter(at[known], places[known], color=[c for c, k in zip(colours, known, strict=True) if k], s=28, zorder=3)
    for place, x, value in zip(places, at, values, strict=True):
        text = f"{value:.4f}" if np.isfinite(value) else "diverged"
        panel.annotate(text, (x, place), (6, 0), textcoords="offset points", va="center", fontsize=7)
    panel.set_yticks(places, [r.model for r in shown], fontsize=8)
    panel.margins(y=0.02)
    panel.set_xlabel(f"nats per point above {best} ({least:.4f}), log scale")
    panel.grid(axis="x", color="#e5e5e5", lw=0.6)
    panel.set_axisbelow(True)


def colour_of(model: str) -> str:
    """One colour for a family of models, in every figure."""
    for start, colour in (
        ("merge", MERGED),
        ("pyramid", MERGED),
        ("oracle", FAINT),
        ("VEM", PURPLE),
        ("SGPR by map", GREEN),
        ("central", CENTRAL),
    ):
        if model.startswith(start):
            return colour
    return BLUE if "modules" in model else SKY if "own" in model else ORANGE

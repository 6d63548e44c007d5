"""What the experiments' figures share, beside the style they have in common with every other figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ..plot.style import BLACK, BLUE, FAINT, GREEN, ORANGE, PURPLE, SKY, VERMILION, band, inducing, tidy
from .core import Row

MERGED, CENTRAL = VERMILION, BLACK
DPI = 110
MOST_RIVALS = 8  # in one panel: more lines could not be read


def new(width: float = 10.0, height: float = 6.0) -> Figure:
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def fitted(
    panel: Axes, x: Any, model: Any, colour: str, label: str | None, points: str | None = None, **style: Any
) -> None:
    """A model of one input with its band, and, where they are given a label, its points."""
    mean, variance = model.predict(x[:, None])
    band(panel, x, mean, variance, colour, label, **style)
    if points:
        inducing(panel, model.inducing[:, 0], colour, points)


def rows_of(panel: Axes, x: Any, y: Any, colour: str = FAINT, label: str | None = None, size: float = 4) -> None:
    """Data rows as faint dots."""
    panel.scatter(x, y, s=size, color=colour, alpha=0.35, lw=0, zorder=0, label=label, rasterized=True)


def shortlist(rows: Sequence[Row]) -> list[Row]:
    """Every merge, and at most eight rivals: of each method its best variant, and of these the best."""

    def nlpd(row: Row) -> float:
        return row.nlpd if np.isfinite(row.nlpd) else np.inf

    rivals = [r for r in rows if colour_of(r.model) != MERGED]
    if len(rivals) > MOST_RIVALS:
        methods = {_method(r.model): r for r in sorted(rivals, key=nlpd, reverse=True)}
        rivals = sorted(methods.values(), key=nlpd)[:MOST_RIVALS]
    return [r for r in rows if colour_of(r.model) == MERGED or r in rivals]


def _method(model: str) -> str:
    """`gPoE` of "gPoE (1/K), modules": central models, and those by variational EM, are one method each."""
    return next((m for m in ("central", "VEM") if model.startswith(m)), re.split(r",| \(", model)[0])


def excess(panel: Axes, rows: Sequence[Row], best: str, title: str | None = None) -> None:
    """How far the models of the shortlist are above the one named `best` in NLPD, on a logarithmic scale."""
    least = next(r.nlpd for r in rows if r.model == best)
    others = [r for r in rows if r.model != best]
    shown = shortlist(others)
    values = np.array([r.nlpd - least for r in shown])
    above = np.where(values > 0, values, np.nan)  # a logarithm has no place for those below; they stay at the edge
    left = 10 ** np.floor(np.log10(np.nanmin(above) / 2)) if np.isfinite(above).any() else 1e-4
    places, colours = np.arange(len(shown))[::-1], [colour_of(r.model) for r in shown]
    at = np.maximum(np.nan_to_num(above, nan=left), left)
    panel.set_xscale("log")
    panel.set_xlim(left, 4 * at.max())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    known = np.isfinite(values)
    panel.hlines(places, left, at, color=colours, lw=1.2, alpha=0.6)
    panel.scatter(at[known], places[known], color=[c for c, k in zip(colours, known, strict=True) if k], s=28, zorder=3)
    for place, x, value in zip(places, at, values, strict=True):
        text = f"{value:.4f}" if np.isfinite(value) else "diverged"
        panel.annotate(text, (x, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
    panel.set_yticks(places, [r.model for r in shown], fontsize=9)
    panel.margins(y=0.04)
    left_out = len(others) - len(shown)
    note = f"\nbest variant of each method; {left_out} more in the table" if left_out else ""
    panel.set_xlabel(f"nats per point above {best} ({least:.4f}), log scale{note}", fontsize=9)
    grid(panel, "x")
    tidy(panel, title)


def grid(panel: Axes, along: Literal["x", "y"]) -> None:
    """Faint lines behind everything."""
    panel.grid(axis=along, color="#e5e5e5", lw=0.6)
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

"""What every figure shares: one palette, one way to draw a band, one mark for inducing points."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..likelihoods import normal_quantile

# The palette of Okabe and Ito, whose colours can be told apart with any kind of colour vision.
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW)
FAINT = "#8a8a8a"

CHOSEN = "points of the merged model"  # what legends call them
MOST_MARKS = 60  # points along an edge that are marked one by one; more of them are a rug of thin strokes

BAND_LEVEL = 0.95  # the probability that every band holds
BAND_SDS = normal_quantile(0.5 * (1 + BAND_LEVEL))  # standard deviations from the mean of f to the edge of its band


def tidy(panel: Axes, title: str | None = None, legend: Mapping[str, Any] | None = None, **labels: Any) -> None:
    """Remove the box around a panel, and put its title on the left; `legend`: where and how it has one."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["bottom", "left"]].set_color(FAINT)
    panel.set(**labels)
    if title is not None:
        panel.set_title(title, loc="left", fontsize=10, fontweight="bold")
    if legend is not None:
        panel.legend(**{"fontsize": 8, "frameon": False, **legend})


def few_ticks(panel: Axes) -> None:
    """Where numbers along the horizontal axis are long, as days since 1970 are, fewer of them, so that none touch."""
    low, high = panel.get_xlim()
    if max(abs(low), abs(high)) >= 1e4 or high - low < 0.05:
        panel.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))


def band(panel: Axes, x: Any, mean: Any, variance: Any, colour: str, label: str | None, **style: Any) -> None:
    """A mean with its central 95% band."""
    half = BAND_SDS * np.sqrt(variance)
    panel.fill_between(x, mean - half, mean + half, color=colour, alpha=0.25, lw=0, zorder=1)
    panel.plot(x, mean, color=colour, label=label, zorder=3, **{"lw": 1.6, **style})


def outline(panel: Axes, x: Any, mean: Any, variance: Any, colour: str, label: str | None) -> None:
    """A model to compare with: dashed mean, dotted limits of its 95% band."""
    panel.plot(x, mean, "--", color=colour, lw=1.2, zorder=4, label=label)
    for edge in (-BAND_SDS, BAND_SDS):
        panel.plot(x, mean + edge * np.sqrt(variance), ":", color=colour, lw=0.9, zorder=4)


def mark_of(chosen: bool, count: int) -> str:
    """Triangles for the points of a merged model, strokes for those of modules, and for very many."""
    return "^" if chosen and count <= MOST_MARKS else "|"


def inducing(panel: Axes, Z: Any, colour: str, label: str | None = None, level: float = 0.02, mark: str = "^") -> None:
    """Mark the inducing inputs by triangles, or others, along the lower edge; very many are thin strokes."""
    many = len(Z) > MOST_MARKS
    mark = "|" if many else mark
    width = 0.7 if many else 0 if mark == "^" else 1.2
    look: dict[str, Any] = {"color": colour, "ms": 5, "mew": width, "label": label, "zorder": 5}
    panel.plot(Z, np.full(len(Z), level), mark, transform=panel.get_xaxis_transform(), clip_on=False, **look)


def first(axes: Any, count: int) -> list[Axes]:
    """The first axes of a grid; those behind them are removed."""
    found = list(np.ravel(axes))
    for empty in found[count:]:
        empty.remove()
    return found[:count]


def encoded(figure: Figure, kind: str, **how: Any) -> bytes:
    """The file of a figure: "png", "svg" or "pdf"."""
    stream = BytesIO()
    figure.savefig(stream, format=kind, **how)
    return stream.getvalue()

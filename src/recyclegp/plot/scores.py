"""Whether probabilities and intervals are what they say, as pictures: reliability curves and PIT histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import RecycleGPError
from ..storage.atomic import write_atomically
from . import style
from .lines import as_text

FORMATS = ("png", "svg", "pdf")
SIZE, DPI = (5.2, 4.6), 130  # of one panel
ACROSS = 3  # panels beside each other, at most


def reliability(curve: Any, ax: Any = None, *, of: str = "class 1") -> Any:
    """Draw how often what was said with some probability came true; return the axes.

    On the diagonal it came true as often as was said; below it, less often. The bars reach from 2.5% to 97.5% of what
    chance alone would give, if probabilities were right; grey bars at the bottom are the shares of rows.

    Args:
        curve: what `metrics.reliability` gives.
        ax: matplotlib axes to draw on; by default those of a new figure.
        of: of what the probabilities are, for the label.

    Returns:
        The axes.

    Raises:
        TypeError: `ax` are no axes.

    Examples:
        >>> from recyclegp import metrics, plot
        >>> ax = plot.reliability(metrics.reliability([0.2, 0.8, 0.9], [0, 1, 1]))
    """
    said, happened, rows = (np.asarray(part, dtype=float) for part in curve)
    ax = _axes(ax)
    ax.bar(said, rows / rows.sum(), width=0.06, color=style.FAINT, alpha=0.35, label="share of rows", zorder=1)
    ax.plot([0, 1], [0, 1], color=style.FAINT, lw=1, ls="--", label="as it should be", zorder=2)
    half = style.BAND_SDS * np.sqrt(said * (1 - said) / rows)
    ax.vlines(said, (said - half).clip(0), (said + half).clip(max=1), color=style.FAINT, lw=3, alpha=0.5, zorder=3)
    ax.plot(said, happened, "o-", color=style.BLUE, ms=5, lw=1.4, label="what happened", zorder=4)
    legend = {"fontsize": 9, "loc": "upper left"}
    style.tidy(
        ax, None, legend, xlabel=f"probability of {of}", ylabel="share in which it was so", xlim=(0, 1), ylim=(0, 1)
    )
    return ax


def pit(shares: Any, rows: int, ax: Any = None) -> Any:
    """Draw a histogram of P(Y ≤ y): flat where a model is right; return the axes.

    High ends: the model is too sure. A hump: not sure enough. A slope: too high or too low on the whole. The band is
    where 95% of the bars would be by chance alone, if the model were right.

    Args:
        shares: what `metrics.pit_histogram` gives.
        rows: of how many test rows.
        ax: matplotlib axes to draw on; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: `ax` are no axes.

    Examples:
        >>> from recyclegp import metrics, plot
        >>> ax = plot.pit(metrics.pit_histogram([0.1, 0.6], [0.1, 0.6]), rows=2)
    """
    heights = np.asarray(shares, dtype=float)
    ax, B = _axes(ax), len(heights)
    half = style.BAND_SDS * np.sqrt((B - 1) / rows) / B
    ax.bar((np.arange(B) + 0.5) / B, heights, width=0.96 / B, color=style.BLUE, alpha=0.75, label="test rows", zorder=1)
    ax.axhspan(1 / B - half, 1 / B + half, color=style.ORANGE, alpha=0.3, lw=0, label="by chance, 95%", zorder=2)
    ax.axhline(1 / B, color=style.ORANGE, lw=1.2, label="as it should be", zorder=3)
    top = 1.35 * max(heights.max(), 1 / B + half)
    style.tidy(ax, xlabel="P(Y ≤ y), as predicted", ylabel="share of rows", xlim=(0, 1), ylim=(0, top))
    ax.legend(frameon=False, fontsize=8, loc="upper center", ncols=3, handlelength=1.2, columnspacing=1.0)
    return ax


def check_name(path: str | PathLike[str]) -> None:
    """Refuse a file whose name does not say what kind of picture it is to be."""
    if Path(path).suffix.lower().lstrip(".") not in FORMATS:
        raise RecycleGPError(f"{path}: these figures are written as {', '.join(f'.{f}' for f in FORMATS)}; choose one")


def save(path: str | PathLike[str], panels: Mapping[str, Callable[[Axes], Any]], title: str) -> None:
    """These pictures in a file, all or nothing: a panel for each name; of a single one the title says it all."""
    check_name(path)
    across = min(len(panels), ACROSS)
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(across * SIZE[0], down * SIZE[1]), dpi=DPI, layout="constrained")
    axes = style.first(figure.subplots(down, across, squeeze=False), len(panels))
    for ax, (name, draw) in zip(axes, panels.items(), strict=True):
        draw(ax)
        style.tidy(ax, as_text(title if len(panels) == 1 else name))
    if len(panels) > 1:
        figure.suptitle(as_text(title))
    write_atomically(Path(path), style.encoded(figure, Path(path).suffix.lower().lstrip(".")))


def _axes(ax: Any) -> Axes:
    if ax is None:
        return Figure(figsize=SIZE, dpi=DPI, layout="constrained").subplots()
    if not isinstance(ax, Axes):
        raise TypeError(f"ax: pass matplotlib axes, not {type(ax).__name__}")
    return ax

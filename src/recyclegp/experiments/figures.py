"""What the experiments' figures share, beside the style they have in common with every other figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from ..plot.style import BLACK, BLUE, CHOSEN, FAINT, GREEN, ORANGE, PURPLE, SKY, VERMILION, band, inducing, tidy
from .core import Row
from .data import THRESHOLD, Array

MERGED, CENTRAL = VERMILION, BLACK
DPI = 110
MOST_RIVALS = 8  # in one panel: more lines could not be read
LEVELS = {0.2: ":", 0.5: "-", 0.8: "--"}  # probabilities drawn, and how: sure paper, the edge, sure ink
SIDE = 101  # points along each axis of a map
OWNERS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "D"), (PURPLE, "^"))  # a colour and a mark for each


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
    panel.xaxis.set_major_formatter(in_digits())
    panel.xaxis.set_minor_formatter(NullFormatter())
    known = np.isfinite(values)
    panel.hlines(places, left, at, color=colours, lw=1.2, alpha=0.6)
    panel.scatter(at[known], places[known], color=[c for c, k in zip(colours, known, strict=True) if k], s=28, zorder=3)
    for place, x, value in zip(places, at, values, strict=True):
        text = f"{value:.4f}" if np.isfinite(value) else "diverged"
        panel.annotate(text, (x, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
    panel.set_yticks(places, [in_words(r.model) for r in shown], fontsize=9)
    panel.margins(y=0.04)
    left_out = len(others) - len(shown)
    note = f"\nbest variant of each method; {left_out} more in the table" if left_out else ""
    panel.set_xlabel(f"nats per point above {in_words(best)} ({least:.4f}), log scale{note}", fontsize=9)
    grid(panel, "x")
    tidy(panel, title)


# how tables name models and cases, for people who look at a picture
WORDS = (
    (r"\bM=(\d+)", r"\1 points"),
    (r"\bM_k=(\d+)", r"\1 points each"),
    (r"\bK=(\d+)", r"\1 owners"),
    (r"\b(shared|own) θ", r"\1 kernel"),
    (r"\boffsets of (\S+) sd", r"constants of \1 sd"),
)


def in_words(name: str) -> str:
    """The name of a model or a case without symbols."""
    for symbol, words in WORDS:
        name = re.sub(symbol, words, name)
    return name


def in_digits() -> FuncFormatter:
    """0.00001 and 100 in place of powers of ten."""
    return FuncFormatter(lambda value, _: np.format_float_positional(value, precision=4, fractional=False, trim="-"))


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
        ("mixed linear", CENTRAL),
    ):
        if model.startswith(start):
            return colour
    return BLUE if "modules" in model else SKY if "own" in model else ORANGE


# --- classes in the plane: probabilities as contours, the modules' points, and what was there ------


class Box(NamedTuple):
    left: float
    right: float
    bottom: float
    top: float

    def holds(self, X: Array) -> Array:
        """Which rows are inside."""
        x, y = X.T
        return (x >= self.left) & (x <= self.right) & (y >= self.bottom) & (y <= self.top)

    def cells(self, side: int) -> Array:
        """Centres of side × side equal cells."""
        along = (np.arange(side) + 0.5) / side
        x, y = self.left + along * (self.right - self.left), self.bottom + along * (self.top - self.bottom)
        return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


UNIT = Box(-1, 1, -1, 1)


def probability(model: Any, X: Array) -> Array:
    """P(y=1), which is the mean of y."""
    return np.asarray(model.predict_y(X, likelihood="bernoulli")[0])


def chart(model: Any, box: Box) -> tuple[Array, Array, Array]:
    """Places along both axes, and P(y=1) over the box."""
    x, y = np.linspace(box.left, box.right, SIDE), np.linspace(box.bottom, box.top, SIDE)
    X = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return x, y, probability(model, X).reshape(SIDE, SIDE)


def contours(panel: Axes, model: Any, box: Box, colour: str, width: float = 1.8) -> None:
    x, y, p = chart(model, box)
    styles = list(LEVELS.values())
    panel.contour(x, y, p, levels=list(LEVELS), colors=colour, linestyles=styles, linewidths=width, zorder=4)


def shade(panel: Axes, model: Any, box: Box) -> None:
    """P(y=1) as ink."""
    x, y, p = chart(model, box)
    panel.pcolormesh(x, y, p, cmap="Greys", vmin=0, vmax=1.6, shading="nearest", zorder=0, rasterized=True)


def ink(panel: Axes, image: Array, strength: float = 0.35) -> None:
    """The image itself, its pixels centred where they were observed."""
    height, width = image.shape
    half_x, half_y = 1 / (width - 1), 1 / (height - 1)
    extent = (-1 - half_x, 1 + half_x, -1 - half_y, 1 + half_y)
    panel.imshow(image > THRESHOLD, cmap="Greys", vmin=0, vmax=1 / strength, extent=extent, zorder=0)


def points(panel: Axes, modules: Sequence[Any], hollow: bool = False) -> None:
    """Where each owner published, in its own colour and mark."""
    for k, m in enumerate(modules):
        colour, mark = OWNERS[k % len(OWNERS)]
        style: dict[str, Any] = {"mfc": "none", "mec": colour, "mew": 1.3} if hollow else {"mec": "white", "mew": 0.7}
        panel.plot(*m.inducing.T, mark, color=colour, ms=5.5, ls="none", zorder=5, **style)


def stars(panel: Axes, Z: Array, colour: str) -> None:
    """The merge's points."""
    size = 9 if len(Z) <= 60 else 6.5
    panel.plot(*np.asarray(Z).T, "*", color=colour, ms=size, mec="white", mew=0.5, ls="none", zorder=5)


def legend(figure: Figure, of: str, colour: str, others: Sequence[tuple[Any, str]] = ()) -> None:
    """Below all panels: the probabilities that contours show, after other lines and marks, in rows of five."""
    key = [*others, *((Line2D([], [], color=colour, ls=s), f"{of} = {v:g}") for v, s in LEVELS.items())]
    several = {tuple: HandlerTuple(ndivide=None, pad=0.3)}  # marks that share one entry stand side by side
    handles, labels = zip(*key, strict=True)
    below: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": 9, "handlelength": 2.6}
    figure.legend(handles, labels, ncols=min(len(key), 5), handler_map=several, **below)


def star(colour: str) -> tuple[Line2D, str]:
    """What stars are, for a legend."""
    return Line2D([], [], marker="*", ls="none", color=colour, ms=9, mec="white", mew=0.5), CHOSEN


def of_owners(count: int) -> tuple[tuple[Line2D, ...], str]:
    """What marks are, for a legend: a colour and a shape for each owner."""
    marks = [Line2D([], [], marker=mark, ls="none", color=c, ms=6, mec="white", mew=0.7) for c, mark in OWNERS[:count]]
    return tuple(marks), "points that each owner publishes"


def bare(panel: Axes, box: Box, title: str) -> None:
    """A picture: equal scales and no more than a frame."""
    panel.set(xlim=(box.left, box.right), ylim=(box.bottom, box.top), aspect="equal", xticks=[], yticks=[])
    for spine in panel.spines.values():
        spine.set_color(FAINT)
    panel.set_title(title, loc="left", fontsize=10, fontweight="bold")


def around(X: Array) -> Box:
    """A box with all rows, and a little more."""
    (left, bottom), (right, top) = X.min(0), X.max(0)
    return grown(Box(left, right, bottom, top), 0.03 * float(max(right - left, top - bottom)))


def grown(box: Box, by: float) -> Box:
    return Box(box.left - by, box.right + by, box.bottom - by, box.top + by)

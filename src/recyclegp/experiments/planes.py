"""Figures of classes in the plane: probabilities as contours, the modules' points, and what was there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..plot.style import BLUE, FAINT, GREEN, ORANGE, PURPLE
from .data import THRESHOLD, Array

LEVELS = {0.2: ":", 0.5: "-", 0.8: "--"}  # probabilities drawn, and how: sure paper, the edge, sure ink
SIDE = 101  # points along each axis of a map
OWNERS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "D"), (PURPLE, "^"))  # a colour and a mark for each


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


def legend(figure: Figure, of: str, colour: str, others: Sequence[Line2D] = ()) -> None:
    """Below all panels: the probabilities that contours show, after other lines and marks."""
    levels = [Line2D([], [], color=colour, ls=s, label=f"{of} = {v:g}") for v, s in LEVELS.items()]
    handles = [*others, *levels]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)


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

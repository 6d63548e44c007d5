"""The figure of the London experiment."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..models.module import Module
from . import figures, planes
from .data import Array, Houses

COLOURS = "cividis"


def draw(homes: Houses, centre: Array, price: Module, models: dict[str, Any]) -> Figure:
    """The contracts and the prices as they are, then P(contract) as four models see it; Q1 is framed."""
    figure = figures.new(12.5, 7.8)
    panels = figure.subplots(2, 3).ravel()
    box = planes.grown(planes.Box(0, 1, 0, 1), 0.02)
    x, y = homes.where.T
    style: dict[str, Any] = {"s": 3, "lw": 0, "rasterized": True}
    dots = panels[0].scatter(x, y, c=homes.contract, cmap=COLOURS, vmin=0, vmax=1, **style)
    planes.bare(panels[0], box, f"{homes.place}: {homes.question} (1) or not (0)")
    _prices(panels[1], homes, (x > centre[0]) & (y > centre[1]), price, style)
    planes.bare(panels[1], box, "all that is known of Q1: prices, as a module")
    for panel, (name, model) in zip(panels[2:], models.items(), strict=True):
        a, b, p = planes.chart(model, box)
        panel.pcolormesh(a, b, p, cmap=COLOURS, vmin=0, vmax=1, shading="nearest", rasterized=True)
        panel.contour(a, b, p, levels=[0.5], colors="white", linewidths=1.4)
        planes.stars(panel, model.inducing, figures.MERGED)
        planes.bare(panel, box, name)
    for panel in panels:
        panel.plot([centre[0], centre[0], 2], [2, centre[1], centre[1]], color=figures.MERGED, lw=2, zorder=6)
        panel.text(0.97, 0.97, "Q1", transform=panel.transAxes, ha="right", va="top", color=figures.MERGED, zorder=7)
    figure.colorbar(dots, ax=panels, label=f"P({homes.question}); the white line is 0.5", shrink=0.6, aspect=35)
    return figure


def _prices(panel: Axes, homes: Houses, inside: Array, price: Module, style: dict[str, Any]) -> None:
    x, y = homes.where[inside].T
    low, high = np.quantile(homes.price[inside], [0.02, 0.98])
    seen = panel.scatter(x, y, c=homes.price[inside], cmap="viridis", vmin=low, vmax=high, **style)
    planes.points(panel, [price])
    # the other quadrants are empty here
    bar = panel.inset_axes((0.08, 0.2, 0.84, 0.05))
    panel.figure.colorbar(seen, cax=bar, orientation="horizontal", label="log-price; circles: published points")

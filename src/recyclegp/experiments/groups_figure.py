"""The figure of `groups`: each data set is a mark, merged against alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ..plot import style
from . import figures
from .core import Row

COLOURS = {
    "gaussian": ("numbers", style.BLUE),
    "bernoulli": ("yes or no", style.ORANGE),
    "poisson": ("counts", style.GREEN),
    "categorical": ("classes", style.PURPLE),
}
MOST = 1.5  # nats: what is farther from zero stands at the edge


def draw(rows: Sequence[Row]) -> Figure:
    """Left NLPD merged against alone; right what merging gains, a line for each set."""
    merged, alone = ({r.case: r for r in rows if r.model == name} for name in ("merged", "each alone"))
    gain = {name: alone[name].nlpd - merged[name].nlpd for name in merged}
    names = sorted(gain, key=lambda name: gain[name])
    kinds = {name: merged[name].note.partition(",")[0] for name in names}
    figure = figures.new(11, max(4.5, 0.13 * len(names) + 1.2))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    values = np.array([[alone[n].nlpd, merged[n].nlpd] for n in names])
    left.axline((0, 0), slope=1, color=style.FAINT, lw=1)
    for kind, (label, colour) in COLOURS.items():
        of_kind = np.array([kinds[n] == kind for n in names])
        if of_kind.any():
            left.scatter(*values[of_kind].T, color=colour, s=22, alpha=0.8, lw=0, label=label)
    left.set_aspect("equal", adjustable="datalim")
    words = {"xlabel": "NLPD of each alone, nats per held-out row", "ylabel": "NLPD of the merge, asked for that owner"}
    style.tidy(left, "Below the line merging helps", {"loc": "upper left"}, **words)
    places = np.arange(len(names))
    shown = np.clip([gain[n] for n in names], -MOST, MOST)
    colours = [COLOURS[kinds[n]][1] for n in names]
    right.axvline(0, color=style.FAINT, lw=1)
    right.hlines(places, 0, shown, color=colours, lw=1)
    right.scatter(shown, places, color=colours, s=14, zorder=3)
    right.set_yticks(places, names, fontsize=6)
    right.margins(y=0.01)
    figures.grid(right, "x")
    along = f"each alone − merged, nats per held-out row (at most {MOST:g} shown)"
    style.tidy(right, "What merging gains", xlabel=along, ylabel="data set")
    return figure

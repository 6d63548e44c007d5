"""Experiment (i): five tasks side by side on one line, seen through noise."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..plot import style
from . import figures, rivals
from .core import Outcome, Report, Row, Settings, averaged
from .data import NOISE, REGION, adjoining, f_bias, held_out
from .rivals import Compared

K = 5
PUBLISHED = 15
POINTS = 35
SIZE = {True: (500, 4000), False: (150, 1000)}  # rows of each owner and of the test, where full


def run(settings: Settings, report: Report) -> Outcome:
    made = [_once(settings, seed, report) for seed in settings.repeats]
    rows = averaged(row for each in made for row in each.rows)
    return Outcome(rows, _draw(made[0], rows), [f"noise variance {NOISE:g}; the oracle knows f and the noise"])


def steps(settings: Settings) -> int:
    return settings.seeds * rivals.count()


def _once(settings: Settings, seed: int, report: Report) -> Compared:
    n, tests = SIZE[settings.full]
    rng = np.random.default_rng(seed)
    parts = adjoining(K, n, rng, f_bias)
    held = held_out(tests, rng, f_bias)
    owners = rivals.fitted(f"K={K} × {n} rows", parts, held, report, word="task", publish=PUBLISHED, seed=seed)
    budget = rivals.FULL if settings.full else rivals.QUICK
    return rivals.compared(owners, (POINTS, "auto"), budget, report, noise=NOISE)


def _draw(made: Compared, rows: list[Row]) -> Figure:
    figure = figures.new(10, 11)
    above, below, table = figure.subplots(3, 1, height_ratios=[1, 1, 1.35])
    x = np.linspace(*REGION, 601)
    edges = np.linspace(*REGION, K + 1)
    for k, (module, (X, y)) in enumerate(zip(made.owners.modules, made.owners.parts, strict=True)):
        colour = style.PALETTE[k]
        near = (x >= edges[k] - 0.25) & (x <= edges[k + 1] + 0.25)
        for panel in (above, below):
            figures.rows_of(panel, X[:, 0], y, colour)
        figures.fitted(above, x[near], module, colour, module.name)
        style.inducing(above, module.inducing[:, 0], colour)
    figures.fitted(below, x, made.merges[0], figures.MERGED, "merged, 95% band of f", f"its {POINTS} points")
    alone = f"Five modules, each published at {PUBLISHED} points (triangles)"
    for panel, title, across in ((above, alone, 6), (below, "Merged without their data", 3)):
        panel.plot(x, f_bias(x), color=style.FAINT, lw=2, zorder=2, label="true f")
        style.tidy(panel, title, {"loc": "upper left", "ncols": across}, xlim=REGION, ylabel="y and f(x)")
    below.set_xlabel("x")
    figures.excess(table, rows, "oracle", "Held-out y")
    return figure

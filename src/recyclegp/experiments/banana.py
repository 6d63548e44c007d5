"""Two interleaved classes, one owner per quadrant of the plane."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..baselines.vem import PUBLISHED_BANANA
from ..plot import style
from . import figures, rivals
from .core import Held, Outcome, Report, Settings, averaged
from .data import Split, banana, quadrants, shuffled
from .rivals import Budget, Compared

TEST = 0.33
PUBLISH, POINTS = 9, 25
CLASSES = ("#b4b4b4", "#404040")  # colours: dark where P(class 1) is dark, so that marks stand out
QUICK = Budget(rows=200, svgp=200, vem=200, vem_seconds=5.0)
FULL = Budget(svgp=600, vem=800, vem_seconds=8.0)  # VEM: 20 rounds, as in the authors' banana.py


def steps(settings: Settings) -> int:
    return settings.seeds * rivals.count(likelihood="bernoulli")


def run(settings: Settings, report: Report) -> Outcome:
    X, y = banana(settings.data_dir)
    made = [_once(shuffled(X, y, TEST, seed), seed, settings, report) for seed in settings.repeats]
    return Outcome(averaged(row for each in made for row in each.rows), draw(made[-1]))


def _once(s: Split, seed: int, settings: Settings, report: Report) -> Compared:
    case, held = f"4 quadrants, M_k={PUBLISH}", Held(s.X_test, s.y_test)
    parts = quadrants(s.X, s.y)
    owners = rivals.fitted(case, parts, held, report, likelihood="bernoulli", publish=PUBLISH, seed=seed)
    budget = FULL if settings.full else QUICK
    return rivals.compared(owners, (POINTS, "auto"), budget, report, rates=PUBLISHED_BANANA)


def draw(made: Compared) -> Figure:
    """On the left what the owners have and publish, on the right the merge beside the central model."""
    figure = figures.new(11, 5.6)
    left, right = figure.subplots(1, 2)
    parts, merged = made.owners.parts, made.merges[0]
    box = figures.around(np.concatenate([X for X, _ in parts]))
    for X, y in parts:
        for label, colour in enumerate(CLASSES):
            left.scatter(*X[y == label].T, s=7, color=colour, alpha=0.7, lw=0, zorder=label / 2, rasterized=True)
    for at in (left.axhline, left.axvline):
        at(0, color=style.FAINT, lw=1)
    figures.points(left, made.owners.modules)
    figures.shade(right, merged, box)
    figures.contours(right, made.central, box, figures.CENTRAL, width=1.1)
    figures.contours(right, merged, box, figures.MERGED)
    figures.stars(right, merged.inducing, figures.MERGED)
    figures.bare(left, box, f"4 owners, {sum(len(y) for _, y in parts)} rows, {PUBLISH} points published each")
    figures.bare(right, box, f"P(class 1): merged at {len(merged.inducing)} points, and central")
    classes = [(Line2D([], [], marker="o", ls="none", color=c), f"class {k}") for k, c in enumerate(CLASSES)]
    names = ((figures.MERGED, "merged"), (figures.CENTRAL, "central"))
    models = [(Line2D([], [], color=c, lw=1.8), name) for c, name in names]
    marks = [figures.of_owners(len(parts)), figures.star(figures.MERGED)]
    figures.legend(figure, "P(class 1)", style.FAINT, [*classes, *marks, *models])
    return figure

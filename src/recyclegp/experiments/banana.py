"""Two interleaved classes, one owner per quadrant of the plane."""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..baselines.vem import PUBLISHED_BANANA
from ..models.ensemble import Ensemble
from . import figures, latent, planes
from .core import Held, Outcome, Report, Row, Settings, averaged
from .data import Split, banana, quadrants, shuffled
from .rivals import Budget

TEST = 0.33
PUBLISH, POINTS = 9, 25
QUICK = Budget(rows=200, svgp=200, vem=200, vem_seconds=5.0)
FULL = Budget(svgp=600, vem=800, vem_seconds=8.0)  # VEM: 20 rounds, as in the authors' banana.py


class Drawing(NamedTuple):
    split: Split
    owners: latent.Owners
    merged: Ensemble
    central: Any


def steps(settings: Settings) -> int:
    return (2 + latent.STEPS) * settings.seeds


def run(settings: Settings, report: Report) -> Outcome:
    X, y = banana(settings.data_dir)
    rows: list[Row] = []
    for seed in settings.repeats:
        found, drawing = _one(shuffled(X, y, TEST, seed), seed, FULL if settings.full else QUICK, report)
        rows += found
    return Outcome(averaged(rows), draw(drawing))


def _one(s: Split, seed: int, budget: Budget, report: Report) -> tuple[list[Row], Drawing]:
    found = latent.compared(
        f"4 quadrants, M_k={PUBLISH}",
        "bernoulli",
        quadrants(s.X, s.y),
        Held(s.X_test, s.y_test),
        publish=PUBLISH,
        points=POINTS,
        seed=seed,
        budget=budget,
        report=report,
        rates=PUBLISHED_BANANA,
    )
    return found.rows, Drawing(s, found.owners, found.small, found.central)


# --- the figure -------------------------------------------------------------------------------


def draw(d: Drawing) -> Figure:
    """On the left what the owners have and publish, on the right the merge beside the central model."""
    figure = figures.new(11, 5.6)
    left, right = figure.subplots(1, 2)
    box = planes.around(d.split.X)
    for X, y in d.owners.parts:
        for label, colour in ((0, figures.SKY), (1, figures.YELLOW)):
            left.scatter(*X[y == label].T, s=5, color=colour, alpha=0.6, lw=0, zorder=0, rasterized=True)
    for at in (left.axhline, left.axvline):
        at(0, color=figures.FAINT, lw=1)
    planes.points(left, d.owners.modules)
    planes.shade(right, d.merged, box)
    planes.contours(right, d.central, box, figures.CENTRAL, width=1.1)
    planes.contours(right, d.merged, box, figures.MERGED)
    planes.stars(right, d.merged.inducing, figures.MERGED)
    planes.bare(left, box, f"4 owners, {sum(len(y) for _, y in d.owners.parts)} rows, {PUBLISH} points published each")
    planes.bare(right, box, f"P(class 1): merged at {len(d.merged.inducing)} points (stars), and central")
    classes = [
        Line2D([], [], marker="o", ls="none", color=c, label=f"class {k}")
        for k, c in enumerate((figures.SKY, figures.YELLOW))
    ]
    models = [Line2D([], [], color=c, label=n) for c, n in ((figures.MERGED, "merged"), (figures.CENTRAL, "central"))]
    levels = [Line2D([], [], color=figures.FAINT, ls=s, label=f"P = {v:g}") for v, s in planes.LEVELS.items()]
    figure.legend(handles=classes + models + levels, loc="outside lower center", ncols=7, frameon=False, fontsize=9)
    return figure

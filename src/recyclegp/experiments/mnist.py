"""A handwritten zero from its four corners, and a one from two halves: pixels as classes.

Modules are fitted at the 16 points they publish, as in the paper: on a grid of its corner for the zero, spread by
the library for the one, whose halves are not square. Ink and paper are all but separable, so that a local model
with 200 points learns a lengthscale of two or three pixels, which 25 points for the whole image cannot express:
published from such models the merged zero has NLPD 0.22 at 25 points and 0.10 at "auto".

Where the 25 points are matters as much: at the best 25 of the modules' 64 it is 0.135, so the merge moves them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..models.ensemble import Ensemble
from . import figures, latent, planes
from .core import Held, Outcome, Report, Row, Settings
from .data import Array, mnist, pixels
from .planes import Box
from .rivals import Budget

SIDE = 4  # each owner's points: as many as 4 × 4 cells of its part of the image
QUICK = Budget(rows=100, svgp=100, vem=100, vem_seconds=3.0)
FULL = Budget(svgp=1000, vem=1000, vem_seconds=20.0)


class Task(NamedTuple):
    digit: int
    name: str
    how: str
    boxes: tuple[Box, ...]  # what each owner sees
    points: int  # of the merge
    gridded: bool  # modules' points are the cells' centres


CORNERS = (Box(-1, 0, -1, 0), Box(-1, 0, 0, 1), Box(0, 1, -1, 0), Box(0, 1, 0, 1))
ZERO = Task(0, "zero", "four corners", CORNERS, 25, True)
ONE = Task(1, "one", "two halves", (Box(-1, 1, 0, 1), Box(-1, 1, -1, 0)), 16, False)
TASKS = (ZERO, ONE)


class Drawing(NamedTuple):
    """A digit, what its owners published, and the models that redraw it."""

    image: Array
    owners: latent.Owners
    merged: Ensemble
    central: Any


def steps(settings: Settings) -> int:
    return settings.seeds * len(TASKS) * (2 + latent.STEPS)


def run(settings: Settings, report: Report) -> Outcome:
    return latent.repeated(_once, settings, report)


def _once(settings: Settings, report: Report) -> Outcome:
    rows: list[Row] = []
    drawings = []
    for task in TASKS:
        found, drawing = _one(task, settings, report)
        rows += found
        drawings.append(drawing)
    fitted = "all of which the models were fitted to" if settings.full else "every other of which the models saw"
    notes = [f"NLPD, RMSE, MAE and errors are over all 784 pixels, {fitted}: how well each redraws the image"]
    return Outcome(rows, draw(drawings), notes)


def owners_of(image: Array, task: Task, seed: int, *, thinned: bool) -> latent.Owners:
    """Each owner sees one corner of the zero, or the upper or lower half of the one, and fits there."""
    X, y = pixels(image)
    seen = np.ones(image.shape, dtype=bool)
    if thinned:  # only the white squares of a chess board
        seen = np.indices(image.shape).sum(0) % 2 == 0
    X_seen, y_seen = X[seen.ravel()], y[seen.ravel()]
    parts = [(X_seen[i], y_seen[i]) for i in (box.holds(X_seen) for box in task.boxes)]
    case, held = f"{task.name}, {task.how}, M_k={SIDE**2}", Held(X, y)
    if task.gridded:
        points = [box.cells(SIDE) for box in task.boxes]
        return latent.divided(case, "bernoulli", parts, held, points=points, seed=seed)
    return latent.divided(case, "bernoulli", parts, held, inducing=SIDE**2, publish=None, seed=seed)


def _one(task: Task, settings: Settings, report: Report) -> tuple[list[Row], Drawing]:
    budget = FULL if settings.full else QUICK
    image = mnist(settings.data_dir, task.digit)
    report(f"{task.name}: local fits")
    owners = owners_of(image, task, settings.seed, thinned=not settings.full)
    report(f"{task.name}: merging")
    small = owners.merged(task.points)
    auto = owners.merged()
    central = latent.central_models(owners, task.points, budget, report)
    others = latent.module_rivals(owners, small.model.inducing, budget, report)
    rows = [small.row, auto.row, *central.rows, *others]
    return rows, Drawing(image, owners, auto.model, central.model)


# --- the figure -------------------------------------------------------------------------------


def draw(drawings: list[Drawing]) -> Figure:
    """For each digit: who published where, what the merge draws, and what the central model draws."""
    figure = figures.new(10, 6.9)
    for row, d in zip(figure.subplots(len(drawings), 3, squeeze=False), drawings, strict=True):
        box = planes.grown(planes.UNIT, 0.04)
        for panel in row:
            planes.ink(panel, d.image)
        published, merged, central = row
        planes.points(published, d.owners.modules)
        planes.contours(merged, d.merged, box, figures.MERGED)
        planes.stars(merged, d.merged.inducing, figures.MERGED)
        planes.contours(central, d.central, box, figures.CENTRAL)
        planes.bare(published, box, f"{d.owners.case}")
        planes.bare(merged, box, f"merged, {len(d.merged.inducing)} points (stars)")
        planes.bare(central, box, "central model, all pixels")
    lines = [Line2D([], [], color=figures.BLACK, ls=s, label=f"P(ink) = {v:g}") for v, s in planes.LEVELS.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure

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

from ..plot import style
from . import figures, rivals
from .core import Held, Outcome, Report, Settings, averaged, quiet
from .data import Array, mnist, pixels
from .figures import Box
from .rivals import Budget, Compared, Owners

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


def steps(settings: Settings) -> int:
    return settings.seeds * len(TASKS) * rivals.count(likelihood="bernoulli")


def run(settings: Settings, report: Report) -> Outcome:
    made = [_once(task, settings, seed, report) for seed in settings.repeats for task in TASKS]
    fitted = "all of which the models were fitted to" if settings.full else "every other of which the models saw"
    notes = [f"NLPD, RMSE, MAE and errors are over all 784 pixels, {fitted}: how well each redraws the image"]
    images = [mnist(settings.data_dir, task.digit) for task in TASKS]
    rows = averaged(row for each in made for row in each.rows)
    return Outcome(rows, draw(images, made[: len(TASKS)]), notes)


def _once(task: Task, settings: Settings, seed: int, report: Report) -> Compared:
    image = mnist(settings.data_dir, task.digit)
    owners = owners_of(image, task, seed, report, thinned=not settings.full)
    return rivals.compared(owners, (task.points, "auto"), FULL if settings.full else QUICK, report)


def owners_of(image: Array, task: Task, seed: int, report: Report = quiet, *, thinned: bool) -> Owners:
    """Each owner sees one corner of the zero, or the upper or lower half of the one, and fits there."""
    X, y = pixels(image)
    seen = np.ones(image.shape, dtype=bool)
    if thinned:  # only the white squares of a chess board
        seen = np.indices(image.shape).sum(0) % 2 == 0
    X_seen, y_seen = X[seen.ravel()], y[seen.ravel()]
    parts = [(X_seen[i], y_seen[i]) for i in (box.holds(X_seen) for box in task.boxes)]
    case = f"{task.name}, {task.how}, M_k={SIDE**2}"
    where: dict[str, Any] = {"inducing": SIDE**2, "publish": None}
    if task.gridded:
        where = {"points": [box.cells(SIDE) for box in task.boxes]}
    return rivals.fitted(case, parts, Held(X, y), report, likelihood="bernoulli", seed=seed, **where)


def draw(images: list[Array], made: list[Compared]) -> Figure:
    """For each digit: who published where, what the merge draws, and what the central model draws."""
    figure = figures.new(10, 6.9)
    box = figures.grown(figures.UNIT, 0.04)
    for row, image, each in zip(figure.subplots(len(made), 3, squeeze=False), images, made, strict=True):
        for panel in row:
            figures.ink(panel, image)
        (published, merged, central), auto = row, each.merges[1]
        figures.points(published, each.owners.modules)
        figures.contours(merged, auto, box, figures.MERGED)
        figures.stars(merged, auto.inducing, figures.MERGED)
        figures.contours(central, each.central, box, figures.CENTRAL)
        figures.bare(published, box, figures.in_words(each.owners.case))
        figures.bare(merged, box, f"merged, {len(auto.inducing)} points")
        figures.bare(central, box, "central model, all pixels")
    most = max(len(each.owners.modules) for each in made)
    figures.legend(figure, "P(ink)", style.BLACK, [figures.of_owners(most), figures.star(figures.MERGED)])
    return figure

"""An eight nobody drew: the modules of a handwritten zero used twice, the copies moved upwards.

No pixel is looked at again. Where the two zeros overlap, the copies' lower modules and the originals' upper ones
speak about the same places, and at a third of these one says ink and the other paper. They are nobody's different
views of one function but parts of one picture, so the merge takes them for that (owners=None); asked whether owners
differ, it would find that they do. To have something to compare with, somebody does draw the eight:
the two zeros' pixels together, ink where either has ink.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy.ndimage import label

from ..models.ensemble import Ensemble
from ..plot import style
from . import figures, rivals
from .core import Held, Outcome, Report, Settings, averaged
from .data import THRESHOLD, Array, mnist
from .figures import Box
from .mnist import FULL, QUICK, ZERO, owners_of
from .rivals import Compared, Owners

SHIFT = 1.2  # upwards
UP = np.array([0.0, SHIFT])
POINTS = 50  # twice the zero's
ONE_PICTURE = None  # who owns a module does not matter
BOX = Box(-1.04, 1.04, -1.04, 1.04 + SHIFT)


def steps(settings: Settings) -> int:
    return settings.seeds * rivals.count(likelihood="bernoulli")


def run(settings: Settings, report: Report) -> Outcome:
    image = mnist(settings.data_dir, 0)
    made = [_once(image, settings.full, seed, report) for seed in settings.repeats]
    rows = averaged(row for _, eight in made for row in eight.rows)
    zero, eight = made[0]
    _, _, p = figures.chart(eight.merges[1], BOX)
    notes = [
        f"the merged map P(ink) > 0.5 has {holes(p > 0.5)} holes",
        f"central models were given {'the' if settings.full else 'every fourth of the'} pixels of both zeros, "
        "ink where either has ink; the merge saw none of them together",
    ]
    return Outcome(rows, draw(image, zero.merged().model, eight), notes)


def _once(image: Array, full: bool, seed: int, report: Report) -> tuple[Owners, Compared]:
    """The zero's owners, and the eight of their modules."""
    zero = owners_of(image, ZERO, seed, report, thinned=False)
    copies = [m.transform(input_shift=UP).rename(f"{m.name}, moved") for m in zero.modules]
    everywhere = _twice(zero.held.X)
    seen = [_twice(X)[:: 1 if full else 4] for X, _ in zero.parts]  # by central models
    owners = zero._replace(
        case=f"eight: 4 modules and their copies {SHIFT:g} higher",
        parts=[(X, drawn(image, X)) for X in seen],
        modules=[*zero.modules, *copies],
        held=Held(everywhere, drawn(image, everywhere)),
    )
    return zero, rivals.compared(owners, (POINTS, "auto"), FULL if full else QUICK, report, differ=ONE_PICTURE)


def _twice(X: Array) -> Array:
    """Places of the zero, and of its copy."""
    return np.concatenate([X, X + UP])


def drawn(image: Array, X: Array) -> Array:
    """1 where the nearest pixel of the zero, or of its copy, has ink."""
    return np.maximum(_ink(image, X), _ink(image, X - UP))


def _ink(image: Array, X: Array) -> Array:
    height, width = image.shape
    column = np.rint((X[:, 0] + 1) / 2 * (width - 1)).astype(int)
    row = np.rint((1 - X[:, 1]) / 2 * (height - 1)).astype(int)
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    found = image[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)] > THRESHOLD
    return (inside & found).astype(float)


def holes(ink: Array) -> int:
    """How many regions of paper are enclosed by ink."""
    _, regions = label(~np.pad(ink, 1))  # a margin of paper makes the outside one region
    return int(regions) - 1


def draw(image: Array, zero: Ensemble, made: Compared) -> Figure:
    """The zero that was drawn; whose points are where; the eight; and the same drawn by somebody."""
    figure = figures.new(12, 5.2)
    drawn_zero, published, merged, central = figure.subplots(1, 4)
    modules, eight = made.owners.modules, made.merges[1]
    figures.ink(drawn_zero, image)
    figures.contours(drawn_zero, zero, BOX, figures.MERGED)
    figures.points(published, modules[: len(modules) // 2])
    figures.points(published, modules[len(modules) // 2 :], hollow=True)
    figures.shade(merged, eight, BOX)
    figures.contours(merged, eight, BOX, figures.MERGED)
    figures.stars(merged, eight.inducing, figures.MERGED)
    figures.contours(central, made.central, BOX, figures.CENTRAL)
    figures.bare(drawn_zero, BOX, "the zero: image and merge")
    figures.bare(published, BOX, "4 modules, copies hollow")
    figures.bare(merged, BOX, f"merged: {len(eight.inducing)} points")
    figures.bare(central, BOX, "central model of both zeros")
    marks = [figures.of_owners(len(modules) // 2), figures.star(figures.MERGED)]
    figures.legend(figure, "P(ink)", style.BLACK, marks)
    return figure

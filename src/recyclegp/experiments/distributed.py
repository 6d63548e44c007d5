"""Experiment (ii): many owners of one noisy function, against committees of experts.

10,000 rows in adjoining intervals, then 100,000 in adjoining intervals and once more with every owner's
rows over the whole region. Modules are published at three points, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..plot import style
from . import figures, rivals
from .core import Outcome, Report, Row, Settings, averaged
from .data import NOISE, REGION, Parts, adjoining, held_out, overlapping, wave
from .rivals import Budget, Compared

PUBLISHED = 3
POINTS = 35


class Layout(NamedTuple):
    name: str
    owners: int
    rows: int  # of each
    place: Callable[..., Parts]
    local: dict[str, Any]  # how an owner fits: exactly, or with inducing points
    inducing: int | str  # of the merge
    budget: Budget
    leave_out: dict[str, str]
    tests: int = 4000


TOO_MANY = {
    "exact": "its covariance matrix would take 80 GB",
    "grbcm-own": "250 fits of 800 rows; with shared hyperparameters it is in the table",
}


def layouts(settings: Settings) -> list[Layout]:
    """Quick runs have the same owners with fewer rows."""
    exact: dict[str, Any] = {"method": "exact"}
    # the wave needs about 40 points over the whole region, hardly more than one in a 250th of it
    here, there, everywhere = ({"method": "collapsed", "inducing": M} for M in (12, 50, 64))
    if settings.full:
        many, more = (rivals.FULL._replace(rows=n) for n in (100, 200))  # rows over the whole region say less
        return [
            Layout("10k adjoining", 50, 200, adjoining, exact, POINTS, rivals.FULL, {}),
            Layout("100k adjoining", 250, 400, adjoining, here, "auto", many, TOO_MANY),
            Layout("100k overlapping", 250, 400, overlapping, everywhere, "auto", more, TOO_MANY),
        ]
    few = Budget(rows=40, exact=300, svgp=100, vem=100, vem_seconds=1.0)
    fewer = dict.fromkeys(("own", "grbcm-own", "grbcm-shared", "svgp", "exact"), "quick run")
    return [
        Layout("2k adjoining", 50, 40, adjoining, here, POINTS, few, {}, 500),
        Layout("10k overlapping", 50, 200, overlapping, there, "auto", few, fewer, 500),
    ]


def steps(settings: Settings) -> int:
    return settings.seeds * sum(rivals.count(layout.leave_out) for layout in layouts(settings))


def run(settings: Settings, report: Report) -> Outcome:
    made = [_once(layout, seed, report) for layout in layouts(settings) for seed in settings.repeats]
    rows = averaged(row for each in made for row in each.rows)
    notes = [f"noise variance {NOISE:g}; the oracle knows f and the noise"]
    for layout in layouts(settings):
        notes += rivals.not_run(layout.name, layout.leave_out)
        if layout.budget.rows < layout.rows:
            notes.append(
                f"{layout.name}: exact experts learn hyperparameters on {layout.budget.rows} rows of each owner, "
                "and predict with all of them"
            )
    return Outcome(rows, _draw(made[:: settings.seeds], rows), notes)


def _once(layout: Layout, seed: int, report: Report) -> Compared:
    rng = np.random.default_rng(seed)
    parts = layout.place(layout.owners, layout.rows, rng)
    held = held_out(layout.tests, rng)
    owners = rivals.fitted(layout.name, parts, held, report, publish=PUBLISHED, seed=seed, **layout.local)
    return rivals.compared(owners, (layout.inducing,), layout.budget, report, noise=NOISE, leave_out=layout.leave_out)


def _draw(made: list[Compared], rows: list[Row]) -> Figure:
    figure = figures.new(12, 4.6 * len(made))
    panels = figure.subplots(len(made), 2, width_ratios=[1, 1], squeeze=False)
    for (left, right), each in zip(panels, made, strict=True):
        _draw_functions(left, each)
        case = each.owners.case
        figures.excess(right, [r for r in rows if r.case == case], "oracle", f"{case}: held-out y")
    return figure


def _draw_functions(panel: Axes, made: Compared) -> None:
    """The merge over what a few owners knew alone."""
    x = np.linspace(*REGION, 601)
    (case, parts, modules, *_), (merged,) = made.owners, made.merges
    every = max(1, len(modules) // 6)
    for k, module in enumerate(modules[every // 2 :: every]):
        mean, variance = module.predict(x[:, None])
        sure = variance < 4 * variance.min()  # where this owner has seen anything
        style.band(panel, np.where(sure, x, np.nan), mean, variance, style.BLUE, None, lw=1.0)
        Z = module.inducing
        label = "six owners alone, at what they publish" if k == 0 else None
        panel.plot(Z[:, 0], module.predict(Z)[0], "o", ms=5, mec="white", color=style.BLUE, label=label, zorder=4)
    panel.plot(x, wave(x), color=style.FAINT, lw=2.4, zorder=2, label="true f")
    figures.fitted(panel, x, merged, figures.MERGED, "merged, 95%", f"its {len(merged.inducing)} points")
    title = f"{case}: {len(parts)} owners × {len(parts[0][1])} rows, {PUBLISHED} points each"
    look = {"xlabel": "x", "ylabel": "f(x)", "xlim": REGION, "ylim": (-11, 12)}
    style.tidy(panel, title, {"loc": "upper left", "ncols": 2}, **look)

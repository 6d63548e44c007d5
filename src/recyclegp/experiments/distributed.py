"""Experiment (ii): many owners of one noisy function, against committees of experts.

10,000 rows in adjoining intervals, then 100,000 in adjoining intervals and once more with every owner's
rows over the whole region. Modules are published at three points, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import recyclegp as rgp

from . import figures, rivals
from .core import Held, Outcome, Report, Row, Settings, averaged, timed
from .data import NOISE, REGION, Parts, adjoining, noisy, overlapping, wave
from .rivals import Budget

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
    here, everywhere = ({"method": "collapsed", "inducing": M} for M in (12, 64))
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
        Layout("2k adjoining", 50, 40, adjoining, {"method": "collapsed", "inducing": 12}, POINTS, few, {}, 500),
        Layout(
            "10k overlapping", 50, 200, overlapping, {"method": "collapsed", "inducing": 50}, "auto", few, fewer, 500
        ),
    ]


def steps(settings: Settings) -> int:
    return settings.seeds * sum(1 + rivals.count(layout.leave_out) for layout in layouts(settings))


class Run(NamedTuple):
    rows: list[Row]
    layout: Layout
    modules: list[rgp.Module]
    merged: rgp.Ensemble


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


def _once(layout: Layout, seed: int, report: Report) -> Run:
    rng = np.random.default_rng(seed)
    parts = layout.place(layout.owners, layout.rows, rng)
    x = rng.uniform(*REGION, layout.tests)
    held = Held(x[:, None], noisy(x, rng), wave(x))
    report(f"{layout.name}: {layout.owners} local fits and merge")
    names = [f"owner {k}" for k in range(layout.owners)]
    local = partial(rgp.fit_many, parts, names=names, publish=PUBLISHED, seed=seed, progress=False, **layout.local)
    modules, fitting = timed(local)
    merged = rivals.merged(layout.name, layout.inducing, modules, held, fitting=fitting)
    rows = [rivals.oracle(held, layout.name, NOISE), merged.row]
    rows += rivals.gaussian_rivals(
        layout.name,
        parts,
        modules,
        held,
        fitting=fitting,
        inducing=len(merged.model.inducing),
        budget=layout.budget,
        report=report,
        seed=seed,
        leave_out=layout.leave_out,
    )
    return Run(rows, layout, modules, merged.model)


def _draw(runs: list[Run], rows: list[Row]) -> Figure:
    figure = figures.new(12, 4.6 * len(runs))
    panels = figure.subplots(len(runs), 2, width_ratios=[1, 1], squeeze=False)
    for (left, right), run in zip(panels, runs, strict=True):
        _draw_functions(left, run)
        case = run.layout.name
        figures.excess(right, [r for r in rows if r.case == case], "oracle")
        figures.tidy(right, f"{case}: held-out y")
    return figure


def _draw_functions(panel: Axes, run: Run) -> None:
    """The merge over what a few owners knew alone."""
    x = np.linspace(*REGION, 601)
    every = max(1, len(run.modules) // 6)
    for k, module in enumerate(run.modules[every // 2 :: every]):
        mean, variance = module.predict(x[:, None])
        sure = variance < 4 * variance.min()  # where this owner has seen anything
        figures.band(panel, np.where(sure, x, np.nan), mean, variance, figures.BLUE, None, lw=1.0)
        Z = module.inducing
        label = "six owners alone, at what they publish" if k == 0 else None
        panel.plot(Z[:, 0], module.predict(Z)[0], "o", ms=5, mec="white", color=figures.BLUE, label=label, zorder=4)
    panel.plot(x, wave(x), color=figures.FAINT, lw=2.4, zorder=2, label="true f")
    figures.band(panel, x, *run.merged.predict(x[:, None]), figures.MERGED, "merged, 95%")
    figures.inducing(panel, run.merged.inducing[:, 0], figures.MERGED, f"{len(run.merged.inducing)} points $Z_*$")
    K, n = run.layout.owners, run.layout.rows
    figures.tidy(panel, f"{run.layout.name}: {K} owners × {n} rows, {PUBLISHED} points each", xlabel="x", ylabel="f(x)")
    panel.set(xlim=REGION, ylim=(-11, 12))
    panel.legend(loc="upper left", ncols=2, fontsize=8, frameon=False)

"""Experiment (iii): a million rows in 5,000 modules, merged at once, and as ensembles of ensembles.

Owners hold adjoining intervals so narrow that the function hardly moves within one: a single module says
next to nothing about the kernel, which the merge must find from all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ..baselines.mapreduce import mapreduce
from ..models.ensemble import Ensemble
from ..models.merge import merge
from ..plot import style
from . import figures, rivals
from .core import Measured, Outcome, Report, Row, Settings, averaged, published_bytes
from .data import NOISE, REGION, adjoining, held_out, wave
from .rivals import Budget, Compared, Owners

PUBLISHED = 3
POINTS = 35


class Size(NamedTuple):
    name: str
    owners: int
    rows: int  # of each
    groups: int  # of neighbouring owners, merged first, in the pyramid
    tests: int
    budget: Budget
    leave_out: dict[str, str]


NOT_AT_ALL = {
    "own": "no interval is wide enough to learn from; the modules' committees have their own as well",
    "grbcm-own": "5,000 fits of 400 rows",
    "grbcm-shared": "5,000 factors of 400 rows, each asked about every test point",
    "mapreduce": "a pass over all rows for each of some hundred trials; with the merge's plan it is in the table",
    "exact": "its covariance matrix would take 8 TB",
}


def size(settings: Settings) -> Size:
    if settings.full:
        many = rivals.FULL._replace(rows=20)
        return Size("1M adjoining", 5000, 200, 50, 2000, many, NOT_AT_ALL)
    fewer = dict.fromkeys((*NOT_AT_ALL, "shared", "svgp", "vem"), "quick run")
    return Size("40k adjoining", 400, 100, 8, 1000, rivals.QUICK, fewer)


def steps(settings: Settings) -> int:
    return settings.seeds * (2 + rivals.count(size(settings).leave_out))


def run(settings: Settings, report: Report) -> Outcome:
    this = size(settings)
    made = [_once(this, seed, report) for seed in settings.repeats]
    rows = averaged(row for found, _ in made for row in found.rows)
    flat, pyramid = (next(r for r in rows if r.model.startswith(name)) for name in ("merged", "pyramid"))
    notes = [
        f"{this.owners:,} modules of {this.rows} rows; merged flat in {flat.fit_seconds:.0f} s with the local fits",
        f"the pyramid ({this.groups} ensembles of {this.owners // this.groups}, then one of those) differs from "
        f"flat by {pyramid.nlpd - flat.nlpd:+.5f} nats per point",
        *rivals.not_run(this.name, this.leave_out),
    ]
    if "shared" not in this.leave_out:
        notes.append(f"exact experts learn hyperparameters on {this.budget.rows} rows of each owner")
    found, layered = made[0]
    return Outcome(rows, _draw(this, found.merges[0], layered.model, rows), notes)


def _once(this: Size, seed: int, report: Report) -> tuple[Compared, Measured[Ensemble]]:
    """All rows, and the pyramid beside the flat merge."""
    rng = np.random.default_rng(seed)
    parts = adjoining(this.owners, this.rows, rng)
    how: dict[str, Any] = {"method": "collapsed", "inducing": PUBLISHED, "publish": None}
    owners = rivals.fitted(this.name, parts, held_out(this.tests, rng), report, seed=seed, **how)
    found = rivals.compared(owners, (POINTS,), this.budget, report, noise=NOISE, leave_out=this.leave_out)
    report(f"{this.name}: pyramid")
    pyramid = _pyramid(this, owners)
    report(f"{this.name}: map-reduce with the merge's plan")
    oracle, flat, *others = found.rows
    return found._replace(rows=[oracle, flat, pyramid.row, _planned(owners, found.merges[0]), *others]), pyramid


def _pyramid(this: Size, owners: Owners) -> Measured[Ensemble]:
    """Neighbours first; every ensemble learns its kernel and mean, chooses its points, and becomes a module."""
    modules = owners.modules

    def build() -> Ensemble:
        groups = np.array_split(np.arange(len(modules)), this.groups)
        layer = [merge([modules[i] for i in g]).to_module(f"group {j}") for j, g in enumerate(groups)]
        return merge(layer, inducing=POINTS)

    name = f"pyramid of {this.groups} × {len(modules) // this.groups}, M={POINTS}"
    return owners.measure(name, build, bytes=published_bytes(modules), before=owners.fitting)


def _planned(owners: Owners, flat: Ensemble) -> Row:
    """One round of sums over all rows, at the points, kernel, mean and noise of the merge."""
    plan: dict[str, Any] = {"kernel": flat.kernel, "mean": flat.mean, "noise": flat.likelihoods[0].parameters[0]}
    build = partial(mapreduce, owners.parts, inducing=flat.inducing, learn=False, **plan)
    M = len(flat.inducing)
    return owners.measure(f"SGPR by map-reduce, merge's plan, M={M}", build, points=M).row


def _draw(this: Size, merged: Ensemble, pyramid: Ensemble, rows: list[Row]) -> Figure:
    figure = figures.new(12, 6)
    panels = figure.subplot_mosaic([["f", "table"], ["error", "table"]], width_ratios=[1.1, 1])
    above, below = panels["f"], panels["error"]
    x = np.linspace(*REGION, 601)
    truth, flat, layered = wave(x), merged.predict(x[:, None]), pyramid.predict(x[:, None])
    above.plot(x, truth, color=style.FAINT, lw=2.4, label="true f")
    figures.fitted(above, x, merged, figures.MERGED, "merged", f"its {len(merged.inducing)} points")
    legend = {"loc": "upper left", "ncols": 3}
    title = f"{this.owners:,} modules of {this.rows} rows"
    style.tidy(above, title, legend, xlim=REGION, ylabel="f(x)", ylim=(-10, 13))
    style.band(below, x, flat[0] - truth, flat[1], figures.MERGED, "flat")
    style.outline(below, x, layered[0] - truth, layered[1], style.BLUE, f"pyramid of {this.groups} groups")
    style.inducing(below, pyramid.inducing[:, 0], style.BLUE)
    below.axhline(0, color=style.FAINT, lw=0.8)
    half = 4 * float(np.sqrt(flat[1].mean()))
    look = {"xlim": REGION, "ylim": (-half, half), "xlabel": "x", "ylabel": "error of f"}
    style.tidy(below, "The same, less the true f, with 95% bands", legend, **look)
    figures.excess(panels["table"], rows, "oracle", "Held-out y")
    return figure

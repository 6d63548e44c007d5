"""Experiment (iii): a million rows in 5,000 modules, merged at once, and as ensembles of ensembles.

Owners hold adjoining intervals so narrow that the function hardly moves within one: a single module says
next to nothing about the kernel, which the merge must find from all of them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import recyclegp as rgp

from ..baselines.mapreduce import mapreduce
from . import figures, rivals
from .core import Held, Measured, Outcome, Report, Row, Settings, averaged, measured, published_bytes, timed
from .data import NOISE, REGION, Parts, adjoining, noisy, wave
from .rivals import Budget

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
    return settings.seeds * (4 + rivals.count(size(settings).leave_out))


class Run(NamedTuple):
    rows: list[Row]
    flat: rgp.Ensemble
    pyramid: rgp.Ensemble


def run(settings: Settings, report: Report) -> Outcome:
    this = size(settings)
    made = [_once(this, seed, report) for seed in settings.repeats]
    rows = averaged(row for each in made for row in each.rows)
    flat, pyramid = (next(r for r in rows if r.model.startswith(name)) for name in ("merged", "pyramid"))
    notes = [
        f"{this.owners:,} modules of {this.rows} rows; merged flat in {flat.fit_seconds:.0f} s with the local fits",
        f"the pyramid ({this.groups} ensembles of {this.owners // this.groups}, then one of those) differs from "
        f"flat by {pyramid.nlpd - flat.nlpd:+.5f} nats per point",
        *rivals.not_run(this.name, this.leave_out),
    ]
    if "shared" not in this.leave_out:
        notes.append(f"exact experts learn hyperparameters on {this.budget.rows} rows of each owner")
    return Outcome(rows, _draw(this, made[0], rows), notes)


def _once(this: Size, seed: int, report: Report) -> Run:
    rng = np.random.default_rng(seed)
    parts = adjoining(this.owners, this.rows, rng)
    x = rng.uniform(*REGION, this.tests)
    held = Held(x[:, None], noisy(x, rng), wave(x))

    report(f"{this.name}: {this.owners:,} local fits")
    names = [f"owner {k}" for k in range(this.owners)]
    local = partial(
        rgp.fit_many,
        parts,
        names=names,
        method="collapsed",
        inducing=PUBLISHED,
        publish=None,
        seed=seed,
        progress=False,
    )
    modules, fitting = timed(local)
    report(f"{this.name}: flat merge")
    flat = rivals.merged(this.name, POINTS, modules, held, fitting=fitting)
    report(f"{this.name}: pyramid")
    pyramid = _pyramid(this, modules, held, fitting)
    report(f"{this.name}: map-reduce with the merge's plan")
    rows = [rivals.oracle(held, this.name, NOISE), flat.row, pyramid.row, _planned(this, parts, flat.model, held)]
    rows += rivals.gaussian_rivals(
        this.name,
        parts,
        modules,
        held,
        fitting=fitting,
        inducing=POINTS,
        budget=this.budget,
        report=report,
        seed=seed,
        leave_out=this.leave_out,
    )
    return Run(rows, flat.model, pyramid.model)


def _pyramid(this: Size, modules: list[rgp.Module], held: Held, fitting: float) -> Measured[rgp.Ensemble]:
    """Neighbours first; every ensemble learns its kernel and mean, chooses its points, and becomes a module."""

    def build() -> rgp.Ensemble:
        groups = np.array_split(np.arange(len(modules)), this.groups)
        layer = [rgp.merge([modules[i] for i in g]).to_module(f"group {j}") for j, g in enumerate(groups)]
        return rgp.merge(layer, inducing=POINTS)

    sent = published_bytes(modules)
    name = f"pyramid of {this.groups} × {len(modules) // this.groups}, M={POINTS}"
    return measured(this.name, name, build, held.X, held.y, f=held.f, bytes=sent, before=fitting)


def _planned(this: Size, parts: Parts, flat: rgp.Ensemble, held: Held) -> Row:
    """One round of sums over all rows, at the points, kernel, mean and noise of the merge."""
    noise = flat.likelihoods[0].parameters[0]
    plan = partial(
        mapreduce, parts, inducing=flat.inducing, kernel=flat.kernel, learn=False, noise=noise, mean=flat.mean
    )
    name = f"SGPR by map-reduce, merge's plan, M={len(flat.inducing)}"
    return measured(this.name, name, plan, held.X, held.y, f=held.f, points=len(flat.inducing)).row


def _draw(this: Size, run: Run, rows: list[Row]) -> Figure:
    figure = figures.new(12, 6)
    panels = figure.subplot_mosaic([["f", "table"], ["error", "table"]], width_ratios=[1.1, 1])
    x = np.linspace(*REGION, 601)
    truth = wave(x)
    flat, pyramid = (model.predict(x[:, None]) for model in (run.flat, run.pyramid))
    panels["f"].plot(x, truth, color=figures.FAINT, lw=2.4, label="true f")
    figures.band(panels["f"], x, *flat, figures.MERGED, "merged")
    figures.inducing(panels["f"], run.flat.inducing[:, 0], figures.MERGED, f"{len(run.flat.inducing)} points $Z_*$")
    panels["f"].set_ylim(-10, 13)
    figures.tidy(panels["f"], f"{this.owners:,} modules of {this.rows} rows", ylabel="f(x)")
    figures.band(panels["error"], x, flat[0] - truth, flat[1], figures.MERGED, "flat")
    figures.outline(
        panels["error"], x, pyramid[0] - truth, pyramid[1], figures.BLUE, f"pyramid of {this.groups} groups"
    )
    figures.inducing(panels["error"], run.pyramid.inducing[:, 0], figures.BLUE)
    panels["error"].axhline(0, color=figures.FAINT, lw=0.8)
    half = 4 * float(np.sqrt(flat[1].mean()))
    panels["error"].set_ylim(-half, half)
    figures.tidy(panels["error"], "The same, less the true f, with 95% bands", xlabel="x", ylabel="error of f")
    for name in ("f", "error"):
        panels[name].set_xlim(*REGION)
        panels[name].legend(loc="upper left", ncols=3, fontsize=8, frameon=False)
    figures.excess(panels["table"], rows, "oracle")
    figures.tidy(panels["table"], "Held-out y")
    return figure

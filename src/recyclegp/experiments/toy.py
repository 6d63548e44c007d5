"""Experiment (i): five tasks side by side on one line, seen through noise."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import recyclegp as rgp

from . import figures, rivals
from .core import Held, Outcome, Report, Row, Settings, averaged, timed
from .data import NOISE, REGION, Parts, adjoining, f_bias, noisy

K = 5
PUBLISHED = 15
POINTS = 35


class Size(NamedTuple):
    rows: int  # of each owner
    test: int


def size(settings: Settings) -> Size:
    return Size(500, 4000) if settings.full else Size(150, 1000)


class Run(NamedTuple):
    rows: list[Row]
    parts: Parts
    modules: list[rgp.Module]
    merged: rgp.Ensemble


def run(settings: Settings, report: Report) -> Outcome:
    made = [_once(settings, seed, report) for seed in settings.repeats]
    rows = averaged(row for each in made for row in each.rows)
    return Outcome(rows, _draw(made[0], rows), [f"noise variance {NOISE:g}; the oracle knows f and the noise"])


def steps(settings: Settings) -> int:
    return settings.seeds * (1 + rivals.count())


def _once(settings: Settings, seed: int, report: Report) -> Run:
    n, tests = size(settings)
    case = f"K={K} × {n} rows"
    rng = np.random.default_rng(seed)
    parts = adjoining(K, n, rng, f_bias)
    x = rng.uniform(*REGION, tests)
    y = noisy(x, rng, f_bias)
    held = Held(x[:, None], y, f_bias(x))

    report(f"{case}: local fits and merge")
    names = [f"task {k + 1}" for k in range(K)]
    modules, fitting = timed(partial(rgp.fit_many, parts, names=names, publish=PUBLISHED, seed=seed, progress=False))
    merged = rivals.merged(case, POINTS, modules, held, fitting=fitting)
    auto = rivals.merged(case, "auto", modules, held, fitting=fitting)
    rows = [rivals.oracle(held, case, NOISE), merged.row, auto.row]
    rows += rivals.gaussian_rivals(
        case,
        parts,
        modules,
        held,
        fitting=fitting,
        inducing=POINTS,
        budget=rivals.FULL if settings.full else rivals.QUICK,
        report=report,
        seed=seed,
    )
    return Run(rows, parts, modules, merged.model)


def _draw(run: Run, rows: list[Row]) -> Figure:
    figure = figures.new(10, 11)
    above, below, table = figure.subplots(3, 1, height_ratios=[1, 1, 1.35])
    x = np.linspace(*REGION, 601)
    truth = f_bias(x)
    edges = np.linspace(*REGION, K + 1)
    for k, (module, (X, y)) in enumerate(zip(run.modules, run.parts, strict=True)):
        colour = figures.PALETTE[k]
        near = (x >= edges[k] - 0.25) & (x <= edges[k + 1] + 0.25)
        for panel in (above, below):
            figures.rows_of(panel, X[:, 0], y, colour)
        figures.band(above, x[near], *module.predict(x[near][:, None]), colour, module.name)
        figures.inducing(above, module.inducing[:, 0], colour)
    for panel in (above, below):
        panel.plot(x, truth, color=figures.FAINT, lw=2, zorder=2, label="true f")
        panel.set(xlim=REGION, ylabel="y and f(x)")
    figures.band(below, x, *run.merged.predict(x[:, None]), figures.MERGED, "merged, 95% band of f")
    figures.inducing(below, run.merged.inducing[:, 0], figures.MERGED, f"{POINTS} points $Z_*$")
    figures.tidy(above, f"Five modules, each published at {PUBLISHED} points (triangles)")
    figures.tidy(below, "Merged without their data", xlabel="x")
    above.legend(loc="upper left", ncols=6, fontsize=8, frameon=False)
    below.legend(loc="upper left", ncols=3, fontsize=8, frameon=False)
    figures.excess(table, rows, "oracle")
    figures.tidy(table, "Held-out y")
    return figure

"""Coal-mining disasters: counts with a Poisson likelihood, one owner per decade."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..plot import style
from . import figures, rivals
from .core import Held, Outcome, Report, Settings, averaged
from .data import Array, Split, binned, coal, decades, shuffled
from .rivals import Budget, Compared

EACH_YEAR = 4  # counts: quarters of a year
TEST = 0.2
PUBLISH, POINTS = 4, 20
QUICK = Budget(rows=200, svgp=200, vem=200, vem_seconds=3.0)
FULL = Budget(svgp=1000, vem=1000, vem_seconds=20.0)


def steps(settings: Settings) -> int:
    return settings.seeds * rivals.count(likelihood="poisson")


def run(settings: Settings, report: Report) -> Outcome:
    dates = coal(settings.data_dir)
    X, y = binned(dates, EACH_YEAR)
    made = [_once(shuffled(X, y, TEST, seed), seed, settings, report) for seed in settings.repeats]
    notes = [
        f"{len(dates)} disasters in {len(y)} quarters of a year, {TEST:.0%} of them held out; "
        "RMSE and MAE are of the count; a count is discrete, so that a 95% interval covers at least 95%"
    ]
    return Outcome(averaged(row for each in made for row in each.rows), draw(made[-1], dates), notes)


def _once(s: Split, seed: int, settings: Settings, report: Report) -> Compared:
    parts, held = decades(s.X, s.y), Held(s.X_test, s.y_test)
    case = f"{len(parts)} decades, M_k={PUBLISH}"
    owners = rivals.fitted(case, parts, held, report, likelihood="poisson", publish=PUBLISH, seed=seed)
    return rivals.compared(owners, (POINTS, "auto"), FULL if settings.full else QUICK, report)


def rate(model: Any, x: Array) -> tuple[Array, Array, Array]:
    """Disasters a year: the median of exp(f), and its central 95% band."""
    mean, variance = (np.asarray(t) for t in model.predict(x[:, None]))
    half = style.BAND_SDS * np.sqrt(variance)
    low, middle, high = (EACH_YEAR * np.exp(t) for t in (mean - half, mean, mean + half))
    return low, middle, high


def draw(made: Compared, dates: Array) -> Figure:
    """The rate over the years: counts, the decades apart, the merge, and the central model."""
    figure = figures.new(10, 5)
    panel, merged = figure.subplots(), made.merges[1]
    first, last = np.floor(dates.min()), np.floor(dates.max()) + 1
    years, counts = binned(dates, 1)
    panel.bar(years[:, 0], counts, width=0.9, color="#dddddd", zorder=0, label="disasters in a year")
    for k, ((X, _), m) in enumerate(zip(made.owners.parts, made.owners.modules, strict=True)):
        x = np.linspace(X.min(), X.max(), 50)
        label = "each decade's own module" if k == 0 else None
        panel.plot(x, rate(m, x)[1], color=style.BLUE, lw=1.4, zorder=2, label=label)
    x = np.linspace(first, last, 400)
    low, middle, high = rate(merged, x)
    panel.plot(x, middle, color=figures.MERGED, lw=2, zorder=3, label="merged rate")
    panel.fill_between(x, low, high, color=figures.MERGED, alpha=0.25, lw=0, zorder=1, label="its 95% band")
    low, middle, high = rate(made.central, x)
    panel.plot(x, middle, "--", color=figures.CENTRAL, lw=1.2, zorder=4, label="central rate and its 95% band")
    for limit in (low, high):
        panel.plot(x, limit, ":", color=figures.CENTRAL, lw=0.9, zorder=4)
    top = float(max(counts.max(), high.max())) + 0.5
    panel.vlines(dates, -0.45, -0.15, color=style.BLACK, lw=0.5, zorder=3, label="each disaster")
    style.inducing(panel, merged.inducing[:, 0], figures.MERGED, style.CHOSEN, level=-0.01)
    look = {"xlabel": "year", "ylabel": "disasters a year", "xlim": (first - 1, last + 1), "ylim": (-0.6, top)}
    legend = {"loc": "upper right", "fontsize": 9}
    style.tidy(panel, "Coal-mining disasters: one owner per decade, merged", legend, **look)
    return figure

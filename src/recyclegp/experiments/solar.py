"""Experiment (iv): two and a half centuries of monthly sunspot numbers, in fifty segments of time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..metrics import score
from ..models.merge import merge
from ..plot import style
from . import figures, rivals
from .core import Held, Outcome, Report, Row, Settings, averaged, published_bytes, quiet, timed
from .data import Array, Split, segments, shuffled, sunspots
from .rivals import Compared, Owners

TEST = 0.2
K, PUBLISH = 50, 6
SMALL, POINTS = 90, 200
# fewer than a third of the months, and the exact GP takes the solar cycle for noise
QUICK = rivals.QUICK._replace(exact=1200, svgp=100, vem=100, vem_seconds=3.0)
FULL = rivals.FULL._replace(exact=1500, svgp=600, vem_seconds=15.0)


def steps(settings: Settings) -> int:
    return settings.seeds * (1 + rivals.count())


def run(settings: Settings, report: Report) -> Outcome:
    X, y = sunspots(settings.data_dir)
    made = [_once(shuffled(X, y, TEST, seed), seed, settings, report) for seed in settings.repeats]
    rows = averaged(row for each in made for row in each.rows)
    notes = [f"{len(y)} months; y is log(1 + sunspot number), time is scaled to [0, 100]"]
    return Outcome(rows, draw(made[0], rows), notes)


def _once(s: Split, seed: int, settings: Settings, report: Report) -> Compared:
    held, parts = Held(s.X_test, s.y_test), segments(s.X, s.y, K)
    fitted = partial(rivals.fitted, f"K={K}, M_k={PUBLISH}", parts, held, publish=PUBLISH, seed=seed)
    owners = fitted(report)
    sizes = (SMALL, POINTS, "auto")
    found = rivals.compared(owners, sizes, FULL if settings.full else QUICK, report, inducing=POINTS)
    report(f"split {seed}: noise that varies")
    varying = _varying(fitted(quiet, likelihood="heteroscedastic"))
    return found._replace(rows=[*found.rows[: len(sizes)], varying, *found.rows[len(sizes) :]])


def _varying(owners: Owners) -> Row:
    """The noise differs by epoch: modules with a noise that is a function of time, too."""
    merged, merging = timed(partial(merge, owners.modules))
    X, y = owners.held[:2]
    with torch.no_grad():
        _, predicting = timed(lambda: merged.predict_y(X))
    found, spent = score(merged, X, y)[:6], (owners.fitting + merging, predicting)
    return Row(owners.case, "merged, auto, varying noise", *found, *spent, published_bytes(owners.modules), None)


ZOOM = (60.0, 72.0)


def draw(made: Compared, rows: list[Row]) -> Figure:
    """The whole series, a closer look with the segments' points, and how far every model is from the best."""
    figure = figures.new(11, 11)
    whole, zoom, table = figure.subplots(3, 1, height_ratios=[1, 1, 1.5])
    merged = made.merges[1]
    _series(whole, made, (0.0, 100.0))
    _series(zoom, made, ZOOM)
    Z = merged.inducing[:, 0]
    style.inducing(zoom, Z[_within(Z, ZOOM)], figures.MERGED, style.CHOSEN)
    for k, m in enumerate(made.owners.modules):
        Z, inside = m.inducing, _within(m.inducing[:, 0], ZOOM)
        label = "each segment's published points" if k == 0 else None
        look: dict[str, Any] = {"color": style.PALETTE[k % 4], "ms": 6, "mec": "white", "mew": 0.7, "zorder": 5}
        zoom.plot(Z[inside, 0], m.predict(Z)[0][inside], "o", label=label, **look)
    style.tidy(whole, f"Sunspots: {K} segments of time, merged at {len(merged.inducing)} points", ylabel="log(1+y)")
    look = {"xlabel": "time, scaled to [0, 100]", "ylabel": "log(1+y)", "ylim": (-0.6, 8.2)}  # room for the legend
    style.tidy(zoom, "A closer look", {"loc": "upper center", "fontsize": 9, "ncols": 2}, **look)
    best = min((r for r in rows if np.isfinite(r.nlpd)), key=lambda r: r.nlpd)
    figures.excess(table, rows, best.model, "On the same held-out months")
    return figure


def _series(panel: Axes, made: Compared, limits: tuple[float, float]) -> None:
    x = np.linspace(*limits, 1500)
    X, y = made.owners.held[:2]
    inside = _within(X[:, 0], limits)
    figures.rows_of(panel, X[inside, 0], y[inside], style.BLACK, "held-out months", size=8)
    style.band(panel, x, *made.merges[1].predict_y(x[:, None]), figures.MERGED, "merged, 95% band for y")
    panel.set(xlim=limits)


def _within(z: Array, limits: tuple[float, float]) -> Array:
    return (z >= limits[0]) & (z <= limits[1])

"""Experiment (iv): two and a half centuries of monthly sunspot numbers, in fifty segments of time."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import recyclegp as rgp
from recyclegp.metrics import score

from . import figures, rivals
from .core import Held, Outcome, Report, Row, Settings, averaged, published_bytes, shown, timed
from .data import Parts, Split, segments, shuffled, sunspots

TEST = 0.2
K, PUBLISH = 50, 6
SMALL, POINTS = 90, 200
# fewer than a third of the months, and the exact GP takes the solar cycle for noise
QUICK = rivals.QUICK._replace(exact=1200, svgp=100, vem=100, vem_seconds=3.0)
FULL = rivals.FULL._replace(exact=1500, svgp=600, vem_seconds=15.0)


class Run(NamedTuple):
    rows: list[Row]
    split: Split
    modules: list[rgp.Module]
    merged: rgp.Ensemble


def steps(settings: Settings) -> int:
    return settings.seeds * (3 + rivals.count())


def run(settings: Settings, report: Report) -> Outcome:
    X, y = sunspots(settings.data_dir)
    made = [_once(shuffled(X, y, TEST, seed), seed, settings, report) for seed in settings.repeats]
    rows = averaged(row for each in made for row in each.rows)
    notes = [f"{len(y)} months; y is log(1 + sunspot number), time is scaled to [0, 100]"]
    return Outcome(rows, draw(made[0], rows), notes)


def _once(s: Split, seed: int, settings: Settings, report: Report) -> Run:
    case, held = f"K={K}, M_k={PUBLISH}", Held(s.X_test, s.y_test)
    report(f"split {seed}: local fits")
    parts: Parts = segments(s.X, s.y, K)
    names = [f"segment {k + 1}" for k in range(K)]
    modules, fitting = timed(partial(rgp.fit_many, parts, names=names, publish=PUBLISH, seed=seed, progress=False))
    report(f"split {seed}: merging")
    merge = partial(rivals.merged, case, modules=modules, held=held, fitting=fitting)
    sizes = [merge(SMALL), merge(POINTS), merge("auto")]
    report(f"split {seed}: noise that varies")
    varying = _varying(case, parts, names, held, seed)
    others = rivals.gaussian_rivals(
        case,
        parts,
        modules,
        held,
        fitting=fitting,
        inducing=POINTS,
        budget=FULL if settings.full else QUICK,
        report=report,
        seed=seed,
    )
    return Run([m.row for m in sizes] + [varying] + others, s, modules, sizes[1].model)


def _varying(case: str, parts: Parts, names: list[str], held: Held, seed: int) -> Row:
    """The noise differs by epoch: modules with a noise that is a function of time, too."""
    fit = partial(rgp.fit_many, parts, names=names, publish=PUBLISH, seed=seed, progress=False)
    modules, fitting = timed(partial(fit, likelihood="heteroscedastic"))
    merged, merging = timed(partial(rgp.merge, modules))
    with torch.no_grad():
        _, predicting = timed(lambda: merged.predict_y(held.X))
    found = shown(score(merged, held.X, held.y))
    sent = sum(published_bytes(m.parts) for m in cast(list[rgp.JointModule], modules)) / len(parts) * 2
    return Row(case, "merged, auto, varying noise", *found, fitting + merging, predicting, sent, None)


# --- the figure -------------------------------------------------------------------------------

ZOOM = (60.0, 72.0)


def draw(r: Run, rows: list[Row]) -> Figure:
    """The whole series, a closer look with the segments' points, and how far every model is from the best."""
    figure = figures.new(11, 11)
    panels = figure.subplot_mosaic([["all"], ["zoom"], ["excess"]], height_ratios=[1, 1, 1.5])
    whole, zoom = panels["all"], panels["zoom"]
    _series(whole, r, (0.0, 100.0))
    _series(zoom, r, ZOOM)
    figures.inducing(zoom, _within(r.merged.inducing[:, 0], ZOOM), figures.MERGED, "points of the merge")
    for k, m in enumerate(r.modules):
        Z = m.inducing
        inside = (Z[:, 0] >= ZOOM[0]) & (Z[:, 0] <= ZOOM[1])
        label = "each segment's published points" if k == 0 else None
        style: dict[str, Any] = {"color": figures.PALETTE[k % 4], "ms": 6, "mec": "white", "mew": 0.7, "zorder": 5}
        zoom.plot(Z[inside, 0], m.predict(Z)[0][inside], "o", label=label, **style)
    figures.tidy(whole, f"Sunspots: {K} segments of time, merged at {len(r.merged.inducing)} points", ylabel="log(1+y)")
    figures.tidy(zoom, "A closer look", xlabel="time, scaled to [0, 100]", ylabel="log(1+y)")
    zoom.set_ylim(-0.6, 7.2)  # room for the legend
    zoom.legend(loc="upper center", fontsize=9, frameon=False, ncols=4)
    best = min((r for r in rows if np.isfinite(r.nlpd)), key=lambda r: r.nlpd)
    figures.excess(panels["excess"], rows, best.model)
    figures.tidy(panels["excess"], "On the same held-out months")
    return figure


def _series(panel: Axes, r: Run, limits: tuple[float, float]) -> None:
    x = np.linspace(*limits, 1500)
    mean, variance = r.merged.predict_y(x[:, None])
    inside = (r.split.X_test[:, 0] >= limits[0]) & (r.split.X_test[:, 0] <= limits[1])
    figures.rows_of(panel, r.split.X_test[inside, 0], r.split.y_test[inside], figures.BLACK, "held-out months", size=8)
    figures.band(panel, x, mean, variance, figures.MERGED, "merged, 95% band for y")
    panel.set(xlim=limits)


def _within(z: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    return z[(z >= limits[0]) & (z <= limits[1])]

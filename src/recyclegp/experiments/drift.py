"""Our own: a function that drifts, observed in batches; asked, after each batch, for the function as it is now.

Four functions: two whose phase moves with every batch, slowly or fast, one that stands still but for a jump half-way,
and one that stands still, which says what forgetting costs where there is nothing to forget. Kernel, noise and points
of the ensembles are those of the first batch; only what old knowledge counts is different between them. Rivals choose
theirs anew: at every step, or, with time as a second input, once from all batches, the later ones included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

import recyclegp as rgp

from ..baselines.rival import NUMBER, module_bytes
from ..likelihoods import Likelihood
from ..metrics import Model
from ..plot import style
from . import figures, rivals
from .core import Held, Outcome, Report, Row, Settings, Timed, answered, averaged, mean, timed
from .data import REGION, Array, Parts

NOISE = 0.25  # variance
HEIGHT, PERIOD = 2.0, 2.5  # of the wave
SLOW, FAST = 2 * np.pi / 120, 2 * np.pi / 40  # radians for each batch
LEAP = 2.0  # radians, half-way
POINTS = 30
FORGET = (0.95, 0.8, 0.5)
HALF_LIVES = (3, 1)  # batches
WINDOW = 5  # batches
SHOWN = 5  # every so many steps have rows of their own; the figure has all of them

PLAIN, NEWEST, REFIT, IN_TIME = "update", "newest module", f"refit, last {WINDOW} batches", "central GP with time"
MEAN = "mean"  # of all steps

Phase = Callable[[int, int], float]  # of the wave, at one of so many steps
CASES: dict[str, Phase] = {
    "drifting slowly": lambda step, steps: SLOW * step,
    "drifting fast": lambda step, steps: FAST * step,
    "jumping": lambda step, steps: LEAP * (step >= steps // 2),
    "standing still": lambda step, steps: 0.0,
}


def wave(x: Array, phase: float) -> Array:
    return HEIGHT * np.sin(2 * np.pi * x / PERIOD + phase)


class Size(NamedTuple):
    steps: int
    rows: int  # of a batch
    test: int


SIZE = {True: Size(30, 40, 1000), False: Size(12, 30, 500)}  # where full


def steps(settings: Settings) -> int:
    return settings.seeds * len(CASES)


class Run(NamedTuple):
    rows: list[list[Row]]  # by step
    batches: Parts
    updated: dict[str, Timed]  # ensembles at the end


def run(settings: Settings, report: Report) -> Outcome:
    this = SIZE[settings.full]
    made: dict[str, list[Run]] = {case: [] for case in CASES}
    for seed in settings.repeats:
        for number, (case, phase) in enumerate(CASES.items()):
            report(f"{case}, seed {seed}: {this.steps} batches")
            made[case].append(_once(case, phase, this, np.random.default_rng([seed, number]), seed))
    # means over seeds, for every step
    by_step = {
        case: [averaged(row for each in at for row in each) for at in zip(*(r.rows for r in runs), strict=True)]
        for case, runs in made.items()
    }
    rows: list[Row] = []
    for case, found in by_step.items():
        means = (mean(of_model) for each in made[case] for of_model in zip(*each.rows, strict=True))
        rows += averaged(row._replace(case=f"{case}, {MEAN}") for row in means)
        rows += [row for step, some in enumerate(found) if (step + 1) % SHOWN == 0 for row in some]
    notes = [
        f"{this.steps} batches of {this.rows} rows, noise variance {NOISE:g}; each score is of the "
        "function as it is when the batch comes; 'mean' is over all batches; bytes are those of a batch, or of its "
        "module; fit time is that of one batch",
        "'central GP with time' has all rows so far, and a kernel learned from all batches, those to come included",
    ]
    return Outcome(rows, _draw({case: runs[0] for case, runs in made.items()}, by_step, rows), notes)


def _once(case: str, phase: Phase, this: Size, rng: np.random.Generator, seed: int) -> Run:
    batches = [_seen(phase(t, this.steps), this.rows, rng)[:2] for t in range(this.steps)]
    grid = np.linspace(*REGION, POINTS)[:, None]
    in_time = _time_model(batches, seed)
    updated: dict[str, Timed] = {}  # ensembles, and the seconds that the last batch took
    modules: list[rgp.Module] = []  # one for each batch
    found = []
    for t, (X, y) in enumerate(batches):
        held, now = _seen(phase(t, this.steps), this.test, rng), f"{case}, after {t + 1}"
        modules.append(rgp.fit(X, y, kernel=rivals.KERNEL, publish=15, name=f"batch {t + 1}", seed=seed, time=t))
        updated = _step(updated, modules[-1], X, y, grid)
        row, module = NUMBER * 2 * this.rows, module_bytes(modules[-1])  # what is sent
        options = {"inducing": grid, "kernel": updated[PLAIN].value.kernel, "learn": False, "owners": None}
        asked: list[tuple[str, Model, float, float]] = [(name, *made, row) for name, made in updated.items()]
        for h in HALF_LIVES:
            merged = timed(partial(rgp.merge, modules, half_life=h, **options))
            asked.append((f"merged, half-life {h}", *merged, module))
        asked.append((NEWEST, modules[-1], 0.0, module))
        asked.append((REFIT, *timed(partial(_refit, batches[: t + 1][-WINDOW:], seed)), row))
        asked.append((IN_TIME, *timed(partial(in_time, t)), row))
        rows = [answered(now, name, model, held, seconds=spent, bytes=sent) for name, model, spent, sent in asked]
        found.append([rivals.oracle(held, now, NOISE), *rows])
    return Run(found, batches, updated)


def _seen(phase: float, n: int, rng: np.random.Generator) -> Held:
    x = rng.uniform(*REGION, n)
    f = wave(x, phase)
    return Held(x[:, None], f + NOISE**0.5 * rng.standard_normal(n), f)


def _step(before: dict[str, Timed], module: rgp.Module, X: Array, y: Array, grid: Array) -> dict[str, Timed]:
    """Each ensemble takes the batch, and forgets as much as it does; the first are the batch's own module."""
    found = {}
    for name, forget in {PLAIN: 1.0, **{f"update, forget {g:g}": g for g in FORGET}}.items():
        build = partial(rgp.merge, [module], inducing=grid)
        if before:
            build = partial(before[name].value.update, X, y, name=module.name, forget=forget)
        found[name] = timed(build)
    return found


def _refit(batches: Parts, seed: int) -> rgp.Module:
    """One GP on the rows of the last batches, published where it is asked."""
    X, y = np.concatenate([X for X, _ in batches]), np.concatenate([y for _, y in batches])
    return rgp.fit(
        X, y, kernel=rivals.KERNEL, method="exact", publish=np.linspace(*REGION, 2 * POINTS)[:, None], seed=seed
    )


def _time_model(batches: Parts, seed: int) -> Callable[[int], Any]:
    """A GP over x and time: how it predicts at a step from all rows until then."""
    inputs = [np.column_stack([X[:, 0], np.full(len(X), float(t))]) for t, (X, _) in enumerate(batches)]
    y = [y for _, y in batches]
    learned = rgp.fit(
        np.concatenate(inputs), np.concatenate(y), kernel=rivals.KERNEL, method="exact", publish=2, seed=seed
    )
    at = np.linspace(*REGION, 2 * POINTS)

    def until(t: int) -> AtTime:
        Z = np.column_stack([at, np.full(len(at), float(t))])
        known = np.concatenate(inputs[: t + 1]), np.concatenate(y[: t + 1])
        options = {"kernel": learned.kernel, "learn": False, "noise": learned.noise, "method": "exact"}
        return AtTime(rgp.fit(*known, publish=Z, **options), t, learned.likelihoods)

    return until


class AtTime(NamedTuple):
    """A model of x and time at one time, as a model of x."""

    model: rgp.Module
    time: float
    likelihoods: tuple[Likelihood, ...]

    def predict(self, X: Any) -> Any:
        return self.model.predict(np.column_stack([X[:, 0], np.full(len(X), float(self.time))]))


CURVES = {
    PLAIN: (style.BLACK, "-"),
    "update, forget 0.95": (style.ORANGE, "-"),
    "update, forget 0.8": (figures.MERGED, "-"),
    "update, forget 0.5": (style.PURPLE, "-"),
    "merged, half-life 3": (style.BLUE, "--"),
    REFIT: (style.GREEN, ":"),
    IN_TIME: (style.SKY, ":"),
}


def _draw(shown: dict[str, Run], by_step: dict[str, list[list[Row]]], rows: list[Row]) -> Figure:
    figure = figures.new(14, 13.5)
    panels = figure.subplots(len(CASES), 3, width_ratios=[1.1, 1, 1.1])
    for line, (case, phase) in zip(panels, CASES.items(), strict=True):
        _draw_function(line[0], case, shown[case], phase(len(by_step[case]) - 1, len(by_step[case])))
        _draw_errors(line[1], case, by_step[case])
        of_case = [r for r in rows if r.case == f"{case}, {MEAN}"]
        figures.excess(line[2], of_case, "oracle", f"{case}: mean NLPD of all steps")
        for axis in (line[1].yaxis, line[2].xaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
    figure.legend(*panels[0][1].get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False)
    return figure


def _draw_function(panel: Axes, case: str, run: Run, phase: float) -> None:
    x = np.linspace(*REGION, 301)
    figures.rows_of(panel, run.batches[-1][0][:, 0], run.batches[-1][1], style.FAINT, "the last batch", 9)
    panel.plot(x, wave(x, phase), color=style.FAINT, lw=2.2, zorder=2, label="f now")
    for name in (PLAIN, "update, forget 0.8"):
        figures.fitted(panel, x, run.updated[name].value, CURVES[name][0], f"{name}, 95%")
    look = {"xlabel": "x", "ylabel": "f(x)", "xlim": REGION, "ylim": (-4.5, 5.5)}
    style.tidy(panel, f"{case}: after the last batch", {"loc": "upper left", "ncols": 2, "fontsize": 7}, **look)


def _draw_errors(panel: Axes, case: str, found: Sequence[Sequence[Row]]) -> None:
    for name, (colour, dashes) in CURVES.items():
        errors = [next(r.rmse for r in rows if r.model == name) for rows in found]
        panel.plot(range(1, len(errors) + 1), errors, dashes, color=colour, lw=1.4, label=name)
    panel.set_yscale("log")
    panel.grid(axis="y", color="#e5e5e5", lw=0.6)
    style.tidy(panel, f"{case}: error of f as it is now", xlabel="batches", ylabel="RMSE of f")

"""Our own: a function that drifts, observed in batches; asked, after each batch, for the function as it is now.

Four functions: two whose phase moves with every batch, slowly or fast, one that stands still but for a jump half-way,
and one that stands still, which says what forgetting costs where there is nothing to forget. Kernel, noise and points
of the ensembles are those of the first batch; only what old knowledge counts is different between them. Rivals choose
theirs anew: at every step, or, with time as a second input, once from all batches, the later ones included.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

import recyclegp as rgp

from ..baselines.rival import NUMBER, module_bytes
from ..metrics import Model
from . import figures, rivals
from .core import Held, Outcome, Report, Row, Settings, answered, averaged, timed
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


def size(settings: Settings) -> Size:
    return Size(30, 40, 1000) if settings.full else Size(12, 30, 500)


def steps(settings: Settings) -> int:
    return settings.seeds * len(CASES)


class Known(NamedTuple):
    """What the ensembles and rivals have after some batches."""

    updated: dict[str, rgp.Ensemble]
    seconds: dict[str, float]  # that the last batch took
    modules: tuple[rgp.Module, ...]  # one for each batch


class Run(NamedTuple):
    rows: list[list[Row]]  # by step
    batches: Parts
    known: Known  # at the end


def run(settings: Settings, report: Report) -> Outcome:
    made: dict[str, list[Run]] = {case: [] for case in CASES}
    for seed in settings.repeats:
        for number, (case, phase) in enumerate(CASES.items()):
            report(f"{case}, seed {seed}: {size(settings).steps} batches")
            made[case].append(_once(case, phase, size(settings), np.random.default_rng([seed, number]), seed))
    by_step = {case: _by_step(runs) for case, runs in made.items()}
    rows: list[Row] = []
    for case, found in by_step.items():
        rows += averaged(row for each in made[case] for row in _means(case, each.rows))
        rows += [row for step, some in enumerate(found) if (step + 1) % SHOWN == 0 for row in some]
    notes = [
        f"{size(settings).steps} batches of {size(settings).rows} rows, noise variance {NOISE:g}; each score is of the "
        "function as it is when the batch comes; 'mean' is over all batches; bytes are those of a batch, or of its "
        "module; fit time is that of one batch",
        "'central GP with time' has all rows so far, and a kernel learned from all batches, those to come included",
    ]
    return Outcome(rows, _draw(settings, {case: runs[0] for case, runs in made.items()}, by_step, rows), notes)


def _by_step(runs: Sequence[Run]) -> list[list[Row]]:
    """Means over seeds, for every step."""
    return [averaged(row for each in at for row in each) for at in zip(*(r.rows for r in runs), strict=True)]


def _means(case: str, found: Sequence[Sequence[Row]]) -> list[Row]:
    """One row for each model: the mean of its steps."""
    means = []
    for of_model in zip(*found, strict=True):
        numbers = {
            key: statistics.fmean(getattr(r, key) for r in of_model)
            for key in ("nlpd", "rmse", "mae", "coverage", "fit_seconds", "predict_seconds", "bytes")
        }
        means.append(of_model[0]._replace(case=f"{case}, {MEAN}", **numbers))
    return means


def _once(case: str, phase: Phase, this: Size, rng: np.random.Generator, seed: int) -> Run:
    batches = [_batch(phase(t, this.steps), this.rows, rng) for t in range(this.steps)]
    grid = np.linspace(*REGION, POINTS)[:, None]
    in_time = _time_model(batches, seed)
    known, found = Known({}, {}, ()), []
    for t, (X, y) in enumerate(batches):
        test = rng.uniform(*REGION, this.test)
        f = wave(test, phase(t, this.steps))
        held = Held(test[:, None], f + NOISE**0.5 * rng.standard_normal(this.test), f)
        known = _step(known, X, y, grid, seed)
        score = partial(_row, f"{case}, after {t + 1}", held=held, rows=NUMBER * 2 * this.rows)
        first = known.updated[PLAIN]
        options = {"inducing": grid, "kernel": first.kernel, "learn": False, "owners": None}
        rows = [rivals.oracle(held, f"{case}, after {t + 1}", NOISE)]
        rows += [score(name, model, seconds=known.seconds[name]) for name, model in known.updated.items()]
        sent = module_bytes(known.modules[-1])
        for h in HALF_LIVES:
            merged, spent = timed(partial(rgp.merge, known.modules, half_life=h, **options))
            rows.append(score(f"merged, half-life {h}", merged, seconds=spent, rows=sent))
        rows.append(score(NEWEST, known.modules[-1], seconds=0.0, rows=sent))
        rows.append(score(REFIT, *timed(partial(_refit, batches[: t + 1][-WINDOW:], seed))))
        rows.append(score(IN_TIME, *timed(partial(in_time, t))))
        found.append(rows)
    return Run(found, batches, known)


def _batch(phase: float, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.uniform(*REGION, n)
    return x[:, None], wave(x, phase) + NOISE**0.5 * rng.standard_normal(n)


def _row(case: str, name: str, model: Model, seconds: float, held: Held, rows: float) -> Row:
    return answered(case, name, model, *held, bytes=rows, seconds=seconds)


def _step(known: Known, X: Array, y: Array, grid: Array, seed: int) -> Known:
    """Each ensemble takes the batch, and forgets as much as it does."""
    t = len(known.modules)
    module = rgp.fit(X, y, publish=15, name=f"batch {t + 1}", seed=seed, time=t)
    updated, seconds = {}, {}
    for name, forget in {PLAIN: 1.0, **{f"update, forget {g:g}": g for g in FORGET}}.items():
        if t == 0:
            build = partial(rgp.merge, [module], inducing=grid)
        else:
            build = partial(known.updated[name].update, X, y, name=f"batch {t + 1}", forget=forget)
        updated[name], seconds[name] = timed(build)
    return Known(updated, seconds, (*known.modules, module))


def _refit(batches: Parts, seed: int) -> rgp.Module:
    """One GP on the rows of the last batches, published where it is asked."""
    X, y = np.concatenate([X for X, _ in batches]), np.concatenate([y for _, y in batches])
    return rgp.fit(X, y, method="exact", publish=np.linspace(*REGION, 2 * POINTS)[:, None], seed=seed)


def _time_model(batches: Parts, seed: int) -> Callable[[int], Any]:
    """A GP over x and time: how it predicts at a step from all rows until then."""
    inputs = [np.column_stack([X[:, 0], np.full(len(X), float(t))]) for t, (X, _) in enumerate(batches)]
    y = [y for _, y in batches]
    learned = rgp.fit(np.concatenate(inputs), np.concatenate(y), method="exact", publish=2, seed=seed)
    at = np.linspace(*REGION, 2 * POINTS)

    def until(t: int) -> AtTime:
        Z = np.column_stack([at, np.full(len(at), float(t))])
        known = np.concatenate(inputs[: t + 1]), np.concatenate(y[: t + 1])
        options = {"kernel": learned.kernel, "learn": False, "noise": learned.noise, "method": "exact"}
        return AtTime(rgp.fit(*known, publish=Z, **options), t)

    return until


class AtTime:
    """A model of x and time at one time, as a model of x."""

    def __init__(self, model: rgp.Module, time: float) -> None:
        self.model, self.time = model, time
        self.likelihoods = model.likelihoods

    def predict(self, X: Any) -> Any:
        return self.model.predict(np.column_stack([X[:, 0], np.full(len(X), float(self.time))]))


# --- the figure -------------------------------------------------------------------------------

CURVES = {
    PLAIN: (figures.BLACK, "-"),
    "update, forget 0.95": (figures.ORANGE, "-"),
    "update, forget 0.8": (figures.MERGED, "-"),
    "update, forget 0.5": (figures.PURPLE, "-"),
    "merged, half-life 3": (figures.BLUE, "--"),
    REFIT: (figures.GREEN, ":"),
    IN_TIME: (figures.SKY, ":"),
}


def _draw(settings: Settings, shown: dict[str, Run], by_step: dict[str, list[list[Row]]], rows: list[Row]) -> Figure:
    figure = figures.new(14, 13.5)
    panels = figure.subplots(len(CASES), 3, width_ratios=[1.1, 1, 1.1])
    last = size(settings).steps - 1
    for line, (case, phase) in zip(panels, CASES.items(), strict=True):
        _draw_function(line[0], case, shown[case], phase(last, last + 1))
        _draw_errors(line[1], case, by_step[case])
        figures.excess(line[2], [r for r in rows if r.case == f"{case}, {MEAN}"], "oracle")
        figures.tidy(line[2], f"{case}: mean NLPD of all steps")
        for axis in (line[1].yaxis, line[2].xaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
    figure.legend(*panels[0][1].get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False)
    return figure


def _draw_function(panel: Axes, case: str, run: Run, phase: float) -> None:
    x = np.linspace(*REGION, 301)
    figures.rows_of(panel, run.batches[-1][0][:, 0], run.batches[-1][1], figures.FAINT, "the last batch", 9)
    panel.plot(x, wave(x, phase), color=figures.FAINT, lw=2.2, zorder=2, label="f now")
    for name in (PLAIN, "update, forget 0.8"):
        mean, variance = run.known.updated[name].predict(x[:, None])
        figures.band(panel, x, mean, variance, CURVES[name][0], f"{name}, 95%")
    figures.tidy(panel, f"{case}: after the last batch", xlabel="x", ylabel="f(x)")
    panel.set(xlim=REGION, ylim=(-4.5, 5.5))
    panel.legend(loc="upper left", ncols=2, fontsize=7, frameon=False)


def _draw_errors(panel: Axes, case: str, found: Sequence[Sequence[Row]]) -> None:
    for name, (colour, style) in CURVES.items():
        errors = [next(r.rmse for r in rows if r.model == name) for rows in found]
        panel.plot(range(1, len(errors) + 1), errors, style, color=colour, lw=1.4, label=name)
    panel.set_yscale("log")
    panel.grid(axis="y", color="#e5e5e5", lw=0.6)
    figures.tidy(panel, f"{case}: error of f as it is now", xlabel="batches", ylabel="RMSE of f")

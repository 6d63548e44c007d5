"""Our own: data that arrive in ten batches.

Three ways to keep up. `update` folds a batch into the ensemble and forgets it; kernel, mean, noise and points
stay as the first batch and a guess of the region left them. `add` fits a module to the batch alone and merges
it, choosing all those anew. Refitting keeps every row for ever. Batches come from everywhere at once, or
from a window that moves along the line; there the test is over the region seen so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

import recyclegp as rgp

from ..baselines import central
from ..baselines.rival import NUMBER, module_bytes
from ..plot import style
from . import figures, rivals
from .core import Held, Outcome, Report, Row, Settings, answered, averaged, timed
from .data import NOISE, REGION, Array, Parts, adjoining, held_out, overlapping, wave
from .rivals import Owners

BATCHES = 10
POINTS = 40
PUBLISHED = 40
UPDATE, ADD, REFIT = "update", "add, relearned", "refit (SGPR)"
COLOURS = {UPDATE: figures.MERGED, ADD: style.BLUE, REFIT: figures.CENTRAL}
SHOWN = 4  # batches after which the figure shows the function
CASES: dict[str, Callable[..., Parts]] = {"everywhere": overlapping, "moving": adjoining}

# the rivals at the end of "everywhere" that have no row of their own already, or make no sense here
LEFT_OUT = {
    "sparse": "it is the refit",
    "grbcm-own": "its communication subset would have to be drawn from batches that are yet to come",
    "grbcm-shared": "likewise",
}


class Size(NamedTuple):
    rows: int  # of a batch
    test: int


SIZE = {True: Size(500, 4000), False: Size(200, 1000)}  # where full


def steps(settings: Settings) -> int:
    return settings.seeds * (len(CASES) * BATCHES + rivals.count(LEFT_OUT) - 2)  # nothing is fitted or merged again


class State(NamedTuple):
    """What each of the three has after a batch, and what the batch cost them."""

    models: dict[str, Any]
    seconds: Mapping[str, float]
    bytes: Mapping[str, float]
    modules: tuple[rgp.Module, ...]  # of the batches so far
    fitting: float  # seconds that all those took


class Run(NamedTuple):
    rows: list[Row]
    parts: dict[str, Parts]
    shown: dict[str, State]  # by case, after some batches


def run(settings: Settings, report: Report) -> Outcome:
    made = [_once(SIZE[settings.full], settings.full, seed, report) for seed in settings.repeats]
    rows = averaged(row for each in made for row in each.rows)
    notes = [
        f"batches of {SIZE[settings.full].rows} rows; the first three models' fit time is that of the one batch; bytes "
        "are those of its rows, or of the module fitted to them",
        *rivals.not_run("everywhere, after 10", LEFT_OUT),
    ]
    return Outcome(rows, _draw(made[0], rows), notes)


def _once(this: Size, full: bool, seed: int, report: Report) -> Run:
    rng = np.random.default_rng(seed)
    held = held_out(this.test, rng)
    rows: list[Row] = []
    shown: dict[str, State] = {}
    parts = {case: place(BATCHES, this.rows, rng) for case, place in CASES.items()}
    for case, batches in parts.items():
        state = State({}, {}, {}, (), 0.0)
        for b in range(BATCHES):
            report(f"{case}: batch {b + 1} of {BATCHES}")
            state = _step(state, batches[: b + 1], seed)
            rows += _score(f"{case}, after {b + 1}", state, _seen(case, b + 1, held))
            if b + 1 == SHOWN:
                shown[case] = state
        if case == "everywhere":
            rows += _rivals(batches, state, held, full, seed, report)
    return Run(rows, parts, shown)


def _step(state: State, batches: Parts, seed: int) -> State:
    """All three take the last of these batches; only refitting looks at the others."""
    X, y = batches[-1]
    first = not state.models
    grid = np.linspace(*REGION, POINTS)[:, None]
    name = f"batch {len(batches)}"
    module, fitting = timed(partial(rgp.fit, X, y, kernel=rivals.KERNEL, publish=PUBLISHED, name=name, seed=seed))
    if first:
        adds, updates = partial(rgp.merge, [module]), partial(rgp.merge, [module], inducing=grid)
    else:
        adds = partial(state.models[ADD].add, module, relearn=True)
        updates = partial(state.models[UPDATE].update, X, y, name=name)
    added, adding = timed(adds)
    updated, updating = timed(updates)
    refitted, refitting = timed(partial(central.sparse, batches, inducing=POINTS, seed=seed))
    seconds = {UPDATE: updating + (fitting if first else 0.0), ADD: fitting + adding, REFIT: refitting}
    rows = NUMBER * (X.size + y.size)
    sent = {UPDATE: rows, ADD: module_bytes(module), REFIT: rows}
    models = {UPDATE: updated, ADD: added, REFIT: refitted}
    return State(models, seconds, sent, (*state.modules, module), state.fitting + fitting)


def _seen(case: str, batches: int, held: Held) -> Held:
    if case == "everywhere":
        return held
    low, high = REGION
    inside = held.X[:, 0] <= low + (high - low) * batches / BATCHES
    return Held(held.X[inside], held.y[inside], held.f[inside])


def _score(case: str, state: State, held: Held) -> list[Row]:
    rows = [rivals.oracle(held, case, NOISE)]
    for name, model in state.models.items():
        points = None if name == ADD else POINTS
        known: dict[str, Any] = {"bytes": state.bytes[name], "points": points, "seconds": state.seconds[name]}
        rows.append(answered(case, name, model, held, **known))
    return rows


def _rivals(batches: Parts, state: State, held: Held, full: bool, seed: int, report: Report) -> list[Row]:
    """When all batches have come they are ten owners like any others."""
    owners = Owners(f"everywhere, after {BATCHES}", batches, state.modules, state.fitting, held, seed)
    budget = rivals.FULL if full else rivals.QUICK._replace(vem_seconds=1.0)
    return rivals.compared(owners, (), budget, report, inducing=POINTS, leave_out=LEFT_OUT).rows


def _draw(run: Run, rows: Sequence[Row]) -> Figure:
    figure = figures.new(13, 7.5)
    panels = figure.subplots(len(CASES), 3, width_ratios=[1.35, 1, 1])
    for (left, middle, right), case in zip(panels, CASES, strict=True):
        _draw_function(left, run, case)
        of_case = [r for r in rows if r.case.startswith(case)]
        best = _after(of_case, "oracle", "nlpd")
        for (model, colour), mark in zip(COLOURS.items(), "os^", strict=True):
            excess = _after(of_case, model, "nlpd") - best
            for panel, values in (
                (middle, np.where(excess > 0, excess, np.nan)),
                (right, np.cumsum(_after(of_case, model, "fit_seconds"))),
            ):
                panel.plot(range(1, BATCHES + 1), values, f"-{mark}", color=colour, label=model)
        for panel, title, unit in (
            (middle, "NLPD above the oracle's", "nats per point"),
            (right, "seconds so far", "seconds"),
        ):
            look = {"yscale": "log", "xticks": range(1, BATCHES + 1), "xlabel": "batches", "ylabel": unit}
            style.tidy(panel, f"{case}: {title}", {}, **look)
            for formatted in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
                formatted(FuncFormatter(_plain))
            panel.tick_params(axis="y", which="minor", labelsize=7)
            figures.grid(panel, "y")
    return figure


def _plain(value: float, _: int) -> str:
    """Ticks at 1, 2 and 5 times powers of ten, without exponents."""
    return f"{value:g}" if f"{value:e}"[0] in "125" else ""


def _draw_function(panel: Axes, run: Run, case: str) -> None:
    x = np.linspace(*REGION, 401)
    models = run.shown[case].models
    for X, y in run.parts[case][:SHOWN]:
        figures.rows_of(panel, X[:, 0], y)
    panel.plot(x, wave(x), color=style.FAINT, lw=2.2, zorder=2, label="true f")
    figures.fitted(panel, x, models[UPDATE], COLOURS[UPDATE], "updated, 95%")
    mean, variance = models[REFIT].predict(x[:, None])
    style.outline(panel, x, mean, variance, COLOURS[REFIT], "refitted, 95%")
    style.inducing(panel, models[UPDATE].inducing[:, 0], COLOURS[UPDATE], style.CHOSEN)
    look = {"xlabel": "x", "ylabel": "f(x)", "xlim": REGION, "ylim": (-14, 19)}
    style.tidy(panel, f"{case}: after {SHOWN} of {BATCHES} batches", {"loc": "upper left", "ncols": 2}, **look)


def _after(rows: Sequence[Row], model: str, what: str) -> Array:
    """A number of a model after each batch."""
    found = {int(r.case.split()[-1]): getattr(r, what) for r in rows if r.model == model}
    return np.array([found[b + 1] for b in range(BATCHES)])

"""Owners who answer once more: what each evaluation of the common bound gains, and what it costs in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..baselines import central
from ..baselines.mapreduce import mapreduce
from ..models.fit import fit
from ..models.merge import merge
from ..models.module import Module
from ..models.plan import Plan
from ..plot import style
from . import figures
from .core import Held, Outcome, Report, Row, Settings, answered, averaged, published_bytes, timed
from .data import Array, Parts, Split, banana, quadrants, random_function, regression_table, shuffled

OWNERS = 16
SHOWN = (1, 2, 5, 10)  # evaluations of the common bound that have a row in the table
MOST_ROWS = 2000  # of a table, drawn at random: as many as an exact GP can have on two cores within minutes
TABLES = (("energy", 340), ("pol", 200), ("kin40k", 200), ("pumadyn32nm", 256))  # and points of their plans
ONE_SHOT, ROUNDS = "one shot", "rounds"


class Case(NamedTuple):
    name: str
    split: Split
    parts: Parts
    points: int
    likelihood: str = "gaussian"
    publish: int | str = "auto"


class Path(NamedTuple):
    """One case: NLPD and bytes from an owner after every evaluation."""

    case: Case
    evaluations: list[int]
    nlpd: list[float]
    bytes: list[float]
    beside: dict[str, float]  # NLPD of others


def cases(settings: Settings, seed: int) -> list[Case]:
    found = [_synthetic(seed, 85 if settings.full else 40, 512 if settings.full else 160)]
    for name, points in TABLES if settings.full else TABLES[:1]:
        split = regression_table(settings.data_dir, name, seed)
        if split is not None:
            split = _fewer(split, seed)
            found.append(Case(name, split, _random(split, seed), points))
    if settings.data_dir is not None or settings.full:
        split = shuffled(*banana(settings.data_dir), 0.33, seed)
        found.append(Case("banana", split, quadrants(split.X, split.y), 25, "bernoulli", 9))
    return [case for case in found if not settings.only or case.name in settings.only]


def _fewer(split: Split, seed: int) -> Split:
    chosen = np.random.default_rng(seed).permutation(len(split.y))[:MOST_ROWS]
    return split._replace(X=split.X[chosen], y=split.y[chosen])


def _synthetic(seed: int, rows: int, points: int) -> Case:
    """A rough function of five inputs."""
    rng = np.random.default_rng(seed)
    f = random_function(rng, 5, 1.5)
    X = rng.uniform(-1.5, 1.5, (OWNERS * rows + 1000, 5))
    y = f(X) + 0.2 * rng.standard_normal(len(X))
    split = Split(X[1000:], y[1000:], X[:1000], y[:1000])
    return Case("rough, 5 inputs", split, _random(split, seed), points)


def _random(split: Split, seed: int) -> Parts:
    order = np.random.default_rng(seed).permutation(len(split.y))
    return [(split.X[i], split.y[i]) for i in np.array_split(order, OWNERS)]


def run(settings: Settings, report: Report) -> Outcome:
    rows, paths = list[Row](), list[Path]()
    for seed in settings.repeats:
        for case in cases(settings, seed):
            more, path = _once(case, seed, report)
            rows += more
            paths += [path] if seed == settings.seed else []
    absent = [n for n, _ in TABLES if n not in {p.case.name for p in paths}]
    notes = [
        f"{OWNERS} owners with random rows (banana: a quadrant each); bytes from an owner are added up",
        f"of a table at most {MOST_ROWS:,} rows for training, drawn at random, and all of its test rows",
        "all models of a case have the kernel of its plan; no exact GP and no map-reduce for classes",
    ]
    notes += [f"not run: {', '.join(absent)} (not in --data-dir, or left out of a quick run)"] if absent else []
    return Outcome(averaged(rows), _draw(paths), notes)


def _once(case: Case, seed: int, report: Report) -> tuple[list[Row], Path]:
    held = Held(case.split.X_test, case.split.y_test)
    how: dict[str, Any] = {"likelihood": case.likelihood, "privacy": "things", "allow_small": True, "seed": seed}
    report(f"{case.name}: {len(case.parts)} owners fit")
    modules, fitting = timed(
        lambda: [fit(X, y, name=f"owner-{k}", publish=case.publish, **how) for k, (X, y) in enumerate(case.parts)]
    )
    sent = published_bytes(modules)
    shot, merging = timed(lambda: merge(modules, inducing=case.points if case.publish != "auto" else "auto"))
    rows = [answered(case.name, ONE_SHOT, shot, held, bytes=sent, seconds=fitting + merging)]
    report(f"{case.name}: rounds")
    path = Path(case, [0], [rows[0].nlpd], [sent], {})
    plan, seconds = shot.plan(case.points), fitting + merging
    while not plan.done and (plan.evaluations < max(SHOWN) or plan.asks == "slopes"):
        (e, following), spent = timed(lambda plan=plan: _round(plan, case.parts))  # type: ignore[misc]
        sent, seconds = sent + following.history[-1]["bytes"], seconds + spent
        if following.asks == "sums":
            done = following.evaluations
            row = answered(case.name, f"{ROUNDS}, {done}", e, held, bytes=sent, seconds=seconds)
            path.evaluations.append(done)
            path.nlpd.append(row.nlpd)
            path.bytes.append(sent)
            rows += [row] if done in SHOWN or following.done else []
        plan = following
    for name, build in _others(case, modules, shot.plan(case.points), seed).items():
        report(f"{case.name}: {name}")
        (model, sent), spent = timed(build)
        row = answered(case.name, name, model, held, bytes=sent, seconds=spent)
        rows.append(row)
        path.beside[name] = row.nlpd
    return rows, path


def _round(plan: Plan, parts: Parts) -> tuple[Any, Plan]:
    given = [
        plan.contribute(X, y, name=f"owner-{k}", privacy="things", allow_small=True, slopes=False)
        for k, (X, y) in enumerate(parts)
    ]
    return plan.combine(given)


class Other(NamedTuple):
    model: Any
    bytes: float | None = None  # from an owner; None: the model knows


def _others(case: Case, modules: list[Module], plan: Plan, seed: int) -> dict[str, Callable[[], Other]]:
    how: dict[str, Any] = {"kernel": plan.kernel_spec.describe().split("(")[0], "seed": seed}
    sparse: dict[str, Any] = {"inducing": case.points, "likelihood": case.likelihood, "privacy": "things"}
    found: dict[str, Callable[[], Other]] = {
        "central sparse": lambda: Other(central.sparse(case.parts, **sparse, **how)),
        "averaged hyperparameters": lambda: _averaged(case, modules, plan),
    }
    if case.likelihood == "gaussian":
        found["map-reduce"] = lambda: Other(mapreduce(case.parts, inducing=case.points, **how))
        found["exact GP"] = lambda: Other(central.exact(case.parts, **how))
    return found


def _averaged(case: Case, modules: list[Module], plan: Plan) -> Other:
    """Federated averaging of what owners have learned alone: logarithms, weighted by rows. Then answers under that: one
    each, or, of a likelihood that is not Gaussian, as many as rounds have."""
    rows = np.array([m.rows for m in modules], dtype=float)
    shares = rows / rows.sum()
    same = [m.kernel_spec.structure == plan.kernel_spec.structure for m in modules]
    specs = [m.kernel_spec if own else plan.kernel_spec for m, own in zip(modules, same, strict=True)]
    kernel = plan.kernel_spec.with_theta(sum(w * k.theta for w, k in zip(shares, specs, strict=True)))
    how: dict[str, Any] = {"likelihood": case.likelihood}
    if case.likelihood == "gaussian":
        how["noise"] = float(np.exp(sum(w * np.log(m.noise) for w, m in zip(shares, modules, strict=True))))
    mean = float(shares @ [m.mean for m in modules])
    agreed = Plan(points=plan.points, kernel=kernel, mean=mean, learn=False, **how)
    e, agreed = _round(agreed, case.parts)
    while not agreed.done and agreed.evaluations < max(SHOWN):
        e, agreed = _round(agreed, case.parts)
    parameters = 8 * (len(kernel.theta) + 2)  # what each has learned, with noise and mean
    return Other(e, parameters + sum(r["bytes"] for r in agreed.history))


# --- the figure -----------------------------------------------------------------------------------

COLOURS = {
    "central sparse": style.SKY,
    "exact GP": style.BLACK,
    "map-reduce": style.GREEN,
    "averaged hyperparameters": style.PURPLE,
}


def _draw(paths: list[Path]) -> Figure:
    """NLPD above, bytes below; a column for each case."""
    figure = figures.new(4.6 * len(paths), 6.4)
    panels = figure.subplots(2, len(paths), squeeze=False, sharex="col", height_ratios=[2, 1])
    for column, path in enumerate(paths):
        above, below = panels[:, column]
        above.plot(path.evaluations, path.nlpd, "o-", color=figures.MERGED, ms=4, lw=1.6, label="rounds")
        above.plot(0, path.nlpd[0], "s", color=style.BLUE, ms=7, label="one shot", zorder=3)
        for name, value in path.beside.items():
            above.axhline(value, color=COLOURS[name], lw=1.2, ls="--", label=name)
        size: Array = np.asarray(path.bytes) / 1e6
        below.plot(path.evaluations, size, "o-", color=style.BLUE, ms=4, lw=1.4)
        title = f"{path.case.name}: {len(path.case.parts)} owners, {path.case.points} points"
        style.tidy(above, title, None, ylabel="held-out NLPD, nats per row")
        style.tidy(below, None, None, xlabel="evaluations of the common bound", ylabel="MB from an owner")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
    known = {label: line for a in panels[0] for line, label in zip(*a.get_legend_handles_labels(), strict=True)}
    figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=len(known), frameon=False)
    return figure

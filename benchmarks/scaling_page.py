"""Tables and figures of docs/scaling.md, from what benchmarks/scaling.py has measured and simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import scaling_model as cost
from pages import Column, figure, table
from recyclegp.plot import style
from scaling_model import WORK, Case, Machine, Prediction, Rates, Run, seconds
from scaling_simulation import GIVEN_UP, LOSSES, PER_WORKER, SCHEDULING, SIGMAS, SLOW, Outcome, Setting

MODULES, ROWS, WORKERS, GPUS = 1_000_000, 1000, 100, 8
SIZES = ((16, 512), (64, 512), (16, 4096), (64, 4096))  # M_k, M_*
SERVER = 1.25e9  # bytes per second of the shared folder


class Measured(NamedTuple):
    runs: list[Run]
    simulated: list[Outcome]
    gpu: dict[str, Any]


class Model(NamedTuple):
    """All that a prediction needs."""

    rates: Rates
    gpu: Rates
    fit_evaluations: float
    member_bytes: float

    def on(self, case: Case, workers: int) -> Prediction:
        return cost.predict(case, Machine(workers, self.rates), self.fit_evaluations, self.member_bytes)

    def on_gpus(self, case: Case) -> Prediction:
        """Of one machine: each keeps its part of the modules, and what they say to each other stays inside."""
        machine = Machine(GPUS, self.gpu, 2e10, SERVER, 5e-5, scheduled=False, remembered=1e11)
        return cost.predict(case, machine, self.fit_evaluations, self.member_bytes)


def modelled(found: Measured) -> Model:
    rates, evaluations = cost.fitted(found.runs), fmean(r.evaluations for r in found.runs if r.stage == "fit")
    members = max(r.bytes / r.modules for r in found.runs if r.stage == "client")
    return Model(rates, cost.on_gpu(rates, cost.gpu_rates(found.gpu, evaluations)), evaluations, members)


def in_files(case: Case, workers: int) -> Case:
    """Eight for each worker, where per_task is chosen and not left alone."""
    return case._replace(per_task=max(1, -(-case.modules // (8 * workers))))


def case_of(points: int, inducing: int, modules: int = MODULES) -> Case:
    return Case(modules, ROWS, points, inducing)


def time(s: float) -> str:
    for most, unit, name in ((0.0095, 0.001, "ms"), (99.5, 1, "s"), (5970, 60, "min"), (3600 * 99.5, 3600, "h")):
        if s < most:
            return f"{s / unit:.2g} {name}"
    return f"{s / 86400:,.0f} days"


def size(b: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if b >= unit:
            return f"{b / unit:.3g} {name}"
    return f"{b:.0f} B"


class Compared(NamedTuple):
    run: Run
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.run.seconds - 1

    @property
    def sizes(self) -> str:
        r = self.run
        if r.stage == "cluster":
            return f"{r.tasks} tasks" + (f" of {size(r.bytes)}" if r.bytes else "")
        named = {"K": r.modules, "n": r.rows, "M_k": r.points, "M_*": r.inducing}
        return ", ".join(f"{k} = {v:,}" for k, v in named.items() if v)


def held_out(found: Measured, model: Model) -> list[Compared]:
    """Whole runs on a cluster of this machine, which it was not fitted to."""
    answers = []
    for r in (r for r in found.runs if r.stage.startswith("whole")):
        case = Case(r.modules, r.rows, r.points, r.inducing, round(r.evaluations))
        first, *rest = model.on(case, r.tasks).stages
        answers.append(Compared(r, first.seconds if r.stage == "whole fit" else sum(s.seconds for s in rest)))
    return answers


STAGES: list[Column] = [
    ("stage", lambda row: row[0], ""),
    ("seconds", lambda row: "; ".join(f"{v:.2g} per {k}" for k, v in row[2].items() if v), ""),
    ("runs", lambda row: len(row[1]), "d"),
    ("typical error", lambda row: median(abs(c.error) for c in row[1]), ".0%"),
    ("worst error", lambda row: "{0.error:+.0%} ({0.sizes})".format(max(row[1], key=lambda c: abs(c.error))), ">"),
]
WHOLE: list[Column] = [
    ("run", lambda c: f"{c.run.stage.removeprefix('whole ')}, {c.run.tasks} worker{'s' * (c.run.tasks > 1)}", ""),
    ("sizes", "sizes", ""),
    ("measured", lambda c: time(c.run.seconds), ">"),
    ("predicted", lambda c: time(c.predicted), ">"),
    ("error", "error", "+.0%"),
]


def predictions(model: Model) -> dict[str, list[Prediction]]:
    """The billion rows: on workers with the default per_task and with a chosen one, and on GPUs."""
    cases = [case_of(*s) for s in SIZES]
    return {
        "workers": [model.on(c, WORKERS) for c in cases],
        "workers, 8 files each": [model.on(in_files(c, WORKERS), WORKERS) for c in cases],
        "gpus": [model.on_gpus(c) for c in cases],
    }


def predicted(some: Sequence[Prediction]) -> str:
    def said(p: Prediction, i: int) -> str:
        """With what the stage waits for, where that matters."""
        s = p.stages[i]
        return time(s.seconds) + (f" ({s.bound})" if s.seconds > 0.05 * p.seconds else "")

    rows: list[tuple[str, Callable[[Prediction], str]]] = [
        *((s.name, lambda p, i=i: said(p, i)) for i, s in enumerate(some[0].stages)),
        ("**total**", lambda p: f"**{time(p.seconds)}**"),
        ("largest stage", lambda p: f"{p.dominant.name}, {p.dominant.seconds / p.seconds:.0%}"),
        ("bytes moved", lambda p: size(p.network)),
        ("memory of the client", lambda p: size(p.client_bytes)),
        ("memory of a worker", lambda p: size(p.worker_bytes)),
    ]
    columns = [(f"M_k = {m}, M_* = {s:,}", lambda row, i=i: row[1](some[i]), ">") for i, (m, s) in enumerate(SIZES)]
    return table([("", lambda row: row[0], ""), *columns], rows)


KINDS: dict[str, dict[str, Any]] = {
    **{f"σ = {s}" if s else "nothing": {"sigma": s} for s in SIGMAS},
    f"{SLOW:.0%} of workers 3 × slower": {"slow_share": SLOW},
    f"{SLOW:.0%} slower, second copies": {"slow_share": SLOW, "copies": True},
    f"{SLOW:.0%} slower, σ = 1.0": {"slow_share": SLOW, "sigma": 1.0},
    f"{SLOW:.0%} slower, σ = 1.0, second copies": {"slow_share": SLOW, "sigma": 1.0, "copies": True},
    "σ = 1.0 by hiccups, second copies": {"sigma": 1.0, "hiccups": True, "copies": True},
}
LOST = {
    f"{'files' if files else 'no files'}: {each}": {"per_worker": each, "sigma": SIGMAS[1], "files": files}
    for files in (True, False)
    for each in (2, 8, 32)
}


def mean_of(outcomes: Sequence[Outcome], wanted: dict[str, Any]) -> Outcome | None:
    """Over seeds, of the setting that is as usual but for these; None where it was not simulated."""
    setting = Setting(scheduling=SCHEDULING)._replace(**wanted)
    some = [o for o in outcomes if o.setting._replace(seed=0) == setting]
    return Outcome(setting, *(fmean(numbers) for numbers in list(zip(*some, strict=True))[1:])) if some else None


def simulated(outcomes: Sequence[Outcome]) -> dict[str, str]:
    def ratio(**wanted: Any) -> str:
        o = mean_of(outcomes, wanted)
        return "" if o is None else f"> {GIVEN_UP:g}" if o.given_up else f"{o.relative:.2f}"

    def repeated(rate: float) -> str:
        o = mean_of(outcomes, LOST["no files: 8"] | {"losses": rate})
        return "" if o is None else f"{o.repeated:,.0f} of {8 * WORKERS:,}"

    tasks = [(str(c), lambda kind, c=c: ratio(per_worker=c, **KINDS[kind]), ">") for c in PER_WORKER]
    losses = [(title, lambda rate, kind=kind: ratio(losses=rate, **kind), ">") for title, kind in LOST.items()]
    hourly: list[Column] = [("losses per hour", "{:g}".format, ""), *losses, ("fits repeated", repeated, ">")]
    return {
        "simulated": table([("tasks for each worker", str, ""), *tasks], KINDS),
        "losses": table(hourly, LOSSES),
    }


def values(found: Measured) -> dict[str, dict[str, str]]:
    model = modelled(found)
    # every run that the model was fitted to, by stage
    runs = {s: [Compared(r, seconds(model.rates, r)) for r in found.runs if r.stage == s] for s in WORK}
    stages = [(stage, some, model.rates[stage]) for stage, some in runs.items() if some]
    fitted = {"stages": table(STAGES, stages), "whole": table(WHOLE, held_out(found, model))}
    large = {name: predicted(some) for name, some in predictions(model).items()}
    return {"scaling.md": fitted | large | (simulated(found.simulated) if found.simulated else {})}


def figures(found: Measured) -> dict[str, Figure]:
    """Time against the numbers of modules and of workers."""
    model = modelled(found)
    modules, workers = ([round(v) for v in np.geomspace(*ends, 41)] for ends in ((1e3, 1e7), (1, 1e4)))
    return {
        "scaling-modules.png": _growth(model, "modules of 1,000 rows", modules, [(k, WORKERS) for k in modules]),
        "scaling-workers.png": _growth(model, "workers", workers, [(MODULES, w) for w in workers]),
    }


def _growth(model: Model, label: str, x: Sequence[int], sizes: Sequence[tuple[int, int]]) -> Figure:
    words = {"yticks": [1, 60, 3600, 86400, 30 * 86400], "yticklabels": ["second", "minute", "hour", "day", "month"]}
    axes = {"xscale": "log", "yscale": "log", "xlabel": label, **words, "ylim": (0.1, 3e7)}
    panels = []
    for points, inducing in (SIZES[0], SIZES[-1]):
        cases = [(case_of(points, inducing, k), w) for k, w in sizes]
        chosen, default = [model.on(in_files(c, w), w) for c, w in cases], [model.on(*c).seconds for c in cases]
        stages = zip(*(p.stages for p in chosen), strict=True)
        series = [(some[0].name, x, [s.seconds for s in some], {}) for some in stages]
        series.append(("total", x, [p.seconds for p in chosen], {"color": style.BLACK, "linewidth": 2.2}))
        series.append(("total, 64 fits in a task", x, default, {"color": style.BLACK, "linestyle": "--"}))
        panels.append((series, axes | {"title": f"{points} points in a module, {inducing:,} in the merged model"}))
    return figure(panels, 2, (5, 4))

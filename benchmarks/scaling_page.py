"""Tables, numbers and figures of docs/scaling.md, from what benchmarks/scaling.py has measured and simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import scaling_model as cost
from pages import Column, table
from scaling_model import WORK, Case, Machine, Prediction, Rates, Run, file_bytes, rounds, seconds
from scaling_simulation import GIVEN_UP, LOSSES, PER_WORKER, SCHEDULING, SIGMAS, SLOW, Outcome, Setting, ideal

MODULES, ROWS, WORKERS, GPUS = 1_000_000, 1000, 100, 8
SIZES = ((16, 512), (64, 512), (16, 4096), (64, 4096))  # M_k, M_*
TASKS_EACH = 8  # files for each worker, where per_task is chosen and not left alone
SERVER = 1.25e9  # bytes per second of the shared folder
COLOURS = ("#1b5e9c", "#8c8c8c", "#6aa56a", "#d1611c", "#b08bc9", "#c9a227")


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

    def cpu_workers(self, count: int) -> Machine:
        return Machine(count, self.rates)

    def gpus(self, count: int) -> Machine:
        """Of one machine: each keeps its part of the modules, and what they say to each other stays inside."""
        return Machine(count, self.gpu, 2e10, SERVER, 5e-5, scheduled=False, remembered=1e11)

    def of(self, case: Case, machine: Machine) -> Prediction:
        return cost.predict(case, machine, self.fit_evaluations, self.member_bytes)

    def on(self, case: Case, workers: int) -> Prediction:
        return self.of(case, self.cpu_workers(workers))

    def one(self, stage: str, points: int = 0) -> float:
        """Seconds of one fit."""
        return seconds(self.rates, Run(stage, 0.0, 1, ROWS, points, evaluations=self.fit_evaluations))

    def client(self, modules: float) -> float:
        """Seconds of the client's own work."""
        list_rates, each = self.rates["client"], rounds(Case(1, 1, 1, 1).evaluations).total
        return list_rates["merge"] + (list_rates["module"] + each * self.rates["leaves"]["module"]) * modules


def modelled(found: Measured) -> Model:
    rates, evaluations = cost.fitted(found.runs), fmean(r.evaluations for r in found.runs if r.stage == "fit")
    members = max(r.bytes / r.modules for r in found.runs if r.stage == "client")
    return Model(rates, cost.on_gpu(rates, cost.gpu_rates(found.gpu, evaluations)), evaluations, members)


def in_files(case: Case, files: int) -> Case:
    return case._replace(per_task=max(1, -(-case.modules // files)))


def best(model: Model, case: Case, workers: int) -> Prediction:
    """With the number of files that the model likes best, at most eight for each worker."""
    files = [TASKS_EACH * workers]
    while files[-1] > cost.CHILDREN:
        files.append(files[-1] // 2)
    return min((model.on(in_files(case, count), workers) for count in files), key=lambda p: p.seconds)


def case_of(points: int, inducing: int, modules: int = MODULES) -> Case:
    return Case(modules, ROWS, points, inducing)


# --- words for numbers ------------------------------------------------------------------------


def time(s: float) -> str:
    if s < 0.0095:
        return f"{1000 * s:.2g} ms"
    for most, unit, name in ((99.5, 1, "s"), (5970, 60, "min"), (3600 * 99.5, 3600, "h")):
        if s < most:
            return f"{s / unit:.2g} {name}"
    return f"{s / 86400:,.0f} days"


def about(v: float) -> str:
    """Two digits, and no exponent."""
    return f"{float(f'{v:.2g}'):,.0f}"


def size(b: float) -> str:
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if b >= unit:
            return f"{b / unit:.3g} {name}" if b < 999.5 * unit else f"{b / unit:,.0f} {name}"
    return f"{b:.0f} B"


# --- measured and predicted -------------------------------------------------------------------


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


def compared(found: Measured, model: Model) -> dict[str, list[Compared]]:
    """Every run that the model was fitted to, by stage."""
    return {s: [Compared(r, seconds(model.rates, r)) for r in found.runs if r.stage == s] for s in WORK}


def held_out(found: Measured, model: Model) -> list[Compared]:
    """Whole runs on a cluster of this machine, which it was not fitted to."""
    answers = []
    for r in found.runs:
        if r.stage.startswith("whole"):
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


def fit_values(found: Measured, model: Model) -> dict[str, str]:
    each, whole = compared(found, model), held_out(found, model)
    errors = [abs(c.error) for some in each.values() for c in some]
    longer = [1 / (1 + c.error) for c in whole]
    return {
        "runs": str(len(errors)),
        "half": f"{median(errors):.0%}",
        "nine in ten": f"{np.quantile(errors, 0.9):.0%}",
        "worst": f"{max(errors):.0%}",
        "stages": table(STAGES, [(stage, some, model.rates[stage]) for stage, some in each.items() if some]),
        "longer": f"{min(longer):.1f} to {max(longer):.1f}",
        "whole": table(WHOLE, whole),
    }


# --- predictions ------------------------------------------------------------------------------


def predictions(model: Model) -> dict[str, list[Prediction]]:
    """The billion rows: on workers with the default per_task and with a chosen one, and on GPUs."""
    cases, gpus = [case_of(*s) for s in SIZES], model.gpus(GPUS)
    return {
        "workers": [model.on(c, WORKERS) for c in cases],
        "workers, 8 files each": [model.on(in_files(c, TASKS_EACH * WORKERS), WORKERS) for c in cases],
        "gpus": [model.of(c, gpus) for c in cases],
    }


def predicted(some: Sequence[Prediction]) -> str:
    def said(p: Prediction, i: int) -> str:
        """With what the stage waits for, where it matters."""
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


def ladder(low: float, high: float, steps: int = 97) -> list[int]:
    return sorted({round(v) for v in np.geomspace(low, high, steps)})


def first(some: Iterable[int], test: Callable[[int], bool]) -> str:
    """From where on it is so."""
    return next((about(v) for v in some if test(v)), "more than we looked at")


def predicted_values(model: Model) -> dict[str, str]:
    made = predictions(model)
    default, chosen, gpus = made.values()
    small, wide, large = case_of(16, 512), case_of(64, 512), case_of(64, 4096)
    many, each = ladder(1, 10_000), rounds(small.evaluations).total

    def waits(p: Prediction) -> bool:
        """Learning, for something else than arithmetic."""
        return next(s for s in p.stages if s.name == "learning").bound != "compute"

    fastest = min(many, key=lambda w: best(model, small, w).seconds * (1 + 1e-4 * w))
    stored = file_bytes(MODULES, 64)
    shares = [p.stages[0].seconds / p.seconds for p in chosen]
    rates, member = model.rates, model.member_bytes
    return {
        **{name: predicted(some) for name, some in made.items()},
        "small": time(default[0].seconds),
        "small, 8 files each": time(chosen[0].seconds),
        "large": time(chosen[-1].seconds),
        "gpus, small": time(gpus[0].seconds),
        "gpus, large": time(gpus[-1].seconds),
        "fits, small": f"{shares[0]:.0%}",
        "fits, large": f"{shares[-1]:.1%}",
        "a fit": time(model.one("fit", 16)),
        "exact": time(model.one("exact fit")),
        "all exact": time(model.one("exact fit") * MODULES / WORKERS),
        "scheduler waits": first(many, lambda w: waits(model.on(small, w))),
        "tasks per second": about(1 / rates["cluster"]["task"]),
        "scheduler waits, 8 files each": first(many, lambda w: waits(model.on(in_files(small, TASKS_EACH * w), w))),
        "scheduler waits, large": first(many, lambda w: waits(model.on(in_files(large, TASKS_EACH * w), w))),
        "enough workers": about(fastest),
        "fastest": time(best(model, small, fastest).seconds),
        "stored": size(stored),
        "read": size(stored * each),
        "reading": time(stored * each / SERVER),
        "folder waits": first(many, lambda w: waits(model.on(in_files(wide, TASKS_EACH * w), w))),
        "reading, 16 points": time(file_bytes(MODULES, 16) * each / SERVER),
        "members": time(rates["client"]["module"] * 1e6),
        "member bytes": size(member * 1e6),
        "before each": time(rates["leaves"]["module"] * 1e6),
        "ten million": time(model.client(10**7)),
        "ten million bytes": size(1e7 * member),
        "full": about(64e9 / member),
        "an hour": first(ladder(1e3, 1e10), lambda k: model.client(k) > 3600),
        "arithmetic": time(chosen[-1].seconds),
        "answer": size(cost.message_bytes(4096)),
    }


# --- the simulation ---------------------------------------------------------------------------


def mean_of(outcomes: Sequence[Outcome], **wanted: Any) -> Outcome | None:
    """Over seeds, of the setting that is as usual but for these; None where it was not simulated."""
    setting = Setting(scheduling=SCHEDULING)._replace(**wanted)
    some = [o for o in outcomes if o.setting._replace(seed=0) == setting]
    if not some:
        return None
    lost, repeated, copied = (round(fmean(o[i] for o in some)) for i in (2, 3, 4))
    return Outcome(setting, fmean(o.seconds for o in some), lost, repeated, copied)


KINDS: dict[str, dict[str, Any]] = {
    **{f"σ = {s}" if s else "nothing": {"sigma": s} for s in SIGMAS},
    f"{SLOW:.0%} of workers 3 × slower": {"slow_share": SLOW},
    f"{SLOW:.0%} slower, second copies": {"slow_share": SLOW, "copies": True},
    f"{SLOW:.0%} slower, σ = 1.0": {"slow_share": SLOW, "sigma": 1.0},
    f"{SLOW:.0%} slower, σ = 1.0, second copies": {"slow_share": SLOW, "sigma": 1.0, "copies": True},
    "σ = 1.0 by hiccups, second copies": {"sigma": 1.0, "hiccups": True, "copies": True},
}


def ratio(o: Outcome | None) -> str:
    """Of a makespan and the ideal, as it is written."""
    return "" if o is None else f"> {GIVEN_UP:g}" if o.given_up else f"{o.relative:.2f}"


def simulated_values(outcomes: Sequence[Outcome]) -> dict[str, str]:
    def at(form: str = ".2f", **wanted: Any) -> str:
        o = mean_of(outcomes, **wanted)
        return "–" if o is None else format(o.relative, form)

    def lost(rate: float, each: int, files: bool) -> Outcome | None:
        return mean_of(outcomes, per_worker=each, sigma=SIGMAS[1], losses=rate, files=files)

    def repeated(rate: float) -> str:
        o = lost(rate, 8, False)
        return "" if o is None else f"{o.repeated:,} of {8 * WORKERS:,}"

    def longer(files: bool) -> str:
        with_losses, without = lost(1.0, 8, files), lost(0.0, 8, True)
        return "–" if with_losses is None or without is None else f"{with_losses.seconds / without.seconds:.2f}"

    tasks = [(str(c), lambda kind, c=c: ratio(mean_of(outcomes, per_worker=c, **KINDS[kind])), ">") for c in PER_WORKER]
    losses = [
        (title, lambda rate, c=c, files=files: ratio(lost(rate, c, files)), ">")
        for files, titles in ((True, ("files: 2", "8", "32")), (False, ("no files: 2", "8", "32")))
        for c, title in zip((2, 8, 32), titles, strict=True)
    ]
    hiccups = {"per_worker": 8, "sigma": 1.0, "hiccups": True}
    return {
        "ideal": time(ideal(Setting())),
        "seeds": str(len({o.setting.seed for o in outcomes})),
        "simulated": table([("tasks for each worker", str, ""), *tasks], KINDS),
        "losses": table(
            [("losses per hour", lambda rate: f"{rate:g}", ""), *losses, ("fits repeated", repeated, ">")], LOSSES
        ),
        "slow, 1": at(".1f", per_worker=1, slow_share=SLOW),
        "slow, 8": at(per_worker=8, slow_share=SLOW),
        "noise, 1": at(".1f", per_worker=1, sigma=1.0),
        "noise, 8": at(".1f", per_worker=8, sigma=1.0),
        "noise, 32": at(per_worker=32, sigma=1.0),
        "slow, 4": at(per_worker=4, slow_share=SLOW),
        "slow, 4, copies": at(per_worker=4, slow_share=SLOW, copies=True),
        "hiccups": at(**hiccups),
        "hiccups, copies": at(**hiccups, copies=True),
        "losses, files": longer(True),
        "losses, no files": longer(False),
    }


def values(found: Measured) -> dict[str, dict[str, str]]:
    model = modelled(found)
    simulated = simulated_values(found.simulated) if found.simulated else {}
    return {"scaling.md": fit_values(found, model) | predicted_values(model) | simulated}


# --- the figures ------------------------------------------------------------------------------


def figures(found: Measured) -> dict[str, Figure]:
    model, modules, workers = modelled(found), ladder(1e3, 1e7, 41), ladder(1, 1e4, 49)
    drawn = {
        "scaling-fit.png": _fit_figure(found, model),
        "scaling-modules.png": _growth_figure(model, "modules of 1,000 rows", [(k, WORKERS) for k in modules]),
        "scaling-workers.png": _growth_figure(model, "workers", [(MODULES, w) for w in workers]),
    }
    return drawn | ({"scaling-simulation.png": _simulation_figure(found.simulated)} if found.simulated else {})


def _fit_figure(found: Measured, model: Model) -> Figure:
    drawn = Figure(figsize=(6.2, 4.6), layout="constrained")
    ax = drawn.subplots()
    look = {"color": "black", "markersize": 8, "fillstyle": "none", "alpha": 1}
    series = [(stage, some, {"color": f"C{i}"}) for i, (stage, some) in enumerate(compared(found, model).items())]
    series.append(("whole runs, not fitted", held_out(found, model), look))
    for marker, (name, some, how) in zip("osD^v<>PX*s", series, strict=True):
        x, y = [c.run.seconds for c in some], [c.predicted for c in some]
        ax.plot(x, y, marker, label=name, linestyle="none", **{"markersize": 5, "alpha": 0.8, **how})
    measured = [r.seconds for r in found.runs]
    ends = np.array([min(measured) / 2, 2 * max(measured)])
    ax.plot(ends, ends, color="#888888", linewidth=1)
    ax.fill_between(ends, ends / 2, ends * 2, color="#dddddd", alpha=0.5, linewidth=0, label="within a factor of 2")
    ax.set(xscale="log", yscale="log", xlabel="measured, s", ylabel="predicted, s")
    ax.legend(fontsize=7, loc="upper left")
    return drawn


def _parts(ax: Any, x: Sequence[float], some: Sequence[Prediction], others: Sequence[Prediction], words: bool) -> None:
    for i, name in enumerate(s.name for s in some[0].stages):
        ax.plot(x, [p.stages[i].seconds for p in some], color=COLOURS[i], label=name, linewidth=1.4)
    ax.plot(x, [p.seconds for p in some], color="black", linewidth=2.2, label="total")
    ax.plot(x, [p.seconds for p in others], "--", color="black", linewidth=1.2, label="total, per_task = 64")
    ax.set(xscale="log", yscale="log")
    low, high = 0.1, 3e7
    ax.set_ylim(low, high)
    for at, word in ((60, "minute"), (3600, "hour"), (86400, "day"), (30 * 86400, "month")):
        ax.axhline(at, color="#cccccc", linewidth=0.7, zorder=0)
        if words:
            where = {"xycoords": ax.get_yaxis_transform(), "annotation_clip": False}
            ax.annotate(word, (1.02, at), fontsize=8, color="#777777", va="center", **where)


def _growth_figure(model: Model, label: str, sizes: Sequence[tuple[int, int]]) -> Figure:
    """Time against the numbers of modules and workers, one of which is always the same."""
    drawn = Figure(figsize=(9.2, 4.0), layout="constrained")
    growing = 0 if sizes[0][0] != sizes[-1][0] else 1
    for ax, (points, inducing) in zip(drawn.subplots(1, 2, sharey=True), (SIZES[0], SIZES[-1]), strict=True):
        cases = [(case_of(points, inducing, k), w) for k, w in sizes]
        chosen, default = [best(model, *c) for c in cases], [model.on(*c) for c in cases]
        _parts(ax, [s[growing] for s in sizes], chosen, default, inducing > 512)
        same = "10⁶ modules" if growing else f"{WORKERS} workers"
        ax.set_title(f"M_k = {points}, M_* = {inducing:,}; {same}", fontsize=10)
        ax.set_xlabel(label)
    drawn.axes[0].set_ylabel("seconds")
    drawn.axes[growing].legend(fontsize=7, loc="lower left" if growing else "upper left")
    return drawn


def _simulation_figure(outcomes: Sequence[Outcome]) -> Figure:
    drawn = Figure(figsize=(9.2, 3.8), layout="constrained")
    left, right = drawn.subplots(1, 2)
    for i, (name, kind) in enumerate(KINDS.items()):
        some = [o for c in PER_WORKER if (o := mean_of(outcomes, per_worker=c, **kind)) is not None]
        x, y = [o.setting.per_worker for o in some], [o.relative for o in some]
        left.plot(x, y, "o--" if kind.get("copies") else "o-", color=f"C{i}", label=name, markersize=3.5, linewidth=1.3)
    left.set(xscale="log", yscale="log", xlabel="tasks for each worker", ylabel="makespan / ideal")
    left.set_xticks(PER_WORKER, [str(c) for c in PER_WORKER], minor=False)
    left.set_xticks([], minor=True)
    ticks = (1, 1.5, 2, 3, 5, 10)
    left.set_yticks(ticks, [f"{t:g}" for t in ticks])
    left.set_yticks([], minor=True)
    left.legend(fontsize=6.5)
    for files, colour in ((True, "#1b5e9c"), (False, "#d1611c")):
        for c, style in zip((2, 8, 32), ("o:", "o-", "o--"), strict=True):
            found = [mean_of(outcomes, per_worker=c, sigma=SIGMAS[1], losses=r, files=files) for r in LOSSES]
            label = f"{'files' if files else 'no files'}, {c} tasks each"
            rates = [r for r, o in zip(LOSSES, found, strict=True) if o is not None and not o.given_up]
            ended = [o.relative for o in found if o is not None and not o.given_up]
            right.plot(rates, ended, style, color=colour, label=label, markersize=3.5)
    right.set(yscale="log", xlabel="losses of each worker, per hour", ylabel="makespan / ideal")
    right.set_yticks([*ticks, 15], [f"{t:g}" for t in (*ticks, 15)])
    right.set_yticks([], minor=True)
    right.legend(fontsize=7)
    return drawn

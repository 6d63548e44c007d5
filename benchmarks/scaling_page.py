"""docs/scaling.md, from what benchmarks/scaling.py has measured and simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from scaling_model import (
    CHILDREN,
    WORK,
    Case,
    Machine,
    Prediction,
    Rates,
    Run,
    file_bytes,
    fitted,
    gpu_rates,
    leaves,
    message_bytes,
    on_gpu,
    predict,
    rounds,
    seconds,
)
from scaling_simulation import GIVEN_UP, LOSSES, PER_WORKER, SCHEDULING, SIGMAS, SLOW, Outcome, Setting, ideal
from scaling_text import ASSUMED, CHANGES, COUNTED, HEAD, SIMULATED

MODULES, ROWS, WORKERS, GPUS = 1_000_000, 1000, 100, 8
SIZES = ((16, 512), (64, 512), (16, 4096), (64, 4096))  # M_k, M_*
TASKS_EACH = 8  # files for each worker, where per_task is chosen and not left alone
WIDTH = 118  # of a line of the page


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
        return Machine(f"{count} workers", count, self.rates)

    def gpus(self, count: int) -> Machine:
        """Of one machine: each keeps its part of the modules, and what they say to each other stays inside."""
        return Machine(f"{count} GPUs", count, self.gpu, 2e10, 1.25e9, 5e-5, scheduled=False, remembered=1e11)

    def of(self, case: Case, machine: Machine) -> Prediction:
        return predict(case, machine, self.fit_evaluations, self.member_bytes)


def modelled(found: Measured) -> Model:
    rates = fitted(found.runs)
    fits = [r.evaluations for r in found.runs if r.stage == "fit"]
    evaluations = sum(fits) / len(fits)
    members = [r.bytes / r.modules for r in found.runs if r.stage == "client"]
    return Model(rates, on_gpu(rates, gpu_rates(found.gpu, evaluations)), evaluations, max(members))


def eight_each(case: Case, workers: int) -> Case:
    """As many files as give each worker eight."""
    return case._replace(per_task=max(1, -(-case.modules // (TASKS_EACH * workers))))


def best(model: Model, case: Case, workers: int) -> Prediction:
    """With the number of files that the model likes best, at most eight for each worker."""
    machine, files = model.cpu_workers(workers), [TASKS_EACH * workers]
    while files[-1] > CHILDREN:
        files.append(files[-1] // 2)
    cases = [case._replace(per_task=max(1, -(-case.modules // count))) for count in files]
    return min((model.of(c, machine) for c in cases), key=lambda p: p.seconds)


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


def wrapped(text: str) -> str:
    return fill(" ".join(text.split()), WIDTH, subsequent_indent="  " if text.startswith("- ") else "")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * left + "--:|" * (len(head) - left)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


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


def compared(found: Measured, model: Model) -> list[Compared]:
    """Every run that the model was fitted to."""
    return [Compared(r, seconds(model.rates, r)) for r in found.runs if r.stage in WORK]


def held_out(found: Measured, model: Model) -> list[Compared]:
    """Whole runs on a cluster of this machine, which it was not fitted to."""
    answers = []
    for r in found.runs:
        if r.stage.startswith("whole"):
            case = Case(r.modules, r.rows, r.points, r.inducing, round(r.evaluations))
            first, *rest = model.of(case, model.cpu_workers(r.tasks)).stages
            answers.append(Compared(r, first.seconds if r.stage == "whole fit" else sum(s.seconds for s in rest)))
    return answers


def stage_rows(found: Measured, model: Model) -> list[list[str]]:
    rows = []
    for stage in WORK:
        some = [c for c in compared(found, model) if c.run.stage == stage]
        if some:
            worst = max(some, key=lambda c: abs(c.error))
            typical = median(abs(c.error) for c in some)
            rates = "; ".join(f"{v:.2g} per {k}" for k, v in model.rates[stage].items() if v)
            rows.append([stage, rates, str(len(some)), f"{typical:.0%}", f"{worst.error:+.0%} ({worst.sizes})"])
    return rows


def whole_rows(found: Measured, model: Model) -> list[list[str]]:
    return [
        [
            f"{c.run.stage.removeprefix('whole ')}, {c.run.tasks} worker{'s' if c.run.tasks > 1 else ''}",
            c.sizes,
            time(c.run.seconds),
            time(c.predicted),
            f"{c.error:+.0%}",
        ]
        for c in held_out(found, model)
    ]


# --- predictions ------------------------------------------------------------------------------


def predictions(model: Model) -> dict[str, list[Prediction]]:
    """The billion rows: on workers with the default per_task and with a chosen one, and on GPUs."""
    cases = [case_of(*s) for s in SIZES]
    workers, gpus = model.cpu_workers(WORKERS), model.gpus(GPUS)
    return {
        f"{WORKERS} workers of one core, `per_task` 64 (the default)": [model.of(c, workers) for c in cases],
        f"{WORKERS} workers of one core, `per_task` 1,250": [model.of(eight_each(c, WORKERS), workers) for c in cases],
        f"{GPUS} GPUs of one machine": [model.of(c, gpus) for c in cases],
    }


PREDICTED = ("", *(f"M_k = {m}, M_* = {s:,}" for m, s in SIZES))


def predicted_rows(some: Sequence[Prediction]) -> list[list[str]]:
    rows = []
    for parts in zip(*(p.stages for p in some), strict=True):
        texts = [
            time(s.seconds) + (f" ({s.bound})" if s.seconds > 0.05 * p.seconds else "")
            for s, p in zip(parts, some, strict=True)
        ]
        rows.append([parts[0].name, *texts])
    return [
        *rows,
        ["**total**", *(f"**{time(p.seconds)}**" for p in some)],
        ["largest stage", *(f"{p.dominant.name}, {p.dominant.seconds / p.seconds:.0%}" for p in some)],
        ["bytes moved", *(size(p.network) for p in some)],
        ["memory of the client", *(size(p.client_bytes) for p in some)],
        ["memory of a worker", *(size(p.worker_bytes) for p in some)],
    ]


def crossing(values: Sequence[int], test: Callable[[int], bool]) -> int | None:
    """The first for which it is so."""
    return next((v for v in values if test(v)), None)


def ladder(low: float, high: float, steps: int = 97) -> list[int]:
    return sorted({round(v) for v in np.geomspace(low, high, steps)})


def bottlenecks(model: Model) -> list[str]:
    """What limits what, and from where on."""
    small, wide, large = case_of(16, 512), case_of(64, 512), case_of(64, 4096)
    count, reductions = leaves(small), rounds(small.evaluations).total
    many = ladder(1, 10_000)

    def limited(case: Case, by: str = "") -> str:
        """From how many workers on learning waits for something else than arithmetic; with eight files for each."""

        def so(w: int) -> bool:
            stages = model.of(case if by == "default" else eight_each(case, w), model.cpu_workers(w)).stages
            return next(s for s in stages if s.name == "learning").bound != "compute"

        found = crossing(many, so)
        return "more than 10,000" if found is None else about(found)

    fastest = min(many, key=lambda w: best(model, small, w).seconds * (1 + 1e-4 * w))
    files, read = file_bytes(MODULES, 64), 1.25e9
    again = files * reductions / read
    hour = crossing(ladder(1e3, 1e10), lambda k: _client(model, small, k) > 3600)
    p = model.of(eight_each(large, WORKERS), model.cpu_workers(WORKERS))
    said = [
        f"- **The scheduler**, from about {limited(small, 'default')} workers on, for 10⁶ modules at M_k = 16 and "
        f"M_* = 512 with the default `per_task`: {count:,} files are {count:,} tasks in each of {reductions} "
        f"reductions, and one scheduler hands out about {about(1 / model.rates['cluster']['task'])} tasks per "
        f"second. With {TASKS_EACH} files for each worker that point is reached at {limited(small)} workers, and at "
        f"M_k = 64 and M_* = 4,096 at {limited(large)}. Whatever `per_task` is, more than some {about(fastest)} "
        f"workers gain nothing in the small case: {time(best(model, small, fastest).seconds)}.",
        f"- **The shared folder.** A million modules of 64 points are {size(files)}. A worker remembers 64 MiB of "
        "what it has read, and whoever is free takes the next file, so that nearly all of it is read in each of "
        f"{reductions} reductions: {size(files * reductions)}, or {time(again)} from a server with 10 Gbit/s, "
        f"however many workers there are. At M_* = 512 learning waits for it from {limited(wide)} workers on. With "
        f"16 points it is {time(again * file_bytes(MODULES, 16) / files)} in all.",
        f"- **The client's list of members** takes {time(model.rates['client']['module'] * 1e6)} and "
        f"{size(model.member_bytes * 1e6)} for a million modules, and {time(model.rates['leaves']['module'] * 1e6)} "
        f"more before each reduction. At 10⁷ modules it is {time(_client(model, small, 10**7))} in all, and "
        f"{size(1e7 * model.member_bytes)}: memory is short before time is. 64 GB are reached at "
        f"{about(64e9 / model.member_bytes)} modules, an hour at {about(hour or 0)}.",
        f"- **Points.** Arithmetic grows as M_k·M_*²: with M_* = 4,096 instead of 512, {time(p.seconds)} on "
        f"{WORKERS} workers (M_k = 64) are arithmetic almost only, and an answer of a task is "
        f"{size(message_bytes(4096))}, of which a worker that joins holds {CHILDREN}. The choice of points is next: "
        "the top of its tree is work for one core after the other, which more workers do not make faster.",
    ]
    return ["\n".join(wrapped(s) for s in said)]


def _client(model: Model, case: Case, modules: int) -> float:
    each = model.rates["client"]["module"] + rounds(case.evaluations).total * model.rates["leaves"]["module"]
    return model.rates["client"]["merge"] + each * modules


def short(model: Model) -> list[str]:
    """The whole page in a few lines."""
    default, chosen, gpus = predictions(model).values()
    exact = seconds(model.rates, Run("exact fit", 0.0, 1, ROWS, evaluations=model.fit_evaluations))
    fit = seconds(model.rates, Run("fit", 0.0, 1, ROWS, 16, evaluations=model.fit_evaluations))
    said = [
        f"- 10⁹ rows in 10⁶ modules on {WORKERS} cores: **{time(default[0].seconds)}** with 16 points published and "
        f"M_* = 512, **{time(chosen[0].seconds)}** if a task has 1,250 modules and not 64; with 64 points and M_* = "
        f"4,096 **{time(chosen[-1].seconds)}**.",
        f"- On {GPUS} GPUs of one machine: **{time(gpus[0].seconds)}** and **{time(gpus[-1].seconds)}**, if their "
        "parts of the merge were computed there. **That code is not written**: engines fit where `device=` says, "
        "but reduce on CPUs.",
        f"- Fits are done once and are {chosen[0].stages[0].seconds / chosen[0].seconds:.0%} of the time in the "
        f"smallest case, {chosen[-1].stages[0].seconds / chosen[-1].seconds:.1%} in the largest. This is with "
        f'`method="collapsed"`: {time(fit)} for each module of 1,000 rows. The default for so few rows is an exact '
        f"fit, which takes {time(exact)}, and {time(exact * MODULES / WORKERS)} for all.",
        "- What stops first is the scheduler, by the number of tasks; then the folder, by being read again and "
        "again; the client's list of members only beyond 10⁷ modules. With many points it is arithmetic, and more "
        "workers help.",
    ]
    return [wrapped(s) for s in said]


# --- the simulation ---------------------------------------------------------------------------


def mean_of(outcomes: Sequence[Outcome], **wanted: Any) -> Outcome | None:
    """Over seeds, of the setting that is as usual but for these; None where it was not simulated."""
    setting = Setting(scheduling=SCHEDULING)._replace(**wanted)
    some = [o for o in outcomes if o.setting._replace(seed=0) == setting]
    if not some:
        return None
    count = len(some)
    return Outcome(
        setting,
        sum(o.seconds for o in some) / count,
        round(sum(o.lost for o in some) / count),
        round(sum(o.repeated for o in some) / count),
        round(sum(o.copied for o in some) / count),
    )


KINDS: dict[str, dict[str, Any]] = {
    **{f"σ = {s}" if s else "nothing": {"sigma": s} for s in SIGMAS},
    f"{SLOW:.0%} of workers 3 × slower": {"slow_share": SLOW},
    f"{SLOW:.0%} slower, second copies": {"slow_share": SLOW, "copies": True},
    f"{SLOW:.0%} slower, σ = 1.0": {"slow_share": SLOW, "sigma": 1.0},
    f"{SLOW:.0%} slower, σ = 1.0, second copies": {"slow_share": SLOW, "sigma": 1.0, "copies": True},
    "σ = 1.0 by hiccups, second copies": {"sigma": 1.0, "hiccups": True, "copies": True},
}


def simulated_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    rows = []
    for name, kind in KINDS.items():
        found = [mean_of(outcomes, per_worker=c, **kind) for c in PER_WORKER]
        rows.append([name, *map(ratio, found)])
    return rows


def ratio(o: Outcome | None) -> str:
    """Of a makespan and the ideal, as it is written."""
    if o is None:
        return ""
    return f"> {GIVEN_UP:g}" if o.given_up else f"{o.relative:.2f}"


def loss_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    rows = []
    for rate in LOSSES:
        row = [f"{rate:g}"]
        for files in (True, False):
            some = [mean_of(outcomes, per_worker=c, sigma=SIGMAS[1], losses=rate, files=files) for c in (2, 8, 32)]
            row += [ratio(o) for o in some]
            middle = some[1]
            if not files:
                row += ["" if middle is None else f"{middle.repeated:,} of {middle.setting.per_worker * 100:,}"]
        rows.append(row)
    return rows


# --- the page ---------------------------------------------------------------------------------


def tables(found: Measured) -> list[Table]:
    """For the terminal: every run, and the predictions."""
    model = modelled(found)
    runs = Table("stage", "sizes", "measured", "predicted", "error", title="Measured and predicted")
    for c in [*compared(found, model), *held_out(found, model)]:
        runs.add_row(c.run.stage, c.sizes, time(c.run.seconds), time(c.predicted), f"{c.error:+.0%}")
    shown = [runs]
    for name, some in predictions(model).items():
        table = Table(*PREDICTED, title=f"10⁹ rows in 10⁶ modules: {name.replace('`', '')}")
        for row in predicted_rows(some):
            table.add_row(*(cell.replace("**", "") for cell in row))
        shown.append(table)
    return shown


def page(found: Measured) -> str:
    model = modelled(found)
    parts = [HEAD.rstrip(), "\n".join(short(model)), COUNTED.strip()]
    parts += ["## Measured and predicted", wrapped(_fitted_text(found, model))]
    parts.append(markdown(("stage", "seconds", "runs", "typical error", "worst error"), stage_rows(found, model), 2))
    parts.append("![Seconds measured against seconds predicted](figures/scaling-fit.png)")
    parts.append(wrapped(_whole_text(found, model)))
    parts.append(markdown(("run", "sizes", "measured", "predicted", "error"), whole_rows(found, model), 2))
    parts.append("## A billion rows")
    parts.append(
        wrapped(
            f"10⁶ modules of 1,000 rows with two inputs, {rounds(40).total} reductions (40 evaluations). In brackets "
            "what each stage waits for, where it is more than a twentieth of the whole."
        )
    )
    for name, some in predictions(model).items():
        parts += [f"### {name[0].upper()}{name[1:]}", markdown(PREDICTED, predicted_rows(some))]
    parts += ["## What becomes the bottleneck, and when", *bottlenecks(model)]
    parts.append(
        wrapped(
            "The figures have as many files as the model likes best, at most eight for each worker; the dashed "
            "lines are the default."
        )
    )
    parts.append(f"![Time against the number of modules on {WORKERS} workers](figures/scaling-modules.png)")
    parts.append("![Time for a million modules against the number of workers](figures/scaling-workers.png)")
    parts.append(CHANGES.strip())
    parts.append(
        SIMULATED.format(ideal=time(ideal(Setting())), seeds=len({o.setting.seed for o in found.simulated})).strip()
    )
    parts.append(markdown(("tasks for each worker", *map(str, PER_WORKER)), simulated_rows(found.simulated)))
    parts.append("![What noise, slow workers and losses cost](figures/scaling-simulation.png)")
    parts.append(
        "Workers that are lost, each so many times an hour, with σ = 0.3: makespan with 2, 8 and 32 tasks for each "
        "worker, and\nhow many fits that had been done are done again (8 tasks for each worker)."
    )
    head = ("losses per hour", "files: 2", "8", "32", "no files: 2", "8", "32", "fits repeated")
    parts.append(markdown(head, loss_rows(found.simulated)))
    parts.append("\n".join(lessons(found.simulated)))
    parts.append(ASSUMED.strip())
    return "\n\n".join(parts) + "\n"


def _fitted_text(found: Measured, model: Model) -> str:
    errors = [abs(c.error) for c in compared(found, model)]
    return (
        f"{len(errors)} small runs on one core, each stage by itself, in seconds of the thread (those of the cluster "
        f"by the clock). Half of them are within {median(errors):.0%} of the model, nine in ten within "
        f"{np.quantile(errors, 0.9):.0%}, and the worst is off by {max(errors):.0%}. A rate of zero is not listed: "
        "the data did not ask for it."
    )


def _whole_text(found: Measured, model: Model) -> str:
    said = (
        "Whole runs on a cluster of one machine, by the clock. The model was **not** fitted to these. The machine "
        "has two cores and other work on them, so that two workers, a scheduler and a client do not get two cores. "
    )
    errors = [c.error for c in held_out(found, model)]
    if errors and max(errors) < 0:
        slowest, fastest = 1 / (1 + min(errors)), 1 / (1 + max(errors))
        said += (
            f"All of them took longer than predicted, {fastest:.1f} to {slowest:.1f} times as long: if the totals "
            "below are wrong, they are too small."
        )
    return said


def lessons(outcomes: Sequence[Outcome]) -> list[str]:
    """What the simulation says about per_task."""

    def at(**wanted: Any) -> float:
        o = mean_of(outcomes, **wanted)
        return float("nan") if o is None else o.relative

    said = [
        f"- **`per_task`: 8 to 32 tasks for each worker.** With one task each, {SLOW:.0%} of workers that are three "
        f"times slower make everything {at(per_worker=1, slow_share=SLOW):.1f} × longer, because every reduction "
        f"waits for them; with 8 it is {at(per_worker=8, slow_share=SLOW):.2f} ×, as who is slow takes fewer tasks. "
        "Noise of σ = 1.0 (one task in six takes 1.6 times the mean or more) costs "
        f"{at(per_worker=1, sigma=1.0):.1f} ×, {at(per_worker=8, sigma=1.0):.1f} × and "
        f"{at(per_worker=32, sigma=1.0):.2f} × with 1, 8 and 32 tasks. So `per_task` is K/(8 W) where modules are "
        "alike, and down to K/(32 W) where they are not: 1,250 to 312 for 10⁶ modules on 100 workers. The default "
        "makes 156 for each, which is right only where tasks are long (M_* = 4,096); otherwise the scheduler cannot "
        "keep up (above).",
        f"- **A second copy** escapes a slow worker where tasks are few ({at(per_worker=4, slow_share=SLOW):.2f} "
        f"without and {at(per_worker=4, slow_share=SLOW, copies=True):.2f} with it at four tasks each), and it "
        f"escapes hiccups ({at(per_worker=8, sigma=1.0, hiccups=True):.2f} and "
        f"{at(per_worker=8, sigma=1.0, hiccups=True, copies=True):.2f} at eight); where tasks are long because of "
        "their data it does nothing. Engines start none: smaller tasks do nearly as much.",
        "- **Files are what makes losses harmless.** At one loss per worker and hour (a hundred an hour in all) the "
        f"run is {at(per_worker=8, sigma=0.3, losses=1.0) / at(per_worker=8, sigma=0.3):.2f} × as long with files, "
        f"{at(per_worker=8, sigma=0.3, losses=1.0, files=False) / at(per_worker=8, sigma=0.3):.2f} × without: "
        "modules that are only in memory go with the worker, and every reduction waits until they are made again.",
    ]
    return [wrapped(s) for s in said]

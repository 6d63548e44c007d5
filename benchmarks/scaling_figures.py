"""The figures of docs/scaling.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments_page import shrink
from scaling_model import WORK, Prediction
from scaling_page import (
    KINDS,
    SIZES,
    WORKERS,
    Measured,
    Model,
    best,
    case_of,
    compared,
    held_out,
    ladder,
    mean_of,
    modelled,
)
from scaling_simulation import LOSSES, PER_WORKER, SIGMAS, Outcome

COLOURS = ("#1b5e9c", "#8c8c8c", "#6aa56a", "#d1611c", "#b08bc9", "#c9a227")


def figures(found: Measured, folder: Path) -> None:
    model = modelled(found)
    _saved(_fit_figure(found, model), folder / "scaling-fit.png")
    _saved(_growth_figure(model), folder / "scaling-modules.png")
    _saved(_workers_figure(model), folder / "scaling-workers.png")
    if found.simulated:
        _saved(_simulation_figure(found.simulated), folder / "scaling-simulation.png")


def _saved(drawn: Figure, file: Path) -> None:
    drawn.savefig(file, dpi=150)
    shrink(file, file)


def _fit_figure(found: Measured, model: Model) -> Figure:
    drawn = Figure(figsize=(6.2, 4.6), layout="constrained")
    ax = drawn.subplots()
    every, markers = compared(found, model), "osD^v<>PX*"
    for i, stage in enumerate(WORK):
        some = [c for c in every if c.run.stage == stage]
        x, y = [c.run.seconds for c in some], [c.predicted for c in some]
        ax.plot(x, y, markers[i], color=f"C{i}", label=stage, markersize=5, alpha=0.8)
    whole = held_out(found, model)
    ax.plot(
        [c.run.seconds for c in whole],
        [c.predicted for c in whole],
        "s",
        color="black",
        markersize=8,
        fillstyle="none",
        label="whole runs, not fitted",
    )
    ends = np.array([min(c.run.seconds for c in every) / 2, 2 * max(c.run.seconds for c in [*every, *whole])])
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


def _growth_figure(model: Model) -> Figure:
    counts = ladder(1e3, 1e7, 41)
    drawn = Figure(figsize=(9.2, 4.0), layout="constrained")
    machine = model.cpu_workers(WORKERS)
    for ax, (points, inducing) in zip(drawn.subplots(1, 2, sharey=True), (SIZES[0], SIZES[-1]), strict=True):
        cases = [case_of(points, inducing, k) for k in counts]
        chosen = [best(model, c, WORKERS) for c in cases]
        _parts(ax, counts, chosen, [model.of(c, machine) for c in cases], inducing > 512)
        ax.set_title(f"M_k = {points}, M_* = {inducing:,}; {WORKERS} workers", fontsize=10)
        ax.set_xlabel("modules of 1,000 rows")
    drawn.axes[0].set_ylabel("seconds")
    drawn.axes[0].legend(fontsize=7, loc="upper left")
    return drawn


def _workers_figure(model: Model) -> Figure:
    counts = ladder(1, 1e4, 49)
    drawn = Figure(figsize=(9.2, 4.0), layout="constrained")
    for ax, (points, inducing) in zip(drawn.subplots(1, 2, sharey=True), (SIZES[0], SIZES[-1]), strict=True):
        case = case_of(points, inducing)
        chosen = [best(model, case, w) for w in counts]
        _parts(ax, counts, chosen, [model.of(case, model.cpu_workers(w)) for w in counts], inducing > 512)
        ax.set_title(f"M_k = {points}, M_* = {inducing:,}; 10⁶ modules", fontsize=10)
        ax.set_xlabel("workers")
    drawn.axes[0].set_ylabel("seconds")
    drawn.axes[1].legend(fontsize=7, loc="lower left")
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

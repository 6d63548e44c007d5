"""When privacy is affordable: answers with a guarantee, beside the merge without one and each owner alone.

    python benchmarks/private_answers.py [--quick] [--json FILE]
    python benchmarks/private_answers.py --show FILE [--docs docs]
    python benchmarks/private_answers.py --round

Random functions, public plans that are right about them, δ = 10⁻⁶. "summed" is a secure sum, of which two thirds of the
owners are counted on to be honest; with "each" every owner adds all of its noise itself. `--docs` writes the tables and
the figure of docs/private-answers.md. `--round` takes the time of one secure sum of many owners, all in one process.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

import recyclegp as rgp
from jobs import done
from pages import RESULTS, Column, explain, publish, read, rounded, save, show, table, write
from recyclegp.experiments.figures import grid
from recyclegp.plot import style

DELTA, BOUND, NOISE = 1e-6, 3.0, 0.09
TESTED = 2000
FIGURE = "private-answers.png"


class Case(NamedTuple):
    inputs: int
    rows: int
    owners: int

    @property
    def said(self) -> str:
        return f"{self.inputs} input{'s' if self.inputs > 1 else ''}, {self.rows:,} rows, {self.owners} owners"


class Measured(NamedTuple):
    """Of one seed."""

    inputs: int
    rows: int
    owners: int
    seed: int
    epsilon: float | None  # None: no noise
    how: str  # summed, each; together, alone where there is no noise
    nlpd: float
    covered: float  # by bands of 95%
    width: float  # of these


ASKED = {  # excess over the merge without noise that may be lost: summed, each
    Case(1, 10_000, 10): (0.02, 0.05),
    Case(2, 100_000, 100): (0.06, 0.2),
}
DRAWN = tuple(Case(1, rows, 10) for rows in (1_000, 10_000, 100_000))
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FRESH, SHOWN = 100, 200  # where seeds of the one begin, and of the other
SEEDS, FEW = 10, 3  # of the first case that is asked for, and of what is dear or only drawn


def plan_of(inputs: int) -> rgp.Plan:
    """From public knowledge: the region, and how smooth the function is."""
    points = rgp.Plan.grid([0], [1], 12) if inputs == 1 else rgp.Plan.spread([0] * inputs, [1] * inputs, 40)
    length = "/".join([f"{_length(inputs)}"] * inputs)
    kernel = f"rbf(outputscale=1, lengthscale={length})"
    return rgp.Plan(points=points, kernel=kernel, noise=NOISE, learn=False)


def _length(inputs: int) -> float:
    return 0.2 if inputs == 1 else 0.3


def rows_of(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a random function with the plan's kernel, by random frequencies."""
    rng = np.random.default_rng([seed, *case])
    W, phase = rng.standard_normal((case.inputs, 500)) / _length(case.inputs), rng.uniform(0, 2 * np.pi, 500)
    height = rng.standard_normal(500) * np.sqrt(2 / 500)
    X = rng.uniform(0, 1, (case.rows + TESTED, case.inputs))
    f = np.concatenate([np.cos(part @ W + phase) @ height for part in np.array_split(X, 1 + len(X) // 5000)])
    return X, f + NOISE**0.5 * rng.standard_normal(len(X))


def measured(case: Case, seed: int, epsilons: Iterable[float]) -> list[Measured]:
    X, y = rows_of(case, seed)
    test, (X, y) = (X[case.rows :], y[case.rows :]), (X[: case.rows], y[: case.rows])
    plan, K = plan_of(case.inputs), case.owners
    parts = {f"owner-{i}": (X[i::K], y[i::K]) for i in range(K)}
    plain = [plan.contribute(*part, name=name, privacy="things", slopes=False) for name, part in parts.items()]
    found = [_asked(case, seed, None, "together", plan.combine(plain, keep="names")[0], test)]
    alone = [_asked(case, seed, None, "alone", plan.combine([one], keep="names")[0], test) for one in plain[:FEW]]
    mean = np.mean([own[-3:] for own in alone], 0)
    found.append(Measured(*case, seed, None, "alone", *map(float, mean)))
    for epsilon in epsilons:
        privacy = rgp.Privacy(epsilon=epsilon, delta=DELTA, bound=BOUND)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rgp.RecycleGPWarning)  # of the few rows that are clipped
            summed = [rgp.secure_round(plan, parts, privacy=privacy)]
            each = [plan.contribute(*part, name=name, privacy=privacy) for name, part in parts.items()]
        for how, answers in (("summed", summed), ("each", each)):
            found.append(_asked(case, seed, epsilon, how, plan.combine(answers, keep="names")[0], test))
    return found


def _asked(
    case: Case, seed: int, epsilon: float | None, how: str, e: rgp.Ensemble, test: tuple[np.ndarray, np.ndarray]
) -> Measured:
    X, y = test
    low, high = e.predict_interval(X, 0.95)
    nlpd, covered = float(-e.log_density(X, y).mean()), float(np.mean((low < y) & (y < high)))
    return Measured(*case, seed, epsilon, how, nlpd, covered, float(np.mean(high - low)))


def measure(quick: bool, processes: int) -> dict[str, Any]:
    few = 1 if quick else FEW
    first, dear = ASKED
    asked = [(measured, first, FRESH + seed, (1.0,)) for seed in range(few if quick else SEEDS)]
    asked += [] if quick else [(measured, dear, FRESH + seed, (1.0,)) for seed in range(few)]
    drawn = [(measured, case, SHOWN + seed, EPSILONS) for case in DRAWN[: 1 if quick else None] for seed in range(few)]
    rows = sorted((row for own in done([*asked, *drawn], processes) for row in own), key=lambda row: row[:4])
    run = {
        "version": rgp.__version__,
        "asked": [row._asdict() for row in rows if row.seed < SHOWN],
        "drawn": [row._asdict() for row in rows if row.seed >= SHOWN],
    }
    return rounded(run, ".5f")


def one_round(owners: int = 50, points: int = 256, rows: int = 10_000) -> str:
    """One secure sum from beginning to end, of all owners' work and the coordinator's; and the load."""
    rng = np.random.default_rng(FRESH)
    X = rng.uniform(0, 1, (rows, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + NOISE**0.5 * rng.standard_normal(rows)
    plan = rgp.Plan(
        points=rgp.Plan.spread([0, 0], [1, 1], points), kernel="rbf(outputscale=1, lengthscale=0.3/0.3)", noise=NOISE
    )
    parts = {f"owner-{i}": (X[i::owners], y[i::owners]) for i in range(owners)}
    load, wall, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
    answer = rgp.secure_round(plan, parts, privacy=rgp.Privacy(epsilon=1, delta=DELTA, bound=BOUND))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    said = answer.disclosure.guaranteed.words
    return f"{owners} owners, {points} points, {rows:,} rows: {wall:.1f} s, CPU {cpu:.1f} s, load {load:.1f}; {said}"


# --- the page -------------------------------------------------------------------------------------


def _of(rows: list[Mapping[str, Any]], case: Case, epsilon: float | None, how: str) -> np.ndarray:
    """(seeds, 3): NLPD, coverage and width."""
    return np.array(
        [
            [row["nlpd"], row["covered"], row["width"]]
            for row in rows
            if (row["inputs"], row["rows"], row["owners"]) == case and (row["epsilon"], row["how"]) == (epsilon, how)
        ]
    )


def accuracy(run: Mapping[str, Any]) -> str:
    lines = []
    for case, most in ASKED.items():
        base = _of(run["asked"], case, None, "together")
        for how, asked in zip(("summed", "each"), most, strict=True):
            own = _of(run["asked"], case, 1.0, how)
            if len(own):
                lost = own[:, 0] - base[:, 0]
                lines.append((case.said, how, len(own), lost.mean(), lost.max(), asked, own[:, 1].mean()))
    titles = ("case", "noise", "seeds", "nats lost", "most of any seed", "asked", "95% bands cover")
    forms = ("", "", "d", ".4f", ".4f", ".2f", ".3f")
    columns: list[Column] = [(title, lambda row, i=i: row[i], forms[i]) for i, title in enumerate(titles)]
    return table(columns, lines)


def affordable(run: Mapping[str, Any]) -> str:
    lines = []
    for case in DRAWN:
        base, alone = (_of(run["drawn"], case, None, how).mean(0) for how in ("together", "alone"))
        for how in ("summed", "each"):
            lost = [_of(run["drawn"], case, e, how).mean(0)[0] - base[0] for e in EPSILONS]
            lines.append((f"{case.rows:,}", how, *lost, alone[0] - base[0]))
    columns: list[Column] = [("rows", lambda row: row[0], ">"), ("noise", lambda row: row[1], "")]
    columns += [(f"ε = {e:g}", lambda row, i=i: row[2 + i], ".3f") for i, e in enumerate(EPSILONS)]
    return table([*columns, ("alone, no noise", lambda row: row[-1], ".3f")], lines)


def values(run: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {"private-answers.md": {"accuracy": accuracy(run), "affordable": affordable(run)}}


def picture(run: Mapping[str, Any]) -> Figure:
    """NLPD above, width of bands below; a column for each number of rows."""
    drawn = Figure(figsize=(11, 6.2), layout="constrained")
    axes = drawn.subplots(2, len(DRAWN), sharex=True, sharey="row")
    looks = {"summed": (style.BLUE, "o", "secure sum"), "each": (style.ORANGE, "s", "noise at each owner")}
    flat = {"together": (style.GREEN, "-", "merge without noise"), "alone": (style.PURPLE, "--", "each owner alone")}
    for column, case in zip(axes.T, DRAWN, strict=True):
        for ax, which in zip(column, (0, 2), strict=True):
            for how, (colour, marker, label) in looks.items():
                heights = [_of(run["drawn"], case, e, how).mean(0)[which] for e in EPSILONS]
                ax.plot(EPSILONS, heights, color=colour, marker=marker, label=label, linewidth=1.5, markersize=5)
            for how, (colour, dashes, label) in flat.items():
                height = _of(run["drawn"], case, None, how).mean(0)[which]
                ax.axhline(height, color=colour, linestyle=dashes, label=label, linewidth=1.3)
            ax.set_xscale("log", base=2)
            ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
            grid(ax, "y")
            style.tidy(ax)
        style.tidy(column[0], f"{case.rows:,} rows of {case.owners} owners")
        column[1].set_xlabel("ε (more private to the left)")
    axes[0, 0].set_ylabel("NLPD of fresh rows")
    axes[1, 0].set_ylabel("width of 95% bands")
    explain(drawn, axes[0, 0])
    return drawn


def pages() -> dict[str, dict[str, str]]:
    return values(read(RESULTS / "private-answers.json"))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few cases: no figures to quote")
    parser.add_argument("--round", action="store_true", help="the time of one secure sum, and nothing else")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="at once, of one thread each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write private-answers.md and its figure")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if asked.round:
        print(one_round())
        return
    run = read(asked.show) if asked.show else measure(asked.quick, asked.processes)
    if asked.json:
        write(asked.json, run)
    if asked.quick:
        print(accuracy(run))
        return
    show(values(run))
    if asked.docs:
        publish(asked.docs, values(run))
        save(picture(run), asked.docs / "figures" / FIGURE)


if __name__ == "__main__":
    main()

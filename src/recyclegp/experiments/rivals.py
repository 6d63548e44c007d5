"""All rivals that apply to a case, each as a row of its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import arrays
from ..baselines import central
from ..baselines.committee import Committee, communication_experts, exact_experts, module_experts
from ..baselines.experts import RULES, Combination, Predictions, combine
from ..baselines.mapreduce import mapreduce
from ..baselines.rival import Parts
from ..baselines.svgp import Training
from ..likelihoods import normal_quantile
from ..models.ensemble import Ensemble
from ..models.merge import merge
from ..models.module import Module
from . import ascents
from .core import Answered, Measured, Report, Row, answered, measured, published_bytes, timed
from .core import Held as Held

LABELS = {
    "poe": "PoE",
    "gpoe": "gPoE (1/K)",
    "gpoe-entropy": "gPoE (entropy)",
    "bcm": "BCM",
    "rbcm": "rBCM",
    "grbcm": "GRBCM",
}
ANSWERS = 2**22  # of all experts together, held at once

# what `gaussian_rivals` runs, unless told to leave it out, in the order of the table
KINDS = {
    "modules": "committees of the modules themselves",
    "own": "committees of exact experts with their own hyperparameters",
    "shared": "committees of exact experts with shared hyperparameters",
    "grbcm-own": "GRBCM with each expert's own hyperparameters",
    "grbcm-shared": "GRBCM with shared hyperparameters",
    "mapreduce": "map-reduce SGPR that learns its plan",
    "sgpr": "central SGPR",
    "svgp": "central SVGP",
    "exact": "the exact GP on all rows",
    "vem": "the paper's variational EM",
}


class Budget(NamedTuple):
    rows: int = 1000  # of each owner on which experts learn hyperparameters
    exact: int = 1000  # of all owners together, for the exact GP
    svgp: int = 1000  # steps
    vem: int = 500  # steps with the published rates: ten rounds of Algorithm 1
    vem_seconds: float = 30.0  # of either, and the only limit for L-BFGS


QUICK = Budget(rows=150, exact=400, svgp=150, vem=200, vem_seconds=4.0)
FULL = Budget()


def committees(case: str, committee: Committee, held: Held, *, seconds: float) -> list[Row]:
    """A row for each rule that these experts can follow. They answer once, for all rules."""
    points = arrays.aligned(held.X, committee.dimension, None)
    chunk = max(1, ANSWERS // len(committee.experts))
    rules = [r for r in RULES if (r == "grbcm") == (committee.communication is not None)]

    def answer() -> list[Predictions]:
        return [committee.answers(some) for some in points.split(chunk)]

    answers, answering = timed(answer)
    rows = []
    for rule in rules:
        made, combining = timed(partial(_combined, rule, answers))
        failed = int(made.failed.sum())
        row = answered(
            case,
            f"{LABELS[rule]}, {committee.name.replace('exact', 'exact experts')}",
            Answered(committee.likelihoods, (made.mean, made.variance)),
            points,
            held.y,
            held.f,
            held.likelihood,
            committee.sent.total(len(points)),
            seconds=seconds,
            note=f"no positive precision at {failed} of {len(points)} points: the prior there" if failed else "",
        )
        rows.append(row._replace(predict_seconds=answering + combining))
    return rows


def _combined(rule: str, answers: Sequence[Predictions]) -> Combination:
    return Combination(*(torch.cat(t) for t in zip(*(combine(rule, each) for each in answers), strict=True)))


def oracle(held: Held, case: str, noise: float) -> Row:
    """Who knows f and the noise: nothing is fitted, and nobody is better."""
    error = np.asarray(held.y) - np.asarray(held.f)
    nlpd = float(np.mean(0.5 * np.log(2 * np.pi * noise) + error**2 / (2 * noise)))
    covered = float(np.mean(np.abs(error) <= normal_quantile(0.975) * noise**0.5))
    return Row(case, "oracle", nlpd, 0.0, 0.0, covered, math.nan, "f", 0.0, 0.0, 0.0, None)


def merged(
    case: str,
    inducing: Any,
    modules: Sequence[Module],
    held: Held,
    *,
    fitting: float,
    name: str | None = None,
    owners: str | None = "auto",
) -> Measured[Ensemble]:
    """The merge itself; its time includes the local fits, and what leaves an owner is a module."""
    if name is None:
        name = f"merged, M={inducing}" if isinstance(inducing, int) else f"merged, {inducing}"
    X, y, f, likelihood = held
    known: dict[str, Any] = {"f": f, "likelihood": likelihood, "bytes": published_bytes(modules)}
    return measured(case, name, lambda: merge(modules, inducing=inducing, owners=owners), X, y, before=fitting, **known)


def gaussian_rivals(
    case: str,
    parts: Parts,
    modules: Sequence[Module],
    held: Held,
    *,
    fitting: float,
    inducing: int,
    budget: Budget,
    report: Report,
    seed: int = 0,
    leave_out: Mapping[str, str] | Sequence[str] = (),
    grid: Any = None,
) -> list[Row]:
    """Every rival of a merge of Gaussian modules, less those left out.

    Args:
        case: what the table calls the data.
        parts: one (X, y) per data owner.
        modules: fitted to the parts.
        held: what is asked, and the answers.
        fitting: seconds the local fits took: committees of modules and the paper's VEM need them too.
        inducing: points of the central and the map-reduce models, and of VEM.
        budget: how much work each rival may do.
        report: told what is being done.
        seed: of everything random.
        leave_out: kinds that are not run.
        grid: where VEM begins with its points; as many as `inducing`, evenly over the modules' points in 1-D.

    Returns:
        A row for each model.
    """
    rows: list[Row] = []
    for kind, label in KINDS.items():
        if kind not in leave_out:
            report(f"{case}: {label}")
            rows += _KINDS[kind](_Task(case, parts, modules, held, fitting, inducing, budget, seed, grid))
    return rows


def count(leave_out: Mapping[str, str] | Sequence[str] = ()) -> int:
    """How many messages `gaussian_rivals` reports."""
    return sum(kind not in leave_out for kind in KINDS)


def not_run(case: str, leave_out: Mapping[str, str]) -> list[str]:
    """Why the table lacks what it lacks."""
    return [f"{case}: not run: {KINDS[kind]} ({why})" for kind, why in leave_out.items()]


class _Task(NamedTuple):
    case: str
    parts: Parts
    modules: Sequence[Module]
    held: Held
    fitting: float
    inducing: int
    budget: Budget
    seed: int
    grid: Any

    def experts(self, build: Callable[[], Committee], before: float = 0.0) -> list[Row]:
        made, seconds = timed(build)
        return committees(self.case, made, self.held, seconds=before + seconds)

    def model(self, name: str, build: Callable[[], Any], *, before: float = 0.0, **known: Any) -> list[Row]:
        X, y, f, likelihood = self.held
        return [measured(self.case, name, build, X, y, f=f, likelihood=likelihood, before=before, **known).row]


def _vem(task: _Task) -> list[Row]:
    Z = ascents.evenly(task.modules, task.inducing) if task.grid is None else task.grid
    budget = task.budget
    limits: dict[str, Any] = {"steps": budget.vem, "limit": budget.vem_seconds, "seed": task.seed}
    return [c.row for c in ascents.both(task.case, task.modules, Z, task.held, fitting=task.fitting, **limits)]


_KINDS: dict[str, Callable[[_Task], list[Row]]] = {
    "modules": lambda t: t.experts(lambda: module_experts(t.modules), t.fitting),
    "own": lambda t: t.experts(lambda: exact_experts(t.parts, rows=t.budget.rows, seed=t.seed)),
    "shared": lambda t: t.experts(
        lambda: exact_experts(t.parts, hyperparameters="shared", rows=t.budget.rows, seed=t.seed)
    ),
    "grbcm-own": lambda t: t.experts(
        lambda: communication_experts(t.parts, hyperparameters="own", rows=t.budget.rows, seed=t.seed)
    ),
    "grbcm-shared": lambda t: t.experts(
        lambda: communication_experts(t.parts, hyperparameters="shared", rows=t.budget.rows, seed=t.seed)
    ),
    "mapreduce": lambda t: t.model(
        f"SGPR by map-reduce, M={t.inducing}",
        lambda: mapreduce(t.parts, inducing=t.inducing, seed=t.seed),
        points=t.inducing,
    ),
    "sgpr": lambda t: t.model(
        f"central SGPR, M={t.inducing}",
        lambda: central.sparse(t.parts, inducing=t.inducing, seed=t.seed),
        points=t.inducing,
    ),
    "svgp": lambda t: t.model(
        f"central SVGP (GPyTorch), M={t.inducing}",
        lambda: central.svgp(t.parts, inducing=t.inducing, training=Training(steps=t.budget.svgp), seed=t.seed),
        points=t.inducing,
    ),
    "exact": lambda t: t.model("central exact GP", lambda: central.exact(t.parts, rows=t.budget.exact, seed=t.seed)),
    "vem": _vem,
}

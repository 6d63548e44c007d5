"""Owners who have fitted and published, their merges, and all rivals that apply to them, each as a row of a table.

Exact experts exist for Gaussian data only: of classes and counts, committees are made of the modules, and combined on
the latent f.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import arrays
from ..baselines import central
from ..baselines.committee import (
    RULES,
    Combination,
    Committee,
    Predictions,
    combine,
    communication_experts,
    exact_experts,
    module_experts,
)
from ..baselines.mapreduce import mapreduce
from ..baselines.rival import Rival
from ..baselines.vem import PUBLISHED, Climbed, Rates, vem
from ..likelihoods import normal_quantile
from ..models.ensemble import Ensemble
from ..models.fit import fit, fit_many
from ..models.merge import merge
from ..models.module import Module
from .core import Answered, Held, Measured, Report, Row, answered, measured, published_bytes, timed
from .data import Array, Parts

LABELS = {
    "poe": "PoE",
    "gpoe": "gPoE (1/K)",
    "gpoe-entropy": "gPoE (entropy)",
    "bcm": "BCM",
    "rbcm": "rBCM",
    "grbcm": "GRBCM",
}
KERNEL = "rbf"  # the paper's, and that of its rivals
ANSWERS = 2**22  # of all experts together, held at once
DIVERGED_ABOVE = 1e6  # times the largest y²: predictions beyond are those of a diverged ascent

# what is run, unless it is left out, in the order of the table: for measurements, and for classes and counts
KINDS = {
    "modules": "committees of the modules themselves",
    "own": "committees of exact experts with their own hyperparameters",
    "shared": "committees of exact experts with shared hyperparameters",
    "grbcm-own": "GRBCM with each expert's own hyperparameters",
    "grbcm-shared": "GRBCM with shared hyperparameters",
    "mapreduce": "map-reduce SGPR that learns its plan",
    "sparse": "central SGPR",
    "svgp": "central SVGP",
    "exact": "the exact GP on all rows",
    "vem": "the paper's variational EM",
}
LATENT_KINDS = {
    "sparse": "central SVGP in its dual form",
    "svgp": "central SVGP of GPyTorch",
    "vem": "the paper's variational EM",
    "modules": "committees of the modules",
}


class Budget(NamedTuple):
    rows: int = 1000  # of each owner on which experts learn hyperparameters
    exact: int = 1000  # of all owners together, for the exact GP
    svgp: int = 1000  # steps
    vem: int = 500  # steps with the published rates: ten rounds of Algorithm 1
    vem_seconds: float = 30.0  # of either, and the only limit for L-BFGS


QUICK = Budget(rows=150, exact=400, svgp=150, vem=200, vem_seconds=4.0)
FULL = Budget()


# --- owners, and their merges -----------------------------------------------------------------


class Owners(NamedTuple):
    """Everybody's rows, what they published, and the test."""

    case: str  # what the table calls them
    parts: Parts
    modules: Sequence[Module]
    fitting: float  # seconds that the local fits took: committees of modules and the paper's VEM need them too
    held: Held
    seed: int
    likelihood: str = "gaussian"

    def measure(self, name: str, build: Callable[[], Any], **known: Any) -> Measured[Any]:
        return measured(self.case, name, build, self.held, **known)

    def merged(self, inducing: Any = "auto", owners: str | None = "auto", name: str = "") -> Measured[Ensemble]:
        """The merge itself; its time includes the local fits, and what leaves an owner is a module."""
        name = name or (f"merged, M={inducing}" if isinstance(inducing, int) else f"merged, {inducing}")
        build = partial(merge, self.modules, inducing=inducing, owners=owners)
        return self.measure(name, build, before=self.fitting, bytes=published_bytes(self.modules))


def fitted(
    case: str,
    parts: Parts,
    held: Held,
    report: Report,
    *,
    word: str = "part",  # modules are named by it and their number
    points: Sequence[Array] | None = None,
    likelihood: str = "gaussian",
    seed: int = 0,
    **options: Any,
) -> Owners:
    """Every owner fits its own rows, and publishes; `points`: each fits at its own, and publishes there."""
    report(f"{case}: local fits")
    names = [f"{word} {k + 1}" for k in range(len(parts))]
    options |= {"likelihood": likelihood, "kernel": KERNEL, "seed": seed}

    def work() -> Sequence[Module]:
        if points is None:
            return fit_many(parts, names=names, progress=False, **options)
        each = zip(parts, names, points, strict=True)
        return [fit(X, y, name=name, inducing=Z, **options) for (X, y), name, Z in each]

    modules, seconds = timed(work)
    return Owners(case, parts, modules, seconds, held, seed, likelihood)


def oracle(held: Held, case: str, noise: float) -> Row:
    """Who knows f and the noise: nothing is fitted, and nobody is better."""
    error = np.asarray(held.y) - np.asarray(held.f)
    nlpd = float(np.mean(0.5 * np.log(2 * np.pi * noise) + error**2 / (2 * noise)))
    covered = float(np.mean(np.abs(error) <= normal_quantile(0.975) * noise**0.5))
    return Row(case, "oracle", nlpd, 0.0, 0.0, covered, math.nan, "f", 0.0, 0.0, 0.0, None)


# --- rivals -----------------------------------------------------------------------------------


class Compared(NamedTuple):
    owners: Owners
    merges: list[Ensemble]
    central: Any  # the library's own central model, where it was run
    rows: list[Row]  # of the oracle, of the merges, then of the rivals


def compared(
    owners: Owners,
    sizes: Sequence[int | str],  # of the merges, one after the other: numbers of points, or "auto"
    budget: Budget,  # how much work each rival may do
    report: Report,
    *,
    noise: float | None = None,  # its variance; where it is known, the first row is the oracle's
    inducing: int | None = None,  # points of central and map-reduce models, and of VEM; those of the first merge
    Z: Any = None,  # where VEM begins with its points
    leave_out: Collection[str] = (),
    rates: Rates = PUBLISHED,  # of VEM as published
    differ: str | None = "auto",  # how the merges take the owners
) -> Compared:
    """Merges, and every rival of theirs, less those left out: a row for each, and those models that figures show.

    By default VEM begins evenly over the modules' points, as the authors do in one dimension, and for classes and
    counts at the points of the first merge.
    """
    if sizes:
        report(f"{owners.case}: merging")
    merges = [owners.merged(size, differ) for size in sizes]
    if inducing is None:
        inducing = sizes[0] if isinstance(sizes[0], int) else len(merges[0].model.inducing)
    if Z is None and owners.likelihood == "gaussian":
        every = np.concatenate([m.inducing for m in owners.modules])
        Z = np.linspace(every.min(), every.max(), inducing)[:, None]
    elif Z is None and merges:
        Z = merges[0].model.inducing
    work, found = _Work(owners, inducing, budget, Z, rates), {}
    for kind, label in kinds(owners.likelihood).items():
        if kind not in leave_out:
            report(f"{owners.case}: {label}")
            found[kind] = _RUN[kind](work)
    rows = [] if noise is None else [oracle(owners.held, owners.case, noise)]
    rows += [m.row for m in (*merges, *(m for some in found.values() for m in some))]
    return Compared(owners, [m.model for m in merges], found["sparse"][0].model if "sparse" in found else None, rows)


def kinds(likelihood: str) -> dict[str, str]:
    """Those that apply, with their labels."""
    return KINDS if likelihood == "gaussian" else LATENT_KINDS


def count(leave_out: Collection[str] = (), likelihood: str = "gaussian") -> int:
    """How many messages `fitted` and `compared` report."""
    return 2 + sum(kind not in leave_out for kind in kinds(likelihood))


def not_run(case: str, leave_out: Mapping[str, str]) -> list[str]:
    """Why the table lacks what it lacks."""
    return [f"{case}: not run: {KINDS[kind]} ({why})" for kind, why in leave_out.items()]


def committees(case: str, committee: Committee, held: Held, *, seconds: float) -> list[Row]:
    """A row for each rule that these experts can follow. They answer once, for all rules."""
    points = arrays.aligned(held.X, committee.dimension, None)
    chunk = max(1, ANSWERS // len(committee.experts))
    rules = [r for r in RULES if (r == "grbcm") == (committee.communication is not None)]
    answers, answering = timed(lambda: [committee.answers(some) for some in points.split(chunk)])
    rows = []
    for rule in rules:
        made, combining = timed(partial(_combined, rule, answers))
        failed = int(made.failed.sum())
        row = answered(
            case,
            f"{LABELS[rule]}, {committee.name.replace('exact', 'exact experts')}",
            Answered(committee.likelihoods, (made.mean, made.variance)),
            held._replace(X=points),
            bytes=committee.sent.total(len(points)),
            seconds=seconds,
            note=f"no positive precision at {failed} of {len(points)} points: the prior there" if failed else "",
        )
        rows.append(row._replace(predict_seconds=answering + combining))
    return rows


def _combined(rule: str, answers: Sequence[Predictions]) -> Combination:
    return Combination(*(torch.cat(t) for t in zip(*(combine(rule, each) for each in answers), strict=True)))


class _Work(NamedTuple):
    """What every rival is told."""

    owners: Owners
    inducing: int
    budget: Budget
    Z: Any
    rates: Rates

    def modules(self) -> list[Measured[Any]]:
        return self._committees(partial(module_experts, self.owners.modules), self.owners.fitting)

    def experts(self, build: Callable[..., Committee], hyperparameters: str) -> list[Measured[Any]]:
        known: dict[str, Any] = {"rows": self.budget.rows, "seed": self.owners.seed}
        return self._committees(partial(build, self.owners.parts, hyperparameters=hyperparameters, **known))

    def _committees(self, build: Callable[[], Committee], before: float = 0.0) -> list[Measured[Any]]:
        made, seconds = timed(build)
        rows = committees(self.owners.case, made, self.owners.held, seconds=before + seconds)
        return [Measured(row, made) for row in rows]

    def model(self, build: Callable[..., Rival], where: str = "central ", **options: Any) -> list[Measured[Any]]:
        """One model of everybody's rows, at so many inducing points where it has any."""
        case, held, M = self.owners.case, self.owners.held, options.get("inducing")
        made, seconds = timed(partial(build, self.owners.parts, seed=self.owners.seed, **options))
        name = where + made.name + ("" if M is None else f", M={M}")
        return [Measured(answered(case, name, made, held, points=M, seconds=seconds), made)]

    def svgp(self) -> list[Measured[Any]]:
        """GPyTorch's; of classes and counts the small fit that it begins with has no more rows than an expert's."""
        latent = self.owners.likelihood != "gaussian"
        rows = min(central.Training.rows, self.budget.rows) if latent else central.Training.rows
        training = central.Training(steps=self.budget.svgp, rows=rows)
        known: dict[str, Any] = {"inducing": self.inducing, "likelihood": self.owners.likelihood}
        return self.model(central.svgp, training=training, **known)

    def vem(self) -> list[Measured[Any]]:
        """As published, and by a quasi-Newton method; both from the pooled kernel and the points Z."""
        published: dict[str, Any] = {"rates": self.rates, "max_steps": self.budget.vem}
        return [
            self._climbed("VEM as published", optimiser="published", **published),
            self._climbed("VEM by L-BFGS", optimiser="lbfgs"),
        ]

    def _climbed(self, name: str, **how: Any) -> Measured[Climbed]:
        o, learn = self.owners, ("q", "kernel", "points")
        climb = partial(vem, o.modules, self.Z, learn=learn, seconds=self.budget.vem_seconds, seed=o.seed)
        found, seconds = timed(partial(climb, **how))
        M, steps = len(found.inducing), f"{found.trace[-1].steps} steps"
        name, sent = f"{name}, M={M}", published_bytes(o.modules)
        if not _lost(found, o.held):
            known: dict[str, Any] = {"seconds": o.fitting + seconds, "bytes": sent, "note": steps}
            return Measured(answered(o.case, name, found, o.held, **known), found)
        unknown, on = (math.nan,) * 5, "y" if o.held.f is None else "f"
        spent = (o.fitting + seconds, math.nan)
        return Measured(Row(o.case, name, *unknown, on, *spent, sent, M, f"diverged, {steps}"), found)


def _lost(found: Climbed, held: Held) -> bool:
    """An ascent that left all reason: no score would mean anything."""
    if found.stopped == "diverged":
        return True
    mean, variance = found.predict(held.X)
    return not bool(np.all(np.abs(mean) + variance < DIVERGED_ABOVE * (1 + np.square(held.y).max())))


_RUN: dict[str, Callable[[_Work], list[Measured[Any]]]] = {
    "modules": _Work.modules,
    "own": lambda work: work.experts(exact_experts, "own"),
    "shared": lambda work: work.experts(exact_experts, "shared"),
    "grbcm-own": lambda work: work.experts(communication_experts, "own"),
    "grbcm-shared": lambda work: work.experts(communication_experts, "shared"),
    "mapreduce": lambda work: work.model(mapreduce, "", inducing=work.inducing),
    "sparse": lambda work: work.model(central.sparse, inducing=work.inducing, likelihood=work.owners.likelihood),
    "svgp": _Work.svgp,
    "exact": lambda work: work.model(central.exact, rows=work.budget.exact),
    "vem": _Work.vem,
}

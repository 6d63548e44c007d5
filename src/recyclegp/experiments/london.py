"""Experiment (viii): prices in one quadrant of a city, contracts in the other three, one function behind both.

Asked is the contract in Q1 (upper right), where only prices were seen. That a price says anything about the contract
is an assumption: that both are one function in different units, price = (f − b)/s. Merged as they are, in log-pounds
beside log-odds, the price of 13 is taken for certainty. An affine map of the price module, chosen by the evidence of
the merge, asks the data in which units, and with which sign, the two agree along the borders of Q1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from ..baselines.committee import module_experts
from ..likelihoods import Bernoulli
from ..models.ensemble import Ensemble
from ..models.fit import fit, fit_many
from ..models.merge import merge
from ..models.module import Module
from . import ascents, latent, rivals, units
from .core import Answered, Held, Measured, Outcome, Report, Row, Settings, answered, measured, published_bytes, timed
from .data import Array, Houses, houses, quadrant
from .london_map import draw
from .rivals import Budget

Q1, OTHERS = 3, (1, 0, 2)  # upper right; Q2, Q3 and Q4 are upper left, lower left and lower right
TEST = 0.3
CASE = "contract in Q1"


class Size(NamedTuple):
    rows: int | None  # of each owner; None: all
    inducing: int
    publish: int
    points: int  # of central models and of VEM
    budget: Budget


QUICK = Size(600, 60, 25, 40, Budget(rows=200, svgp=150, vem=200, vem_seconds=3.0))
FULL = Size(None, 200, 50, 100, Budget(svgp=1000, vem=500, vem_seconds=20.0))


class City(NamedTuple):
    """Who has what, and what is asked."""

    homes: Houses
    centre: Array
    contracts: list[tuple[Array, Array]]  # Q2, Q3, Q4
    prices: tuple[Array, Array]  # Q1
    labels: tuple[Array, Array]  # contracts in Q1: nobody's but the oracle's
    asked: Held


class Fitted(NamedTuple):
    classifiers: list[Module]
    price: Module
    oracle: Module
    seconds: float
    oracle_seconds: float


def steps(settings: Settings) -> int:
    return settings.seeds * (2 + latent.STEPS)


def divide(homes: Houses, rows: int | None, seed: int) -> City:
    """Quadrants about the median home, some homes held out, at most so many rows for each owner."""
    rng = np.random.default_rng(seed)
    centre = np.median(homes.where, axis=0)
    where, held = quadrant(homes.where, centre), rng.random(len(homes.price)) < TEST

    def some(q: int) -> Array:
        return rng.permutation(np.flatnonzero((where == q) & ~held))[:rows]

    seen, here, asked = [some(q) for q in OTHERS], some(Q1), (where == Q1) & held
    X = homes.where
    return City(
        homes,
        centre,
        [(X[i], homes.contract[i]) for i in seen],
        (X[here], homes.price[here]),
        (X[here], homes.contract[here]),
        Held(X[asked], homes.contract[asked], None, "bernoulli"),
    )


def run(settings: Settings, report: Report) -> Outcome:
    return latent.repeated(_once, settings, report)


def _once(settings: Settings, report: Report) -> Outcome:
    size = FULL if settings.full else QUICK
    city = divide(houses(settings.data_dir), size.rows, settings.seed)
    report("local fits")
    fitted = _fit(city, size, settings.seed)
    report("merging, and aligning units")
    alone = _merged("classifiers of Q2–Q4 only", fitted.classifiers, city.asked, fitted.seconds)
    raw = _merged("merged, raw: log-price as it is", [*fitted.classifiers, fitted.price], city.asked, fitted.seconds)
    centred = [*fitted.classifiers, _standard(fitted.price, city.prices[1])]
    standard = _merged("merged, log-price standardised", centred, city.asked, fitted.seconds)
    found, seconds = timed(lambda: aligned(fitted, alone.model, float(city.prices[1].std())))
    modules = [*fitted.classifiers, *found.best.of([fitted.price])]
    best = _merged("merged, units by the evidence", modules, city.asked, fitted.seconds + seconds)
    known = answered(CASE, "oracle: Q1's labels", fitted.oracle, *city.asked, seconds=fitted.oracle_seconds)
    constants = _constants(city)
    rows = [best.row, standard.row, raw.row, alone.row, known, *constants]
    rows += _rivals(city, fitted, modules, size, fitted.seconds + seconds, settings.seed, report)
    models = {
        "oracle, given Q1's contracts": fitted.oracle,
        "classifiers of Q2–Q4 only": alone.model,
        "merged, raw": raw.model,
        "merged, units by the evidence": best.model,
    }
    notes = _notes(city, fitted, found) + _said(best.row, alone.row, known, constants[0])
    return Outcome(rows, draw(city.homes, city.centre, fitted.price, models), notes)


def aligned(fitted: Fitted, alone: Ensemble, deviation: float) -> units.Aligned:
    """At the classifiers' own kernel, and points that can express both."""
    Z = np.concatenate([alone.inducing, fitted.price.inducing])
    fixed = merge(fitted.classifiers, inducing=Z, kernel=alone.kernel, learn=False)
    return units.align(fixed, [fitted.price], 1 / deviation)


def _fit(city: City, size: Size, seed: int) -> Fitted:
    options: dict[str, Any] = {"likelihood": "bernoulli", "inducing": size.inducing, "publish": size.publish}

    def local() -> list[Module]:
        made = fit_many(city.contracts, names=["Q2", "Q3", "Q4"], seed=seed, progress=False, **options)
        return [*made, fit(*city.prices, publish=size.publish, name="Q1", seed=seed)]

    (*classifiers, price), seconds = timed(local)
    oracle, more = timed(lambda: fit(*city.labels, name="oracle", seed=seed, **options))
    return Fitted(classifiers, price, oracle, seconds, more)


def _standard(price: Module, y: Array) -> Module:
    return price.transform(output_scale=1 / float(y.std()), output_shift=-float(y.mean() / y.std()))


def _merged(name: str, modules: list[Module], held: Held, before: float) -> Measured[Ensemble]:
    X, y, _, likelihood = held
    sent = published_bytes(modules)
    return measured(CASE, name, lambda: merge(modules), X, y, likelihood=likelihood, bytes=sent, before=before)


def _constants(city: City) -> list[Row]:
    """One probability for all of Q1: what is known elsewhere, and what only Q1's own labels tell."""
    elsewhere = float(np.mean(np.concatenate([y for _, y in city.contracts])))
    rows = []
    for name, p in (("base rate of Q2–Q4", elsewhere), ("oracle: base rate of Q1", float(city.labels[1].mean()))):
        f = torch.full((len(city.asked.y),), math.log(p / (1 - p)), dtype=torch.float64)
        constant = Answered((Bernoulli(),), (f, torch.zeros_like(f)))
        rows.append(answered(CASE, name, constant, *city.asked, bytes=8.0, seconds=0.0))
    return rows


def _rivals(
    city: City, fitted: Fitted, modules: list[Module], size: Size, seconds: float, seed: int, report: Report
) -> list[Row]:
    """Central classifiers, which cannot use a price; committees and VEM of the aligned modules."""
    held = city.asked
    owners = latent.Owners(CASE, "bernoulli", city.contracts, fitted.classifiers, fitted.seconds, held, seed)
    central = latent.central_models(owners, size.points, size.budget, report)
    report(f"{CASE}: variational EM")
    Z = merge(modules, inducing=size.points).inducing
    limits: dict[str, Any] = {"steps": size.budget.vem, "limit": size.budget.vem_seconds, "seed": seed}
    climbs = ascents.both(CASE, modules, Z, held, fitting=seconds, **limits)
    report(f"{CASE}: committees of the modules")
    rows = rivals.committees(CASE, module_experts(modules), held, seconds=seconds)
    seen = [r._replace(note="all rows of Q2–Q4, no prices") for r in central.rows]
    return [*seen, *(c.row for c in climbs), *rows]


def _notes(city: City, fitted: Fitted, found: units.Aligned) -> list[str]:
    """What the numbers say, in words, computed."""
    homes, X = city.homes, city.asked.X
    says, price = (np.asarray(m.predict(X)[0]) for m in (fitted.oracle, fitted.price))
    best, other = found.best, found.other
    share = float(np.mean(city.asked.y))
    notes = [
        f"{homes.place}: {len(homes.price)} homes; the share of {homes.question} is {share:.1%} among those asked "
        f"about in Q1, and {np.mean(np.concatenate([y for _, y in city.contracts])):.1%} in Q2–Q4",
        f"units by the evidence: log-odds = {best.scale:.3g}·log-price {best.shift:+.3g}; the evidence is "
        f"{best.evidence - other.evidence:.1f} nats higher than with the other sign, and "
        f"{best.evidence - found.nothing:.1f} higher than where prices are all but noise beside the contracts",
        f"over Q1 the price module and the oracle's log-odds have correlation {np.corrcoef(says, price)[0, 1]:+.2f}: "
        f"by the evidence a higher price goes with {'more' if best.scale > 0 else 'less'} {homes.question}",
    ]
    if homes.question == "freehold":
        notes.append("which class is 'freehold' was inferred from where such homes are, not read from a register")
    return notes


def _said(best: Row, alone: Row, oracle: Row, base: Row) -> list[str]:
    """Did the prices help?"""
    gain, possible = alone.nlpd - best.nlpd, base.nlpd - oracle.nlpd
    return [
        f"in Q1 prices {'lower' if gain > 0 else 'raise'} the NLPD by {abs(gain):.4f} and take the error rate from "
        f"{alone.error:.1%} to {best.error:.1%} (oracle {oracle.error:.1%}, base rate {base.error:.1%})",
        f"of what the oracle knows beyond the base rate of Q2–Q4 ({possible:.3f} nats), the classifiers that never saw "
        f"Q1 know {(base.nlpd - alone.nlpd) / possible:.0%} and the merge {(base.nlpd - best.nlpd) / possible:.0%}",
    ]

"""Experiment (viii): prices in one quadrant of a city, contracts in the other three, one function behind both.

Asked is the contract in Q1 (upper right), where only prices were seen. That a price says anything about the contract
is an assumption: that both are one function in different units, price = (f − b)/s. Merged as they are, in log-pounds
beside log-odds, the price of 13 is taken for certainty. An affine map of the price module, chosen by the evidence of
the merge, asks the data in which units, and with which sign, the two agree along the borders of Q1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..likelihoods import Bernoulli
from ..models.ensemble import Ensemble
from ..models.fit import fit
from ..models.merge import merge
from ..models.module import Module
from . import figures, rivals
from .core import Answered, Held, Measured, Outcome, Report, Row, Settings, answered, averaged, timed
from .data import Array, Houses, houses, quadrant
from .rivals import Budget, Owners

Q1, OTHERS = 3, (1, 0, 2)  # upper right; Q2, Q3 and Q4 are upper left, lower left and lower right
TEST = 0.3
CASE = "contract in Q1"
COLOURS = "cividis"
RANGE = (-4.0, 4.0)  # of log|s|, about one standard deviation against another
COARSE, FINE = 17, 12  # trials on a grid, then by golden section


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


def steps(settings: Settings) -> int:
    return settings.seeds * rivals.count(likelihood="bernoulli")


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
    made = [_once(settings, seed, report) for seed in settings.repeats]  # the figure and the notes are the first one's
    return Outcome(averaged(row for each in made for row in each.rows), made[0].figure, made[0].notes)


def _once(settings: Settings, seed: int, report: Report) -> Outcome:
    size = FULL if settings.full else QUICK
    city = divide(houses(settings.data_dir), size.rows, seed)
    how: dict[str, Any] = {"likelihood": "bernoulli", "inducing": size.inducing, "publish": size.publish, "seed": seed}
    owners = rivals.fitted(CASE, city.contracts, city.asked, report, **how)
    how["kernel"] = rivals.KERNEL
    price, seconds = timed(lambda: fit(*city.prices, kernel=rivals.KERNEL, publish=size.publish, name="Q1", seed=seed))
    owners = owners._replace(fitting=owners.fitting + seconds)
    oracle = owners.measure("oracle: Q1's labels", lambda: fit(*city.labels, name="oracle", **how))
    report("merging, and aligning units")

    def merged(name: str, *prices: Module, more: float = 0.0) -> Measured[Ensemble]:
        everybody = owners._replace(modules=[*owners.modules, *prices], fitting=owners.fitting + more)
        return everybody.merged(name=name)

    sd = float(city.prices[1].std())
    alone = merged("classifiers of Q2–Q4 only")
    raw = merged("merged, raw: log-price as it is", price)
    standard = merged(
        "merged, log-price standardised",
        price.transform(output_scale=1 / sd, output_shift=-float(city.prices[1].mean()) / sd),
    )
    found, seconds = timed(lambda: aligned(owners, price, alone.model, sd))
    best = merged("merged, units by the evidence", *found.best.of([price]), more=seconds)
    constants = _constants(city)
    rows = [best.row, standard.row, raw.row, alone.row, oracle.row, *constants]
    rows += _rivals(owners, found.best.of([price]), size, seconds, report)
    models = {
        "oracle, given Q1's contracts": oracle.model,
        "classifiers of Q2–Q4 only": alone.model,
        "merged, raw": raw.model,
        "merged, units by the evidence": best.model,
    }
    notes = _notes(city, oracle.model, price, found) + _said(best.row, alone.row, oracle.row, constants[0])
    return Outcome(rows, draw(city.homes, city.centre, price, models), notes)


def aligned(owners: Owners, price: Module, alone: Ensemble, deviation: float) -> Aligned:
    """At the classifiers' own kernel, and points that can express both."""
    Z = np.concatenate([alone.inducing, price.inducing])
    fixed = merge(owners.modules, inducing=Z, kernel=alone.kernel, learn=False)
    return align(fixed, [price], 1 / deviation)


def _constants(city: City) -> list[Row]:
    """One probability for all of Q1: what is known elsewhere, and what only Q1's own labels tell."""
    elsewhere = float(np.mean(np.concatenate([y for _, y in city.contracts])))
    rows = []
    for name, p in (("base rate of Q2–Q4", elsewhere), ("oracle: base rate of Q1", float(city.labels[1].mean()))):
        f = torch.full((len(city.asked.y),), math.log(p / (1 - p)), dtype=torch.float64)
        constant = Answered((Bernoulli(),), (f, torch.zeros_like(f)))
        rows.append(answered(CASE, name, constant, city.asked, bytes=8.0, seconds=0.0))
    return rows


def _rivals(owners: Owners, prices: list[Module], size: Size, seconds: float, report: Report) -> list[Row]:
    """Central classifiers, which cannot use a price; committees and VEM of the aligned modules."""
    of_rows, of_modules = ("sparse", "svgp"), ("vem", "modules")
    central = rivals.compared(owners, (), size.budget, report, inducing=size.points, leave_out=of_modules)
    seen = [r._replace(note="all rows of Q2–Q4, no prices") for r in central.rows]
    everybody = owners._replace(modules=[*owners.modules, *prices], fitting=owners.fitting + seconds)
    Z = merge(everybody.modules, inducing=size.points).inducing
    others = rivals.compared(everybody, (), size.budget, report, inducing=size.points, Z=Z, leave_out=of_rows)
    return [*seen, *others.rows]


def _notes(city: City, oracle: Module, price: Module, found: Aligned) -> list[str]:
    """What the numbers say, in words, computed."""
    homes, X = city.homes, city.asked.X
    says, prices = (np.asarray(m.predict(X)[0]) for m in (oracle, price))
    best, other = found.best, found.other
    share = float(np.mean(city.asked.y))
    notes = [
        f"{homes.place}: {len(homes.price)} homes; the share of {homes.question} is {share:.1%} among those asked "
        f"about in Q1, and {np.mean(np.concatenate([y for _, y in city.contracts])):.1%} in Q2–Q4",
        f"units by the evidence: log-odds = {best.scale:.3g}·log-price {best.shift:+.3g}; the evidence is "
        f"{best.evidence - other.evidence:.1f} nats higher than with the other sign, and "
        f"{best.evidence - found.nothing:.1f} higher than where prices are all but noise beside the contracts",
        f"over Q1 the price module and the oracle's log-odds have correlation {np.corrcoef(says, prices)[0, 1]:+.2f}: "
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


def draw(homes: Houses, centre: Array, price: Module, models: dict[str, Any]) -> Figure:
    """The contracts and the prices as they are, then P(contract) as four models see it; Q1 is framed."""
    figure = figures.new(12.5, 7.8)
    panels = figure.subplots(2, 3).ravel()
    box = figures.grown(figures.Box(0, 1, 0, 1), 0.02)
    x, y = homes.where.T
    style: dict[str, Any] = {"s": 3, "lw": 0, "rasterized": True}
    dots = panels[0].scatter(x, y, c=homes.contract, cmap=COLOURS, vmin=0, vmax=1, **style)
    figures.bare(panels[0], box, f"{homes.place}: {homes.question} (1) or not (0)")
    _prices(panels[1], homes, (x > centre[0]) & (y > centre[1]), price, style)
    figures.bare(panels[1], box, "all that is known of Q1: prices, as a module")
    for panel, (name, model) in zip(panels[2:], models.items(), strict=True):
        a, b, p = figures.chart(model, box)
        panel.pcolormesh(a, b, p, cmap=COLOURS, vmin=0, vmax=1, shading="nearest", rasterized=True)
        panel.contour(a, b, p, levels=[0.5], colors="white", linewidths=1.4)
        figures.stars(panel, model.inducing, figures.MERGED)
        figures.bare(panel, box, name)
    for panel in panels:
        panel.plot([centre[0], centre[0], 2], [2, centre[1], centre[1]], color=figures.MERGED, lw=2, zorder=6)
        panel.text(0.97, 0.97, "Q1", transform=panel.transAxes, ha="right", va="top", color=figures.MERGED, zorder=7)
    figure.colorbar(dots, ax=panels, label=f"P({homes.question}); the white line is 0.5", shrink=0.6, aspect=35)
    return figure


def _prices(panel: Axes, homes: Houses, inside: Array, price: Module, style: dict[str, Any]) -> None:
    x, y = homes.where[inside].T
    low, high = np.quantile(homes.price[inside], [0.02, 0.98])
    seen = panel.scatter(x, y, c=homes.price[inside], cmap="viridis", vmin=low, vmax=high, **style)
    figures.points(panel, [price])
    # the other quadrants are empty here
    bar = panel.inset_axes((0.08, 0.2, 0.84, 0.05))
    panel.figure.colorbar(seen, cax=bar, orientation="horizontal", label="log-price; circles: published points")


# --- one function in different units: u → s·u + b for some modules, by the evidence -----------------


class Units(NamedTuple):
    scale: float
    shift: float
    evidence: float  # of everybody's data as they were measured

    def of(self, modules: Sequence[Module]) -> list[Module]:
        return [m.transform(output_scale=self.scale, output_shift=self.shift) for m in modules]


class Aligned(NamedTuple):
    best: Units
    other: Units  # the best with the opposite sign of s
    nothing: float  # evidence where |s| is so large that the group, whose noise grows with it, says next to nothing


def align(fixed: Ensemble, modules: Sequence[Module], unit: float) -> Aligned:
    """s and b that maximise the block-marginal evidence of `fixed` with the modules added, at its kernel and points.

    A module's evidence is that of its data in its units, p(s·y + b) = p(y)/|s|ⁿ. It is the same data y that must be
    explained at every s, so that n·log|s| is given back; without it the smallest scale would always win. `unit` is a
    typical size of s: the deviation of f in the fixed units over that in the modules'.
    """
    found = sorted((_signed(fixed, modules, sign, unit) for sign in (1.0, -1.0)), key=lambda u: -u.evidence)
    nothing = profiled(fixed, modules, math.copysign(unit, found[0].scale) * math.exp(RANGE[1])).evidence
    return Aligned(found[0], found[1], nothing)


def profiled(fixed: Ensemble, modules: Sequence[Module], scale: float) -> Units:
    """The best shift at one scale. The evidence is quadratic in b: three trials know it all."""

    jacobian = sum(m.rows for m in modules) * math.log(abs(scale))

    def evidence(shift: float) -> float:
        moved = [m.transform(output_scale=scale, output_shift=shift) for m in modules]
        return fixed.add(moved).evidence + jacobian

    # about the shift that puts the modules' prior means on the ensemble's
    centre = fixed.mean - scale * float(np.mean([m.mean for m in modules]))
    width = abs(scale) * float(np.mean([math.sqrt(float(m.kernel_spec.theta[0].exp())) for m in modules])) + 1.0
    low, middle, high = (evidence(centre + t * width) for t in (-1.0, 0.0, 1.0))
    bend = low - 2 * middle + high
    step = 0.5 * (low - high) / bend if bend < 0 else 0.0
    shift = centre + step * width
    return Units(float(scale), float(shift), evidence(shift))


def _signed(fixed: Ensemble, modules: Sequence[Module], sign: float, unit: float) -> Units:
    """Along log|s|: a grid, and a golden section about its best."""

    def at(log_scale: float) -> Units:
        return profiled(fixed, modules, sign * unit * math.exp(log_scale))

    grid = np.linspace(*RANGE, COARSE)
    tried = [at(t) for t in grid]
    k = int(np.argmax([u.evidence for u in tried]))
    a, b = float(grid[max(k - 1, 0)]), float(grid[min(k + 1, COARSE - 1)])
    ratio = (math.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = at(c), at(d)
    for _ in range(FINE):
        if at_c.evidence > at_d.evidence:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = at(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = at(d)
    return max(at_c, at_d, tried[k], key=lambda u: u.evidence)

"""Owners who see one function, each with an offset of its own: should they merge, and must it be told that they differ?

Owner k sees f + b_k through noise. Each is asked about its own function: by its own module (alone), by a merge that
takes all for one function (owners=None), and by one that decides by the evidence how much owners differ (owners=auto).
Where there are no offsets the decision should cost nothing, and nobody should ever be worse off than alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..models.ensemble import Ensemble
from ..models.fit import fit_many
from ..models.merge import merge
from ..plot import style
from . import figures, owned, rivals
from .core import Held, Outcome, Report, Row, Settings, averaged
from .data import Array, random_function
from .owned import Owned

NOISE_SD = 0.3
SIDE, LENGTHSCALE = 4.0, 0.8  # of the square, and of the function
ROWS = {3: 60, 10: 40, 30: 30}  # of each of so many owners
OFFSETS = (0, 1, 3)  # in standard deviations of the noise
PUBLISH = 24
HARM = 0.005  # nats per point that telling equal owners apart may cost
ALONE, PLAIN, AUTO = "each alone", "merged, owners=None", "merged, owners=auto"


class Case(NamedTuple):
    layout: str  # "random" or "adjoining"
    owners: int
    offset: int

    @property
    def name(self) -> str:
        return f"K={self.owners}, {self.layout}, offsets of {self.offset} sd"


class Size(NamedTuple):
    owners: tuple[int, ...]
    test: int  # of each owner


QUICK, FULL = Size((3, 10), 50), Size((3, 10, 30), 200)


def size(settings: Settings) -> Size:
    return FULL if settings.full else QUICK


def cases(settings: Settings) -> list[Case]:
    return [Case(*c) for c in itertools.product(("random", "adjoining"), size(settings).owners, OFFSETS)]


def steps(settings: Settings) -> int:
    return len(cases(settings)) * settings.seeds + 1


def run(settings: Settings, report: Report) -> Outcome:
    rows: list[Row] = []
    chosen: dict[str, list[Ensemble]] = {}
    for case, seed in itertools.product(cases(settings), settings.repeats):
        report(f"{case.name}, seed {seed}")
        found, ensemble = once(case, size(settings).test, seed)
        rows += found
        chosen.setdefault(case.name, []).append(ensemble)
    report("the figure")
    table = [r._replace(note=_note(chosen[r.case])) if r.model == AUTO else r for r in averaged(rows)]
    return Outcome(table, draw(rows, cases(settings)), [*_demands(rows), _about(settings)])


def generate(case: Case, test: int, seed: int) -> Owned:
    """A random function on a square; owners all over it, or in strips side by side."""
    rng = np.random.default_rng(seed)
    f = random_function(rng, 2, LENGTHSCALE)
    offsets = case.offset * NOISE_SD * rng.standard_normal(case.owners)

    def seen(k: int, n: int) -> Held:
        X = rng.uniform(0, SIDE, (n, 2))
        if case.layout == "adjoining":
            X[:, 0] = (k + X[:, 0] / SIDE) * SIDE / case.owners
        truth = f(X) + offsets[k]
        return Held(X, truth + NOISE_SD * rng.standard_normal(n), truth)

    both = [(seen(k, ROWS[case.owners]), seen(k, test)) for k in range(case.owners)]
    names = [f"owner {k + 1}" for k in range(case.owners)]
    return Owned(case.name, names, [(own.X, own.y) for own, _ in both], [held for _, held in both])


def once(case: Case, test: int, seed: int) -> tuple[list[Row], Ensemble]:
    """All rows of one case, and the merge that decided for itself."""
    data = generate(case, test, seed)
    local = owned.published(data, seed, publish=PUBLISH)
    auto = owned.merged(data, local, AUTO, "auto")
    X, y, f = (np.concatenate([t[i] for t in data.asked]) for i in range(3))
    known = rivals.oracle(Held(X, y, f), case.name, NOISE_SD**2)
    return [known, owned.alone(data, local), owned.merged(data, local, PLAIN, None).row, auto.row], auto.model


def _note(ensembles: Sequence[Ensemble]) -> str:
    sds = np.array([e.offset_sd for e in ensembles]) / NOISE_SD
    said = f"{sds.min():.2g}" if np.ptp(sds) < 0.05 else f"{sds.min():.2g} to {sds.max():.2g}"
    return f"{owned.choices(ensembles)}; σ_b {said} sd"


def _demands(rows: Sequence[Row]) -> list[str]:
    """Which of them are met, case by case: means over seeds."""
    equal = {c: d for c, d in differences(rows, PLAIN).items() if "offsets of 0" in c}
    alone = differences(rows, ALONE)
    return [
        _said(f"where owners do not differ, auto is never more than {HARM} worse than None", equal, HARM),
        _said("auto is nowhere worse than each alone", alone, 0.0),
    ]


def differences(rows: Sequence[Row], other: str) -> dict[str, list[float]]:
    """By case, for each seed: by how much auto's NLPD is above that of another model."""
    found: dict[str, dict[str, list[float]]] = {}
    for r in rows:
        found.setdefault(r.case, {}).setdefault(r.model, []).append(r.nlpd)
    return {c: [a - b for a, b in zip(m[AUTO], m[other], strict=True)] for c, m in found.items()}


def _said(demand: str, found: dict[str, list[float]], most: float) -> str:
    means = {c: float(np.mean(d)) for c, d in found.items()}
    failed = [f"{c} ({d:+.4f})" for c, d in means.items() if d > most]
    worst = max(means, key=lambda c: means[c])
    if failed:
        return f"demanded: {demand}; not so in {'; '.join(failed)}"
    single = max(itertools.chain(*found.values()))
    return f"{demand}: the worst case is {worst} ({means[worst]:+.4f}), the worst single seed {single:+.4f}"


def _about(settings: Settings) -> str:
    rows = "/".join(str(ROWS[k]) for k in size(settings).owners)
    owners = "/".join(str(k) for k in size(settings).owners)
    return (
        f"{rows} rows per owner for K={owners}, noise sd {NOISE_SD}, a function with variance 1 and lengthscale "
        f"{LENGTHSCALE} on a square of side {SIDE:g}; {PUBLISH} points per module; RMSE and MAE are of the owner's own "
        "function; notes say what auto chose in how many seeds, and its σ_b in standard deviations of the noise"
    )


def draw(rows: Sequence[Row], shown: Sequence[Case]) -> Figure:
    """Five owners on a line about what they share; and what the decision gains in each case."""
    figure = figures.new(12, 5.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _curves(left)
    _gains(right, rows, shown)
    marks = right.get_legend_handles_labels()
    figure.legend(*marks, loc="outside lower right", ncols=2, frameon=False, fontsize=8, handletextpad=0.1)
    return figure


def line(seed: int = 1) -> tuple[list[tuple[Array, Array]], Ensemble]:
    """Five owners on a line, in regions that overlap, with offsets of three standard deviations."""
    rng = np.random.default_rng(seed)
    f = random_function(rng, 1, LENGTHSCALE)
    parts = []
    for k, offset in enumerate(3 * NOISE_SD * rng.standard_normal(5)):
        x = np.sort(rng.uniform(max(0.0, k - 1.0), min(6.0, k + 3.0), 40))
        parts.append((x[:, None], f(x[:, None]) + offset + NOISE_SD * rng.standard_normal(40)))
    modules = fit_many(parts, names=[f"owner {k + 1}" for k in range(5)], progress=False)
    return parts, merge(modules)


def _curves(panel: Axes) -> None:
    parts, ensemble = line()
    x = np.linspace(0, 6, 300)[:, None]
    for k, ((X, y), colour) in enumerate(zip(parts, style.PALETTE, strict=False)):
        figures.rows_of(panel, X[:, 0], y, colour, size=12)
        own = x[(x >= X.min()) & (x <= X.max())][:, None]
        mean = np.asarray(ensemble.predict(own, owner=f"owner {k + 1}")[0])
        panel.plot(own[:, 0], mean, color=colour, lw=1.6, label=f"owner {k + 1}")
    figures.fitted(panel, x[:, 0], ensemble, style.BLACK, "what they share, 95% band", lw=2.2)
    title = f"Five owners about one function: constants of sd {ensemble.offset_sd:.2f}, noise of sd {NOISE_SD}"
    style.tidy(panel, title, {"ncols": 2}, xlabel="x", ylabel="y")


def _gains(panel: Axes, rows: Sequence[Row], shown: Sequence[Case]) -> None:
    places = np.arange(len(shown))[::-1]
    for other, colour, mark in ((ALONE, style.BLUE, "o"), (PLAIN, figures.MERGED, "D")):
        found = differences(rows, other)
        means = [-float(np.mean(found[c.name])) for c in shown]
        panel.scatter(means, places, color=colour, s=26, marker=mark, label=f"over {other.removeprefix('merged, ')}")
    panel.axvline(0, color=style.FAINT, lw=1)
    panel.set_xscale("symlog", linthresh=0.01)
    panel.xaxis.set_major_formatter(figures.in_digits())
    panel.margins(x=0.08)
    panel.set_yticks(places, [figures.in_words(c.name) for c in shown], fontsize=8)
    figures.grid(panel, "x")
    style.tidy(panel, "What owners=auto gains", xlabel="nats per point")

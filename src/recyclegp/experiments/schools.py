"""Pupils in classes and in schools: every class or school is an owner, and none is like the others.

Asked is each owner's own: pupils of that class who were held out. Beside the default the table has what a user may try:
other kernels, and a noise that all owners agree upon before they fit (two numbers from each, see `intercepts.within`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ..baselines import central
from ..baselines.rival import checked, rows_bytes
from ..metrics import Model
from ..models.ensemble import Ensemble
from ..plot import style
from . import figures, intercepts, owned
from .core import Outcome, Report, Row, Settings, averaged, timed
from .data import Array, Pupils, chem97, nlschools
from .mixed_linear import mixed_linear
from .owned import Owned

TEST = 1 / 3
PUBLISH = 8  # points: a class has about eleven pupils to fit
DEFAULT = "merged, owners=auto"
LINEAR = "mixed linear model"


class Study(NamedTuple):
    """One of the data sets, and how much of it is used."""

    name: str
    load: Callable[[Any], Pupils]
    owners: tuple[int, int | None]  # in a quick run, and in a full one; None: all
    seeds: int | None  # at most
    points: int | None  # of central models; None: exact


STUDIES = (
    Study("nlschools", nlschools, (40, None), None, None),
    Study("Chem97", chem97, (60, None), 1, 100),
)
TRIED: dict[str, dict[str, Any]] = {
    ", kernel=linear": {"kernel": "linear"},
    ", kernel=linear + rbf": {"kernel": "linear + rbf"},
}
AGREED = ", noise agreed"
WAYS: dict[str, tuple[str | None, ...]] = {"": (None, "auto"), AGREED: (None, "auto", "offset")}  # to take the owners
STEPS = 1 + len(TRIED) + 4  # messages for each study and seed


class Once(NamedTuple):
    rows: list[Row]
    ensembles: dict[str, Ensemble]  # by the row's name
    owned: Owned
    noise: float  # agreed
    own_noise: float  # the median of what owners learn alone


def repeats(study: Study, settings: Settings) -> range:
    return settings.repeats[: study.seeds]


def steps(settings: Settings) -> int:
    return STEPS * sum(len(repeats(study, settings)) for study in STUDIES)


def run(settings: Settings, report: Report) -> Outcome:
    rows: list[Row] = []
    notes: list[str] = []
    first: list[Once] = []
    for study in STUDIES:
        pupils = study.load(settings.data_dir)
        made = [_once(study, pupils, settings.full, seed, report) for seed in repeats(study, settings)]
        found = _averaged(made)
        rows += found
        notes += [*_facts(pupils, made), compared(found)]
        first.append(made[0])
    return Outcome(rows, draw(first[0], rows), notes)


def some(pupils: Pupils, owners: int | None, seed: int) -> Pupils:
    """The pupils of so many owners, drawn at random; all where None."""
    known = np.unique(pupils.owner)
    if owners is None or owners >= len(known):
        return pupils
    kept = np.isin(pupils.owner, np.random.default_rng(seed).choice(known, owners, replace=False))
    return pupils._replace(X=pupils.X[kept], y=pupils.y[kept], owner=pupils.owner[kept])


def _once(study: Study, pupils: Pupils, full: bool, seed: int, report: Report) -> Once:
    some_of = some(pupils, study.owners[full], seed)
    data = owned.divided(study.name, some_of.X, some_of.y, some_of.owner, TEST, seed)
    noise = intercepts.within(data.parts)
    rows, ensembles, own_noise = [], {}, 0.0
    # as the library does it without being told anything, with other kernels, and with one noise for all, which no
    # owner can explain away
    for words, options in {"": {}, **TRIED, AGREED: {"noise": noise}}.items():
        report(f"{data.case}, split {seed}: local fits and merges{words}")
        local = owned.published(data, seed, publish=PUBLISH, **options)
        if words not in TRIED:
            rows.append(owned.alone(data, local, f"each alone{words}"))
        if not words:
            own_noise = float(np.median([m.likelihoods[0].parameters[0] for m in local.modules]))
        for owners in WAYS.get(words, ("auto",)):
            row, model = owned.merged(data, local, f"merged, owners={owners}{words}", owners)
            rows.append(row._replace(bytes=row.bytes + 16) if words == AGREED else row)
            ensembles[row.model] = model
    rows += _pooled(data, study.points, seed, report)
    return Once(rows, ensembles, data, noise, own_noise)


def _pooled(data: Owned, points: int | None, seed: int, report: Report) -> list[Row]:
    """Models that are given all rows; some of them know whose they are."""
    sent = rows_bytes(checked(data.parts, "gaussian"))

    def row(name: str, seen: Callable[[int], Model], seconds: float, M: int | None = None) -> Row:
        return owned.answered_by(data, name, seen, seconds, sent, M)

    report(f"{data.case}, split {seed}: one GP on all rows")
    if points is None:
        one, seconds = timed(lambda: central.exact(data.parts, rows=data.rows, seed=seed))
    else:
        one, seconds = timed(lambda: central.sparse(data.parts, inducing=points, seed=seed))
    rows = [row("central exact GP" if points is None else f"central SGPR, M={points}", lambda k: one, seconds, points)]
    report(f"{data.case}, split {seed}: one GP on all rows with a constant for each owner")
    known, seconds = timed(lambda: intercepts.gp(data.parts, inducing=points, seed=seed))
    name = "central GP, a constant for each owner" + ("" if points is None else f", M={points}")
    rows.append(row(name, known.seen_by, seconds, points))
    report(f"{data.case}, split {seed}: mixed linear model")
    line, seconds = timed(lambda: mixed_linear(data.parts))
    return [*rows, row(LINEAR, line.seen_by, seconds)]


def _averaged(made: list[Once]) -> list[Row]:
    """Means over seeds; merges say what they chose."""
    found = averaged(row for each in made for row in each.rows)
    names = [name for name in made[0].ensembles if name != "merged, owners=None"]
    notes = {name: _chosen([each.ensembles[name] for each in made]) for name in names}
    return [r._replace(note=notes.get(r.model, r.note)) for r in found]


def _chosen(ensembles: list[Ensemble]) -> str:
    """What a merge chose in each split, with the means of its noise and of the owners' offsets."""
    noise = np.mean([e.likelihoods[0].parameters[0] for e in ensembles])
    offset, smooth = (np.mean([getattr(e, name) for e in ensembles]) for name in ("offset_sd", "smooth_sd"))
    said = f"{owned.choices(ensembles)}; noise {noise:.3g}, σ_b {offset:.2g}"
    return f"{said}, σ_d {smooth:.2g}" if smooth > 0 else said


def _facts(pupils: Pupils, made: list[Once]) -> list[str]:
    data = made[0].owned
    return [
        f"{data.case}: {pupils.question}; {len(data.names)} owners with {data.rows} pupils to learn from and "
        f"{data.questions} held out; {PUBLISH} points per module; notes say what was chosen in how many splits",
        noises(data.case, [m.own_noise for m in made], [m.noise for m in made]),
    ]


def noises(case: str, own: list[float], agreed: list[float]) -> str:
    """What owners take for noise alone, and together."""
    return (
        f"{case}: half of the owners learn a noise variance below {np.mean(own):.3g} on their own; regressions within "
        f"owners leave {np.mean(agreed):.3g} over all of them, which is the noise agreed upon (two numbers from each)"
    )


def compared(rows: list[Row]) -> str:
    """How much owners=auto is better or worse than those it should beat, of one data set."""
    known = {r.model: r.nlpd for r in rows}
    pooled = next(r.model for r in rows if r.model.startswith("central"))
    said = []
    for other in ("each alone", "merged, owners=None", pooled):
        gap = known[DEFAULT] - known[other]
        said.append(f"{abs(gap):.4f} {'better' if gap < 0 else 'worse'} than {other.removeprefix('merged, ')}")
    return f"{rows[0].case}: {DEFAULT} is {', '.join(said)}"


def draw(once: Once, rows: list[Row]) -> Figure:
    """What each class of one split is said to differ by, and what its held-out pupils say; and all models' scores."""
    figure = figures.new(11, 5)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    ensemble = once.ensembles["merged, owners=offset, noise agreed"]
    offsets, gaps, weights = _departures(once.owned, ensemble)
    left.scatter(offsets, gaps, s=4 * weights, color=figures.MERGED, alpha=0.5, lw=0)
    edge = 1.05 * float(np.abs(offsets).max())
    left.plot([-edge, edge], [-edge, edge], color=style.FAINT, lw=1)
    style.tidy(left, "Points of the test above the shared function", ylabel="mean of its held-out pupils")
    left.set_xlabel("a class's offset, as merged")
    shown = sorted((r for r in rows if r.case == once.owned.case), key=lambda r: r.nlpd)
    places = np.arange(len(shown))[::-1]
    right.scatter([r.nlpd for r in shown], places, color=[figures.colour_of(r.model) for r in shown], s=28)
    right.set_yticks(places, [figures.in_words(r.model) for r in shown], fontsize=8)
    figures.grid(right, "x")
    style.tidy(right, "Each class's held-out pupils", xlabel="NLPD, nats per pupil")
    return figure


def _departures(data: Owned, ensemble: Ensemble) -> tuple[Array, Array, Array]:
    """Each owner's offset, the mean distance of its held-out pupils from the shared function, and their number."""
    told = {r["owner"]: r["offset"] or 0.0 for r in ensemble.report()}
    found = []
    for name, held in zip(data.names, data.asked, strict=True):
        if len(held.y):
            gap = float(np.mean(held.y - np.asarray(ensemble.predict(held.X)[0])))
            found.append((told[name], gap, len(held.y)))
    offsets, gaps, weights = np.array(found).T
    return offsets, gaps, weights

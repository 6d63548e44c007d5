"""One data set and one split of `groups`: all owners fit, and each is asked about its own held-out rows.

`run_set` takes other options of `fit` and `merge` where they are to be tried.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ..baselines import central
from ..errors import RecycleGPError, RecycleGPWarning
from ..likelihoods import Bernoulli
from ..local.options import Inference
from ..merging.verdicts import Standing
from ..metrics import evaluate
from ..models.fit import fit
from ..models.merge import merge
from ..models.module import Module
from . import owned
from .core import Answered, Held, timed
from .data import Array
from .grouped_sets import COUNTS, Grouped, load
from .mixed_linear import mixed_linear
from .owned import Owned

TEST = 0.3  # of each owner's rows
NEW = 5  # owners of a split whom a merge of the others has not met
DRAWS = 2000  # of such an owner's function
POINTS = 200  # inducing points of a pooled GP, where it cannot be exact
FITTED_AS = {COUNTS: "counts"}  # counts of real owners are seldom Poisson's: the data choose

MERGED, ALONE, PLAIN = "merged", "each alone", "merged, owners=None, trust=None"
POOLED, LINEAR, STRANGER = "pooled GP", "mixed linear model", "merged, a new owner"


class Answers(NamedTuple):
    """What a model says of rows that it is asked about."""

    log_density: Array  # (n,)
    covered: Array  # (n,) whether y is in the central 95% interval; nan for classes


class SetRow(NamedTuple):
    """One data set and one split; by model, in nats per held-out row."""

    name: str
    split: int
    likelihood: str
    owners: int
    rows: int  # to learn from
    questions: int
    nlpd: dict[str, float]  # nan where a model could not be made: `notes` say why
    coverage: dict[str, float]
    seconds: dict[str, float]  # local fits under "each alone", which are no part of the others
    chosen: str  # how owners differ, as the merge found
    flagged: list[str]  # owners whom the merge does not trust
    new_owners: int  # left out of a merge, one after the other,
    new_means: int  # and the means of so many were where the merge said (of numbers only)
    notes: list[str]
    # of each owner: rows it was asked about, and nats by which merging was worse
    costs: Sequence[tuple[int, float]] = ()


def divided(name: str, split: int) -> tuple[Grouped, Owned]:
    """The set, and who has what and is asked what in this split."""
    data = load(name)
    return data, owned.divided(name, data.X, data.y, data.owner, TEST, split)


def run_set(
    name: str,
    split: int = 0,
    merge_options: Mapping[str, Any] | None = None,
    fit_options: Mapping[str, Any] | None = None,
    *,
    rivals: bool = True,
    new: int = NEW,
) -> SetRow:
    """One data set, one split: every owner fits its rows, and each model is asked about each owner's held-out rows.

    Args:
        name: of the set, as in `grouped_sets.SETS`.
        split: seed of the division into rows to learn from and held-out rows.
        merge_options: of the merge that is to be judged; the defaults unless given.
        fit_options: of the owners' fits; the defaults unless given.
        rivals: whether the plain merge, the pooled GP and the mixed linear model are made, too.
        new: owners who are left out, one after the other, and asked as somebody whom nobody has met.

    Returns:
        What was measured.

    Examples:
        >>> row = run_set("lme4/sleepstudy", 0, {"owners": "offset"}, rivals=False, new=0)
        >>> row.nlpd["merged"] - row.nlpd["each alone"]
    """
    data, asked = divided(name, split)
    options = {"likelihood": FITTED_AS.get(data.likelihood, data.likelihood), "classes": data.classes}
    options |= fit_options or {}

    def join(some: list[Module]) -> Any:
        return merge(some, **(merge_options or {}))

    work = _Work(asked, data)

    def as_owner(made: Any, k: int, held: Held) -> Answers:
        return answers(made, held, asked.names[k])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        local = owned.published(asked, split, **options)
        modules = list(local.modules)
        work.seconds[ALONE] = local.seconds
        work.answer(ALONE, lambda k, held: answers(modules[k], held))
        ensemble = work.make(MERGED, lambda: join(modules), as_owner)
        strangers = _strangers(work, modules, join, split, new) if ensemble is not None else Strangers(0, 0)
        if rivals:
            work.make(PLAIN, lambda: merge(modules, owners=None, trust=None), as_owner)
            work.make(POOLED, lambda: _pooled(asked, data, options, split), lambda made, k, held: made(held))
            work.make(LINEAR, lambda: _linear(asked, data), lambda made, k, held: made(k, held))
    said = Counter(type(w.message).__name__ for w in caught if issubclass(w.category, RecycleGPWarning))
    return SetRow(
        name,
        split,
        data.likelihood,
        len(asked.names),
        asked.rows,
        asked.questions,
        work.nlpd,
        work.coverage,
        {model: round(seconds, 2) for model, seconds in work.seconds.items()},
        "" if ensemble is None else owned.model_of(ensemble),
        [] if ensemble is None else flagged(ensemble),
        *strangers,
        [*work.notes, *(f"{count} × {kind}" for kind, count in said.items())],
        work.costs,
    )


def standard_error(costs: Sequence[Sequence[tuple[int, float]]]) -> float | None:
    """Of what merging costs per row, as it is known of these owners; None where an early run has not written it down.

    Rows of one owner are answered by one fit, and splits share rows, so owners are what is drawn at random. With the
    share w_k of all rows, in all splits together, and a mean cost of c_k for each of these, c = Σ w_k c_k, and

        se² = Σ_k w_k² (c_k − c)² / (1 − 2w_k + Σ_j w_j²)

    since E(c_k − c)² is τ² times that divisor, and var c = τ² Σ_k w_k², where owners' costs have the variance τ².
    """
    if len({len(split) for split in costs}) != 1 or len(costs[0]) < 2:
        return None
    rows, nats = (np.array([[own[i] for own in split] for split in costs], float).sum(0) for i in (0, 1))
    w = rows / rows.sum()
    away = nats / rows - nats.sum() / rows.sum()
    return float(np.sqrt((w**2 * away**2 / (1 - 2 * w + (w**2).sum())).sum()))


def flagged(ensemble: Any) -> list[str]:
    """Owners whom a merge does not believe."""
    return sorted({str(r["owner"]) for r in ensemble.report() if str(r["trust"]).startswith(Standing.FLAGGED.value)})


def answers(model: Any, held: Held, owner: str | None = None) -> Answers:
    """As users ask: `log_density`, and `predict_interval` where y has numbers."""
    known = {} if owner is None else {"owner": owner}
    density = np.asarray(model.log_density(held.X, held.y, **known))
    if model.likelihoods[0].classifies:
        return Answers(density, np.full(len(density), math.nan))
    low, high = (np.asarray(t) for t in model.predict_interval(held.X, **known))
    return Answers(density, ((low <= held.y) & (held.y <= high)).astype(float))


class _Work:
    """One set and one split: what was found so far."""

    def __init__(self, asked: Owned, data: Grouped) -> None:
        self.asked, self.data = asked, data
        self.nlpd: dict[str, float] = {}
        self.coverage: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self.notes: list[str] = []
        self.density: dict[str, list[Array]] = {}  # of each owner's rows

    @property
    def costs(self) -> list[tuple[int, float]]:
        """By owners; nothing where the merge was refused."""
        each = zip(self.density[ALONE], self.density.get(MERGED, []), strict=False)
        return [(len(alone), float((alone - merged).sum())) for alone, merged in each]

    def make(self, model: str, build: Callable[[], Any], ask: Callable[[Any, int, Held], Answers]) -> Any:
        """Build a model, time it, and ask it; None, with a note, where that is refused."""
        try:
            made, self.seconds[model] = timed(build)
            self.answer(model, partial(ask, made))
            return made
        except RecycleGPError as error:
            self.notes.append(f"{model}: {error}")
            self.nlpd[model] = self.coverage[model] = math.nan
            return None

    def answer(self, model: str, ask: Callable[[int, Held], Answers]) -> None:
        self.keep(model, [ask(k, held) for k, held in enumerate(self.asked.asked) if len(held.y)])

    def keep(self, model: str, found: Sequence[Answers]) -> None:
        self.density[model] = [own.log_density for own in found]
        density, covered = (np.concatenate(t) for t in zip(*found, strict=True))
        self.nlpd[model], self.coverage[model] = -float(density.mean()), float(covered.mean())


def _of_moments(model: Any, held: Held) -> Answers:
    """Of a model that has no more than a likelihood and the moments of f."""
    rows = evaluate(Answered(model.likelihoods, model.predict(held.X)), held.X, held.y)
    if rows.below is None or rows.up_to is None:
        return Answers(rows.log_density, np.full(len(rows.y), math.nan))
    return Answers(rows.log_density, ((rows.up_to >= 0.025) & (rows.below <= 0.975)).astype(float))


def _pooled(asked: Owned, data: Grouped, options: Mapping[str, Any], seed: int) -> Callable[[Held], Answers]:
    """One GP of everybody's rows, which does not know whose they are; exact for numbers."""
    kernel = options.get("kernel", Inference().kernel)
    if data.likelihood == "gaussian":
        return partial(_of_moments, central.exact(asked.parts, kernel=kernel, rows=asked.rows, seed=seed))
    X, y = (np.concatenate(t) for t in zip(*asked.parts, strict=True))
    known = {"likelihood": options["likelihood"], "classes": data.classes, "kernel": kernel, "seed": seed}
    return partial(answers, fit(X, y, inducing=min(POINTS, len(y) // 2), publish=None, **known))


def _linear(asked: Owned, data: Grouped) -> Callable[[int, Held], Answers]:
    """Of classes one for each, against all others; their probabilities are made to add up to one."""
    if data.classes is None:
        line = mixed_linear(asked.parts, data.likelihood)
        return lambda k, held: _of_moments(line.seen_by(k), held)
    classes = data.classes
    lines = [mixed_linear([(X, (y == c).astype(float)) for X, y in asked.parts], "bernoulli") for c in classes]

    def ask(k: int, held: Held) -> Answers:
        found = [line.predict(torch.as_tensor(held.X), k) for line in lines]
        p = torch.stack([Bernoulli().moments(mean, variance).mean for mean, variance in found], 1)
        took = torch.as_tensor([classes.index(c) for c in held.y])
        density = (p / p.sum(1, keepdim=True)).gather(1, took[:, None])[:, 0].log()
        return Answers(density.numpy(), np.full(len(took), math.nan))

    return ask


# --- owners whom nobody has met -------------------------------------------------------------------


class Strangers(NamedTuple):
    owners: int
    means: int  # of so many the mean of y was in the central 95% interval


def _strangers(
    work: _Work, modules: Sequence[Module], join: Callable[[list[Module]], Any], split: int, new: int
) -> Strangers:
    """Merge the others, ask about all rows of the one left out."""
    asked = work.asked
    found, inside = [], 0
    for k in left_out(len(modules), split, new):
        try:
            ensemble = join([m for i, m in enumerate(modules) if i != k])
        except RecycleGPError as error:
            work.notes.append(f"{STRANGER}, without {asked.names[k]}: {error}")
            continue
        (X, y), held = asked.parts[k], asked.asked[k]
        rows = Held(np.concatenate([X, held.X]), np.concatenate([y, held.y]))
        found.append(answers(ensemble, rows, "new"))
        if work.data.likelihood == "gaussian":
            inside += _mean_inside(ensemble, rows)
    if found:
        work.keep(STRANGER, found)
    return Strangers(len(found), inside)


def left_out(owners: int, split: int, count: int) -> list[int]:
    """So many owners, as far as there are any, in each split others; two must remain."""
    count = min(count, owners) if owners > 2 else 0
    order = np.random.default_rng(0).permutation(owners).tolist()
    return [order[i % owners] for i in range(split * count, (split + 1) * count)]


def _mean_inside(ensemble: Any, rows: Held) -> bool:
    """Is the mean of an owner's rows where a merge expects it, noise included: ȳ = 1ᵀf/n + 1ᵀε/n?"""
    f = np.asarray(ensemble.sample(rows.X, DRAWS, owner="new")).mean(1)
    _, of_f = (np.asarray(t) for t in ensemble.predict(rows.X, owner="new"))
    _, of_y = (np.asarray(t) for t in ensemble.predict_y(rows.X, owner="new"))
    noise = max(float(np.mean(of_y - of_f)), 0.0)
    drawn = f + np.random.default_rng(0).normal(0, math.sqrt(noise / len(rows.y)), len(f))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return bool(low <= np.mean(rows.y) <= high)

"""What an experiment is given, what it returns, and how one row of its table is measured.

Every experiment is a module with

    run(settings, report) -> Outcome          report("message") once before each piece of work
    steps(settings) -> int                    optional: how many messages there will be
"""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch

from ..baselines.rival import Rival, module_bytes
from ..errors import RecycleGPError
from ..likelihoods import Likelihood
from ..metrics import Model, concatenate, evaluate, summary
from ..models.module import Module

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Report = Callable[[str], None]
M = TypeVar("M", bound=Model)


def quiet(message: str) -> None:
    """Nobody is told."""


class MissingDataError(RecycleGPError):
    """A data set is neither in the data directory nor installed; the message says what to install."""


class Settings(NamedTuple):
    full: bool  # the paper's sizes, or the same structure in under a minute
    seeds: int  # data sets, splits or repetitions that are averaged
    data_dir: Path | None
    seed: int = 0  # the first of them
    # of an experiment with many data sets:
    sets: str | None = None  # which half of them
    only: tuple[str, ...] = ()  # or which
    jobs: int = 1  # processes
    kept: Path | None = None  # a file of what is done, to which a run adds

    @property
    def repeats(self) -> range:
        return range(self.seed, self.seed + self.seeds)


class Held(NamedTuple):
    """Held-out data, and what is known about them."""

    X: Any
    y: Any
    f: Any = None  # the true latent function at X
    likelihood: str | None = None  # where models have several


class Row(NamedTuple):
    """One model in one case, on held-out data."""

    case: str
    model: str
    nlpd: float  # mean of −log p(y_t)
    rmse: float
    mae: float
    coverage: float  # of y by the central 95% interval; nan for classes
    error: float  # share of wrong classes; nan where there are none
    on: str  # what rmse and mae are of: "f" or "y"
    fit_seconds: float  # everything before the first prediction, local fits included
    predict_seconds: float
    bytes: float  # that leave a data owner, the mean over owners: for fitting and for answering
    points: int | None  # inducing points of the model that answers
    note: str = ""
    nlpd_sd: float = math.nan  # over seeds, where there are several
    seeds: int = 1


AVERAGED = ("nlpd", "rmse", "mae", "coverage", "error", "fit_seconds", "predict_seconds", "bytes")


@dataclass(frozen=True)
class Outcome:
    rows: list[Row]
    figure: Figure | None
    notes: list[str] = field(default_factory=list)  # what was not run and why, what the data are


class Measured(NamedTuple, Generic[M]):
    row: Row
    model: M


class Timed(NamedTuple):
    value: Any
    seconds: float


def timed(build: Callable[[], Any]) -> Timed:
    """With the seconds that were computed, whoever else uses the machine meanwhile."""
    begun = time.process_time()
    value = build()
    return Timed(value, time.process_time() - begun)


@dataclass(frozen=True)
class Answered:
    """Predictions that were already made, as a model to be scored: predicting is timed, and done once."""

    likelihoods: tuple[Likelihood, ...]
    moments: tuple[Any, Any]

    def predict(self, X: Any) -> tuple[Any, Any]:
        return self.moments


def measured(
    case: str, name: str, build: Callable[[], M], held: Held, before: float = 0.0, **known: Any
) -> Measured[M]:
    """Build a model, predict, score: one row, and the model. `before`: seconds spent on what several models use."""
    model, fitted = timed(build)
    return Measured(answered(case, name, model, held, seconds=before + fitted, **known), model)


def answered(
    case: str,
    name: str,
    model: Model,
    held: Held,
    *,
    bytes: float | None = None,
    points: int | None = None,
    **known: Any,
) -> Row:
    """The row of a model that is already there: a rival and a module know what is sent, an ensemble must be told."""
    if bytes is None:
        bytes = sent(model, len(held.y))
    if points is None and hasattr(model, "inducing"):
        points = len(model.inducing)
    return answered_each(case, name, [(model, held)], bytes=bytes, points=points, **known)


def answered_each(
    case: str,
    name: str,
    asked: Iterable[tuple[Model, Held]],
    seconds: float,  # since work on it began
    bytes: float,  # that leave a data owner
    points: int | None = None,
    note: str = "",
) -> Row:
    """One row for many questions, each to the model that is to answer it; predicting is timed."""
    found, spent = [], 0.0
    for model, (X, y, f, likelihood) in asked:
        with torch.no_grad():
            moments, predicting = timed(partial(model.predict, X))
        found.append(evaluate(Answered(model.likelihoods, moments), X, y, f=f, likelihood=likelihood))
        spent += predicting
    return Row(case, name, *summary(concatenate(found))[:6], seconds, spent, bytes, points, note)


def sent(model: Any, questions: int) -> float:
    """Bytes that leave a data owner to fit this model and answer so many questions."""
    if isinstance(model, Rival):
        return model.bytes_sent(questions)
    return float(module_bytes(model)) if isinstance(model, Module) else math.nan


def published_bytes(modules: Iterable[Module]) -> float:
    """What an owner of one of these modules sends, on average."""
    return statistics.fmean(module_bytes(m) for m in modules)


def averaged(rows: Iterable[Row]) -> list[Row]:
    """One row for each case and model, in the order of their first: means over seeds, and the sd of NLPD."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.case, row.model), []).append(row)
    return [_average(group) if len(group) > 1 else group[0] for group in groups.values()]


def _average(rows: list[Row]) -> Row:
    points = [r.points for r in rows if r.points is not None]
    return mean(rows)._replace(
        points=round(statistics.fmean(points)) if points else None,
        note=_together([r.note for r in rows if r.note]),
        nlpd_sd=statistics.stdev(r.nlpd for r in rows),
        seeds=len(rows),
    )


def mean(rows: Sequence[Row]) -> Row:
    """The first of them, with the means of all numbers."""
    means: dict[str, Any] = {name: statistics.fmean(getattr(r, name) for r in rows) for name in AVERAGED}
    return rows[0]._replace(**means)


def _together(notes: Sequence[str]) -> str:
    """Each once; those that differ by one number as a range: "1092–1706 steps"."""
    numbers: dict[str, list[int]] = {}
    for note in notes:
        found = re.findall(r"\d+", note)
        numbers.setdefault(re.sub(r"\d+", "#", note) if len(found) == 1 else note, []).extend(map(int, found[:1]))
    said = []
    for words, values in numbers.items():
        low, high = (min(values), max(values)) if values else (0, 0)
        said.append(words.replace("#", str(low) if low == high else f"{low}–{high}"))
    return "; ".join(said)

"""All metrics of one model on test data.

NLPD is the MEAN of −log p(y_t), on y, always. RMSE and MAE are of f where the truth is known, else of
y, and the score says which. Anything that knows its likelihood and the moments of f can be scored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from .. import arrays, likelihoods
from ..devices import CPU
from ..errors import RecycleGPError
from ..likelihoods import Likelihood
from ..models.ensemble import Ensemble
from ..models.joint.links import VARYING, Classes, Outputs
from ..models.joint.predictive import JointPredictive
from ..models.naming import NEW
from . import classes, numbers

LEVEL = 0.95  # of the interval whose coverage is counted
LEVELS = (0.5, 0.8, LEVEL)  # and of narrower ones


class Model(Protocol):
    """A module, an ensemble, or a rival."""

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]: ...

    def predict(self, X: Any) -> tuple[Any, Any]: ...


class Score(NamedTuple):
    """How good a model is on test data. What does not apply is nan."""

    nlpd: float  # mean of −log p(y_t); for classes this is the log-loss
    rmse: float
    mae: float
    coverage: float  # of the central 95% interval for y; nan for classes
    error: float  # share of wrong classes; nan where there are none
    on: str  # what rmse and mae are of: "f", or "y" (for classes its probability)
    crps: float = math.nan  # mean of ∫ (P(Y ≤ t) − [y ≤ t])² dt, in the units of y; nan for classes
    coverage_50: float = math.nan
    coverage_80: float = math.nan
    auroc: float = math.nan  # these three are of classes
    brier: float = math.nan
    ece: float = math.nan


class Evaluated(NamedTuple):
    """What scores are made of, row by row. The last three are of numbers, `proba` of classes; else they are None."""

    y: np.ndarray
    log_density: np.ndarray
    predicted: np.ndarray  # what rmse and mae compare,
    truth: np.ndarray  # with this
    on: str  # what these two are of: "f" or "y"
    proba: np.ndarray | None  # (n, C)
    below: np.ndarray | None  # P(Y < y)
    up_to: np.ndarray | None  # P(Y ≤ y)
    crps: np.ndarray | None

    def only(self, rows: np.ndarray) -> Evaluated:
        """Some of the rows."""
        some: list[Any] = [v[rows] if isinstance(v, np.ndarray) else v for v in self]
        return Evaluated(*some)


class OutputRows(NamedTuple):
    """One output where it was seen."""

    at: np.ndarray  # positions of these rows
    rows: Evaluated


def evaluate(
    model: Model, X: Any, y: Any, *, f: Any = None, likelihood: str | None = None, owner: str | None = None
) -> Evaluated:
    """What a model says of each test row; arguments as for `score`."""
    if isinstance(model, JointPredictive):
        return _evaluate_jointly(model, X, y, owner)
    chosen = likelihoods.choose(model.likelihoods, likelihood)
    with torch.no_grad():
        # y is somebody's: without an owner, a new one's
        found = model.predict(X, owner=owner or NEW) if isinstance(model, Ensemble) else model.predict(X)
        mean, variance = (arrays.as_tensor(t, "prediction", "cpu") for t in found)
        y = arrays.targets(y, len(mean), device="cpu")
        rows = _evaluate_one(chosen, y, mean, variance)
    if f is None:
        return rows
    return rows._replace(predicted=mean.numpy(), truth=arrays.targets(f, len(y), "f", device="cpu").numpy(), on="f")


@torch.no_grad()
def evaluate_outputs(model: JointPredictive, X: Any, Y: Any, *, owner: str | None = None) -> dict[str, OutputRows]:
    """What a model of several outputs says of the cells of test rows.

    Args:
        model: a joint module or ensemble of outputs.
        X: (n, D) test inputs.
        Y: (n, C) outputs, or a DataFrame with their names; NaN where one was not seen.
        owner: whose rows they are; a new owner's unless given.

    Returns:
        For each output, by name, the rows in which it was seen, if there are any.
    """
    if not isinstance(model.link, Outputs):
        raise RecycleGPError(f"this model has {model.link.kind}; use evaluate or score")
    mean, variance = (t.cpu() for t in model._moments(X, owner, of_y=True))
    y = model.link.check(Y, len(mean), CPU)
    found = {}
    for c, (name, own) in enumerate(zip(model.functions, model.likelihoods, strict=True)):
        seen = torch.isfinite(y[:, c])
        if bool(seen.any()):
            rows = _evaluate_one(likelihoods.choose((own,), None), y[seen, c], mean[seen, c], variance[seen, c])
            found[name] = OutputRows(np.flatnonzero(seen.numpy()), rows)
    return found


def score_outputs(model: JointPredictive, X: Any, Y: Any, *, owner: str | None = None) -> dict[str, Score]:
    """All metrics of each output of a model, by its name; arguments as for `evaluate_outputs`."""
    return {name: summary(found.rows) for name, found in evaluate_outputs(model, X, Y, owner=owner).items()}


def _evaluate_one(chosen: Likelihood, y: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> Evaluated:
    """Of one function."""
    y = chosen.check(y)
    predicted = chosen.moments(mean, variance).mean
    below = up_to = crps = proba = None
    if chosen.classifies:
        proba = torch.stack([1 - predicted, predicted], 1).numpy()
    else:
        below, up_to = (t.numpy() for t in chosen.distribution(y, mean, variance))
        crps = chosen.crps(y, mean, variance).numpy()
    density = chosen.log_density(y, mean, variance).numpy()
    return Evaluated(y.numpy(), density, predicted.numpy(), y.numpy(), "y", proba, below, up_to, crps)


@torch.no_grad()
def _evaluate_jointly(model: JointPredictive, X: Any, y: Any, owner: str | None) -> Evaluated:
    """Of any number of classes, or of numbers whose noise varies."""
    if isinstance(model.link, Outputs):
        raise RecycleGPError(f"this model has {len(model.functions)} outputs; use score_outputs or evaluate_outputs")
    mean, variance = (t.cpu() for t in model._moments(X, owner, of_y=True))
    y = model.link.check(y, len(mean), CPU)
    log_density = model.link.log_density(y, mean, variance, model.likelihoods).numpy()
    proba = below = crps = None
    if isinstance(model.link, Classes):
        proba = model.link.probabilities(mean, variance).numpy()
        predicted = proba[np.arange(len(y)), y.numpy()]
        truth = np.ones(len(y))  # the probability of what happened
    else:
        below = VARYING.distribution_of(y, mean, variance).numpy()
        crps = VARYING.crps_of(y, mean, variance).numpy()
        predicted, truth = mean[:, 0].numpy(), y.numpy()
    return Evaluated(y.numpy(), log_density, predicted, truth, "y", proba, below, below, crps)


def concatenate(parts: Sequence[Evaluated]) -> Evaluated:
    """All rows of several parts."""
    together: list[Any] = [
        np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
        for values in zip(*parts, strict=True)
    ]
    return Evaluated(*together)


def summary(rows: Evaluated) -> Score:
    """The score of all these rows."""
    found = Score(
        nlpd=numbers.nlpd(rows.log_density),
        rmse=numbers.rmse(rows.predicted, rows.truth),
        mae=numbers.mae(rows.predicted, rows.truth),
        coverage=math.nan,
        error=math.nan,
        on=rows.on,
    )
    if rows.proba is not None:
        return found._replace(
            error=classes.error_rate(rows.proba, rows.y),
            auroc=classes.auroc(rows.proba, rows.y),
            brier=classes.brier(rows.proba, rows.y),
            ece=classes.ece(rows.proba, rows.y),
        )
    half, most, all_but_few = (numbers.coverage(rows.below, rows.up_to, level) for level in LEVELS)
    return found._replace(
        coverage=all_but_few, coverage_80=most, coverage_50=half, crps=float(np.mean(np.asarray(rows.crps)))
    )


def score(
    model: Model, X: Any, y: Any, *, f: Any = None, likelihood: str | None = None, owner: str | None = None
) -> Score:
    """All metrics of one model on test data.

    Args:
        model: a module, an ensemble, or anything that knows its likelihoods and the moments of f; also joint ones of
            classes and of varying noise. For several outputs use `score_outputs`.
        X: (n, D) test inputs.
        y: n test targets.
        f: the true latent function at X, where it is known.
        likelihood: which one, by name; may be left out where the model has one.
        owner: whose rows they are, where the model is an ensemble whose owners differ; a new owner's unless given.

    Returns:
        The score.
    """
    return summary(evaluate(model, X, y, f=f, likelihood=likelihood, owner=owner))

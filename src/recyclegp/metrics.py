"""How good a predictive is, in one place: every table is made with these numbers.

NLPD is the MEAN of −log p(y_t), on y, always. RMSE and MAE are of f where the truth is known, else of
y, and the score says which. Anything that knows its likelihood and the moments of f can be scored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from . import arrays, likelihoods
from .errors import RecycleGPError
from .likelihoods import Likelihood
from .models.ensemble import Ensemble
from .models.naming import NEW

LEVEL = 0.95  # of the interval whose coverage is counted


class Model(Protocol):
    """A module, an ensemble, or a rival."""

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]: ...

    def predict(self, X: Any) -> tuple[Any, Any]: ...


class Score(NamedTuple):
    """How good a model is on test data."""

    nlpd: float  # mean of −log p(y_t)
    rmse: float
    mae: float
    coverage: float  # of the central 95% interval for y; nan for classes
    error: float  # share of wrong classes; nan where there are none
    on: str  # what rmse and mae are of: "f", or "y" (for classes its probability, so rmse² is Brier's score)


def nlpd(log_densities: Any) -> float:
    """Mean of −log p(y_t).

    Args:
        log_densities: log p(y_t) of every test row, as `log_density` of a model gives them.
    """
    return -float(np.mean(np.asarray(log_densities)))


def rmse(predicted: Any, truth: Any) -> float:
    """Root of the mean squared error.

    Args:
        predicted: n numbers.
        truth: as many.
    """
    return float(np.sqrt(np.mean(_gap(predicted, truth) ** 2)))


def mae(predicted: Any, truth: Any) -> float:
    """Mean absolute error.

    Args:
        predicted: n numbers.
        truth: as many.
    """
    return float(np.mean(np.abs(_gap(predicted, truth))))


def coverage(below: Any, up_to: Any, level: float = LEVEL) -> float:
    """Share of y within their central intervals.

    The interval runs from the smallest y with P(Y ≤ y) ≥ (1−level)/2 to the smallest with (1+level)/2.

    Args:
        below: P(Y < y_t) of every test row.
        up_to: P(Y ≤ y_t), which is the same where Y is continuous.
        level: of the intervals.
    """
    tail = 0.5 * (1 - level)
    return float(np.mean((np.asarray(up_to) >= tail) & (np.asarray(below) < 1 - tail)))


def error_rate(proba: Any, y: Any) -> float:
    """Share of wrong classes. A tie counts as half an error.

    Args:
        proba: (n,) probabilities of class 1, or (n, 2) of both classes.
        y: n classes, 0 and 1.
    """
    p, y = np.asarray(proba, dtype=float), np.asarray(y)
    p = p[:, 1] if p.ndim == 2 else p
    wrong = (p > 0.5) != (y > 0)
    return float(np.mean(np.where(p == 0.5, 0.5, wrong)))


def score(
    model: Model, X: Any, y: Any, *, f: Any = None, likelihood: str | None = None, owner: str | None = None
) -> Score:
    """All metrics of one model on test data.

    Args:
        model: a module, an ensemble, or anything that knows its likelihoods and the moments of f.
        X: (n, D) test inputs.
        y: n test targets.
        f: the true latent function at X, where it is known.
        likelihood: which one, by name; may be left out where the model has one.
        owner: whose rows they are, where the model is an ensemble whose owners differ; a new owner's unless given.

    Returns:
        The score.
    """
    chosen = likelihoods.choose(model.likelihoods, likelihood)
    with torch.no_grad():
        # y is somebody's: without an owner, a new one's
        found = model.predict(X, owner=owner or NEW) if isinstance(model, Ensemble) else model.predict(X)
        mean, variance = (arrays.as_tensor(t, "prediction", "cpu") for t in found)
        y = chosen.check(arrays.targets(y, len(mean), device="cpu"))
        densities = chosen.log_density(y, mean, variance)
        predicted = chosen.moments(mean, variance).mean
        covered = math.nan if chosen.classifies else coverage(*chosen.distribution(y, mean, variance))
    truth = y if f is None else arrays.targets(f, len(y), "f", device="cpu")
    given = predicted if f is None else mean
    return Score(
        nlpd=nlpd(densities),
        rmse=rmse(given, truth),
        mae=mae(given, truth),
        coverage=covered,
        error=error_rate(predicted, y) if chosen.classifies else math.nan,
        on="y" if f is None else "f",
    )


def pooled(scores: Sequence[Score], rows: Sequence[int]) -> Score:
    """The score of all test data, from those of its parts.

    Args:
        scores: one for each part.
        rows: how many test rows each part has.

    Returns:
        The score of all rows.
    """
    share = np.asarray(rows, dtype=float) / sum(rows)

    def mean(values: Iterable[float]) -> float:
        return float(share @ np.asarray(list(values)))

    return Score(
        nlpd=mean(s.nlpd for s in scores),
        rmse=math.sqrt(mean(s.rmse**2 for s in scores)),
        mae=mean(s.mae for s in scores),
        coverage=mean(s.coverage for s in scores),
        error=mean(s.error for s in scores),
        on=scores[0].on,
    )


def _gap(predicted: Any, truth: Any) -> np.ndarray:
    a, b = np.asarray(predicted, dtype=float), np.asarray(truth, dtype=float)
    if a.shape != b.shape:  # (n,) − (n, 1) would be an n×n table
        raise RecycleGPError(f"predictions have shape {a.shape} and the truth {b.shape}; make them equal")
    return a - b

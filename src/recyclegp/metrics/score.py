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
from ..arrays import Array
from ..devices import CPU
from ..errors import RecycleGPError
from ..likelihoods import Likelihood, Moments, Observed, Outputs
from ..models.predictive import Predictive
from . import classes, numbers

LEVEL = 0.95  # of the interval whose coverage is counted
LEVELS = (0.5, 0.8, LEVEL)  # and of narrower ones


class Model(Protocol):
    """A module, an ensemble, or a rival."""

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]: ...

    def predict(self, X: Array) -> tuple[Array, Array]: ...


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

    def __repr__(self) -> str:
        """What applies, in four digits; the fields have all of them."""
        numbers = {name: v for name, v in self._asdict().items() if isinstance(v, float) and not math.isnan(v)}
        said = ", ".join(f"{name}={value:.4g}" for name, value in numbers.items())
        return f"Score({said}, on={self.on!r})"


class Evaluated(NamedTuple):
    """What scores are made of, row by row. The last three are of numbers, `proba` of classes, all four of levels.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 30)
        >>> rows = rgp.metrics.evaluate(rgp.fit(x, np.sin(x), noise=0.01), x, np.sin(x))
    """

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
        """Some of the rows.

        Examples:
            >>> len(rows.only(x > 3).truth)
            15
        """
        some: list[Any] = [v[rows] if isinstance(v, np.ndarray) else v for v in self]
        return Evaluated(*some)


class OutputRows(NamedTuple):
    """One output where it was seen."""

    at: np.ndarray  # positions of these rows
    rows: Evaluated


@torch.no_grad()
def evaluate(
    model: Model, X: Array, y: Array, *, f: Array | None = None, likelihood: str | None = None, owner: str | None = None
) -> Evaluated:
    """What a model says of each test row; arguments as for `score`.

    Returns:
        What scores are made of, row by row; `summary` makes the score of all of them or of some.

    Raises:
        RecycleGPError: y does not fit X or the likelihood, or the model has several outputs.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 50)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01)
        >>> rgp.metrics.evaluate(m, X, np.sin(X[:, 0])).log_density.shape
        (50,)
    """
    chosen = likelihoods.choose(model.likelihoods, likelihood)
    if isinstance(chosen, Outputs):
        raise RecycleGPError(f"this model has {len(chosen.names)} outputs; use score_outputs or evaluate_outputs")
    observed = _observed(model, X, chosen, owner)
    at = observed.at
    y = model._as_numbers(y) if isinstance(model, Predictive) else y
    rows = _evaluate_one(observed, chosen.targets(y, len(at.mean), CPU))
    if f is None:
        return rows
    if chosen.predicts_all:
        raise RecycleGPError(f"f: this model has {chosen.meaning}, and no single function; leave it out")
    true = arrays.targets(f, len(at.mean), "f", device="cpu").numpy()
    return rows._replace(predicted=chosen.answered(at).mean.numpy(), truth=true, on="f")


@torch.no_grad()
def evaluate_outputs(model: Model, X: Array, Y: Array, *, owner: str | None = None) -> dict[str, OutputRows]:
    """What a model of several outputs says of the cells of test rows.

    Args:
        model: a module or ensemble of outputs.
        X: (n, D) test inputs.
        Y: (n, C) outputs, or a DataFrame with their names; NaN where one was not seen.
        owner: whose rows they are; a new owner's unless given.

    Returns:
        For each output, by name, the rows in which it was seen, if there are any.

    Raises:
        RecycleGPError: Y does not have the model's outputs, or the model has no several of them.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 50)[:, None]
        >>> Y = np.hstack([np.sin(X), np.cos(X)])
        >>> m = rgp.fit(X, Y, noise=0.01, target=["a", "b"])
        >>> list(rgp.metrics.evaluate_outputs(m, X, Y))
        ['a', 'b']
    """
    whole = model.likelihoods[0]
    if not isinstance(whole, Outputs):
        raise RecycleGPError(f"this model has {whole.meaning}; use evaluate or score")
    observed = _observed(model, X, whole, owner)
    y = whole.targets(Y, len(observed.at.mean), CPU)
    found = {}
    for c, (name, own) in enumerate(zip(whole.functions, observed.outputs(), strict=True)):
        seen = torch.isfinite(y[:, c])
        if bool(seen.any()):
            chosen = likelihoods.choose((own.likelihood,), None)
            rows = _evaluate_one(own.map(lambda t: t[seen]), chosen.check(y[seen, c]))  # noqa: B023 (called at once)
            found[name] = OutputRows(np.flatnonzero(seen.numpy()), rows)
    return found


def score_outputs(model: Model, X: Array, Y: Array, *, owner: str | None = None) -> dict[str, Score]:
    """All metrics of each output of a model, by its name; arguments as for `evaluate_outputs`.

    Returns:
        A score for each output that was seen in some row.

    Raises:
        RecycleGPError: Y does not have the model's outputs, or the model has no several of them.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 50)[:, None]
        >>> Y = np.hstack([np.sin(X), np.cos(X)])
        >>> m = rgp.fit(X, Y, noise=0.01, target=["a", "b"])
        >>> rgp.metrics.score_outputs(m, X, Y)["a"].rmse < 0.1
        True
    """
    return {name: summary(found.rows) for name, found in evaluate_outputs(model, X, Y, owner=owner).items()}


def _observed(model: Model, X: Array, chosen: Likelihood, owner: str | None) -> Observed:
    """y is somebody's: of our own models without an owner a new one's."""
    if isinstance(model, Predictive):
        return model._observed(X, owner, chosen.name if len(model.likelihoods) > 1 else None).map(torch.Tensor.cpu)
    mean, variance = (arrays.as_tensor(t, "prediction", "cpu")[:, None] for t in model.predict(X))
    return Observed(chosen, Moments(mean, variance))


def _evaluate_one(observed: Observed, y: torch.Tensor) -> Evaluated:
    """Rows of y, which is one number or one class each; CRPS of a mixture is that of its moments."""
    below = up_to = crps = proba = None
    chosen = observed.likelihood
    predicted, truth = observed.moments().mean, chosen.compared(y)
    if chosen.classifies:
        p = observed.probabilities()
        proba = p.numpy()
        if predicted.ndim == 2:  # the probability of what happened
            predicted, truth = p.gather(1, y[:, None])[:, 0], torch.ones_like(p[:, 0])
    if not chosen.classifies or chosen.ordered:
        below, up_to = (t.numpy() for t in observed.distribution(y))
        crps = chosen.crps_at(y, observed.at).numpy()
    density = observed.log_density(y).numpy()
    return Evaluated(y.numpy(), density, predicted.numpy(), truth.numpy(), "y", proba, below, up_to, crps)


def concatenate(parts: Sequence[Evaluated]) -> Evaluated:
    """All rows of several parts.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 30)
        >>> part = rgp.metrics.evaluate(rgp.fit(x, np.sin(x), noise=0.01), x, np.sin(x))
        >>> len(concatenate([part, part]).truth)
        60
    """
    together: list[Any] = [
        np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
        for values in zip(*parts, strict=True)
    ]
    return Evaluated(*together)


def summary(rows: Evaluated) -> Score:
    """The score of all these rows.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 30)
        >>> rows = rgp.metrics.evaluate(rgp.fit(x, np.sin(x), noise=0.01), x, np.sin(x))
        >>> summary(rows).rmse < 0.1
        True
    """
    found = Score(
        nlpd=numbers.nlpd(rows.log_density),
        rmse=numbers.rmse(rows.predicted, rows.truth),
        mae=numbers.mae(rows.predicted, rows.truth),
        coverage=math.nan,
        error=math.nan,
        on=rows.on,
    )
    if rows.proba is not None:
        found = found._replace(
            error=classes.error_rate(rows.proba, rows.y),
            auroc=classes.auroc(rows.proba, rows.y),
            brier=classes.brier(rows.proba, rows.y),
            ece=classes.ece(rows.proba, rows.y),
        )
    if rows.crps is None:
        return found
    half, most, all_but_few = (_coverage(rows, level) for level in LEVELS)
    return found._replace(
        coverage=all_but_few, coverage_80=most, coverage_50=half, crps=float(np.mean(np.asarray(rows.crps)))
    )


def _coverage(rows: Evaluated, level: float) -> float:
    """Share of y within their central intervals.

    A y that was censored is somewhere beyond: of [P(Y ≤ y), 1], over which a right model has it evenly spread, that
    share counts which is within.
    """
    censored = np.isnan(np.asarray(rows.crps))
    held = numbers.coverage(rows.below, rows.up_to, level)
    if not censored.any():
        return held
    below, tail = np.asarray(rows.below), 0.5 * (1 - level)
    seen = (below >= tail) & (below < 1 - tail)
    within = (1 - tail - np.clip(below, tail, 1 - tail)) / np.maximum(1 - below, 1e-300)
    return float(np.mean(np.where(censored, within, seen)))


def score(
    model: Model, X: Array, y: Array, *, f: Array | None = None, likelihood: str | None = None, owner: str | None = None
) -> Score:
    """All metrics of one model on test data.

    Args:
        model: a module, an ensemble, or anything that knows its likelihoods and the moments of f; also of classes and
            of varying noise. For several outputs use `score_outputs`.
        X: (n, D) test inputs.
        y: n test targets, or classes.
        f: the true latent function at X, where it is known.
        likelihood: which one, by name; may be left out where the model has one.
        owner: whose rows they are, where the model is an ensemble whose owners differ; a new owner's unless given.

    Returns:
        The score.

    Raises:
        RecycleGPError: y does not fit X or the likelihood, or the model has several outputs.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 50)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01)
        >>> rgp.metrics.score(m, X, np.sin(X[:, 0])).rmse < 0.1
        True
    """
    return summary(evaluate(model, X, y, f=f, likelihood=likelihood, owner=owner))

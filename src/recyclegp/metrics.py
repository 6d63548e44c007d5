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
from torch import Tensor

from . import arrays
from .errors import RecycleGPError
from .gp import pick
from .likelihoods import Likelihood, family, log_density

LEVEL = 0.95
NODES = 0.02  # spacing of the trapezoid sums for a predictive's distribution function
CHUNK = 4096  # points integrated at once


class Model(Protocol):
    """A module, an ensemble, or a rival."""

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]: ...

    def predict(self, X: Any) -> tuple[Any, Any]: ...


class Score(NamedTuple):
    nlpd: float  # mean of −log p(y_t)
    rmse: float
    mae: float
    coverage: float  # of the central 95% interval for y; nan for classes
    error: float  # share of wrong classes; nan where there are none
    on: str  # what rmse and mae are of: "f", or "y" (for classes its probability, so rmse² is Brier's score)


def nlpd(log_densities: Any) -> float:
    """Mean of −log p(y_t)."""
    return -float(np.mean(np.asarray(log_densities)))


def rmse(predicted: Any, truth: Any) -> float:
    return float(np.sqrt(np.mean(_gap(predicted, truth) ** 2)))


def mae(predicted: Any, truth: Any) -> float:
    return float(np.mean(np.abs(_gap(predicted, truth))))


def coverage(below: Any, up_to: Any, level: float = LEVEL) -> float:
    """Share of y within their central intervals, from P(Y < y_t) and P(Y ≤ y_t) (equal where Y is continuous).

    The interval runs from the smallest y with P(Y ≤ y) ≥ (1−level)/2 to the smallest with (1+level)/2.
    """
    tail = 0.5 * (1 - level)
    return float(np.mean((np.asarray(up_to) >= tail) & (np.asarray(below) < 1 - tail)))


def error_rate(proba: Any, y: Any) -> float:
    """Share of wrong classes; proba (n,) of class 1, or (n, 2). A tie counts as half an error."""
    p, y = np.asarray(proba, dtype=float), np.asarray(y)
    p = p[:, 1] if p.ndim == 2 else p
    wrong = (p > 0.5) != (y > 0)
    return float(np.mean(np.where(p == 0.5, 0.5, wrong)))


def score(model: Model, X: Any, y: Any, *, f: Any = None, likelihood: str | None = None) -> Score:
    """All metrics of one model on test data; `f` is the true latent function at X, where known."""
    chosen = pick(model.likelihoods, likelihood)
    kind = family(chosen.name)
    with torch.no_grad():
        mean, variance = (arrays.as_tensor(t, "prediction", "cpu") for t in model.predict(X))
        y = kind.check(arrays.targets(y, len(mean), device="cpu"))
        log_p = chosen.log_parameters(mean)
        densities = log_density(chosen.name, y, mean, variance, log_p)
        predicted, _ = kind.moments(mean, variance, log_p)
        classes = chosen.name.startswith("bernoulli")
        covered = math.nan if classes else coverage(*distribution(chosen.name, y, mean, variance, log_p))
    truth = y if f is None else arrays.targets(f, len(y), "f", device="cpu")
    given = predicted if f is None else mean
    return Score(
        nlpd=nlpd(densities),
        rmse=rmse(given, truth),
        mae=mae(given, truth),
        coverage=covered,
        error=error_rate(predicted, y) if classes else math.nan,
        on="y" if f is None else "f",
    )


def pooled(scores: Sequence[Score], rows: Sequence[int]) -> Score:
    """The score of all test data, from those of its parts."""
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


def distribution(name: str, y: Tensor, m: Tensor, v: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    """P(Y < y_t) and P(Y ≤ y_t) of the predictive of y, with q(f) = N(m, v) integrated out."""
    if name == "gaussian":
        up_to = torch.special.ndtr((y - m) / (v + log_p[0].exp()).sqrt())
        return up_to, up_to
    if name not in ("student-t", "poisson"):
        raise RecycleGPError(f"coverage is not defined for likelihood {name!r}; use the error rate")
    parts = [
        _student(y_, m_, v_, log_p) if name == "student-t" else _poisson(y_, m_, v_)
        for y_, m_, v_ in zip(*(t[:, None].split(CHUNK) for t in (y, m, v)), strict=True)
    ]
    below, up_to = zip(*parts, strict=True)
    return torch.cat(below), torch.cat(up_to)


def _student(y: Tensor, m: Tensor, v: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    """A Gaussian whose precision w is Gamma(ν/2, ν/2): ∫ Φ((y−m)/√(v + s²/w)) p(w) dw, over t = log w."""
    half = 0.5 * float(log_p[1].exp())
    low = -80 / (half + 1)  # beyond it p(t) ∝ exp(νt/2) is nothing
    t = torch.linspace(min(low, -12 / math.sqrt(half)), 12 / math.sqrt(half), 2001, dtype=m.dtype)
    # p(t) ∝ exp(ν/2·(t − eᵗ)); the rule is normalised, so that constants cancel
    weight = torch.softmax(half * (t - t.exp()), 0)
    up_to = (torch.special.ndtr((y - m) / (v + (log_p[0] - t).exp()).sqrt()) * weight).sum(-1)
    return up_to, up_to


def _poisson(y: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """P(Y ≤ k) = E_q[Q(k+1, eᶠ)], with Q the regularised upper incomplete gamma function."""
    z = torch.arange(-8.0, 8.0 + NODES, NODES, dtype=m.dtype)
    weight = torch.softmax(-0.5 * z.square(), 0)
    rate = (m + v.sqrt() * z).exp()

    def up_to(k: Tensor) -> Tensor:
        found = torch.special.gammaincc((k + 1).clamp_min(0.5).expand_as(rate), rate)
        return torch.where(k[:, 0] < 0, 0.0, (found * weight).sum(-1))

    return up_to(y - 1), up_to(y)


def _gap(predicted: Any, truth: Any) -> np.ndarray:
    a, b = np.asarray(predicted, dtype=float), np.asarray(truth, dtype=float)
    if a.shape != b.shape:  # (n,) − (n, 1) would be an n×n table
        raise RecycleGPError(f"predictions have shape {a.shape} and the truth {b.shape}; make them equal")
    return a - b

"""Metrics of classes, for any number of them. All take `proba`, (n, C) probabilities, and `y`, the n classes that
happened, as their numbers 0 … C−1. Two classes may also be given as n probabilities of class 1, and y as −1 and 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import RecycleGPError

BINS = 10  # of a reliability curve


class Reliability(NamedTuple):
    """How often what was said with some probability came true, in bins of that probability that hold rows."""

    said: np.ndarray  # mean probability of the rows in each bin
    happened: np.ndarray  # share of them in which it was so
    rows: np.ndarray  # how many they are

    @property
    def error(self) -> float:
        """The mean over all rows of their bin's |happened − said|: the expected calibration error."""
        return float(np.average(np.abs(self.happened - self.said), weights=self.rows))


def error_rate(proba: Array, y: Array) -> float:
    """Share of wrong classes, where the most probable one is named. A tie of k classes counts as 1 − 1/k errors if the
    true one is among them.

    Returns:
        From 0 to 1.

    Raises:
        RecycleGPError: Shapes do not fit, or y holds classes that have no probabilities.

    Examples:
        >>> error_rate([[0.9, 0.1], [0.4, 0.6]], [0, 0])
        0.5
    """
    p, true = _checked(proba, y)
    best = p == p.max(1, keepdims=True)
    return float(np.mean(1 - best[np.arange(len(true)), true] / best.sum(1)))


def log_loss(proba: Array, y: Array) -> float:
    """Mean of −log of the probability of what happened; the same as NLPD.

    Returns:
        In nats; infinite where what happened had probability zero.

    Raises:
        RecycleGPError: Shapes do not fit, or y holds classes that have no probabilities.

    Examples:
        >>> round(log_loss([0.5, 0.5], [0, 1]), 4)
        0.6931
    """
    p, true = _checked(proba, y)
    with np.errstate(divide="ignore"):  # who was certain, and wrong, has lost everything
        return -float(np.mean(np.log(p[np.arange(len(true)), true])))


def brier(proba: Array, y: Array) -> float:
    """Brier's score: the mean of Σ_c (p_c − [y = c])²; of two classes, as usual, half of it: (p − y)².

    Returns:
        From 0 to 2; of two classes to 1.

    Raises:
        RecycleGPError: Shapes do not fit, or y holds classes that have no probabilities.

    Examples:
        >>> round(brier([0.1, 0.6], [0, 1]), 3)
        0.085
    """
    p, true = _checked(proba, y)
    gap = p - np.eye(p.shape[1])[true]
    return float(np.mean((gap**2).sum(1))) / (2 if p.shape[1] == 2 else 1)


def auroc(proba: Array, y: Array) -> float:
    """Area under the ROC curve: how probably a row of a class is given more of it than a row of another class.

    Of more than two classes the mean over the classes, each against the rest, that have rows on both sides.

    Returns:
        From 0 to 1; one half for guessing; nan where all rows are of one class.

    Raises:
        RecycleGPError: Shapes do not fit, or y holds classes that have no probabilities.

    Examples:
        >>> auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        0.75
    """
    p, true = _checked(proba, y)
    chosen = [1] if p.shape[1] == 2 else range(p.shape[1])
    found = [_auroc(p[:, c], true == c) for c in chosen if 0 < np.sum(true == c) < len(true)]
    return float(np.mean(found)) if found else float("nan")


def reliability(proba: Array, y: Array, bins: int = BINS, *, top: bool = False) -> Reliability:
    """How often what was said came true, in equal bins of probability.

    Args:
        bins: how many.
        top: of the most probable class, whichever it is; else of class 1, if there are two classes.

    Returns:
        For each bin that has rows, what was said and what happened.

    Raises:
        RecycleGPError: Shapes do not fit, or y holds classes that have no probabilities.

    Examples:
        >>> reliability([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1], bins=2).happened.tolist()
        [0.5, 1.0]
    """
    p, true = _checked(proba, y)
    if top or p.shape[1] > 2:
        said, happened = p.max(1), p.argmax(1) == true
    else:
        said, happened = p[:, 1], true == 1
    at = np.minimum((said * bins).astype(int), bins - 1)
    rows = np.bincount(at, minlength=bins)
    held = rows > 0
    sums = [np.bincount(at, weights=w, minlength=bins)[held] / rows[held] for w in (said, happened)]
    return Reliability(sums[0], sums[1], rows[held])


def ece(proba: Array, y: Array, bins: int = BINS) -> float:
    """Expected calibration error of the most probable class: how far its probability is from how often it is right.

    Args:
        bins: of the probability.

    Returns:
        From 0 to 1.

    Raises:
        RecycleGPError: Shapes do not fit, or y holds classes that have no probabilities.

    Examples:
        >>> round(ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 2)
        0.3
    """
    return reliability(proba, y, bins, top=True).error


def _auroc(p: np.ndarray, positive: np.ndarray) -> float:
    """Mann and Whitney's: the mean rank of the positive rows; rows that are alike share their ranks."""
    _, at, count = np.unique(p, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - 0.5 * (count - 1))[at]
    n = positive.sum()
    return float((rank[positive].sum() - 0.5 * n * (n + 1)) / (n * (len(p) - n)))


def _checked(proba: Array, y: Array) -> tuple[np.ndarray, np.ndarray]:
    """(n, C) probabilities, and n classes as indices."""
    p, true = np.asarray(proba, dtype=float), np.asarray(y, dtype=float)
    p = np.stack([1 - p, p], 1) if p.ndim == 1 else p
    if p.ndim != 2 or p.shape[1] < 2 or true.shape != p.shape[:1] or not len(true):
        raise RecycleGPError(
            f"probabilities have shape {np.shape(proba)} and y {true.shape}; pass (n, C) and (n,), with rows"
        )
    if p.shape[1] == 2:
        true = np.where(true == -1, 0, true)
    if not (np.all(true == np.round(true)) and np.all((true >= 0) & (true < p.shape[1]))):
        raise RecycleGPError(f"y holds classes that are not among 0 … {p.shape[1] - 1}, as there are probabilities")
    return p, true.astype(int)

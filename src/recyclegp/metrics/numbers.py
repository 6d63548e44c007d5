"""Metrics of numbers: measurements and counts."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..errors import RecycleGPError

BARS = 10  # of a PIT histogram


def nlpd(log_densities: Array) -> float:
    """Mean of −log p(y_t).

    Args:
        log_densities: log p(y_t) of every test row, as `log_density` of a model gives them.

    Returns:
        In nats.

    Examples:
        >>> nlpd([-1.0, -2.0])
        1.5
    """
    return -float(np.mean(np.asarray(log_densities)))


def rmse(predicted: Array, truth: Array) -> float:
    """Root of the mean squared error.

    Args:
        predicted: n numbers.
        truth: as many.

    Returns:
        In the units of the truth.

    Raises:
        RecycleGPError: The two do not have one shape.

    Examples:
        >>> rmse([1.0, 2.0, 2.0, 2.0], [1.0, 4.0, 2.0, 2.0])
        1.0
    """
    return float(np.sqrt(np.mean(_gap(predicted, truth) ** 2)))


def mae(predicted: Array, truth: Array) -> float:
    """Mean absolute error.

    Args:
        predicted: n numbers.
        truth: as many.

    Returns:
        In the units of the truth.

    Raises:
        RecycleGPError: The two do not have one shape.

    Examples:
        >>> mae([1.0, 2.0], [1.0, 4.0])
        1.0
    """
    return float(np.mean(np.abs(_gap(predicted, truth))))


def coverage(below: Array, up_to: Array, level: float = 0.95) -> float:
    """Share of y within their central intervals.

    The interval runs from the smallest y with P(Y ≤ y) ≥ (1−level)/2 to the smallest with (1+level)/2.

    Args:
        below: P(Y < y_t) of every test row.
        up_to: P(Y ≤ y_t), which is the same where Y is continuous.
        level: of the intervals.

    Returns:
        From 0 to 1.

    Examples:
        >>> coverage([0.1, 0.99], [0.1, 0.99])
        0.5
    """
    tail = 0.5 * (1 - level)
    return float(np.mean((np.asarray(up_to) >= tail) & (np.asarray(below) < 1 - tail)))


def pit_histogram(below: Array, up_to: Array, bars: int = BARS) -> np.ndarray:
    """Share of test rows whose P(Y ≤ y_t) falls into each of equal parts of [0, 1]: all alike where a model is right.

    Bars that are high at both ends say that y lies outside too often: the model is too sure. A hump says that it is not
    sure enough, a slope that it predicts too high or too low. A count, whose distribution function jumps, is spread
    evenly over its jump (Czado, Gneiting and Held 2009), so that the bars of a right model are alike as well.

    Args:
        below: P(Y < y_t) of every test row.
        up_to: P(Y ≤ y_t), which is the same where Y is continuous.
        bars: how many parts.

    Returns:
        As many shares, which sum to one.

    Examples:
        >>> pit_histogram([0.1, 0.6], [0.1, 0.6], bars=2).tolist()
        [0.5, 0.5]
    """
    low, high = np.asarray(below, dtype=float), np.asarray(up_to, dtype=float)
    edges = np.linspace(0, 1, bars + 1)
    jump = np.maximum(high - low, 1e-12)  # where there is none, all of it is at one place
    # share of a row at or below an edge
    reached = np.clip((edges - low[:, None]) / jump[:, None], 0, 1)
    reached[:, 0], reached[:, -1] = 0, 1
    return np.diff(reached, axis=1).mean(0)


def _gap(predicted: Array, truth: Array) -> np.ndarray:
    a, b = np.asarray(predicted, dtype=float), np.asarray(truth, dtype=float)
    if a.shape != b.shape:  # (n,) − (n, 1) would be an n×n table
        raise RecycleGPError(f"predictions have shape {a.shape} and the truth {b.shape}; make them equal")
    return a - b

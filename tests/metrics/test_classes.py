"""Metrics of classes against scikit-learn, and against what they mean."""

import math

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp import metrics

sklearn = pytest.importorskip("sklearn.metrics")
RNG = np.random.default_rng(8)


def some(C, n=400):
    """Probabilities that are partly right, in few digits so that there are ties, and classes."""
    p = RNG.dirichlet(np.full(C, 0.7), n)
    y = np.array([RNG.choice(C, p=0.6 * row + 0.4 / C) for row in p])
    p = np.round(p, 2) + 1e-3
    return p / p.sum(1, keepdims=True), y


@pytest.mark.parametrize("C", [2, 3, 7])
def test_against_scikit_learn(C):
    p, y = some(C)
    assert metrics.log_loss(p, y) == pytest.approx(sklearn.log_loss(y, p, labels=range(C)))
    one_hot = np.eye(C)[y]
    assert metrics.brier(p, y) == pytest.approx(((p - one_hot) ** 2).sum(1).mean() / (2 if C == 2 else 1))
    if C == 2:
        assert metrics.brier(p, y) == pytest.approx(sklearn.brier_score_loss(y, p[:, 1]))
        assert metrics.auroc(p, y) == pytest.approx(sklearn.roc_auc_score(y, p[:, 1]))
    else:
        expected = sklearn.roc_auc_score(y, p, multi_class="ovr", average="macro")
        assert metrics.auroc(p, y) == pytest.approx(expected)
    best = p == p.max(1, keepdims=True)
    assert metrics.error_rate(p, y) == pytest.approx(1 - (best[np.arange(400), y] / best.sum(1)).mean())


def test_two_classes_as_one_probability():
    p, y = some(2)
    for metric in (metrics.log_loss, metrics.brier, metrics.auroc, metrics.ece, metrics.error_rate):
        assert metric(p[:, 1], y) == pytest.approx(metric(p, y))
        assert metric(p, 2 * y - 1) == metric(p, y)  # −1 and 1


def test_auroc_needs_both_sides():
    p, y = some(3)
    assert math.isnan(metrics.auroc(p, np.zeros(400)))
    two = metrics.auroc(p[y < 2], y[y < 2])  # nobody is of class 2: the mean of the other two
    expected = [sklearn.roc_auc_score(y[y < 2] == c, p[y < 2][:, c]) for c in (0, 1)]
    assert two == pytest.approx(np.mean(expected))


def test_error_rate_and_its_ties():
    p = np.array([0.9, 0.2, 0.5, 0.7])
    assert metrics.error_rate(p, [1, 1, 1, 0]) == 2.5 / 4
    assert metrics.error_rate(np.stack([1 - p, p], 1), [1, 1, 1, -1]) == 2.5 / 4


@pytest.mark.parametrize("C", [2, 4])
def test_calibration_error_by_a_loop(C):
    p, y = some(C)
    said, right = p.max(1), p.argmax(1) == y
    expected = 0.0
    for k in range(10):
        here = (said >= k / 10) & ((said < (k + 1) / 10) | (k == 9))
        if here.any():
            expected += here.mean() * abs(right[here].mean() - said[here].mean())
    assert metrics.ece(p, y) == pytest.approx(expected)
    curve = metrics.reliability(p, y, 10, top=True)
    assert curve.rows.sum() == 400
    assert curve.error == metrics.ece(p, y)


def test_reliability_of_class_one():
    p, y = some(2)
    curve = metrics.reliability(p, y, 5)
    at = np.minimum((p[:, 1] * 5).astype(int), 4)
    assert curve.said == pytest.approx([p[at == k, 1].mean() for k in range(5)])
    assert curve.happened == pytest.approx([y[at == k].mean() for k in range(5)])
    assert metrics.ece([0.0, 1.0, 1.0], [0, 1, 1]) == 0


def test_probabilities_that_are_right_have_little_error():
    p = RNG.uniform(size=200_000)
    y = RNG.uniform(size=200_000) < p
    assert metrics.ece(p, y) < 0.006
    assert metrics.auroc(p, y) == pytest.approx(5 / 6, abs=0.004)


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        (np.full((3, 2), 0.5), [0, 1], r"shape \(3, 2\) and y \(2,\)"),
        (np.full((2, 1), 0.5), [0, 1], r"shape \(2, 1\)"),
        (np.zeros((0, 2)), [], "with rows"),
        (np.full((2, 3), 1 / 3), [0, 3], "not among 0 … 2"),
        (np.full((2, 3), 1 / 3), [0, -1], "not among 0 … 2"),
        (np.full(2, 0.5), [0, 0.5], "not among 0 … 1"),
    ],
)
def test_what_does_not_fit(p, y, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        metrics.brier(p, y)

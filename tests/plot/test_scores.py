"""Reliability curves and PIT histograms: what is drawn is what was computed."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import recyclegp as rgp
from recyclegp import metrics

RNG = np.random.default_rng(2)


def test_reliability_draws_the_curve():
    p = RNG.uniform(size=500)
    curve = metrics.reliability(p, RNG.uniform(size=500) < p**2)
    ax = rgp.plot.reliability(curve)
    line = next(line for line in ax.get_lines() if line.get_label() == "what happened")
    assert np.array_equal(line.get_xydata(), np.stack([curve.said, curve.happened], 1))
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1)
    assert ax.get_xlabel() == "probability of class 1"


def test_pit_draws_the_bars_on_given_axes():
    u = RNG.uniform(size=400) ** 1.5
    shares = metrics.pit_histogram(u, u)
    ax = Figure().subplots()
    assert rgp.plot.pit(shares, 400, ax) is ax
    heights = [bar.get_height() for bar in ax.containers[0]]
    assert heights == pytest.approx(shares.tolist())
    assert ax.get_ylim()[1] > max(heights)


def test_axes_that_are_none():
    with pytest.raises(TypeError, match="pass matplotlib axes, not str"):
        rgp.plot.pit([0.5, 0.5], 10, "axes")

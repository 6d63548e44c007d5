"""Central intervals of y, against SciPy."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import recyclegp as rgp
from recyclegp.intervals import central, reach

M = torch.tensor([0.3, -2.0, 5.0, 1.0], dtype=torch.float64)
V = torch.tensor([0.04, 1.7, 1e-9, 30.0], dtype=torch.float64)


def logs(*values):
    return torch.tensor([math.log(v) for v in values], dtype=torch.float64)


def test_reach():
    assert reach() == pytest.approx(stats.norm.ppf(0.975), rel=1e-12)
    assert reach(0.5) == pytest.approx(stats.norm.ppf(0.75), rel=1e-12)


def test_gaussian():
    lower, upper = central("gaussian", M, V, logs(0.5), 0.9)
    expected = stats.norm(M.numpy(), np.sqrt(V.numpy() + 0.5))
    assert lower.numpy() == pytest.approx(expected.ppf(0.05), rel=1e-10)
    assert upper.numpy() == pytest.approx(expected.ppf(0.95), rel=1e-10)


@pytest.mark.parametrize("df", [1.0, 4.0, 60.0])
def test_student(df):
    lower, upper = central("student-t", M, V, logs(0.5, df))
    for m, v, low, high in zip(M.tolist(), V.tolist(), lower.tolist(), upper.tolist(), strict=True):
        for y, p in ((low, 0.025), (high, 0.975)):

            def share(z, y=y, m=m, v=v):
                return stats.t.cdf((y - m - math.sqrt(v) * z) / math.sqrt(0.5), df) * stats.norm.pdf(z)

            assert integrate.quad(share, -9, 9, limit=200)[0] == pytest.approx(p, abs=2e-4)


def test_classes_and_counts_have_none():
    for name in ("bernoulli", "poisson"):
        with pytest.raises(rgp.RecycleGPError, match="an interval for y is not defined"):
            central(name, M, V, logs())

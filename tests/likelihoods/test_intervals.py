"""Central intervals of y, against SciPy."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import recyclegp as rgp
from recyclegp.likelihoods import Bernoulli, BernoulliProbit, Gaussian, StudentT, normal_quantile

M = torch.tensor([0.3, -2.0, 5.0, 1.0], dtype=torch.float64)
V = torch.tensor([0.04, 1.7, 1e-9, 30.0], dtype=torch.float64)


def test_normal_quantile():
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975), rel=1e-12)
    assert normal_quantile(0.75) == pytest.approx(stats.norm.ppf(0.75), rel=1e-12)


def test_gaussian():
    lower, upper = Gaussian(0.5).interval(M, V, 0.9)
    expected = stats.norm(M.numpy(), np.sqrt(V.numpy() + 0.5))
    assert lower.numpy() == pytest.approx(expected.ppf(0.05), rel=1e-10)
    assert upper.numpy() == pytest.approx(expected.ppf(0.95), rel=1e-10)


@pytest.mark.parametrize("df", [1.0, 4.0, 60.0])
def test_student(df):
    lower, upper = StudentT(0.5, df).interval(M, V, 0.95)
    for m, v, low, high in zip(M.tolist(), V.tolist(), lower.tolist(), upper.tolist(), strict=True):
        for y, p in ((low, 0.025), (high, 0.975)):

            def share(z, y=y, m=m, v=v):
                return stats.t.cdf((y - m - math.sqrt(v) * z) / math.sqrt(0.5), df) * stats.norm.pdf(z)

            assert integrate.quad(share, -9, 9, limit=200)[0] == pytest.approx(p, abs=2e-4)


def test_classes_have_none():
    for likelihood in (Bernoulli(), BernoulliProbit()):
        with pytest.raises(rgp.RecycleGPError, match="an interval for y is not defined"):
            likelihood.interval(M, V, 0.95)

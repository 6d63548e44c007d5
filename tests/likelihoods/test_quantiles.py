"""Quantiles and CRPS of y, against SciPy and NumPy."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import recyclegp as rgp
from recyclegp.likelihoods import Bernoulli, Gaussian, Poisson, StudentT, lognormal_counts

M = torch.tensor([0.3, -2.0, 5.0, 1.0], dtype=torch.float64)
V = torch.tensor([0.04, 1.7, 1e-9, 3.0], dtype=torch.float64)
Y = torch.tensor([2.0, 0.0, 170.0, 11.0], dtype=torch.float64)
LEVELS = (1e-4, 0.03, 0.5, 0.8, 0.9995)


def poisson_cdf(k, m, v, nodes=40_001):
    """E[P(Y ≤ k | eᶠ)] by a fine sum over f."""
    z = np.linspace(-9, 9, nodes)
    w = stats.norm.pdf(z)
    return stats.poisson.cdf(np.asarray(k)[..., None], np.exp(m + np.sqrt(v) * z)) @ (w / w.sum())


def student_cdf(y, m, v, df):
    z = np.linspace(-9, 9, 501)
    w = stats.norm.pdf(z)
    return stats.t.cdf((np.asarray(y)[..., None] - m - np.sqrt(v) * z) / np.sqrt(0.5), df) @ (w / w.sum())


@pytest.mark.parametrize(("m", "v"), [(0.3, 0.04), (-2.0, 1.7), (5.0, 1e-9), (1.0, 3.0), (2.0, 0.3), (9.0, 0.5)])
def test_distribution_of_counts(m, v):
    k = np.unique(np.concatenate([np.arange(-1.0, 12.0), np.round(np.exp(m + np.sqrt(v) * np.linspace(-4, 4, 9)))]))
    found = lognormal_counts.up_to(*(torch.as_tensor(np.broadcast_to(a, k.shape).copy()) for a in (k, m, v)))
    assert found.numpy() == pytest.approx(poisson_cdf(k, m, v), abs=1e-9)


@pytest.mark.parametrize("p", LEVELS)
def test_quantiles_of_counts_are_the_smallest_that_suffice(p):
    found = Poisson().quantile(p, M, V)
    for q, m, v in zip(found.tolist(), M.tolist(), V.tolist(), strict=True):
        assert q == int(q) >= 0
        assert poisson_cdf(q, m, v) >= p > poisson_cdf(q - 1, m, v)


@pytest.mark.parametrize("p", LEVELS)
def test_gaussian_quantiles(p):
    expected = stats.norm.ppf(p, M.numpy(), np.sqrt(V.numpy() + 0.5))
    assert Gaussian(0.5).quantile(p, M, V).numpy() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("df", [0.7, 2.0, 4.0, 500.0])
@pytest.mark.parametrize("p", LEVELS)
def test_student_quantiles(df, p):
    found = StudentT(0.5, df).quantile(p, M, V)
    for q, m, v in zip(found.tolist(), M.tolist(), V.tolist(), strict=True):
        assert student_cdf(q, m, v, df) == pytest.approx(p, abs=1e-9)


def test_the_table_of_intervals_agrees_with_quantiles():
    student = StudentT(0.5, 3.0)
    low, high = student.interval(M, V, 0.9)
    assert low.numpy() == pytest.approx(student.quantile(0.05, M, V).numpy(), abs=2e-3)
    assert high.numpy() == pytest.approx(student.quantile(0.95, M, V).numpy(), abs=2e-3)
    low, high = Poisson().interval(M, V, 0.9)
    assert torch.equal(low, Poisson().quantile(0.05, M, V))
    assert torch.equal(high, Poisson().quantile(0.95, M, V))


def test_quantiles_have_the_gradients_of_the_inverse():
    m, v = M.clone().requires_grad_(), V.clone().requires_grad_()
    by_m, by_v = torch.autograd.grad(StudentT(0.5, 4.0).quantile(0.9, m, v).sum(), (m, v))
    step = 1e-5

    def quantile(dm, dv):
        return StudentT(0.5, 4.0).quantile(0.9, M + dm, V + dv)

    assert by_m.numpy() == pytest.approx(1.0, rel=1e-8)
    slope = (quantile(0, step * V) - quantile(0, -step * V)) / (2 * step * V)
    assert by_v[[0, 1, 3]].numpy() == pytest.approx(slope[[0, 1, 3]].numpy(), rel=1e-4)


def test_crps_of_numbers():
    expected = [
        integrate.quad(lambda t, y=y, m=m, sd=sd: (stats.norm.cdf(t, m, sd) - (t >= y)) ** 2, m - 60, m + 60,
                       points=[y, m], limit=400)[0]
        for y, m, sd in zip((M + 0.7).tolist(), M.tolist(), (V + 0.5).sqrt().tolist(), strict=True)
    ]  # fmt: skip
    assert Gaussian(0.5).crps(M + 0.7, M, V).numpy() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("df", [0.9, 4.0, 300.0])
def test_crps_of_numbers_with_outliers(df):
    y = M + torch.tensor([0.0, 1.3, -0.2, 30.0], dtype=torch.float64)
    found = StudentT(0.5, df).crps(y, M, V)
    u = 0.014 * (np.arange(-1000, 1000) + 0.5)  # t = y + sinh u, finest at the jump
    for c, y_, m, v in zip(found.tolist(), y.tolist(), M.tolist(), V.tolist(), strict=True):
        F = student_cdf(y_ + np.sinh(u), m, v, df)
        squared = np.where(u < 0, F, 1 - F) ** 2 * np.cosh(u)
        assert c == pytest.approx(0.014 * squared.sum(), rel=2e-4)


def test_crps_of_many_rows_is_that_of_each():
    rng = np.random.default_rng(0)
    y, m, v = (torch.as_tensor(a) for a in (rng.normal(0, 2, 300), rng.normal(size=300), rng.uniform(0.1, 2, 300)))
    many, few = StudentT(0.5, 3.0).crps(y, m, v), StudentT(0.5, 3.0).crps(y[:9], m[:9], v[:9])
    assert many[:9].numpy() == pytest.approx(few.numpy(), rel=1e-4)


def test_crps_of_counts():
    for c, y, m, v in zip(Poisson().crps(Y, M, V).tolist(), Y.tolist(), M.tolist(), V.tolist(), strict=True):
        k = np.arange(400.0 if m < 1 else 4000.0)
        F = poisson_cdf(k, m, v, nodes=1001)
        assert c == pytest.approx(((F - (k >= y)) ** 2).sum(), rel=1e-4)
    # counts so large that they are integrated over, and all but certain: those of a normal variable
    y, m, v = (torch.tensor([a], dtype=torch.float64) for a in (10_300.0, np.log(1e4), 1e-14))
    assert float(Poisson().crps(y, m, v)) == pytest.approx(
        float(Gaussian(1e4).crps(y, m.exp(), torch.zeros(1, dtype=torch.float64))), rel=2e-3
    )


def test_classes_have_neither():
    for ask in (lambda: Bernoulli().quantile(0.5, M, V), lambda: Bernoulli().crps(M, M, V)):
        with pytest.raises(rgp.RecycleGPError, match="not defined for likelihood 'bernoulli'"):
            ask()

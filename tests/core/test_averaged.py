"""Stacking of two posteriors, against NumPy that leaves each pseudo-observation out in turn."""

import numpy as np
import pytest
import torch

from recyclegp.core.averaged import AveragedPosterior, best_share, leave_one_out
from recyclegp.core.posterior import Joint, Predicted
from recyclegp.core.sites import Site


class Known:
    """A Gaussian of f at all points, given as numbers: points are their positions."""

    def __init__(self, mean, covariance):
        self.mean, self.covariance = torch.as_tensor(mean), torch.as_tensor(covariance)

    def joint(self, X):
        i = X[:, 0].long()
        return Joint(self.mean[i], self.covariance[i][:, i])

    def predict(self, X):
        mean, covariance = self.joint(X)
        return Predicted(mean, covariance.diagonal())

    def to(self, device):
        return self


def generic(n, seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    return rng.standard_normal(n), root @ root.T / n + 0.1 * np.eye(n)


@pytest.mark.parametrize("rows", [5, 3])
def test_leave_one_out_is_the_prediction_without_that_row(rows):
    prior_mean, K = generic(5, 0)
    rng = np.random.default_rng(1)
    Rt, rho = 1.3 * rng.standard_normal((rows, 5)), 2 * rng.standard_normal(rows)
    A = Rt @ K @ Rt.T + np.eye(rows)
    gain = K @ Rt.T @ np.linalg.inv(A)
    posterior = Known(prior_mean + gain @ (rho - Rt @ prior_mean), K - gain @ Rt @ K)
    Z = torch.arange(5, dtype=torch.float64)[:, None]
    site = Site(Z, torch.as_tensor(Rt), torch.as_tensor(rho), torch.tensor(0.0, dtype=torch.float64))
    expected = []
    for i in range(rows):
        rest = [j for j in range(rows) if j != i]
        weights = np.linalg.solve(A[np.ix_(rest, rest)], A[rest, i])
        mean = Rt[i] @ prior_mean + weights @ (rho - Rt @ prior_mean)[rest]
        variance = A[i, i] - weights @ A[rest, i]
        expected.append(-0.5 * np.log(variance) - 0.5 * (rho[i] - mean) ** 2 / variance)
    np.testing.assert_allclose(leave_one_out(posterior, site), expected, rtol=1e-10)


def test_a_mixture_has_the_moments_of_its_draws():
    (m1, C1), (m2, C2), a = generic(4, 2), generic(4, 3), 0.3
    X = torch.arange(4, dtype=torch.float64)[:, None]
    mixture = AveragedPosterior(Known(m1, C1), Known(m2, C2), a)
    second = (1 - a) * (C1 + np.outer(m1, m1)) + a * (C2 + np.outer(m2, m2))  # E ffᵀ
    mean = (1 - a) * m1 + a * m2
    joint = mixture.joint(X)
    np.testing.assert_allclose(joint.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(joint.covariance, second - np.outer(mean, mean), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mixture.predict(X).variance, np.diag(joint.covariance), rtol=1e-12)


@pytest.mark.parametrize("prior", [0.0, 1.0, 20.0])
def test_the_share_is_the_best_one(prior):
    rng = np.random.default_rng(4)
    log_p, log_q = rng.normal(-1, 1, 60), rng.normal(-1, 1, 60)
    grid = np.linspace(0, 0.9999, 20001)
    values = np.log((1 - grid)[:, None] * np.exp(log_p) + grid[:, None] * np.exp(log_q)).sum(1)
    best = grid[np.argmax(values + prior * np.log(1 - grid))]
    assert best_share(torch.as_tensor(log_p), torch.as_tensor(log_q), prior) == pytest.approx(best, abs=1e-4)


def test_what_is_always_worse_has_no_share():
    p = torch.linspace(-3, 0, 20, dtype=torch.float64)
    assert best_share(p, p - 0.5, 0.0) == pytest.approx(0, abs=1e-8)
    assert best_share(p, p + 0.5, 0.0) == pytest.approx(1, abs=1e-8)
    assert best_share(p, p - 800, 0.0) == pytest.approx(0, abs=1e-8)  # nothing overflows

"""The noise of somebody nobody has met, against fine sums."""

import numpy as np
import pytest
import torch
from scipy import stats

from recyclegp.likelihoods import Gaussian, mixed

MEAN, VARIANCE = torch.tensor([0.3, -1.2], dtype=torch.float64), torch.tensor([0.05, 0.4], dtype=torch.float64)
NOISES, WEIGHTS = (0.02, 1.3, 0.4), (30.0, 10.0, 20.0)


def density(y):
    w = np.array(WEIGHTS) / sum(WEIGHTS)
    sd = np.sqrt(VARIANCE.numpy()[:, None] + np.array(NOISES))
    return (w * stats.norm.pdf(np.asarray(y)[..., None, None], MEAN.numpy()[:, None], sd)).sum(-1)


def test_moments_densities_and_quantiles():
    m = mixed(NOISES, WEIGHTS)
    grid = np.linspace(-12, 12, 48001)
    p = density(grid)
    step = grid[1] - grid[0]
    mean, variance = m.moments(MEAN, VARIANCE)
    np.testing.assert_allclose((grid[:, None] * p).sum(0) * step, mean, atol=1e-8)
    np.testing.assert_allclose(((grid[:, None] - mean.numpy()) ** 2 * p).sum(0) * step, variance, atol=1e-6)
    y = torch.tensor([0.9, -0.2], dtype=torch.float64)
    np.testing.assert_allclose(m.log_density(y, MEAN, VARIANCE).exp(), density(y.numpy()).diagonal(), rtol=1e-10)
    up_to = np.cumsum(p, 0) * step - 0.5 * p * step
    found = m.distribution(y, MEAN, VARIANCE)[0].numpy()
    np.testing.assert_allclose(found, [np.interp(v, grid, up_to[:, i]) for i, v in enumerate(y)], atol=1e-6)
    crps = [((up_to[:, i] - (grid >= float(v))) ** 2).sum() * step for i, v in enumerate(y)]
    np.testing.assert_allclose(m.crps(y, MEAN, VARIANCE), crps, atol=2e-3)
    low, high = m.interval(MEAN, VARIANCE, 0.9)
    for end, wanted in ((low, 0.05), (high, 0.95)):
        np.testing.assert_allclose(m.distribution(end, MEAN, VARIANCE)[0], wanted, atol=1e-9)


def test_equal_noises_are_one_and_many_are_few():
    assert mixed([0.3, 0.3], [1.0, 5.0]) == Gaussian(0.3)
    noises = np.random.default_rng(0).lognormal(size=500)
    many = mixed(noises.tolist(), [1.0] * 500)
    assert many.noise == pytest.approx(noises.mean())
    assert len(many.noises) <= 16
    assert np.dot(many.noises, many.shares) == pytest.approx(noises.mean())

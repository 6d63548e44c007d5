"""Rows of data as a site, published: against explicit marginalisation in NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import reference as ref
from recyclegp import RecycleGPError
from recyclegp.interop import sources
from recyclegp.interop.sources import Observations, Request, Source
from recyclegp.kernels import parse
from recyclegp.likelihoods import Gaussian

KERNEL = ref.Kernel("matern32", (0.9, 2.3), 1.7)
MEAN = 0.63


def ours():
    theta = torch.tensor([KERNEL.variance, *KERNEL.lengthscales], dtype=torch.float64).log()
    return parse(KERNEL.kind, 2).with_theta(theta)


def data(n=17, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, 2))
    return X, 1.2 + np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n), rng.uniform(0.02, 0.4, n)


def observed(X, y, noise, constant=0.0):
    return Observations(*(torch.tensor(t) for t in (X, y, noise)), torch.tensor(constant, dtype=torch.float64))


def publish(data, kernel, where, seed=0):
    """One function of the module that is made of these observations."""
    source = Source("m", "a model", kernel, MEAN, Gaussian(0.1), 0.0)
    return sources.observed(source, data, Request(where, seed), len(data.X), "exact").latents[0]


def natural(site):
    _, Rt, rho, e = (np.asarray(t) for t in site)
    return Rt.T @ Rt, Rt.T @ rho, float(e) - 0.5 * float(rho @ rho)


def check_site(site, wanted):
    for found, expected in zip(natural(site), wanted[1:], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("where", [6, np.random.default_rng(3).uniform(0, 4, (6, 2))])
def test_every_row_with_a_noise_of_its_own(where):
    X, y, noise = data()
    found = publish(observed(X, y, noise, constant=0.4), ours(), where, seed=1)
    Z = found.site.Z.numpy()
    assert len(Z) == 6
    wanted = ref.exact_site(replace(KERNEL, nugget=found.jitter), Z, X, y, MEAN, noise)
    check_site(found.site, wanted._replace(c=wanted.c + 0.4))


def test_rows_that_repeat():
    """Three observations of each f(x); the reference has them one by one."""
    X, y, noise = data(18)
    X = X[:6].repeat(3, axis=0)
    Z = np.random.default_rng(4).uniform(0, 4, (5, 2))
    found = publish(observed(X, y, noise), ours(), Z)
    check_site(found.site, ref.exact_site(replace(KERNEL, nugget=found.jitter), Z, X, y, MEAN, noise))


def test_the_jitter_is_small_beside_the_noise_and_refused_above_it():
    X, y, noise = data()
    assert publish(observed(X, y, noise), ours(), X).jitter == pytest.approx(1.7e-10)
    assert publish(observed(X, y, noise), ours(), 5).jitter == 0
    tiny = np.full(len(y), 3e-13)
    assert publish(observed(X, y, tiny), ours(), X).jitter == pytest.approx(1.5e-13)
    line = np.linspace(0, 4, 500)[:, None] * [1.0, 0.5]
    with pytest.raises(RecycleGPError, match=r"publish: 500 points so close .* above the noise of 3e-15"):
        publish(observed(X, y, tiny / 100), parse("rbf", 2), line)

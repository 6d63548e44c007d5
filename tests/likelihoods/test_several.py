"""Likelihoods of several functions: their integrals against independent sums, their slopes against differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from recyclegp.errors import RecycleGPError
from recyclegp.likelihoods import DirichletCategorical, Heteroscedastic, Moments, SoftmaxCategorical
from recyclegp.likelihoods.constants import DIRICHLET
from recyclegp.likelihoods.softmax import softmax_moments

RNG = np.random.default_rng(3)


def as_tensor(a):
    return torch.tensor(a, dtype=torch.float64)


def gaussian_grid(mean, variance, nodes=60):
    """Gauss–Hermite nodes and weights of independent Gaussians, as a full grid."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    axes = [m + np.sqrt(v) * z for m, v in zip(mean, variance, strict=True)]
    f = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    weights = np.stack(np.meshgrid(*[w / w.sum()] * len(axes), indexing="ij"), -1).reshape(-1, len(axes)).prod(-1)
    return f, weights


@pytest.mark.parametrize("size", [0.05, 0.7, 3.0])
def test_softmax_moments_are_those_of_a_full_grid(size):
    mean, variance = RNG.normal(0, 1.5, (4, 3)), size * RNG.uniform(0.2, 1.0, (4, 3))
    found = softmax_moments(as_tensor(mean), as_tensor(variance))
    for i in range(4):
        f, weights = gaussian_grid(mean[i], variance[i])
        e = np.exp(f - f.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        log_sum = np.log(e.sum(1)) + f.max(1)
        np.testing.assert_allclose(found.log_sum[i], weights @ log_sum, atol=2e-5)
        np.testing.assert_allclose(found.probability[i], weights @ p, atol=2e-5)
        np.testing.assert_allclose(found.curvature[i], weights @ (p * (1 - p)), atol=5e-5)


def test_two_classes_are_a_logistic_function_of_their_difference():
    mean, variance = RNG.normal(0, 2, (5, 2)), RNG.uniform(0.1, 4, (5, 2))
    found = softmax_moments(as_tensor(mean), as_tensor(variance)).probability
    for i in range(5):
        middle, sd = mean[i, 0] - mean[i, 1], np.sqrt(variance[i].sum())

        def integrand(z, middle=middle, sd=sd):
            return stats.norm.pdf(z) / (1 + np.exp(-middle - sd * z))

        expected = integrate.quad(integrand, -12, 12, epsabs=1e-12)[0]
        np.testing.assert_allclose(found[i, 0], expected, atol=1e-5)


def test_probabilities_add_up_to_one_whatever_the_moments():
    mean, variance = as_tensor(RNG.normal(0, 30, (50, 7))), as_tensor(np.exp(RNG.uniform(-20, 9, (50, 7))))
    found = softmax_moments(mean, variance).probability
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-12)
    assert bool((found >= 0).all())


def test_without_variance_it_is_the_softmax():
    mean = as_tensor(RNG.normal(0, 3, (6, 4)))
    found = softmax_moments(mean, torch.zeros_like(mean))
    np.testing.assert_allclose(found.probability, torch.softmax(mean, -1), atol=1e-6)
    np.testing.assert_allclose(found.log_sum, torch.logsumexp(mean, -1), atol=2e-5)


@pytest.mark.parametrize("likelihood", [SoftmaxCategorical(), Heteroscedastic()])
def test_slopes_are_those_of_the_value(likelihood):
    C, n = (3 if isinstance(likelihood, SoftmaxCategorical) else 2), 5
    y = (
        torch.nn.functional.one_hot(torch.arange(n) % C, C).mT.double()
        if C == 3
        else as_tensor(RNG.normal(size=n)).expand(2, n)
    )
    mean, variance = as_tensor(RNG.normal(size=(C, n))), as_tensor(RNG.uniform(0.3, 2, (C, n)))
    _, by_mean, by_variance = likelihood.expected_jointly(y, mean, variance)
    step = 1e-4
    for c in range(C):
        change = torch.zeros_like(mean)
        change[c] = step
        for slope, pair in (
            (by_mean, ((mean + change, variance), (mean - change, variance))),
            (by_variance, ((mean, variance + change), (mean, variance - change))),
        ):
            up, down = (likelihood.expected_jointly(y, *p).value for p in pair)
            np.testing.assert_allclose(slope[c], (up - down) / (2 * step), atol=3e-4)


def test_varying_noise_in_closed_form_is_the_integral():
    y, mean, variance = 0.7, np.array([0.2, -0.4]), np.array([0.5, 0.8])
    found = Heteroscedastic().expected_jointly(
        as_tensor([[y], [y]]), as_tensor(mean[:, None]), as_tensor(variance[:, None])
    )
    f, weights = gaussian_grid(mean, variance)
    expected = weights @ stats.norm.logpdf(y, f[:, 0], np.exp(0.5 * f[:, 1]))
    np.testing.assert_allclose(found.value, expected, atol=1e-9)
    at = Moments(as_tensor(mean[None]), as_tensor(variance[None]))
    density = Heteroscedastic().log_density_at(as_tensor([y]), at)
    np.testing.assert_allclose(density.exp(), weights @ stats.norm.pdf(y, f[:, 0], np.exp(0.5 * f[:, 1])), atol=1e-5)


def test_an_interval_of_varying_noise_holds_what_it_says():
    at = Moments(as_tensor(RNG.normal(size=(6, 2))), as_tensor(RNG.uniform(0.1, 1.5, (6, 2))))
    low, high = Heteroscedastic().interval_at(at, 0.9)
    inside = Heteroscedastic().distribution_at(high, at).up_to - Heteroscedastic().distribution_at(low, at).up_to
    np.testing.assert_allclose(inside, 0.9, atol=1e-9)


def test_dirichlet_observations_have_the_moments_of_gamma_variables():
    """exp(N(y, noise)) has mean α and variance α, as a Gamma(α, 1) variable has."""
    found = DirichletCategorical.observations(torch.tensor([True, False]))
    alpha = np.array([1 + DIRICHLET.epsilon, DIRICHLET.epsilon])
    np.testing.assert_allclose((found.y + 0.5 * found.noise).exp(), alpha, rtol=1e-12)
    np.testing.assert_allclose((found.noise.exp() - 1) * (2 * found.y + found.noise).exp(), alpha, rtol=1e-12)


def test_one_function_alone_says_nothing_about_y():
    with pytest.raises(RecycleGPError, match="several functions together"):
        SoftmaxCategorical().moments(torch.zeros(1), torch.ones(1))

"""Rules for combining experts, against their formulas written out in NumPy, and their known limits."""

import math

import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases import check_close
from cases_experts import product_of_experts
from recyclegp.baselines.committee import RULES, Committee, Predictions, combine
from recyclegp.baselines.rival import Sent


def generic(K=4, n=6, shared=False, seed=3):
    """Means, variances and priors that are nobody else's; posteriors narrower than their priors."""
    rng = np.random.default_rng(seed)
    rows = 1 if shared else K
    prior_mean, prior_variance = rng.normal(0.7, 1, (rows, n)), rng.uniform(1.0, 3.0, (rows, n))
    variance = prior_variance * rng.uniform(0.02, 0.95, (K, n))
    return [rng.normal(-0.4, 2, (K, n)), variance, prior_mean, prior_variance]


def predictions(values):
    return Predictions(*(torch.tensor(v) for v in values))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_rules_are_their_products_of_densities(rule, shared):
    values = generic(shared=shared)
    found = combine(rule, predictions(values))
    mean, variance = product_of_experts(rule, *values)
    check_close(found.mean, mean, 1e-11)
    check_close(found.variance, variance, 1e-11)
    assert not found.failed.any()


def test_published_formulas_with_one_prior():
    """BCM, rBCM and GRBCM as printed: 1/σ² = Σβ_k/σ_k² + (1 − Σβ_k)/σ_0², zero-mean prior."""
    mu, v, _, s = generic(shared=True)
    zero = np.zeros_like(s)
    H = 0.5 * (np.log(s) - np.log(v))
    for rule, beta in (("bcm", np.ones_like(v)), ("rbcm", H), ("grbcm", np.vstack([np.ones_like(s), H[1:]]))):
        precision = (beta / v).sum(0) + (1 - beta.sum(0)) / s[0]
        found = combine(rule, predictions([mu, v, zero, s]))
        check_close(found.variance, 1 / precision, 1e-11)
        check_close(found.mean, (beta * mu / v).sum(0) / precision, 1e-11)


@pytest.mark.parametrize("rule", RULES)
def test_one_expert(rule):
    """Alone, an expert is what the committee says, except in rBCM, whose weight is its entropy even then."""
    mu, v, m, s = generic(K=1)
    found = combine(rule, predictions([mu, v, m, s]))
    if rule == "rbcm":
        beta = 0.5 * np.log(s[0] / v[0])
        check_close(1 / found.variance, beta / v[0] + (1 - beta) / s[0], 1e-11)
    else:
        check_close(found.mean, mu[0], 1e-12)
        check_close(found.variance, v[0], 1e-12)


@pytest.mark.parametrize("rule", [r for r in RULES if r != "poe"])
def test_far_from_all_data_there_is_the_prior(rule):
    """All but PoE, whose certainty grows with the number of experts that know nothing."""
    _, _, m, s = generic(shared=True)
    nothing = predictions([np.repeat(m, 5, 0), np.repeat(s, 5, 0), m, s])
    found = combine(rule, nothing)
    check_close(found.mean, m[0], 1e-12)
    check_close(found.variance, s[0], 1e-12)
    check_close(combine("poe", nothing).variance, s[0] / 5, 1e-12)


def test_bcm_is_exact_where_experts_are_independent_given_f():
    """Each expert has noisy observations of f(x) itself: the committee is the posterior given all of them."""
    rng = np.random.default_rng(8)
    m, s, K = 1.3, 2.2, 5
    counts, noises = rng.integers(1, 6, K), rng.uniform(0.1, 3, K)
    data = [rng.normal(2.0, math.sqrt(w), c) for c, w in zip(counts, noises, strict=True)]
    v = 1 / (1 / s + counts / noises)
    mu = v * (m / s + np.array([d.sum() for d in data]) / noises)
    found = combine("bcm", predictions([mu[:, None], v[:, None], np.full((1, 1), m), np.full((1, 1), s)]))
    precision = 1 / s + (counts / noises).sum()
    expected = (m / s + sum(d.sum() / w for d, w in zip(data, noises, strict=True))) / precision
    check_close([found.mean.item(), found.variance.item()], [expected, 1 / precision], 1e-12)


def test_a_precision_that_is_not_positive_is_reported_and_is_the_prior():
    """A prior that is not the experts' own (narrower than their posteriors) leaves no Gaussian."""
    values = predictions([np.ones((3, 2)), np.array([[2.0, 0.1]] * 3), np.full((1, 2), 0.5), np.ones((1, 2))])
    found = combine("bcm", values)
    assert found.failed.tolist() == [True, False]
    check_close([found.mean[0], found.variance[0]], [0.5, 1.0])
    group = Committee("", (lambda X: Predictions(*(t[0] for t in values)),) * 3, (), Sent(0), 1, 1)
    with pytest.warns(rgp.RecycleGPWarning, match="1 of 2 points"):
        group.rival("bcm").predict(np.zeros((2, 1)))


def test_a_sure_expert_leaves_numbers_finite():
    mu, v, m, s = generic()
    v[1, 2] = 0.0
    for rule in RULES:
        found = combine(rule, predictions([mu, v, m, s]))
        assert torch.isfinite(torch.stack(found[:2])).all()
        if rule != "gpoe":
            check_close(found.mean[2], mu[1, 2], 1e-6)


def test_bad_requests():
    with pytest.raises(rgp.RecycleGPError, match="use one of poe"):
        combine("best", predictions(generic()))
    with pytest.raises(rgp.RecycleGPError, match="shape"):
        combine("poe", predictions([np.ones(3)] * 4))

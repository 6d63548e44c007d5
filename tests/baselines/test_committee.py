"""Committees of exact GPs and of modules: each expert, its hyperparameters, and what leaves its owner."""

import math

import numpy as np
import pytest
import torch

import recyclegp as rgp
import reference as ref
from cases import check_close, fixed_case, gpytorch_kernel, modules, spec
from cases_experts import product_of_experts
from recyclegp.baselines.committee import (
    Committee,
    Prior,
    communication_experts,
    condition,
    exact_experts,
    module_experts,
)
from recyclegp.baselines.rival import Sent
from recyclegp.likelihoods import Gaussian


def test_exact_expert_is_the_exact_gp():
    p = fixed_case().parts[1]
    expert = condition(Prior(spec(p.kernel), p.mean, p.noise), torch.tensor(p.X), torch.tensor(p.y))
    Xt = fixed_case().Xt
    found = expert(torch.tensor(Xt))
    exact = ref.exact_gp(p.kernel, p.X, p.y, p.mean, p.noises, Xt)
    check_close(found.mean, exact.mean)
    check_close(found.variance, np.diag(exact.cov))
    check_close(found.prior_mean, np.full(len(Xt), p.mean))
    check_close(found.prior_variance, np.full(len(Xt), p.kernel.variance))


def test_own_hyperparameters_are_those_of_the_modules():
    parts = [(p.X, p.y) for p in fixed_case().parts]
    group = exact_experts(parts, hyperparameters="own")
    for expert, (X, y) in zip(group.experts, parts, strict=True):
        m = rgp.fit(X, y, kernel="rbf", method="exact")
        assert expert.prior.kernel.structure == m.kernel_spec.structure
        np.testing.assert_allclose(expert.prior.kernel.theta, m.kernel_spec.theta, rtol=1e-10)
        np.testing.assert_allclose(expert.prior[1:], (m.mean, m.noise), rtol=1e-10)
    assert group.sent == Sent(8 * (3 + 2), 16)  # amplitude, two lengthscales, mean and noise


def test_shared_hyperparameters_maximise_the_sum_of_evidences():
    parts = [(p.X, p.y) for p in fixed_case().parts]
    group = exact_experts(parts, hyperparameters="shared")
    (prior,) = {e.prior for e in group.experts}
    amplitude, *lengths = prior.kernel.theta.exp().tolist()
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    at = np.log([amplitude, *lengths, prior.noise])

    def posterior(logs, mean):
        """Evidences and the weak priors of the library, which are about the data's own units."""
        k = ref.Kernel("rbf", tuple(np.exp(logs[1:3])), math.exp(logs[0]))
        evidence = sum(ref.exact_evidence(k, X, y, mean, np.full(len(y), math.exp(logs[3]))) for X, y in parts)
        units = np.log([y.std() ** 2, *X.std(0), y.std() ** 2])
        centre = units + np.array([0, 0.5 * math.log(2), 0.5 * math.log(2), math.log(0.3)])
        away = logs - centre
        level = away[1:3].mean()
        shortest = min(0.0, math.log(math.sqrt(12 / 2) * (12 / len(y)) ** (1 / 2)))
        weak = (away[0] / 1.5) ** 2 + (((away[1:3] - level) / 0.7) ** 2).sum() + away[3] ** 2
        weak += level**2 + (max(0.0, shortest - level) / 0.3) ** 2 + ((mean - y.mean()) / y.std()) ** 2
        return evidence - 0.5 * weak

    best = posterior(at, prior.mean)
    for i in range(4):
        for step in (-0.05, 0.05):
            assert posterior(at + step * np.eye(4)[i], prior.mean) < best
    assert max(posterior(at, prior.mean - 0.05), posterior(at, prior.mean + 0.05)) < best
    evaluations = group.rounds - 1
    assert group.sent == Sent(8 * (7 + 6 * evaluations), 16)


def test_modules_as_experts():
    case = fixed_case()
    locals_ = modules(case, "exact")
    rival = module_experts(locals_).rival("rbcm")
    each = [m.predict(case.Xt) for m in locals_]
    priors = [(p.mean, p.kernel.variance) for p in case.parts]
    values = [np.stack([e[i] for e in each]) for i in (0, 1)]
    values += [np.repeat([[p[i]] for p in priors], len(case.Xt), 1) for i in (0, 1)]
    mean, variance = product_of_experts("rbcm", *values)
    found = rival.predict(case.Xt)
    check_close(found[0], mean, 1e-9)
    check_close(found[1], variance, 1e-9)
    noise = rival.likelihoods[0].parameters[0]
    check_close(rival.predict_y(case.Xt)[1], variance + noise, 1e-9)
    y = mean + 0.3
    expected = -0.5 * np.log(2 * math.pi * (variance + noise)) - 0.5 * 0.09 / (variance + noise)
    check_close(rival.log_density(case.Xt, y), expected, 1e-9)
    numbers = [len(m.inducing) * 2 + m.site.Rt.numel() + len(m.site.rho) + 1 + 3 + 1 + 2 for m in locals_]
    assert rival.bytes_sent(1000) == 8 * np.mean(numbers)


def test_classes_combine_before_the_likelihood():
    rng = np.random.default_rng(0)
    parts = [(X, (X[:, 0] + 0.3 * rng.normal(size=25) > 0).astype(float)) for X in rng.normal(size=(2, 25, 1))]
    rival = module_experts(rgp.fit_many(parts, likelihood="bernoulli", publish=5)).rival("gpoe")
    Xt = np.linspace(-2, 2, 5)[:, None]
    p = rival.predict_y(Xt)[0]
    expected = [math.exp(ref.log_predictive("bernoulli", 1, m, v)) for m, v in zip(*rival.predict(Xt), strict=True)]
    check_close(p, expected, 1e-6)
    check_close(np.exp(rival.log_density(Xt, np.ones(5))), expected, 1e-6)


# --- GRBCM ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hyperparameters", ["own", "shared"])
def test_grbcm(hyperparameters):
    """Against the exact GPs on D_c and D_c ∪ D_k, found again from the experts' own rows."""
    case = fixed_case()
    parts = [(p.X, p.y) for p in case.parts]
    group = communication_experts(parts, size=7, hyperparameters=hyperparameters, seed=4)
    rows = {tuple(x): y for X, y in parts for x, y in zip(X, y, strict=True)}

    def answer(expert):
        prior, X = expert.prior, expert.X.numpy()
        k = ref.Kernel("rbf", tuple(prior.kernel.theta[1:].exp().tolist()), math.exp(prior.kernel.theta[0]))
        y = np.array([rows[tuple(x)] for x in X])
        q = ref.exact_gp(k, X, y, prior.mean, np.full(len(y), prior.noise), case.Xt)
        return q.mean, np.diag(q.cov)

    common = {tuple(x) for x in group.communication.X.tolist()}
    assert len(common) == 7
    assert len(common & {tuple(x) for X, _ in parts for x in X}) == 7
    for expert, (X, _) in zip(group.experts, parts, strict=True):
        assert {tuple(x) for x in expert.X.tolist()} == common | {tuple(x) for x in X}
    mu, v = (np.stack(t) for t in zip(*map(answer, group.experts), strict=True))
    m, s = answer(group.communication)
    if hyperparameters == "shared":
        assert (v <= s).all()
        expected = product_of_experts("grbcm", mu, v, m[None], s[None])
    else:  # an expert with hyperparameters of its own may be less sure than p_c: it does not count then
        beta = np.maximum(0.5 * np.log(s / v), 0)
        beta[0] = 1
        precision = (beta / v).sum(0) + (1 - beta.sum(0)) / s
        expected = ((beta * mu / v).sum(0) + (1 - beta.sum(0)) * m / s) / precision, 1 / precision
    found = group.rival("grbcm").predict(case.Xt)
    check_close(found[0], expected[0], 1e-7)
    check_close(found[1], expected[1], 1e-7)
    assert group.sent.each == 16
    if hyperparameters == "own":
        assert group.sent.fit == 8 * 5 + 8 * 7 * 3 / 3


def test_a_kernel_object_may_be_given():
    case = fixed_case()
    parts = [(p.X, p.y) for p in case.parts]
    group = exact_experts(parts, kernel=gpytorch_kernel(case.kernel), hyperparameters="shared")
    assert group.experts[0].prior.kernel.structure == spec(case.kernel).structure


def test_bcm_of_experts_at_one_place_is_the_exact_gp():
    """The same through the models: all rows at x, so f(x) is all that experts share with each other."""
    case = fixed_case()
    x = case.Xt[:1]
    prior = Prior(spec(case.kernel), 0.6, 0.3)
    ys = [np.array([1.0, 1.7]), np.array([0.2]), np.array([0.9, 1.1, 2.0])]
    parts = [(np.repeat(x, len(y), 0), y) for y in ys]
    experts = tuple(condition(prior, torch.tensor(X), torch.tensor(y)) for X, y in parts)
    group = Committee("", experts, (Gaussian(0.3),), Sent(0), 2, 1)
    mean, variance = group.rival("bcm").predict(x)
    y = np.concatenate(ys)
    exact = ref.exact_gp(case.kernel, np.repeat(x, len(y), 0), y, 0.6, np.full(len(y), 0.3), x)
    check_close([mean[0], variance[0]], [exact.mean[0], exact.cov[0, 0]], 1e-9)


def test_bad_requests():
    case = fixed_case()
    with pytest.raises(rgp.RecycleGPError, match="communication"):
        module_experts(modules(case, "exact")).rival("grbcm")
    with pytest.raises(rgp.RecycleGPError, match="'own' or 'shared'"):
        exact_experts([(p.X, p.y) for p in case.parts], hyperparameters="both")

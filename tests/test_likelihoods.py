"""Integrals over q(f) = N(m, v) and the families' own formulas, against fine numerical integration in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import reference as ref
from recyclegp import likelihoods
from recyclegp.errors import RecycleGPError
from recyclegp.likelihoods import Likelihood, family

VARIANCES = (1e-4, 0.03, 0.7, 5.0, 90.0, 1000.0)
MEANS = (-6.3, -0.8, 0.0, 1.9, 11.0)
# family → parameters and targets; the narrow student-t is the hardest integrand
CASES = {
    "gaussian": ((0.37,), (-2.0, 0.4, 5.0)),
    "bernoulli": ((), (0.0, 1.0)),
    "bernoulli-probit": ((), (0.0, 1.0)),
    "poisson": ((), (0.0, 3.0, 41.0)),
    "student-t": ((0.21, 3.7), (-2.0, 0.4, 5.0)),
}
families = pytest.mark.parametrize("name", CASES)


def tensors(*columns):
    return (torch.tensor(c, dtype=torch.float64) for c in columns)


def log_parameters(name):
    return torch.tensor([math.log(p) for p in CASES[name][0]], dtype=torch.float64)


def grid(name, v):
    """All pairs of targets and means at one variance."""
    return [(y, m, v) for y in CASES[name][1] for m in MEANS]


def spacing(name):
    """Fine beside the narrowest feature of each log-likelihood."""
    return 0.01 if name == "student-t" else 0.02


# --- densities --------------------------------------------------------------------------------


@families
def test_log_prob(name):
    """log p(y|f) itself, far into both tails."""
    parameters, targets = CASES[name]
    f = np.concatenate([np.linspace(-60, 5, 40), np.linspace(5, 9, 5)])
    for y in targets:
        y_t = torch.full((len(f),), y, dtype=torch.float64)
        found = family(name).log_prob(y_t, torch.tensor(f), log_parameters(name))
        np.testing.assert_allclose(found, ref.log_likelihood(name, y, f, parameters), rtol=1e-11)


@families
def test_densities_sum_to_one(name):
    """∫p(y|f)dy = 1: y itself, not something proportional to it."""
    log_p = log_parameters(name)
    f = torch.tensor(0.83, dtype=torch.float64)
    if family(name).has_noise:
        y = torch.arange(-4e3, 4e3, 5e-3, dtype=torch.float64)
        total = family(name).log_prob(y, f, log_p).exp().sum() * 5e-3
        assert float(total) == pytest.approx(1, abs=1e-7)
    else:
        y = torch.arange(0, 60 if name == "poisson" else 2, dtype=torch.float64)
        assert float(family(name).log_prob(y, f, log_p).exp().sum()) == pytest.approx(1, abs=1e-12)


# --- integrals --------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("v", VARIANCES)
def test_expected_log_prob(name, v):
    """E_q[log p(y|f)] from nearly a point to nearly flat."""
    y, m, s2 = tensors(*zip(*grid(name, v), strict=True))
    found = likelihoods.expected_log_prob(name, y, m, s2, log_parameters(name))
    expected = [ref.expectation(name, *row, CASES[name][0], spacing(name)) for row in grid(name, v)]
    if name == "poisson" and v > 50:
        # the NumPy integral cannot reach e^{m + v/2}: there E exp(f) is known in closed form
        expected = [y * m - math.exp(m + v / 2) - math.lgamma(y + 1) for y, m, _ in grid(name, v)]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@families
def test_a_point_does_not_notice_its_companions(name):
    """Each point is integrated as finely as it needs, whatever stands beside it, with its own parameters."""
    y, m, s2 = tensors(*zip(*(row for v in VARIANCES for row in grid(name, v)), strict=True))
    log_p = log_parameters(name)
    each = log_p[:, None] + 0.3 * torch.arange(len(y), dtype=torch.float64) / len(y)
    for function in (likelihoods.expected_log_prob, lambda *a: likelihoods.dual(*a)[0]):
        together = function(name, y, m, s2, each)
        for i in range(0, len(y), 3):
            alone = function(name, y[i : i + 1], m[i : i + 1], s2[i : i + 1], each[:, i])
            torch.testing.assert_close(together[i : i + 1], alone, rtol=1e-13, atol=1e-13)
    together = likelihoods.log_density(name, y, m, s2, log_p)
    alone = torch.cat(
        [likelihoods.log_density(name, *t, log_p) for t in zip(y.split(1), m.split(1), s2.split(1), strict=True)]
    )
    torch.testing.assert_close(together, alone, rtol=1e-13, atol=1e-13)


@families
@pytest.mark.parametrize("v", VARIANCES)
def test_log_density(name, v):
    """log p(y) = log E_q[p(y|f)]."""
    y, m, s2 = tensors(*zip(*grid(name, v), strict=True))
    found = likelihoods.log_density(name, y, m, s2, log_parameters(name))
    if name == "gaussian":  # its integrand may lie beyond every node of N(m, v)
        noise = CASES[name][0][0]
        expected = [
            -0.5 * (math.log(2 * math.pi * (v + noise)) + (y - m) ** 2 / (v + noise)) for y, m, _ in grid(name, v)
        ]
    else:
        expected = [ref.log_predictive(name, *row, CASES[name][0], spacing(name)) for row in grid(name, v)]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@families
@pytest.mark.parametrize("v", VARIANCES)
def test_dual_parameters(name, v):
    """β = −2∂/∂v E_q[log p], α = ∂/∂m E_q[log p] + βm, by Stein's identities in NumPy."""
    parameters = CASES[name][0]
    y, m, s2 = tensors(*zip(*grid(name, v), strict=True))
    log_p = log_parameters(name)
    expected, (alpha, beta) = likelihoods.dual(name, y, m, s2, log_p)
    np.testing.assert_allclose(expected, likelihoods.expected_log_prob(name, y, m, s2, log_p), rtol=1e-12)
    if name == "poisson" and v > 50:
        rates = [math.exp(m + v / 2) for _, m, _ in grid(name, v)]
        by_m = [y - r for (y, _, _), r in zip(grid(name, v), rates, strict=True)]
        by_v = [-0.5 * r for r in rates]
    else:
        by_m, by_v = zip(*(ref.slopes(name, *row, parameters, spacing(name)) for row in grid(name, v)), strict=True)
    # β is kept positive: student-t is not log-concave, and a saturated class says nothing at all
    floor = likelihoods.smallest_precision(name, y, log_p).numpy()
    alpha, beta, m = alpha.numpy(), beta.numpy(), m.numpy()
    np.testing.assert_allclose(beta, np.maximum(-2 * np.array(by_v), floor), rtol=1e-6, atol=2e-8)
    rounding = 1e-12 * np.abs(beta * m).max()
    np.testing.assert_allclose(alpha - beta * m, by_m, rtol=1e-6, atol=1e-7 + rounding)
    assert (beta > 0).all()


@pytest.mark.parametrize("name", ["bernoulli", "student-t"])
def test_a_point_is_integrated_the_same_alone_and_among_others(name):
    """The rule is chosen for all points together, and is fine enough for each."""
    rng = np.random.default_rng(0)
    n = 200
    y = torch.tensor(rng.integers(0, 2, n), dtype=torch.float64)
    m, v = torch.tensor(3 * rng.standard_normal(n)), torch.tensor(10 ** rng.uniform(-4, 3, n))
    log_p = log_parameters(name)
    for function in (likelihoods.expected_log_prob, likelihoods.log_density):
        together = function(name, y, m, v, log_p)
        alone = torch.cat([function(name, *(t[i : i + 1] for t in (y, m, v)), log_p) for i in range(0, n, 20)])
        np.testing.assert_allclose(together[::20], alone, rtol=1e-8, atol=1e-9)


def test_blocks_of_points_change_nothing(monkeypatch):
    """Integrals in bounded memory."""
    y, m, v = tensors([0.0, 1.0, 1.0, 0.0, 1.0], [0.1, -2.0, 3.0, 8.0, -5.0], [0.2, 3.0, 70.0, 1.0, 9.0])
    whole = likelihoods.expected_log_prob("bernoulli", y, m, v, torch.zeros(0))
    monkeypatch.setattr(likelihoods, "BLOCK", 1)
    assert torch.equal(likelihoods.expected_log_prob("bernoulli", y, m, v, torch.zeros(0)), whole)


@families
def test_no_points(name):
    """Nothing in, nothing out."""
    none = torch.zeros(0, dtype=torch.float64)
    for function in (likelihoods.expected_log_prob, likelihoods.log_density):
        assert function(name, none, none, none, log_parameters(name)).shape == (0,)


def test_log_density_of_a_hopeless_observation_is_finite():
    """Far in the tail the logarithm survives where the probability would underflow."""
    y, m, v = tensors([0.0, 1.0], [900.0, -900.0], [1e-4, 0.5])
    for name in ("bernoulli", "bernoulli-probit"):
        value = likelihoods.log_density(name, y, m, v, torch.zeros(0, dtype=torch.float64))
        assert bool(torch.isfinite(value).all())
        assert float(value.max()) < -800


# --- moments of y -----------------------------------------------------------------------------


def conditional_moments(name, f, parameters):
    """E[y|f] and V[y|f]."""
    if name == "gaussian":
        return f, np.full_like(f, parameters[0])
    if name == "student-t":
        s2, df = parameters
        return f, np.full_like(f, s2 * df / (df - 2))
    if name == "poisson":
        return np.exp(f), np.exp(f)
    p = np.exp(ref.log_likelihood(name, 1.0, f))
    return p, p * (1 - p)


@families
@pytest.mark.parametrize("v", [1e-4, 0.03, 0.7, 5.0])
def test_moments_of_y(name, v):
    """E[y] and V[y] = E V[y|f] + V E[y|f]."""
    m, s2 = tensors(MEANS, [v] * len(MEANS))
    mean, variance = family(name).moments(m, s2, log_parameters(name))
    for i, centre in enumerate(MEANS):
        f, w = ref.nodes(centre, v, 0.02, reach=16.0)
        inner, spread = conditional_moments(name, f, CASES[name][0])
        expected = w @ inner
        np.testing.assert_allclose(mean[i], expected, rtol=1e-8, atol=1e-14)
        total = w @ spread + w @ (inner - expected) ** 2
        np.testing.assert_allclose(variance[i], total, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("v", [90.0, 1000.0])
@pytest.mark.parametrize("name", ["bernoulli", "bernoulli-probit"])
def test_class_probabilities_under_a_flat_q(name, v):
    """Probabilities stay probabilities, and the two classes sum to one."""
    m, s2 = tensors(MEANS, [v] * len(MEANS))
    p, variance = family(name).moments(m, s2, log_parameters(name))
    other, _ = family(name).moments(-m, s2, log_parameters(name))
    np.testing.assert_allclose(p + other, 1, rtol=1e-8)
    expected = [np.exp(ref.log_predictive(name, 1.0, c, v)) for c in MEANS]
    np.testing.assert_allclose(p, expected, rtol=1e-8)
    np.testing.assert_allclose(variance, p * (1 - p))


def test_student_t_without_a_variance():
    """ν ≤ 2 has no variance: infinite, not negative."""
    m, v = tensors([0.3], [0.5])
    _, variance = family("student-t").moments(m, v, torch.tensor([0.0, math.log(1.9)], dtype=torch.float64))
    assert float(variance) == math.inf


# --- parameters, units, refusals --------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "student-t"])
def test_units_of_a_location_scale_family(name):
    """p(sy + b | sf + b) = p(y|f)/|s|."""
    scale, shift = -3.2, 17.0
    plain = Likelihood(name, CASES[name][0])
    other = plain.in_units(scale, shift)
    y, f = tensors([0.4, -2.0, 9.0], [0.1, 0.2, 0.3])
    before = family(name).log_prob(y, f, plain.log_parameters(f))
    after = family(name).log_prob(scale * y + shift, scale * f + shift, other.log_parameters(f))
    np.testing.assert_allclose(after, before - math.log(abs(scale)), rtol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "bernoulli-probit", "poisson"])
def test_families_with_fixed_units_refuse_others(name):
    """Logits and log-rates have no other units; the identity is fine."""
    plain = Likelihood(name)
    assert plain.in_units(1.0, 0.0) == plain
    with pytest.raises(RecycleGPError, match=f"do not apply to likelihood '{name}'"):
        plain.in_units(2.0, 0.0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gaussian", (0.0,)),
        ("gaussian", (math.nan,)),
        ("gaussian", (1.0, 2.0)),
        ("student-t", (1.0,)),
        ("poisson", (1.0,)),
    ],
)
def test_parameters_are_checked(name, parameters):
    """Wrong in number or sign."""
    with pytest.raises(RecycleGPError, match=f"likelihood '{name}' takes"):
        Likelihood(name, parameters)


def test_unknown_family_is_refused_by_name():
    """The message says what there is."""
    with pytest.raises(RecycleGPError, match=r"'weibull' is not known; use one of gaussian, bernoulli"):
        family("weibull")
    with pytest.raises(TypeError, match="must be a name, not int"):
        family(3)


@pytest.mark.parametrize("labels", [[0.0, 1.0, 1.0], [-1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
def test_class_labels_become_zero_and_one(labels):
    """{0, 1} and {−1, 1} are both two classes; one class alone is allowed."""
    expected = [max(v, 0.0) for v in labels]
    assert family("bernoulli").check(torch.tensor(labels)).tolist() == expected


@pytest.mark.parametrize("labels", [[0.0, 1.0, 2.0], [0.5], [-1.0, 0.0, 1.0]])
def test_other_labels_are_refused(labels):
    """Three classes are not two."""
    with pytest.raises(RecycleGPError, match="two classes"):
        family("bernoulli-probit").check(torch.tensor(labels))


@pytest.mark.parametrize("counts", [[1.0, -1.0], [0.5]])
def test_counts_are_checked(counts):
    """Negative and fractional counts."""
    with pytest.raises(RecycleGPError, match="takes counts"):
        family("poisson").check(torch.tensor(counts))

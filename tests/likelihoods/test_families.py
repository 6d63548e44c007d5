"""Integrals over q(f) = N(m, v) and the families' own formulas, against fine numerical integration in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import reference as ref
from recyclegp.errors import RecycleGPError
from recyclegp.likelihoods import StudentT, named, quadrature
from recyclegp.magnitudes import LARGEST

VARIANCES = (1e-4, 0.03, 0.7, 5.0, 90.0, 1000.0)
MEANS = (-6.3, -0.8, 0.0, 1.9, 11.0)
# family → parameters and targets; the narrow student-t is the hardest integrand
CASES = {
    "gaussian": ((0.37,), (-2.0, 0.4, 5.0)),
    "bernoulli": ((), (0.0, 1.0)),
    "bernoulli-probit": ((), (0.0, 1.0)),
    "poisson": ((), (0.0, 3.0, 41.0)),
    "negative-binomial": ((1.7,), (0.0, 3.0, 41.0)),
    "student-t": ((0.21, 3.7), (-2.0, 0.4, 5.0)),
    "ordinal": ((0.3, 1.4), (0.0, 1.0, 2.0, 3.0)),
}
families = pytest.mark.parametrize("name", CASES)


def tensors(*columns):
    return (torch.tensor(c, dtype=torch.float64) for c in columns)


def likelihood(name):
    levels = [str(y) for y in CASES[name][1]]
    family = named(name).with_labels(levels) if name == "ordinal" else named(name)
    return family.with_parameters(CASES[name][0])


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
        found = likelihood(name).log_prob(y_t, torch.tensor(f))
        np.testing.assert_allclose(found, ref.log_likelihood(name, y, f, parameters), rtol=1e-11)


@families
def test_densities_sum_to_one(name):
    """∫p(y|f)dy = 1: y itself, not something proportional to it."""
    p = likelihood(name)
    f = torch.tensor(0.83, dtype=torch.float64)
    if p.has_units:
        y = torch.arange(-4e3, 4e3, 5e-3, dtype=torch.float64)
        total = p.log_prob(y, f).exp().sum() * 5e-3
        assert float(total) == pytest.approx(1, abs=1e-7)
    else:
        y = torch.arange(0, 200 if p.counts else len(p.classes), dtype=torch.float64)
        assert float(p.log_prob(y, f).exp().sum()) == pytest.approx(1, abs=1e-12)


# --- integrals --------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("v", VARIANCES)
def test_expected_log_prob(name, v):
    """E_q[log p(y|f)] from nearly a point to nearly flat."""
    y, m, s2 = tensors(*zip(*grid(name, v), strict=True))
    found = likelihood(name).expected_log_prob(y, m, s2)
    expected = [ref.expectation(name, *row, CASES[name][0], spacing(name)) for row in grid(name, v)]
    if name == "poisson" and v > 50:
        # the NumPy integral cannot reach e^{m + v/2}: there E exp(f) is known in closed form
        expected = [y * m - math.exp(m + v / 2) - math.lgamma(y + 1) for y, m, _ in grid(name, v)]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@families
def test_a_point_does_not_notice_its_companions(name):
    """Each point is integrated as finely as it needs, whatever stands beside it, with its own parameters."""
    y, m, s2 = tensors(*zip(*(row for v in VARIANCES for row in grid(name, v)), strict=True))
    grown = 1 + 0.3 * torch.arange(len(y), dtype=torch.float64) / len(y)
    each = likelihood(name).map(lambda p: p * grown)
    for method in ("expected_log_prob", "expected_with_slopes"):
        together = getattr(each, method)(y, m, s2)
        for i in range(0, len(y), 3):
            mine = each.map(lambda p: p[i : i + 1])  # noqa: B023 (called at once)
            alone = getattr(mine, method)(y[i : i + 1], m[i : i + 1], s2[i : i + 1])
            pairs = [(together, alone)] if method == "expected_log_prob" else list(zip(together, alone, strict=True))
            for whole, one in pairs:
                torch.testing.assert_close(whole[i : i + 1], one, rtol=1e-13, atol=1e-13)
    p = likelihood(name)
    together = p.log_density(y, m, s2)
    alone = torch.cat([p.log_density(*t) for t in zip(y.split(1), m.split(1), s2.split(1), strict=True)])
    torch.testing.assert_close(together, alone, rtol=1e-13, atol=1e-13)


@pytest.mark.slow
@families
@pytest.mark.parametrize("v", VARIANCES)
def test_log_density(name, v):
    """log p(y) = log E_q[p(y|f)]."""
    y, m, s2 = tensors(*zip(*grid(name, v), strict=True))
    found = likelihood(name).log_density(y, m, s2)
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
def test_slopes(name, v):
    """∂/∂m and ∂/∂v of E_q[log p], by Stein's identities in NumPy."""
    parameters = CASES[name][0]
    y, m, s2 = tensors(*zip(*grid(name, v), strict=True))
    expected, by_m, by_v = likelihood(name).expected_with_slopes(y, m, s2)
    np.testing.assert_allclose(expected, likelihood(name).expected_log_prob(y, m, s2), rtol=1e-12)
    if name == "poisson" and v > 50:
        rates = [math.exp(m + v / 2) for _, m, _ in grid(name, v)]
        slopes = [(y - r, -0.5 * r) for (y, _, _), r in zip(grid(name, v), rates, strict=True)]
    else:
        slopes = [ref.slopes(name, *row, parameters, spacing(name)) for row in grid(name, v)]
    by_mean, by_variance = np.array(slopes).T
    np.testing.assert_allclose(by_v, by_variance, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_m, by_mean, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["bernoulli", "student-t"])
def test_a_point_is_integrated_the_same_alone_and_among_others(name):
    """The rule is chosen for all points together, and is fine enough for each."""
    rng = np.random.default_rng(0)
    n = 200
    y = torch.tensor(rng.integers(0, 2, n), dtype=torch.float64)
    m, v = torch.tensor(3 * rng.standard_normal(n)), torch.tensor(10 ** rng.uniform(-4, 3, n))
    for function in (likelihood(name).expected_log_prob, likelihood(name).log_density):
        together = function(y, m, v)
        alone = torch.cat([function(*(t[i : i + 1] for t in (y, m, v))) for i in range(0, n, 20)])
        np.testing.assert_allclose(together[::20], alone, rtol=1e-8, atol=1e-9)


def test_blocks_of_points_change_nothing(monkeypatch):
    """Integrals in bounded memory."""
    y, m, v = tensors([0.0, 1.0, 1.0, 0.0, 1.0], [0.1, -2.0, 3.0, 8.0, -5.0], [0.2, 3.0, 70.0, 1.0, 9.0])
    whole = named("bernoulli").expected_log_prob(y, m, v)
    monkeypatch.setattr(quadrature, "VALUES", 1)
    assert torch.equal(named("bernoulli").expected_log_prob(y, m, v), whole)


@families
def test_no_points(name):
    """Nothing in, nothing out."""
    none = torch.zeros(0, dtype=torch.float64)
    for function in (likelihood(name).expected_log_prob, likelihood(name).log_density):
        assert function(none, none, none).shape == (0,)


def test_log_density_of_a_hopeless_observation_is_finite():
    """Far in the tail the logarithm survives where the probability would underflow."""
    y, m, v = tensors([0.0, 1.0], [900.0, -900.0], [1e-4, 0.5])
    for name in ("bernoulli", "bernoulli-probit"):
        value = named(name).log_density(y, m, v)
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
    if name == "negative-binomial":
        return np.exp(f), np.exp(f) + np.exp(2 * f) / parameters[0]
    if name == "ordinal":
        p = np.exp([ref.log_likelihood(name, k, f, parameters) for k in range(4)])
        first = np.arange(4) @ p
        return first, np.arange(4) ** 2 @ p - first**2
    p = np.exp(ref.log_likelihood(name, 1.0, f))
    return p, p * (1 - p)


@families
@pytest.mark.parametrize("v", [1e-4, 0.03, 0.7, 5.0])
def test_moments_of_y(name, v):
    """E[y] and V[y] = E V[y|f] + V E[y|f]."""
    m, s2 = tensors(MEANS, [v] * len(MEANS))
    mean, variance = likelihood(name).moments(m, s2)
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
    p, variance = likelihood(name).moments(m, s2)
    other, _ = likelihood(name).moments(-m, s2)
    np.testing.assert_allclose(p + other, 1, rtol=1e-8)
    expected = [np.exp(ref.log_predictive(name, 1.0, c, v)) for c in MEANS]
    np.testing.assert_allclose(p, expected, rtol=1e-8)
    np.testing.assert_allclose(variance, p * (1 - p))


def test_student_t_without_a_variance():
    """ν ≤ 2 has no variance: the largest number that anything may be, not a negative one."""
    m, v = tensors([0.3], [0.5])
    for df in (1.9, 2.0, 2.0 + 1e-15):
        _, variance = StudentT(1e90, df).moments(m, v)
        assert float(variance) == LARGEST


# --- parameters, units, refusals --------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "student-t"])
def test_units_of_a_location_scale_family(name):
    """p(sy + b | sf + b) = p(y|f)/|s|."""
    scale, shift = -3.2, 17.0
    plain = likelihood(name)
    other = plain.in_units(scale, shift)
    y, f = tensors([0.4, -2.0, 9.0], [0.1, 0.2, 0.3])
    before = plain.log_prob(y, f)
    after = other.log_prob(scale * y + shift, scale * f + shift)
    np.testing.assert_allclose(after, before - math.log(abs(scale)), rtol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "bernoulli-probit", "poisson", "ordinal"])
def test_families_with_fixed_units_refuse_others(name):
    """Logits and log-rates have no other units; the identity is fine."""
    plain = named(name)
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
        ("ordinal", (1.0,)),  # without levels there are no gaps
    ],
)
def test_parameters_are_checked(name, parameters):
    """Wrong in number or sign."""
    with pytest.raises(RecycleGPError, match=f"likelihood '{name}' takes"):
        named(name, parameters)


def test_unknown_family_is_refused_by_name():
    """The message says what there is."""
    with pytest.raises(RecycleGPError, match=r"'cauchy' is not known; use one of gaussian, lognormal, bernoulli"):
        named("cauchy")
    with pytest.raises(TypeError, match="must be a name, not int"):
        named(3)


@pytest.mark.parametrize("labels", [[0.0, 1.0, 1.0], [-1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
def test_class_labels_become_zero_and_one(labels):
    """{0, 1} and {−1, 1} are both two classes; one class alone is allowed."""
    expected = [max(v, 0.0) for v in labels]
    assert named("bernoulli").check(torch.tensor(labels)).tolist() == expected


@pytest.mark.parametrize("labels", [[0.0, 1.0, 2.0], [0.5], [-1.0, 0.0, 1.0]])
def test_other_labels_are_refused(labels):
    """Three classes are not two."""
    with pytest.raises(RecycleGPError, match="two classes"):
        named("bernoulli-probit").check(torch.tensor(labels))


@pytest.mark.parametrize("counts", [[1.0, -1.0], [0.5]])
def test_counts_are_checked(counts):
    """Negative and fractional counts."""
    with pytest.raises(RecycleGPError, match="takes counts"):
        named("poisson").check(torch.tensor(counts))


# --- student-t with many degrees of freedom -----------------------------------------------------


def fine_student_density(y, m, v, noise, df):
    """log ∫ N(f; m, v) t(y|f) df on a fine grid, with the constant of t by Stirling's series."""
    reach = 14 * math.sqrt(v)
    f = np.linspace(min(m, y) - reach, max(m, y) + reach, 400_001)
    constant = -0.5 * math.log(2 * math.pi * noise) - 0.25 / df if df > 1e4 else None
    if constant is None:
        constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(math.pi * df * noise)
    log_t = constant - (df + 1) / 2 * np.log1p((y - f) ** 2 / (df * noise))
    joint = log_t - 0.5 * (f - m) ** 2 / v - 0.5 * math.log(2 * math.pi * v)
    return joint.max() + math.log(np.exp(joint - joint.max()).sum() * (f[1] - f[0]))


@pytest.mark.parametrize("df", [30.0, 199.0, 200.0, 300.0, 1e4, 1e7, 1e9])
@pytest.mark.parametrize("y", [1.3, -5.0, 20.0])
def test_student_t_becomes_a_gaussian(df, y):
    """For many degrees of freedom, and for tails that only few of them have."""
    noise, m, v = 0.4, 0.2, 0.5
    found = StudentT(noise, df).log_density(*tensors([y], [m], [v]))
    assert float(found) == pytest.approx(fine_student_density(y, m, v, noise, df), abs=1e-7)


@pytest.mark.parametrize("df", [1e7, 1e9])
def test_log_prob_keeps_its_digits(df):
    """The constant is a difference of two numbers of size df·log df."""
    y, f = tensors([0.3, 1.7], [0.1, -0.4])
    found = StudentT(0.4, df).log_prob(y, f)
    np.testing.assert_allclose(found, named("gaussian", [0.4]).log_prob(y, f), rtol=0, atol=30 / df)

"""Levels in an order: probabilities, integrals, slopes and answers about levels, against SciPy and mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import integrate, stats

import reference as ref
from recyclegp.errors import RecycleGPError
from recyclegp.likelihoods import BernoulliProbit, Moments, Observed, Ordinal, named

GAPS = (0.8, 0.25, 2.1)
CUTS = np.array([-np.inf, 0.0, 0.8, 1.05, 3.15, np.inf])
WORDS = ("none", "mild", "moderate", "severe", "critical")
KNOWN = Ordinal(WORDS, GAPS)
UNEVEN = Ordinal(("1", "2", "3.5", "7", "10"), GAPS)  # whose levels are numbers
NUMBERS = np.array([1, 2, 3.5, 7, 10])
MEAN = torch.tensor([-1.3, 0.4, 2.6, -4.0, 0.7], dtype=torch.float64)
VARIANCE = torch.tensor([0.05, 0.9, 0.002, 3.0, 40.0], dtype=torch.float64)
AT = Moments(MEAN[:, None], VARIANCE[:, None])


def close(found, expected, rtol=1e-10, atol=0.0):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def probabilities():
    """(5, 5)  by integrating over f, row by row."""
    found = np.zeros((len(MEAN), 5))
    for i, (m, v) in enumerate(zip(MEAN.tolist(), VARIANCE.tolist(), strict=True)):
        q = stats.norm(m, np.sqrt(v))
        for k in range(5):

            def both(f, k=k, q=q):
                return (stats.norm.cdf(CUTS[k + 1] - f) - stats.norm.cdf(CUTS[k] - f)) * q.pdf(f)

            ends = m - 10 * np.sqrt(v), m + 10 * np.sqrt(v)
            found[i, k] = integrate.quad(both, *ends, limit=400, epsabs=1e-13, points=[m])[0]
    return found


# --- p(y|f) -------------------------------------------------------------------------------------


def test_probabilities_given_f():
    f = np.linspace(-6, 8, 29)
    for k in range(5):
        expected = stats.norm.cdf(CUTS[k + 1] - f) - stats.norm.cdf(CUTS[k] - f)
        close(KNOWN.log_prob(tensor([float(k)] * 29), tensor(f)).exp(), expected, 1e-9, 1e-14)


@pytest.mark.parametrize("gap", [1e-5, 0.7, 30.0])
@pytest.mark.parametrize("f", [-50.0, -3.0, 0.2, 9.0, 70.0])
def test_tails_keep_their_digits(gap, f):
    """Far out, and for cuts that nearly coincide, where the difference of two Φ would be nothing."""
    mpmath.mp.dps = 900
    expected = mpmath.log((mpmath.erfc((f - gap) / mpmath.sqrt(2)) - mpmath.erfc(f / mpmath.sqrt(2))) / 2)
    own = Ordinal(("a", "b", "c"), (gap,))
    close(float(own.log_prob(tensor([1.0]), tensor([f]))[0]), float(expected), 1e-8)


def test_two_levels_are_a_probit_classifier_and_none_of_more_is_above_the_first_cut():
    """f means the same whatever levels there are above: P(y is not the lowest) = Φ(f)."""
    y = tensor([0.0, 1.0, 1.0, 0.0, 1.0])
    two = Ordinal(("no", "yes"))
    close(two.log_prob(y, MEAN), BernoulliProbit().log_prob(y, MEAN))
    close(two.log_density(y, MEAN, VARIANCE), BernoulliProbit().log_density(y, MEAN, VARIANCE))
    close(1 - KNOWN.probabilities(AT)[:, 0], BernoulliProbit().moments(MEAN, VARIANCE).mean, 1e-9)


def test_log_concave_and_slopes_by_differences():
    f, step = torch.linspace(-7, 9, 33, dtype=torch.float64), 1e-4
    for k in range(5):
        y = torch.full_like(f, float(k))
        here, up, down = (KNOWN.log_prob(y, f + s) for s in (0.0, step, -step))
        assert (up - 2 * here + down < 1e-12).all()
        moving = f.clone().requires_grad_()
        (slope,) = torch.autograd.grad(KNOWN.log_prob(y, moving).sum(), moving)
        close(slope, (up - down) / (2 * step), 1e-5, 1e-7)


# --- integrals ----------------------------------------------------------------------------------


def test_expectations_and_their_slopes():
    """E_q[log p(y|f)] by a fine sum over f, and its derivatives by Stein's identities."""
    for k in range(5):
        y = torch.full_like(MEAN, float(k))
        value, by_mean, by_variance = KNOWN.expected_with_slopes(y, MEAN, VARIANCE)
        rows = [(k, m, v) for m, v in zip(MEAN.tolist(), VARIANCE.tolist(), strict=True)]
        close(value, [ref.expectation("ordinal", *row, GAPS) for row in rows], 1e-8)
        slopes = np.array([ref.slopes("ordinal", *row, GAPS) for row in rows]).T
        close(by_mean, slopes[0], 1e-6, 1e-7)
        close(by_variance, slopes[1], 1e-5, 1e-7)
        assert (by_variance < 0).all()


def test_the_gradient_by_gaps():
    y, m, v = tensor([0.0, 1.0, 2.0, 3.0, 4.0]), MEAN, VARIANCE
    gaps = [tensor(g).requires_grad_() for g in GAPS]
    found = torch.autograd.grad(Ordinal(WORDS, tuple(gaps)).expected_log_prob(y, m, v).sum(), gaps)
    for j, own in enumerate(found):
        ends = []
        for s in (1 + 1e-6, 1 - 1e-6):
            moved = tuple(g * s if i == j else g for i, g in enumerate(GAPS))
            ends.append(float(Ordinal(WORDS, moved).expected_log_prob(y, m, v).sum()))
        assert float(own) == pytest.approx((ends[0] - ends[1]) / (2e-6 * GAPS[j]), rel=1e-5)


def test_many_models_side_by_side_are_each_alone():
    y = tensor([0.0, 1.0, 2.0, 3.0, 4.0]).expand(2, -1)
    several = [tensor([[g], [1.7 * g]]) for g in GAPS]
    both = Ordinal(WORDS, tuple(several)).expected_log_prob(y, MEAN.expand(2, -1), VARIANCE.expand(2, -1))
    for factor, found in zip((1.0, 1.7), both, strict=True):
        close(found, Ordinal(WORDS, tuple(factor * g for g in GAPS)).expected_log_prob(y[0], MEAN, VARIANCE))


def test_probabilities_of_a_new_level():
    expected = probabilities()
    close(KNOWN.probabilities(AT), expected, 1e-7, 1e-12)
    close(KNOWN.probabilities(AT).sum(-1), 1, 1e-12)
    for k in range(5):
        below, up_to = KNOWN.distribution(torch.full_like(MEAN, float(k)), MEAN, VARIANCE)
        close(below, expected[:, :k].sum(-1), 1e-7, 1e-12)
        close(up_to, expected[:, : k + 1].sum(-1), 1e-7, 1e-12)


# --- answers about levels, as numbers -----------------------------------------------------------


@pytest.mark.parametrize(("own", "numbers"), [(KNOWN, np.arange(5)), (UNEVEN, NUMBERS)], ids=["words", "numbers"])
def test_moments_quantiles_and_intervals(own, numbers):
    """Words answer by their positions, numbers as what they are."""
    p = probabilities()
    mean, variance = own.moments(MEAN, VARIANCE)
    close(mean, p @ numbers, 1e-7)
    close(variance, p @ numbers**2 - (p @ numbers) ** 2, 1e-6)
    for q in (0.03, 0.5, 0.9):
        expected = [numbers[np.searchsorted(np.cumsum(row), q)] for row in p]
        assert own.quantile_at(q, AT).tolist() == expected
    low, high = own.interval_at(AT, 0.8)
    close(low, own.quantile_at(0.1, AT))
    close(high, own.quantile_at(0.9, AT))
    for level in (numbers[0] - 1, numbers[2], 0.5 * (numbers[2] + numbers[3]), numbers[4]):
        found = own.survival_at(torch.full_like(MEAN, float(level)), AT)
        close(found, p @ (numbers > level), 1e-7, 1e-12)
    y = tensor([4.0, 0.0, 2.0, 1.0, 3.0])
    close(own.compared(y), numbers[y.long()])


def test_crps_is_the_integral_it_is_defined_by():
    """∫ (P(Y ≤ t) − [y ≤ t])² dt, in the units of the levels."""
    p, y = probabilities(), np.array([4, 0, 2, 1, 3])
    t = np.linspace(1, 10, 180_001)[:-1] + 2.5e-5
    for i, row in enumerate(p):
        up_to = np.cumsum(row)[np.searchsorted(NUMBERS, t, side="right") - 1]
        expected = np.mean((up_to - (NUMBERS[y[i]] <= t)) ** 2) * 9
        assert float(UNEVEN.crps_at(tensor(y.astype(float)), AT)[i]) == pytest.approx(expected, rel=1e-6)


def test_of_somebody_new_it_is_a_mixture():
    """f has one of two Gaussians: probabilities are the mean of theirs, and quantiles follow from these."""
    ways = (AT, Moments(AT.mean, 4 * AT.variance))
    new = Observed(KNOWN, Moments(AT.mean, 2.2 * AT.variance), ways, (0.6, 0.4))
    p = 0.6 * KNOWN.probabilities(ways[0]) + 0.4 * KNOWN.probabilities(ways[1])
    close(new.probabilities(), p)
    expected = [np.searchsorted(np.cumsum(row), 0.3) for row in p.numpy()]
    assert new.quantile(0.3).tolist() == expected
    assert new.interval(0.8).high.tolist() == new.quantile(0.9).tolist()


# --- levels -------------------------------------------------------------------------------------


def test_numbers_sort_themselves_and_words_are_in_the_order_that_is_said():
    family = named("ordinal")
    assert family.for_data([10, 2, 2.5, 2], 4, None).classes == ("2", "2.5", "10")
    assert family.for_data(["mild", "none"], 2, ["none", "mild", "severe"]).classes == ("none", "mild", "severe")
    column = pd.Series(pd.Categorical(["hi", "lo"], categories=["lo", "mid", "hi"], ordered=True))
    assert family.for_data(column, 2, None).classes == ("lo", "mid", "hi")
    assert family.for_data(column, 2, ["mid", "lo", "hi"]).classes == ("mid", "lo", "hi")  # who says it, decides
    assert KNOWN.targets(["mild", "critical", "none"], 3, None).tolist() == [1, 4, 0]


@pytest.mark.parametrize(
    ("y", "classes", "said"),
    [
        (["mild", "none"], None, "the levels mild, none, whose order nobody has said; pass classes= with all levels"),
        (["mild", "none"], ["none", "severe"], "y holds the levels mild, and classes= names none, severe; name all"),
        (["a", "b"], ["a", "b", "a"], "a level is named twice in a, b, a"),
        ([3, 3], None, "one level only .3.; pass classes="),
        (list(range(40)), None, "40 levels; an ordinal likelihood takes at most 32; use likelihood='gaussian'"),
        (["a", "b"], "ab", "classes='ab'; pass a list of levels, from the lowest"),
        (pd.Series(pd.Categorical(["hi", "lo"])), None, "whose order nobody has said"),
        (["a", None], ["a", "b"], "1 missing classes"),
    ],
)
def test_refused_levels(y, classes, said):
    with pytest.raises(RecycleGPError, match=said):
        named("ordinal").for_data(y, len(y), classes)


def test_parameters_are_gaps_of_as_many_levels():
    assert KNOWN.parameters == GAPS
    assert KNOWN.cuts == pytest.approx(CUTS[1:-1])
    assert not Ordinal(WORDS).known
    assert not named("ordinal").known
    assert Ordinal(("no", "yes")).known
    with pytest.raises(RecycleGPError, match="got 5 and 2"):
        Ordinal(WORDS, (1.0, 2.0))
    with pytest.raises(RecycleGPError, match="positive parameters"):
        Ordinal(WORDS, (1.0, -2.0, 1.0))
    with pytest.raises(RecycleGPError, match="do not apply to likelihood 'ordinal'"):
        KNOWN.in_units(2.0, 0.0)

"""Times, some of them censored: densities, integrals, moments and what a new time is, against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import reference as ref
from recyclegp.errors import RecycleGPError
from recyclegp.likelihoods import Lognormal, Moments, Observed, Survival, named

NOISE = 0.37
KNOWN = Survival(NOISE)
Y = torch.tensor([0.31, -2.2, 11.0, -0.05, 3.0, -300.0], dtype=torch.float64)
MEAN = torch.tensor([-1.3, 0.4, 2.6, -4.0, 0.7, 2.0], dtype=torch.float64)
VARIANCE = torch.tensor([0.05, 0.9, 0.002, 3.0, 40.0, 0.3], dtype=torch.float64)
CENSORED = (Y < 0).numpy()


def law():
    return stats.lognorm(s=np.sqrt(VARIANCE.numpy() + NOISE), scale=np.exp(MEAN.numpy()))


def close(found, expected, rtol=1e-10):
    np.testing.assert_allclose(found, expected, rtol=rtol)


def test_an_event_has_a_density_of_its_logarithm_and_a_censored_time_a_probability():
    f = torch.linspace(-8, 9, 41, dtype=torch.float64)
    for y in Y.tolist():
        of_log = stats.norm(f.numpy(), math.sqrt(NOISE))
        expected = of_log.logpdf(math.log(y)) if y > 0 else of_log.logsf(math.log(-y))
        close(KNOWN.log_prob(torch.full_like(f, y), f), expected)


def test_expectations_and_their_slopes():
    """E_q[log p(y|f)] by a fine sum over f, and its derivatives by Stein's identities."""
    value, by_mean, by_variance = KNOWN.expected_with_slopes(Y, MEAN, VARIANCE)
    rows = list(zip(Y.tolist(), MEAN.tolist(), VARIANCE.tolist(), strict=True))
    close(value, [ref.expectation("survival", *row, (NOISE,)) for row in rows], 1e-8)
    close(KNOWN.expected_log_prob(Y, MEAN, VARIANCE), value)
    slopes = np.array([ref.slopes("survival", *row, (NOISE,)) for row in rows]).T
    np.testing.assert_allclose(by_mean, slopes[0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(by_variance, slopes[1], rtol=1e-5, atol=1e-7)
    assert (by_variance < 0).all()  # log-concave in f


def test_many_models_side_by_side_are_each_alone():
    noises = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
    both = Survival(noises).expected_log_prob(Y.expand(2, -1), MEAN.expand(2, -1), VARIANCE.expand(2, -1))
    for own, found in zip((0.2, 0.9), both, strict=True):
        close(found, Survival(own).expected_log_prob(Y, MEAN, VARIANCE))


def test_the_probability_of_what_was_seen():
    """log p(t) of an event on t itself, log P(T > t) of a censored time: with v integrated out."""
    t = Y.abs().numpy()
    close(KNOWN.log_density(Y, MEAN, VARIANCE), np.where(CENSORED, law().logsf(t), law().logpdf(t)))


def test_a_new_time_is_lognormal():
    at, t = Moments(MEAN[:, None], VARIANCE[:, None]), Y.abs()
    few = VARIANCE < 10  # where SciPy's moments are numbers
    close(KNOWN.moments(MEAN, VARIANCE).mean[few], law().mean()[few.numpy()])
    close(KNOWN.moments(MEAN, VARIANCE).variance[few], law().var()[few.numpy()])
    close(KNOWN.quantile_at(0.13, at), law().ppf(0.13))
    close(KNOWN.interval_at(at, 0.8).high, law().ppf(0.9))
    close(KNOWN.survival_at(t, at), law().sf(t), 1e-8)
    close(KNOWN.survival_at(-t, at), 1)  # before any time that there is
    below, up_to = KNOWN.distribution(Y, MEAN, VARIANCE)
    close(below, law().cdf(t))
    close(up_to, np.where(CENSORED, 1, law().cdf(t)))
    crps = KNOWN.crps(Y, MEAN, VARIANCE)
    assert torch.isnan(crps[CENSORED]).all()
    close(crps[~CENSORED], Lognormal(NOISE).crps(Y, MEAN, VARIANCE)[~CENSORED])


def test_of_somebody_new_it_is_a_mixture():
    """f has one of two Gaussians: survival is their mean, a quantile is where that is what was asked for."""
    ways = (Moments(MEAN[:3, None], VARIANCE[:3, None]), Moments(MEAN[:3, None], 4 * VARIANCE[:3, None]))
    mean = Moments(MEAN[:3, None], 2.2 * VARIANCE[:3, None])
    new = Observed(KNOWN, mean, ways, (0.6, 0.4))
    t = Y[:3].abs()
    each = [stats.lognorm(np.sqrt(w.variance[:, 0].numpy() + NOISE), scale=np.exp(w.mean[:, 0].numpy())) for w in ways]
    close(new.survival(t), 0.6 * each[0].sf(t) + 0.4 * each[1].sf(t))
    close(new.survival(new.quantile(0.3)), 0.7, 1e-8)


def test_crps_of_an_event_is_the_integral_it_is_defined_by():
    one = stats.lognorm(s=math.sqrt(0.05 + NOISE), scale=math.exp(-1.3))
    below, _ = integrate.quad(lambda t: one.cdf(t) ** 2, 0, 0.31)
    above, _ = integrate.quad(lambda t: one.sf(t) ** 2, 0.31, one.ppf(1 - 1e-13), limit=300)
    assert float(KNOWN.crps(Y[:1], MEAN[:1], VARIANCE[:1])[0]) == pytest.approx(below + above, rel=1e-7)


def test_units_are_factors_of_time():
    change = KNOWN.changes(24.0, 0.0, "h")[0]
    assert change == (1.0, pytest.approx(math.log(24)), "h")
    assert KNOWN.rescaled([change]) == KNOWN
    before = KNOWN.log_prob(Y, MEAN)
    close(KNOWN.log_prob(24 * Y, MEAN + math.log(24)), before)  # of log t: the same density
    for scale, shift in ((-1.0, 0.0), (1.0, 2.0)):
        with pytest.raises(RecycleGPError, match="likelihood 'survival' is positive in any unit"):
            KNOWN.changes(scale, shift, None)


def test_refused():
    with pytest.raises(RecycleGPError, match="2 of 3 are zero; leave those rows out"):
        named("survival").check(torch.tensor([1.0, 0.0, 0.0]))
    with pytest.raises(RecycleGPError, match="likelihood 'survival' takes"):
        named("survival", (-1.0,))

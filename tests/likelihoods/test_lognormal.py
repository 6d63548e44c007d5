"""Positive y: densities, moments, quantiles and scores against SciPy's log-normal, and its noise as a mixture."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from recyclegp.errors import RecycleGPError
from recyclegp.likelihoods import Gaussian, GaussianMixture, Lognormal, Moments, Observed, named

NOISE = 0.17
MEAN = torch.tensor([-1.3, 0.4, 2.6], dtype=torch.float64)
VARIANCE = torch.tensor([0.05, 0.9, 0.002], dtype=torch.float64)
Y = torch.tensor([0.31, 2.2, 11.0], dtype=torch.float64)
KNOWN = Lognormal(NOISE)


def scipy_law():
    return stats.lognorm(s=np.sqrt(VARIANCE.numpy() + NOISE), scale=np.exp(MEAN.numpy()))


def close(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol)


def test_it_is_scipys_lognormal():
    """f ~ N(m, v) and log y ~ N(f, σ²): log y ~ N(m, v + σ²)."""
    law = scipy_law()
    close(KNOWN.log_density(Y, MEAN, VARIANCE), law.logpdf(Y))
    close(KNOWN.moments(MEAN, VARIANCE).mean, law.mean())
    close(KNOWN.moments(MEAN, VARIANCE).variance, law.var())
    close(KNOWN.distribution(Y, MEAN, VARIANCE).up_to, law.cdf(Y))
    close(KNOWN.quantile(0.13, MEAN, VARIANCE), law.ppf(0.13))
    low, high = KNOWN.interval(MEAN, VARIANCE, 0.8)
    close(low, law.ppf(0.1))
    close(high, law.ppf(0.9))


def test_crps_is_the_integral_it_is_defined_by():
    found = KNOWN.crps(Y, MEAN, VARIANCE)
    for i, (s, scale, y) in enumerate(zip((VARIANCE + NOISE).sqrt(), MEAN.exp(), Y, strict=True)):
        law = stats.lognorm(s=float(s), scale=float(scale))
        below, _ = integrate.quad(lambda t, law=law: law.cdf(t) ** 2, 0, float(y), limit=500)
        above, _ = integrate.quad(lambda t, law=law: law.sf(t) ** 2, float(y), law.ppf(1 - 1e-15), limit=500)
        assert float(found[i]) == pytest.approx(below + above, rel=1e-7)


def test_f_sees_the_logarithm_with_gaussian_noise():
    """E[log p] of what f sees, by Gauss and Hermite's rule, and p(y|f) = p(log y|f)/y."""
    seen = KNOWN.seen(Y)
    z, w = np.polynomial.hermite_e.hermegauss(20)
    f = MEAN.numpy()[:, None] + np.sqrt(VARIANCE.numpy())[:, None] * z
    log_p = stats.norm(f, math.sqrt(NOISE)).logpdf(seen.numpy()[:, None])
    close(KNOWN.expected_log_prob(seen, MEAN, VARIANCE), (log_p * w).sum(-1) / w.sum())
    none = torch.zeros_like(VARIANCE)
    close(KNOWN.log_prob(seen, MEAN) - Y.log(), KNOWN.log_density(Y, MEAN, none))
    close(KNOWN.from_seen(seen), Y)


def test_other_units_shift_f():
    """p(sy | f + log s) = p(y|f)/s."""
    s = 18.016
    (change,) = KNOWN.changes(s, 0.0, "mg/dL")
    assert (change.scale, change.unit) == (1.0, "mg/dL")
    moved = KNOWN.rescaled([change])
    close(moved.log_density(s * Y, MEAN + change.shift, VARIANCE) + math.log(s), KNOWN.log_density(Y, MEAN, VARIANCE))
    assert KNOWN.change_of_y(1.0, math.log(s)).scale == pytest.approx(s)
    assert KNOWN.change_of_y(1.1, 0.3) is None


@pytest.mark.parametrize(("scale", "shift", "said"), [(-2.0, 0.0, "output_scale=-2"), (1.0, 3.0, "output_shift=3")])
def test_units_that_leave_y_positive_only(scale, shift, said):
    with pytest.raises(RecycleGPError, match=said):
        KNOWN.changes(scale, shift, None)


def test_zero_and_negative_y_are_refused():
    with pytest.raises(RecycleGPError, match="positive numbers, and 2 of 3 are zero or negative"):
        named("lognormal").check(torch.tensor([1.0, 0.0, -3.0]))


def test_a_noise_that_is_one_of_several():
    """Quantiles and densities are those of a mixture on the scale of log y; so are they where f is one, too."""
    mixture = GaussianMixture(0.26, (0.1, 0.5), (0.6, 0.4))
    both = KNOWN.with_noise(mixture)
    laws = [stats.lognorm(s=np.sqrt(VARIANCE.numpy() + n), scale=np.exp(MEAN.numpy())) for n in (0.1, 0.5)]
    close(both.distribution(Y, MEAN, VARIANCE).up_to, 0.6 * laws[0].cdf(Y) + 0.4 * laws[1].cdf(Y))
    close(both.log_density(Y, MEAN, VARIANCE).exp(), 0.6 * laws[0].pdf(Y) + 0.4 * laws[1].pdf(Y))
    at = both.quantile(0.9, MEAN, VARIANCE)
    close(both.distribution(at, MEAN, VARIANCE).up_to, 0.9, rtol=1e-9)
    assert both.with_noise(Gaussian(0.3)) == Lognormal(0.3)
    wide, narrow = (Moments(MEAN[:, None], factor * VARIANCE[:, None]) for factor in (3.0, 0.5))
    seen = Observed(both, wide, (wide, narrow), (0.3, 0.7))
    close(seen.distribution(seen.quantile(0.2)).up_to, 0.2, rtol=1e-9)

"""Counts with a dispersion: densities, distribution function and CRPS against SciPy, slopes against differences."""

import numpy as np
import pytest
import torch
from scipy import stats

import recyclegp as rgp
from recyclegp.likelihoods import NegativeBinomial, Poisson, named


def tensors(*columns):
    return [torch.as_tensor(c, dtype=torch.float64) for c in np.broadcast_arrays(*columns)]


def scipy_cdf(k, m, v, r, nodes=20_001):
    """E[P(Y ≤ k | f)] by a fine sum over f."""
    z = np.linspace(-9, 9, nodes)
    w = stats.norm.pdf(z)
    mean = np.exp(m + np.sqrt(v) * z)
    return stats.nbinom.cdf(np.asarray(k)[..., None], r, r / (r + mean)) @ (w / w.sum())


@pytest.mark.parametrize("r", [0.05, 1.0, 7.3, 900.0])
def test_log_prob_is_that_of_scipy(r):
    f = np.linspace(-8, 8, 33)
    for y in (0.0, 1.0, 17.0, 400.0):
        expected = stats.nbinom.logpmf(y, r, r / (r + np.exp(f)))
        found = NegativeBinomial(r).log_prob(*tensors(y, f))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("r", [1e5, 1e9, 1e13])
def test_a_large_dispersion_is_poisson(r):
    """Its constant is a difference of two numbers of size r·log r."""
    y, f = tensors([0.0, 3.0, 41.0], [0.4, 1.2, 3.0])
    np.testing.assert_allclose(
        NegativeBinomial(r).log_prob(y, f), Poisson().log_prob(y, f), rtol=0, atol=2e3 / r + 1e-9
    )


@pytest.mark.parametrize("r", [0.3, 4.0, 2e4])
def test_slopes_are_differences_and_it_is_log_concave(r):
    p, step = NegativeBinomial(r), 1e-4
    y, f = tensors(np.repeat([0.0, 2.0, 60.0], 41), np.tile(np.linspace(-6, 8, 41), 3))
    up, here, down = (p.log_prob(y, f + d) for d in (step, 0.0, -step))
    scale = float(y.max() + min(r, 3e3))
    np.testing.assert_allclose(p.slope(y, f), (up - down) / (2 * step), atol=1e-6 * scale)
    assert bool((up - 2 * here + down <= 1e-9 * scale).all())


def test_slopes_in_the_dispersion():
    """By which it is learned."""
    y, m, v = tensors([0.0, 3.0, 90.0], [0.4, 1.2, 3.0], [0.1, 2.0, 0.5])
    r = torch.tensor([0.4, 3.0, 50.0], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(NegativeBinomial(r).expected_log_prob(y, m, v).sum(), r)
    up, down = (NegativeBinomial(r.detach() * s).expected_log_prob(y, m, v) for s in (1 + 1e-6, 1 - 1e-6))
    np.testing.assert_allclose(found, (up - down) / (2e-6 * r.detach()), rtol=1e-5)


@pytest.mark.parametrize("r", [0.05, 0.8, 6.0, 4e3])
@pytest.mark.parametrize(("m", "v"), [(0.3, 0.04), (-2.0, 1.7), (5.0, 1e-9), (1.0, 3.0), (4.0, 40.0), (9.0, 0.5)])
def test_distribution(m, v, r):
    k = np.unique(np.concatenate([np.arange(-1.0, 12.0), np.round(np.exp(m + np.sqrt(v) * np.linspace(-4, 4, 9)))]))
    found = NegativeBinomial(r).distribution(*tensors(k, m, v)).up_to
    assert found.numpy() == pytest.approx(scipy_cdf(k, m, v, r), abs=1e-8)


@pytest.mark.parametrize("p", [1e-3, 0.5, 0.975])
def test_quantiles_are_the_smallest_that_suffice(p):
    m, v, r = np.array([0.3, -2.0, 5.0, 1.0]), np.array([0.04, 1.7, 1e-9, 3.0]), 1.4
    for q, m_, v_ in zip(NegativeBinomial(r).quantile(p, *tensors(m, v)).tolist(), m, v, strict=True):
        assert q == int(q) >= 0
        assert scipy_cdf(q, m_, v_, r) >= p > scipy_cdf(q - 1, m_, v_, r)


@pytest.mark.parametrize(("m", "v", "r"), [(0.3, 0.04, 0.8), (3.0, 0.4, 2.0), (5.0, 1e-6, 12.0), (2.0, 1.5, 300.0)])
def test_crps_is_that_of_its_distribution(m, v, r):
    """Σ_k (P(Y ≤ k) − [y ≤ k])²."""
    k = np.arange(0, 20_000 if v > 1 else 6_000)
    F = NegativeBinomial(r).distribution(*tensors(k, m, v)).up_to.numpy()
    y = np.array([0.0, 2.0, 30.0])
    expected = [((F - (t <= k)) ** 2).sum() for t in y]
    assert NegativeBinomial(r).crps(*tensors(y, m, v)).numpy() == pytest.approx(expected, rel=1e-4)


def test_underscores_are_as_good():
    assert named("negative_binomial", [2.0]) == NegativeBinomial(2.0)


# --- models -----------------------------------------------------------------------------------


def drawn(rng, rate, r):
    return rng.negative_binomial(r, r / (r + rate)).astype(float)


@pytest.fixture(scope="module")
def modules():
    """Four owners of overdispersed counts, and one of Poisson counts."""
    rng, found = np.random.default_rng(4), []
    for k in range(5):
        X = rng.uniform(0, 6, (60, 1))
        rate = np.exp(1.5 + np.sin(X[:, 0]))
        y = drawn(rng, rate, 1.5) if k < 4 else rng.poisson(rate).astype(float)
        likelihood = "negative_binomial" if k < 4 else "poisson"
        found.append(rgp.fit(X, y, likelihood=likelihood, inducing=12, name=f"w{k}"))
    return found


def test_the_dispersion_is_learned_at_home_and_pooled(modules):
    known = [m.likelihoods[0].dispersion for m in modules[:4]]
    assert all(0.6 < r < 4 for r in known)
    merged = rgp.merge(modules[:4], owners=None)
    (pooled,) = merged.likelihoods
    assert pooled.name == "negative-binomial"
    assert pooled.dispersion == pytest.approx(1 / np.mean([1 / r for r in known]))  # as the variance of y is in 1/r
    X = np.linspace(0, 6, 50)[:, None]
    rate, variance = merged.predict_y(X)
    assert rate == pytest.approx(np.exp(1.5 + np.sin(X[:, 0])), rel=0.5)
    assert bool((variance > rate + rate**2 / 4).all())


def test_files_keep_it(modules, tmp_path):
    merged = rgp.merge(modules[:2])
    for kept, file in ((modules[0], "m.safetensors"), (merged, "e.safetensors")):
        kept.save(tmp_path / file)
        again = rgp.load(tmp_path / file)
        assert again.likelihoods == kept.likelihoods
        np.testing.assert_array_equal(again.predict_quantiles([[1.0]], 0.9), kept.predict_quantiles([[1.0]], 0.9))


def test_beside_poisson(modules):
    """They share f; which kind of counts is meant must be said, as of all mixtures."""
    merged = rgp.merge(modules)
    assert [p.name for p in merged.likelihoods] == ["poisson", "negative-binomial"]
    with pytest.raises(rgp.RecycleGPError, match="likelihood= one of poisson, negative-binomial"):
        merged.predict_y([[1.0]])
    (few, spread), (same, more) = (merged.predict_y([[1.0]], name) for name in ("poisson", "negative_binomial"))
    assert few == pytest.approx(same)
    assert float(more[0]) > float(spread[0])
    assert merged.predict_y([[1.0]], "counts") == (same, more)
    assert merged.predict_y([[1.0]], owner="w0") == merged.predict_y([[1.0]], "negative-binomial", owner="w0")
    assert merged.predict_y([[1.0]], owner="w4") == merged.predict_y([[1.0]], "poisson", owner="w4")


@pytest.mark.parametrize(("r", "expected"), [(1.5, "negative-binomial"), (1e6, "poisson")])
def test_the_data_choose_between_the_two(r, expected):
    """likelihood="counts": one of a data set, one for all of many."""
    rng, data = np.random.default_rng(3), []
    for _ in range(3):
        X = rng.uniform(0, 6, (60, 1))
        data.append((X, drawn(rng, np.exp(1.5 + np.sin(X[:, 0])), r)))
    assert rgp.fit(*data[0], likelihood="counts", inducing=12).likelihood == expected
    many = rgp.fit_many(data, likelihood="counts", inducing=12)
    assert {m.likelihood for m in many} == {expected}


def test_who_does_not_learn_must_say_which():
    X = np.arange(12.0)[:, None]
    with pytest.raises(
        rgp.RecycleGPError, match="'counts' is chosen by learning; pass 'poisson' or 'negative-binomial'"
    ):
        rgp.fit(X, X[:, 0], likelihood="counts", learn=False, kernel="rbf")


def test_bands_hold_where_those_of_poisson_do_not():
    rng = np.random.default_rng(8)
    X = rng.uniform(0, 6, (400, 1))
    y = drawn(rng, np.exp(2 + np.sin(X[:, 0])), 2.0)
    shares = {}
    for name in ("poisson", "negative-binomial"):
        m = rgp.fit(X[:200], y[:200], likelihood=name, inducing=12)
        low, high = m.predict_interval(X[200:])
        shares[name] = np.mean((low <= y[200:]) & (y[200:] <= high))
    assert 0.91 < shares["negative-binomial"] <= 1
    assert shares["poisson"] < 0.85


def test_moments_from_elsewhere_do_not_say_it(modules):
    options = {"kernel": "rbf(outputscale=1, lengthscale=1)", "likelihood": "negative-binomial", "name": "far"}
    far = rgp.Module.from_moments([[0.0], [3.0]], [1.0, 2.0], 0.1 * np.eye(2), **options)
    with pytest.raises(rgp.RecycleGPError, match="the dispersion of this negative-binomial model is not known; merge"):
        far.predict_y([[1.0]])
    assert rgp.merge([far, modules[0]], learn=False).likelihoods == modules[0].likelihoods


def test_an_owner_has_its_own_dispersion_drawn_towards_the_common_one():
    rng, modules = np.random.default_rng(5), []
    for k, r in enumerate([0.3, 5.0, 5.0, 5.0]):
        X = rng.uniform(-2, 2, (60, 1))
        y = rng.negative_binomial(r, r / (r + np.exp(1.5 + np.sin(X[:, 0])))).astype(float)
        modules.append(rgp.fit(X, y, likelihood="negative-binomial", inducing=8, name=f"w{k}"))
    e = rgp.merge(modules, trust=None)
    pooled, own = (float(m.likelihoods[0].dispersion) for m in (e, modules[0]))
    found = float(e._likelihood_of("w0", None).dispersion)
    assert found == pytest.approx(np.exp((60 * np.log(own) + 10 * np.log(pooled)) / 70))
    assert own < found < pooled
    assert float(e._likelihood_of("new", None).dispersion) == pooled
    expected = NegativeBinomial(found)
    mean, variance = (torch.as_tensor(t) for t in e.predict(np.zeros((1, 1)), owner="w0"))
    np.testing.assert_allclose(e.predict_y(np.zeros((1, 1)), owner="w0")[1], expected.moments(mean, variance).variance)

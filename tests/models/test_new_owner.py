"""Somebody nobody has met: how much owners differ is known from few of them, so that effects are Student's t."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import recyclegp as rgp
from recyclegp.core import effects
from recyclegp.core.effects import scales_of_few

X = np.linspace(0.3, 5.7, 7)[:, None]
OWNERS = 5


def merged(likelihood="gaussian", owners="offset", seed=2):
    rng, found = np.random.default_rng(seed), []
    for k in range(OWNERS):
        inputs = rng.uniform(0, 6, (40, 1))
        f = np.sin(inputs[:, 0]) + 0.8 * rng.standard_normal()
        y = {
            "gaussian": lambda f=f: f + 0.1 * rng.standard_normal(40),
            "student-t": lambda f=f: f + 0.1 * rng.standard_t(4, 40),
            "bernoulli": lambda f=f: (f + rng.logistic(size=40) > 0) * 1.0,
            "poisson": lambda f=f: rng.poisson(np.exp(1 + f)) * 1.0,
        }[likelihood]()
        found.append(
            rgp.fit(inputs, y, likelihood=likelihood, name=f"o{k}", inducing=10 if likelihood != "gaussian" else None)
        )
    return rgp.merge(found, owners=owners, trust=None)


@pytest.fixture(scope="module")
def ensemble():
    return merged()


def parts(e):
    """Variances of the shared f and of effects as they were learned, at X."""
    _, shared = e.predict(X)
    prior = e.kernel_spec.diagonal(torch.as_tensor(X)).numpy()
    return shared, e.offset_sd**2 + e.smooth_sd**2 * prior


@pytest.mark.parametrize("owners", [3, 4, 7, 30])
def test_scales_are_those_of_students_t(owners):
    values, weights = (np.array(t) for t in scales_of_few(owners))
    assert weights.sum() == pytest.approx(1)
    for p in (0.6, 0.9, 0.975):
        found = weights @ stats.norm.cdf(stats.t.ppf(p, owners - 1) / np.sqrt(values))
        assert found == pytest.approx(p, abs=1e-3)


def test_of_many_owners_it_is_as_good_as_known():
    assert scales_of_few(250) is None
    assert scales_of_few(190).mean == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("owners", ["offset", "smooth"])
def test_quantiles_are_those_of_normal_and_t(owners):
    """y = N(m, v + noise) + √D·t_ν, by a fine sum over the normal part."""
    e = merged(owners=owners)
    mean, _ = e.predict(X)
    (shared, spread), noise = parts(e), e.noise
    z = np.linspace(-8, 8, 4001)
    w = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    for p, found in zip((0.025, 0.5, 0.9), e.predict_quantiles(X, [0.025, 0.5, 0.9], owner="new").T, strict=True):
        away = (found - mean)[:, None] - np.sqrt(shared + noise)[:, None] * z
        reached = stats.t.cdf(away / np.sqrt(spread)[:, None], OWNERS - 1) @ w
        assert reached == pytest.approx(p, abs=2e-3)
    low, high = e.predict_interval(X, owner="new")
    assert low == pytest.approx(e.predict_quantiles(X, 0.025, owner="new"))
    assert high == pytest.approx(e.predict_quantiles(X, 0.975), rel=1e-12)  # y without an owner is a new one's


def test_density_variance_and_draws_are_of_one_distribution(ensemble):
    e = ensemble
    mean, variance = e.predict_y(X[:1], owner="new")
    y = np.linspace(mean[0] - 60, mean[0] + 60, 200_001)
    p = np.exp(e.log_density(np.repeat(X[:1], len(y), 0), y, owner="new"))
    step = y[1] - y[0]
    assert p.sum() * step == pytest.approx(1, abs=1e-6)
    assert (p * (y - mean[0]) ** 2).sum() * step == pytest.approx(variance[0], rel=1e-4)
    below = np.interp(0.9, np.cumsum(p) * step, y)
    assert below == pytest.approx(e.predict_quantiles(X[:1], 0.9, owner="new")[0], abs=2e-3)

    f, of_f = e.predict(X, owner="new")
    _, covariance = e.predict_joint(X, owner="new")
    drawn = e.sample(X, 200_000, owner="new")
    assert drawn.mean(0) == pytest.approx(f, abs=0.02)
    assert np.cov(drawn.T) == pytest.approx(covariance, rel=0.1)
    assert np.diag(covariance) == pytest.approx(of_f)
    with_noise = drawn[:, 2] + np.sqrt(e.noise) * np.random.default_rng(0).standard_normal(len(drawn))
    assert np.quantile(with_noise, 0.975) == pytest.approx(e.predict_quantiles(X, 0.975, owner="new")[2], rel=0.03)


def test_scores_are_of_the_same_distribution(ensemble):
    y = np.sin(X[:, 0]) + 1.5
    for owner in ("new", "o1"):
        density = ensemble.log_density(X, y, owner=owner)
        assert rgp.metrics.evaluate(ensemble, X, y, owner=owner).log_density == pytest.approx(density)


def test_few_owners_say_less_than_many(ensemble, monkeypatch):
    """Where so many are known that nothing is left open, it is f and the variances as they were learned."""
    shared, spread = parts(ensemble)
    _, few = ensemble.predict(X, owner="new")
    assert few == pytest.approx(shared + spread * scales_of_few(OWNERS).mean)
    monkeypatch.setattr(effects, "MANY_DOF", 2)
    _, many = merged().predict(X, owner="new")
    assert many == pytest.approx(shared + spread)
    assert bool((few > many).all())


def test_functions_of_owners_who_are_known_are_as_they_were(ensemble, monkeypatch):
    before = ensemble.predict(X, owner="o1")
    monkeypatch.setattr(effects, "MANY_DOF", 2)
    np.testing.assert_array_equal(merged().predict(X, owner="o1"), before)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "student-t"])
def test_other_likelihoods(likelihood):
    """Averages over the ways that the new owner's f may be; also in a file that was written and read."""
    e = merged(likelihood)
    drawn = e.sample(X, 100_000, owner="new")
    y = (np.arange(7) % 2).astype(float)
    part = e.likelihoods[0]
    each = part.log_prob(torch.as_tensor(y), torch.as_tensor(drawn)).exp().numpy().mean(0)
    assert np.exp(e.log_density(X, y, owner="new")) == pytest.approx(each, rel=0.05)
    if likelihood == "bernoulli":
        assert e.predict_proba(X, owner="new")[:, 1] == pytest.approx(
            torch.sigmoid(torch.as_tensor(drawn)).mean(0), abs=5e-3
        )
        with pytest.raises(rgp.RecycleGPError, match="not defined for likelihood 'bernoulli'"):
            e.predict_interval(X, owner="new")
        return
    low, high = e.predict_interval(X, owner="new")
    assert bool((low < high).all())
    below = part.distribution  # at the upper end, of y given f, averaged over draws
    certain = torch.full((2000,), 1e-12, dtype=torch.float64)
    at = torch.as_tensor(drawn[:2000, 3].copy())
    assert float(below(torch.full_like(at, high[3]), at, certain).up_to.mean()) == pytest.approx(0.975, abs=0.015)


def test_gradients_pass_through_a_new_owners_quantiles(ensemble):
    at = torch.as_tensor(X[2:3]).requires_grad_()
    (slope,) = torch.autograd.grad(ensemble.predict_quantiles(at, 0.9, owner="new").sum(), at)
    step = 1e-5
    up, down = (ensemble.predict_quantiles(X[2:3] + d, 0.9, owner="new")[0] for d in (step, -step))
    assert float(slope) == pytest.approx((up - down) / (2 * step), rel=1e-4)


# --- how far new owners may be, by leaving out those who are here ----------------------------------


def far_apart(seed=4, away=(0, 0.1, -0.1, 0.2, -0.2, 0.1, 0, 4, -0.1, -3)):
    """Owners whose constants have heavy tails."""
    rng, found = np.random.default_rng(seed), []
    for k, b in enumerate(away):
        inputs = rng.uniform(0, 6, (15, 1))
        y = np.sin(inputs[:, 0]) + b + 0.1 * rng.standard_normal(15)
        found.append(rgp.fit(inputs, y, name=f"o{k}"))
    return rgp.merge(found, trust=None)


@pytest.fixture(scope="module")
def apart():
    return far_apart()


def without_spread(e):
    return replace(e, groups=(replace(e.groups[0], spread=None),))


def test_a_few_who_are_far_away_make_bands_of_new_owners_wider(apart):
    scales = apart.groups[0].spread.scales
    assert max(scales.values) > 2 * max(scales_of_few(10).values)
    y = np.sin(X[:, 0]) + 12.0
    assert bool((apart.log_density(X, y) > without_spread(apart).log_density(X, y) + 0.5).all())
    ordinary = np.sin(X[:, 0]) + 0.1
    assert bool((apart.log_density(X, ordinary) > without_spread(apart).log_density(X, ordinary)).all())


def test_quantiles_are_of_the_mixture_of_sizes(apart):
    group = apart.groups[0]
    spread, noise = group.spread, apart._likelihood_of("new", None)
    mean, shared = apart.predict(X)
    effects, prior = spread.effects, group.form.kernel.diagonal(torch.as_tensor(X)).numpy()
    D = effects.offset + effects.smooth * prior
    if spread.level is not None:
        D = D * np.exp(2 * spread.level.slope * np.clip((mean - spread.level.level) / spread.level.size, -3, 3))
    noises = np.array(getattr(noise, "noises", ()) or [apart.noise])
    shares = np.array(getattr(noise, "shares", ()) or [1.0])
    for p, y in zip((0.025, 0.8), apart.predict_quantiles(X, [0.025, 0.8], owner="new").T, strict=True):
        sd = np.sqrt((shared + np.array(spread.scales.values)[:, None] * D)[..., None] + noises)
        reached = np.einsum("s,snk,k->n", spread.scales.weights, stats.norm.cdf((y - mean)[:, None] / sd), shares)
        assert reached == pytest.approx(p, abs=1e-6)
    _, variance = apart.predict(X, owner="new")
    assert variance == pytest.approx(shared + spread.scales.mean * D)
    covariance = apart.predict_joint(X, owner="new")[1]
    assert np.cov(apart.sample(X, 100_000, owner="new").T) == pytest.approx(covariance, rel=0.15)


def test_who_is_known_is_answered_as_before(apart):
    before = without_spread(apart)
    for owner in ("o1", "o7"):
        np.testing.assert_array_equal(apart.predict(X, owner=owner), before.predict(X, owner=owner))
        np.testing.assert_array_equal(apart.predict_interval(X, owner=owner), before.predict_interval(X, owner=owner))
    np.testing.assert_array_equal(apart.predict(X), before.predict(X))


@pytest.mark.parametrize("keep", ["sites", "names"])
def test_a_file_knows_how_far_new_owners_may_be(apart, tmp_path, keep):
    e = apart if keep == "sites" else apart.drop_sites()
    assert e.groups[0].spread is not None
    e.save(tmp_path / "e.safetensors")
    again = rgp.load(tmp_path / "e.safetensors")
    assert again.groups[0].spread == e.groups[0].spread
    np.testing.assert_allclose(again.predict_interval(X), e.predict_interval(X), rtol=1e-9)


@pytest.mark.slow
def test_owners_who_differ_most_where_f_is_large_follow_units_of_y():
    """The slope belongs to f: in other units, and upside down, it is the same new owner."""
    rng, found = np.random.default_rng(7), {1.0: [], -2.54: []}
    for k in range(9):
        inputs, size = rng.uniform(0, 3, (20, 1)), np.exp(0.5 * rng.standard_normal())
        y = 10 + size * np.exp(1.2 * inputs[:, 0]) + 0.3 * rng.standard_normal(20)
        for scale, own in found.items():
            own.append(rgp.fit(inputs, scale * y + 5 * (scale != 1), name=f"o{k}"))
    e = rgp.merge(found[1.0], trust=None)
    assert e.groups[0].spread.level is not None
    assert e.groups[0].spread.level.slope > 0
    at = np.linspace(0.3, 2.7, 5)[:, None]
    moved = e.transform(output_scale=-2.54, output_shift=5.0)
    assert moved.groups[0].spread.level.slope < 0
    low, high = e.predict_interval(at)
    flipped = moved.predict_interval(at)
    np.testing.assert_allclose(flipped, [-2.54 * high + 5, -2.54 * low + 5], rtol=1e-6)
    other = rgp.merge(found[-2.54], trust=None)  # learned in other units
    np.testing.assert_allclose(other.predict_interval(at), flipped, rtol=0.02)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_sites_of_approximate_likelihoods_are_no_test(likelihood):
    assert merged(likelihood, owners="auto").groups[0].spread is None


def test_owners_that_somebody_chose_are_as_learned():
    assert merged(owners="offset").groups[0].spread is None


def test_owners_in_adjoining_regions_say_nothing_of_how_owners_differ():
    """What others know nothing about is f, however wrong they are about it."""
    rng, found = np.random.default_rng(5), []
    for k in range(12):
        inputs = rng.uniform(k, k + 1, (25, 1))
        size = 8 if k % 5 == 0 else 1
        y = size * np.sin(5 * inputs[:, 0]) + 0.2 * rng.standard_normal(25)
        found.append(rgp.fit(inputs, y, name=f"o{k}"))
    e = rgp.merge(found, trust=None)
    assert e.groups[0].spread is None

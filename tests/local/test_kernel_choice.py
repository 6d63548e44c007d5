"""kernel="auto": smooth functions, rough ones, and lines beneath them."""

import numpy as np
import pytest

import recyclegp as rgp


def data(f, seed=0, rows=60, noise=0.05):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (rows, 1))
    return X, f(X[:, 0]) + noise * rng.standard_normal(rows)


def smooth(x):
    return np.sin(2 * x)


def rough(x):
    return np.abs(x) + 0.3 * np.abs(x - 1) - np.abs(x + 1.3)


def rising(x):
    return 4 * x + 0.3 * np.sin(4 * x)


def text(model):
    return model.kernel_spec.describe()


@pytest.mark.parametrize(("f", "name"), [(smooth, "rbf("), (rough, "matern"), (rising, "+ linear")])
def test_the_evidence_chooses(f, name):
    assert name in text(rgp.fit(*data(f), kernel="auto"))
    modules = rgp.fit_many([data(f, seed) for seed in range(4)], kernel="auto", names=list("abcd"))
    assert len({m.kernel_spec.structure for m in modules}) == 1
    assert name in text(modules[0])
    assert name in text(rgp.merge(modules, kernel="auto"))


def test_the_chosen_kernel_is_the_one_by_its_name():
    X, y = data(smooth)
    chosen, named = rgp.fit(X, y, kernel="auto"), rgp.fit(X, y, kernel="rbf")
    np.testing.assert_array_equal(chosen.kernel_spec.theta, named.kernel_spec.theta)


def test_other_likelihoods_choose_too():
    X, y = data(rising)
    assert "linear" in text(rgp.fit(X, (y > 0).astype(float), likelihood="bernoulli", kernel="auto"))


def test_nothing_is_chosen_without_learning():
    X, y = data(smooth)
    for call in (rgp.fit, lambda X, y, **options: rgp.fit_many([(X, y)], **options)):
        with pytest.raises(rgp.RecycleGPError, match="kernel='auto' is chosen by learning; with learn=False pass a"):
            call(X, y, kernel="auto", learn=False)
    with pytest.raises(rgp.RecycleGPError, match="kernel='auto' is chosen by learning; with learn=False pass a"):
        rgp.merge(rgp.fit(X, y), kernel="auto", learn=False)
    assert len(rgp.fit_many([], kernel="auto")) == 0


def of_five(X):
    return 2 * np.sin(2 * X[:, 0] * X[:, 1] / 3) + (X[:, 2] - 1.5) ** 2 + 0.6 * X[:, 3]


def kinked(X):
    return np.abs(X[:, 0] - 1.5) + np.abs(X[:, 1] - X[:, 2])


def covered(e, X, y):
    low, high = e.predict_interval(X)
    return ((low <= y) & (y <= high)).mean()


@pytest.mark.slow
@pytest.mark.parametrize("publish", [None, 24])
@pytest.mark.parametrize(("f", "D"), [(of_five, 5), (kinked, 3)])
def test_it_does_not_run_away_with_the_noise(f, D, publish):
    """A rougher kernel explains what noise is, the more so where few points leave much of it open."""
    rng = np.random.default_rng(17)
    sd = 0.2

    def rows(n):
        X = rng.uniform(0, 3, (n, D))
        return X, f(X) + sd * rng.standard_normal(n)

    parts, (X, y) = [rows(80) for _ in range(5)], rows(400)
    how = {"progress": False, "privacy": "things"} | ({} if publish is None else {"publish": publish})
    usual, chosen = (rgp.fit_many(parts, **how, **kernel) for kernel in ({}, {"kernel": "auto"}))
    default, e = rgp.merge(usual), rgp.merge(chosen, kernel="auto")
    assert e.noise > 0.7 * sd**2
    assert np.median([m.noise for m in chosen]) > 0.7 * sd**2
    assert covered(e, X, y) > covered(default, X, y) - 0.02
    if publish is None:  # what few points lose of it is another matter
        assert e.log_density(X, y).mean() > default.log_density(X, y).mean() - 0.1

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

"""One local model."""

import numpy as np
import pytest

import recyclegp as rgp

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.mark.parametrize(
    "kernel", ["rbf", "matern12", "matern32", "matern52", "rq", "periodic", "linear", "rbf * periodic", "rbf + linear"]
)
def test_every_kernel_name_in_one_dimension(kernel, tmp_path):
    m = rgp.fit(X, Y, kernel=kernel, publish=16, name="m")
    m.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(rgp.load(tmp_path / "m.safetensors").predict(X)[0], m.predict(X)[0])
    trend = np.corrcoef(m.predict(X)[0], Y)[0, 1]
    assert trend > (0.01 if kernel == "linear" else 0.97)


def test_a_linear_kernel_may_begin_where_it_has_no_variance():
    for seed in range(20):
        m = rgp.fit(X[:20], Y[:20], kernel="linear", learn=False, noise=0.1, seed=seed)
        assert len(m.inducing) >= 1


def test_rows_at_one_place_far_from_zero():
    m = rgp.fit(np.full((50, 1), 1e5), 5 + 0.1 * RNG.normal(size=50))
    mean, variance = m.predict([[1e5]])
    assert mean[0] == pytest.approx(5, abs=0.1)
    assert variance[0] < 0.01

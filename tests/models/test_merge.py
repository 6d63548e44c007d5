"""Merging as a user calls it."""

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.merging import points
from recyclegp.models import ensemble

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.fixture(scope="module")
def module():
    return rgp.fit(X, Y, publish=12, name="a")


def test_relearning_chooses_the_number_of_points_again(module):
    far = rgp.fit(X + 40, Y, publish=12, name="far")
    fresh = rgp.merge([module, far])
    again = rgp.merge([module]).add(far, relearn=True)
    assert len(again.inducing) == len(fresh.inducing)
    np.testing.assert_allclose(again.predict(X + 40)[0], fresh.predict(X + 40)[0], atol=1e-6)


def test_too_few_points_are_reported(module, monkeypatch):
    monkeypatch.setattr(points, "MOST_AUTOMATIC", 3)
    monkeypatch.setattr(ensemble, "MOST_AUTOMATIC", 3)
    with pytest.warns(rgp.RecycleGPWarning, match="pass a larger inducing="):
        rgp.merge([module], learn=False)


def test_a_weight_of_almost_nothing_survives_a_file(module, tmp_path):
    rgp.merge([module], weights=[0.001]).to_module("x").save(tmp_path / "x")
    assert rgp.load(tmp_path / "x").rows == 1

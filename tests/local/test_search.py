"""Searches for hyperparameters that must not end in the first hollow they come to."""

import numpy as np
import pytest

import recyclegp as rgp


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
@pytest.mark.slow
def test_four_inputs_of_thirty_two_are_found():
    """Begun with much noise alone, the search keeps two inputs and calls the rest noise, 220 nats lower."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 32))
    f = np.tanh(X[:, 0]) * np.sin(1.5 * X[:, 1]) + 0.5 * np.sin(1.5 * X[:, 2]) * np.sin(1.5 * X[:, 3])
    m = rgp.fit(X, f + 0.05 * rng.standard_normal(300), kernel="rbf", publish=8)
    assert m.noise < 0.005
    assert set(m._kernels[0].lengths(32).argsort()[:4].tolist()) == {0, 1, 2, 3}

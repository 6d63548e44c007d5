"""The evidence of a module in plain Python is the one that torch computes, of every kernel and likelihood."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from recyclegp.models import module_look, plain_evidence

KERNELS = [
    *("rbf", "matern12", "matern32", "matern52", "rq", "periodic", "matern52 + linear", "rbf * periodic + constant"),
    *("rbf * category", "(rbf + linear) * matern32"),
]


def table(seed, categories=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (60, 2))
    if categories:
        X[:, 1] = rng.integers(0, 3, 60)
    y = 5 + 2 * np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(60)
    return (pd.DataFrame({"a": X[:, 0], "b": np.array(["x", "y", "z"])[X[:, 1].astype(int)]}) if categories else X), y


def both(module, path):
    module.save(path)
    return plain_evidence.evidence(module_look.look(path).record), module.evidence


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_that_of_torch_for_every_kernel(tmp_path, kernel):
    X, y = table(KERNELS.index(kernel), "category" in kernel)
    for learn in (True, False):
        m = rgp.fit(X, y, kernel=kernel, publish=9, learn=learn, noise=0.2, privacy="things")
        found, expected = both(m, tmp_path / f"{learn}.safetensors")
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "categorical", "heteroscedastic"])
def test_it_is_that_of_torch_for_every_likelihood(tmp_path, likelihood):
    X, y = table(3)
    kinds = {"bernoulli": y > 8, "poisson": np.round(np.abs(y)), "categorical": np.digitize(y, [7.0, 9.0])}
    m = rgp.fit(X, kinds.get(likelihood, y), likelihood=likelihood, publish=7, privacy="things")
    found, expected = both(m, tmp_path / "a.safetensors")
    assert found == pytest.approx(expected, rel=1e-8)


def test_index_kernels_and_centres():
    """k against NumPy's B[i, j] and Σ v (x − c)(x' − c)."""
    from recyclegp.trees import Tree

    W, kappa = np.array([[0.5, -1.0], [2.0, 0.1], [0.3, 0.3]]), np.array([0.2, 1.5, 0.7])
    k = plain_evidence.covariance(Tree("index", columns=(1,), levels=3, rank=2), [*W.ravel(), *np.log(kappa)])
    B = W @ W.T + np.diag(kappa)
    for i in range(3):
        for j in range(3):
            assert k([9.0, float(i)], [7.0, float(j)]) == pytest.approx(B[i, j])
    v, c = np.array([0.4, 2.0]), np.array([1.0, -3.0])
    k = plain_evidence.covariance(Tree("linear", width=2, inputs=2), [*np.log(v), *c])
    a, b = np.array([2.0, 5.0]), np.array([-1.0, 0.5])
    assert k(a, b) == pytest.approx(np.sum(v * (a - c) * (b - c)))

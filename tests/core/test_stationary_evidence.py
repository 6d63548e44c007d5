"""The exact evidence under a stationary kernel, beside NumPy and beside its kernel's own matrix."""

import numpy as np
import pytest
import torch

from recyclegp.core import bounds, stationary_evidence
from recyclegp.kernels.stationary import Form, covariance

SIZES = (23, 14, 17)


def problem(columns, lengths, seed):
    rng = np.random.default_rng(seed)
    B, n = len(SIZES), max(SIZES)
    X, y = rng.normal(size=(B, n, columns)), rng.normal(size=(B, n))
    w = rng.uniform(0.5, 1.5, (B, n)) * (np.arange(n) < np.array(SIZES)[:, None])
    parameters = (0.4 * rng.normal(size=(B, 1)), 0.3 * rng.normal(size=(B, lengths)))
    return (*(torch.tensor(t) for t in parameters), *(torch.tensor(t) for t in (X, y, rng.normal(size=B), w)))


def reference(v, length, X, y, mean, noise, w):
    """Of an rbf, in NumPy."""
    n = int((w > 0).sum())
    d2 = (((X[:n, None] - X[None, :n]) / np.exp(length)) ** 2).sum(-1)
    C = np.exp(v - 0.5 * d2) + np.diag(noise / w[:n] ** 2)
    away = y[:n] - mean
    return -0.5 * (away @ np.linalg.solve(C, away) + np.linalg.slogdet(C)[1] + n * np.log(2 * np.pi))


@pytest.mark.parametrize(("columns", "lengths"), [(1, 1), (3, 1), (3, 3)])
def test_the_value(columns, lengths):
    v, length, X, y, mean, w = problem(columns, lengths, 1)
    noise = torch.tensor([0.2, 0.05, 1.3], dtype=torch.float64)
    found = stationary_evidence.log_marginal(Form.RBF, v, length, X, y, mean, noise, w)
    own = zip(*(t.numpy() for t in (v, length, X, y, mean, noise, w)), strict=True)
    np.testing.assert_allclose(found, [float(np.squeeze(reference(*one))) for one in own], rtol=1e-10)


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(("columns", "lengths"), [(1, 1), (3, 1), (3, 3)])
@pytest.mark.parametrize("plain", [True, False])
def test_derivatives(form, columns, lengths, plain, monkeypatch):
    """Those of the kernel's matrix by autograd; some models at a time."""
    monkeypatch.setattr(stationary_evidence, "AT_ONCE", 2 * max(SIZES) ** 2)
    v, length, X, y, mean, w = problem(columns, lengths, 2)
    w = torch.ones_like(w) if plain else w
    leaves = [t.requires_grad_() for t in (v, length, mean, torch.tensor([0.2, 0.05, 1.3], dtype=torch.float64))]
    rates = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)

    def by_matrix(form, v, length, X, y, mean, noise, w):
        return bounds.log_marginal(covariance(form, v, length, X, X), y, mean, noise, w)

    ways = []
    for f in (stationary_evidence.log_marginal, by_matrix):
        value = f(form, leaves[0], leaves[1], X, y, leaves[2], leaves[3], w)
        ways.append((value.detach(), *torch.autograd.grad((rates * value).sum(), leaves)))
    for found, wanted in zip(*ways, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_one_that_has_no_value_stops_alone(monkeypatch):
    monkeypatch.setattr(stationary_evidence, "AT_ONCE", 1)
    v, length, X, y, mean, w = problem(2, 1, 3)
    noise = torch.tensor([0.2, torch.nan, 1.3], dtype=torch.float64)
    found = stationary_evidence.log_marginal(Form.MATERN52, v, length, X, y, mean, noise, w)
    assert torch.isfinite(found).tolist() == [True, False, True]

"""Ensembles as GPyTorch models."""

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_gpytorch import numbers

X = 5 * numbers(40, 2, seed=9) - 0.5


@pytest.fixture(scope="module")
def merged():
    rng = np.random.default_rng(4)
    modules = []
    for k in range(3):
        X_k = rng.uniform([k, 0], [k + 1.5, 4], (50, 2))
        y_k = np.sin(2 * X_k[:, 0]) + 0.3 * X_k[:, 1] + 7 + 0.1 * rng.normal(size=50)
        modules.append(rgp.fit(X_k, y_k, kernel="matern52 + linear", name=f"lab-{k}", publish=20))
    return rgp.merge(modules, inducing=np.concatenate([m.inducing for m in modules]))


@pytest.mark.slow
def test_an_ensemble_as_a_gpytorch_model(merged):
    model, likelihood = merged.to_gpytorch()
    assert isinstance(model, gpytorch.models.ApproximateGP)
    mean, variance = merged.predict(X.numpy())
    with torch.no_grad():
        q = model(X)
        y = likelihood(q)
    np.testing.assert_allclose(q.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(q.variance, variance, rtol=0, atol=1e-8)
    np.testing.assert_allclose(y.variance, merged.predict_y(X.numpy())[1], rtol=0, atol=1e-8)
    draws = merged.sample(X.numpy()[:3], 40_000, seed=1)
    np.testing.assert_allclose(np.cov(draws.T), q.covariance_matrix[:3, :3], rtol=0, atol=0.05 * float(variance.max()))


def test_out_and_in_again(merged):
    back = rgp.from_gpytorch(*merged.to_gpytorch(), name="back", rows=merged.rows)
    for ours, wanted in zip(back.predict(X.numpy()), merged.predict(X.numpy()), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-8)
    assert back.noise == pytest.approx(merged.noise)
    assert back.jitter == merged.jitter


@pytest.mark.slow
def test_it_can_be_trained_further(merged):
    """The ELBO of rows it has seen rises, and every parameter takes part."""
    rng = np.random.default_rng(5)
    rows = torch.tensor(rng.uniform(0, [3.5, 4], (80, 2)))
    y = torch.sin(2 * rows[:, 0]) + 0.3 * rows[:, 1] + 7 + 0.1 * torch.tensor(rng.normal(size=80))
    model, likelihood = merged.to_gpytorch()
    model.train(), likelihood.train()
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=80)
    parameters = [*model.parameters(), *likelihood.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.003)
    values = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = -elbo(model(rows), y)
        values.append(-loss.item())
        loss.backward()
        assert all(p.grad is not None for p in parameters)
        optimiser.step()
    assert values[-1] > values[0] + 0.1
    assert np.isfinite(values).all()


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit", "poisson", "negative-binomial", "student-t"])
def test_every_likelihood_goes_out_and_comes_back(likelihood):
    rng = np.random.default_rng(6)
    X_ = rng.uniform(0, 4, (60, 1))
    f = np.sin(2 * X_[:, 0])
    y = {
        "bernoulli": (f > 0).astype(float),
        "bernoulli-probit": (f > 0).astype(float),
        "poisson": rng.poisson(np.exp(f)).astype(float),
        "negative-binomial": rng.negative_binomial(2, 2 / (2 + np.exp(f))).astype(float),
        "student-t": f + 0.1 * rng.standard_t(4, size=60),
    }[likelihood]
    ensemble = rgp.merge([rgp.fit(X_, y, likelihood=likelihood, inducing=12, publish=None, name="a")])
    model, noise = ensemble.to_gpytorch()
    back = rgp.from_gpytorch(model, noise)
    assert back.likelihood == likelihood
    assert back.likelihoods[0].parameters == pytest.approx(ensemble.likelihoods[0].parameters)
    grid = np.linspace(0, 4, 9)[:, None]
    for ours, wanted in zip(back.predict(grid), ensemble.predict(grid), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-6, atol=1e-6)
    rows = torch.tensor(grid)
    labels = torch.ones(9, dtype=torch.float64)
    with torch.no_grad():
        theirs_ = noise.log_marginal(labels, model(rows))
    np.testing.assert_allclose(ensemble.log_density(grid, labels.numpy()), theirs_, rtol=0, atol=0.02)


def test_an_ensemble_of_two_likelihoods_asks_which(merged):
    rng = np.random.default_rng(7)
    X_ = rng.uniform(0, 4, (40, 2))
    yes = rgp.fit(X_, X_[:, 0] > 2, likelihood="bernoulli", name="yes", publish=8)
    both = merged.add(yes)
    with pytest.raises(rgp.RecycleGPError, match="several likelihoods; pass likelihood="):
        both.to_gpytorch()
    _, likelihood = both.to_gpytorch("gaussian")
    assert isinstance(likelihood, gpytorch.likelihoods.GaussianLikelihood)

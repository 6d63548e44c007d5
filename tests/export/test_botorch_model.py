"""An ensemble as a BoTorch model: batches, gradients, fantasies, acquisition functions."""

import copy
import re

import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_gpytorch import numbers
from recyclegp.extras import install

pytest.importorskip("botorch")

from botorch.acquisition import qKnowledgeGradient
from botorch.acquisition.analytic import LogExpectedImprovement, PosteriorMean
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.objective import LinearMCObjective, ScalarizedPosteriorTransform
from botorch.models.model import Model, ModelList
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler

SCALE, SHIFT = 30.0, 500.0  # y in units that would break an absolute jitter
BOUNDS = torch.tensor([[0.0, 0.0], [4.0, 4.0]], dtype=torch.float64)


def truth(X):
    return SHIFT + SCALE * (np.exp(-((X[..., 0] - 2.6) ** 2) - (X[..., 1] - 1.4) ** 2) + 0.1 * np.sin(3 * X[..., 0]))


@pytest.fixture(scope="module")
def merged():
    rng = np.random.default_rng(0)
    modules = []
    for k, low in enumerate([[0, 0], [1.5, 0], [0.5, 1.5]]):
        X = rng.uniform(low, np.array(low) + 2.5, (30, 2))
        modules.append(rgp.fit(X, truth(X) + 0.5 * rng.normal(size=30), name=f"lab-{k}", publish=20))
    return rgp.merge(modules, inducing=np.concatenate([m.inducing for m in modules]))


@pytest.fixture(scope="module")
def model(merged):
    return merged.to_botorch()


@pytest.mark.slow
def test_it_is_a_model_of_one_output(model, merged):
    assert isinstance(model, Model)
    assert model.num_outputs == 1
    assert model.batch_shape == torch.Size()
    assert model.subset_output([0]) is model
    with pytest.raises(rgp.RecycleGPError, match="one output"):
        model.subset_output([1])
    assert not [p for p in model.parameters() if p.requires_grad]
    again = copy.deepcopy(model)
    X = 4 * numbers(5, 2, seed=0)
    assert torch.equal(again.posterior(X).mean, model.posterior(X).mean)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_posterior_is_the_ensembles(model, merged, batch):
    X = 5 * numbers(*batch, 4, 2, seed=1) - 0.5
    posterior = model.posterior(X)
    assert posterior.mean.shape == (*batch, 4, 1)
    mean, variance = merged.predict(X.reshape(-1, 2))
    np.testing.assert_allclose(posterior.mean.flatten(), mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.variance.flatten(), variance, rtol=0, atol=1e-6 * SCALE**2)
    noisy = model.posterior(X, observation_noise=True).variance.flatten()
    np.testing.assert_allclose(noisy, merged.predict_y(X.reshape(-1, 2))[1], rtol=0, atol=1e-6 * SCALE**2)
    given = 0.1 + numbers(*batch, 4, 1, seed=2)
    np.testing.assert_allclose(
        model.posterior(X, observation_noise=given).variance, posterior.variance + given, rtol=1e-12
    )


def test_joint_covariance_of_a_batch(model, merged):
    """Against GPyTorch's of the same ensemble, which never batches."""
    X = 4 * numbers(3, 5, 2, seed=3)
    covariance = model.posterior(X).distribution.covariance_matrix
    model_, _ = merged.to_gpytorch()
    with torch.no_grad():
        for i in range(3):
            np.testing.assert_allclose(covariance[i], model_(X[i]).covariance_matrix, rtol=0, atol=1e-7 * SCALE**2)


def test_gradients(model):
    X = (4 * numbers(2, 3, 2, seed=4)).requires_grad_()

    def both(X):
        distribution = model.posterior(X).distribution
        return distribution.mean, distribution.covariance_matrix

    assert torch.autograd.gradcheck(both, (X,))
    conditioned = model.condition_on_observations(X.detach() + 0.3, SHIFT + numbers(2, 3, 1, seed=5))
    assert torch.autograd.gradcheck(lambda X: conditioned.posterior(X).mean, (X,))


def test_posterior_transform_and_float32(model):
    X = 4 * numbers(3, 2, 2, seed=6)
    weights = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.float64))
    np.testing.assert_allclose(
        model.posterior(X, posterior_transform=weights).mean, -2 * model.posterior(X).mean, rtol=1e-12
    )
    single = model.posterior(X.float())
    assert single.mean.dtype == torch.float32
    np.testing.assert_allclose(single.mean, model.posterior(X).mean, rtol=1e-5)


def test_conditioning_is_exact(model, merged):
    """Against the textbook formula from the joint posterior; and, at the ensemble's points, against update."""
    X_new, y_new = 4 * numbers(3, 2, seed=7), SHIFT + SCALE * numbers(3, 1, seed=8)
    X = 4 * numbers(6, 2, seed=9)
    joint = model.posterior(torch.cat([X_new, X])).distribution
    m, K = joint.mean.numpy(), joint.covariance_matrix.numpy()
    A = K[:3, :3] + merged.noise * np.eye(3)
    mean = m[3:] + K[3:, :3] @ np.linalg.solve(A, y_new[:, 0].numpy() - m[:3])
    covariance = K[3:, 3:] - K[3:, :3] @ np.linalg.solve(A, K[:3, 3:])
    conditioned = model.condition_on_observations(X_new, y_new)
    found = conditioned.posterior(X).distribution
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found.covariance_matrix, covariance, rtol=0, atol=1e-8 * SCALE**2)
    # in two steps
    twice = model.condition_on_observations(X_new[:1], y_new[:1]).condition_on_observations(X_new[1:], y_new[1:])
    np.testing.assert_allclose(twice.posterior(X).mean, conditioned.posterior(X).mean, rtol=1e-9)
    # where Z_* can express the new data, conditioning is what update does
    Z = torch.tensor(merged.inducing[:3])
    updated = merged.update(Z.numpy(), y_new[:, 0].numpy())
    found = model.condition_on_observations(Z, y_new).posterior(X)
    np.testing.assert_allclose(found.mean[:, 0], updated.predict(X.numpy())[0], rtol=0, atol=1e-5 * SCALE)
    np.testing.assert_allclose(found.variance[:, 0], updated.predict(X.numpy())[1], rtol=0, atol=1e-5 * SCALE**2)


def test_fantasies(model):
    X = 4 * numbers(2, 3, 2, seed=10)
    fantasies = model.fantasize(X, SobolQMCNormalSampler(torch.Size([5]), seed=0))
    assert fantasies.batch_shape == (5, 2)
    points = 4 * numbers(4, 2, seed=11)
    posterior = fantasies.posterior(points)
    assert posterior.mean.shape == posterior.variance.shape == (5, 2, 4, 1)
    assert (posterior.variance <= model.posterior(points).variance + 1e-6).all()
    assert posterior.mean.std(0).max() > 0
    given = fantasies.fantasize(
        X, SobolQMCNormalSampler(torch.Size([3]), seed=0), observation_noise=torch.full((1, 1), 0.5).double()
    )
    assert given.posterior(points).mean.shape == (3, 5, 2, 4, 1)


@pytest.mark.parametrize("name", ["LogEI", "qLogEI", "qLogNEI", "qKG"])
def test_acquisition_functions_find_the_maximum(model, name):
    baseline = 4 * numbers(20, 2, seed=12)
    acquisition, q = {
        "LogEI": lambda: (LogExpectedImprovement(model, best_f=SHIFT), 1),
        "qLogEI": lambda: (qLogExpectedImprovement(model, best_f=SHIFT, sampler=_sampler(64)), 2),
        "qLogNEI": lambda: (qLogNoisyExpectedImprovement(model, X_baseline=baseline, sampler=_sampler(64)), 2),
        "qKG": lambda: (qKnowledgeGradient(model, num_fantasies=8), 1),
    }[name]()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        X, value = optimize_acqf(acquisition, BOUNDS, q=q, num_restarts=2, raw_samples=64, options={"seed": 0})
    assert X.shape == (q, 2)
    assert torch.isfinite(value)
    if name != "qKG":  # which looks where it may learn, not where the maximum is
        nearest = float((X - torch.tensor([2.6, 1.4])).norm(dim=-1).min())
        assert nearest < 0.5


def _sampler(draws):
    return SobolQMCNormalSampler(torch.Size([draws]), seed=0)


def test_the_best_mean_is_where_the_function_is_largest(model):
    X, _ = optimize_acqf(PosteriorMean(model), BOUNDS, q=1, num_restarts=4, raw_samples=64, options={"seed": 0})
    assert torch.allclose(X[0], torch.tensor([2.6, 1.4], dtype=torch.float64), atol=0.15)


@pytest.mark.slow
def test_only_gaussian_noise_can_be_added_to_f():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 4, (40, 2))
    yes = rgp.merge([rgp.fit(X, X[:, 0] > 2, likelihood="bernoulli", name="yes", publish=8)])
    model = yes.to_botorch()
    points = 4 * numbers(3, 2, seed=13)
    np.testing.assert_allclose(model.posterior(points).mean[:, 0], yes.predict(points)[0], rtol=1e-9)
    with pytest.raises(rgp.RecycleGPError, match="no gaussian noise"):
        model.posterior(points, observation_noise=True)


def outputs(**options):
    """Two labs that have measured y and 3 − 2y."""
    rng = np.random.default_rng(2)
    modules = []
    for k in range(2):
        X = rng.uniform(0, 4, (40, 2))
        y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=40)
        modules.append(rgp.fit(X, np.c_[y, 3 - 2 * y], name=f"lab-{k}", publish=15))
    return rgp.merge(modules, owners=None, trust=None, inducing=20, **options)


def test_outputs_are_a_list_of_models():
    """One model each, asked together: f, y, and what is best of both by an acquisition function."""
    e = outputs(outputs="independent")
    model = e.to_botorch()
    assert isinstance(model, ModelList)
    assert model.num_outputs == 2
    points = 4 * numbers(3, 5, 2, seed=14)
    found, noisy = model.posterior(points), model.posterior(points, observation_noise=True)
    for b in range(3):
        mean, variance = e.predict(points[b])
        np.testing.assert_allclose(found.mean[b], mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.variance[b], variance, rtol=0, atol=1e-6)
        np.testing.assert_allclose(noisy.variance[b], e.predict_y(points[b])[1], rtol=0, atol=1e-6)
    weights = torch.tensor([1.0, -1.0], dtype=torch.float64)
    best = qLogExpectedImprovement(model, 0.0, objective=LinearMCObjective(weights))
    better, worse = (np.array([[x, 0.1]]) for x in (1.6, 3.9))
    assert best(torch.tensor(better)) > best(torch.tensor(worse))


def test_correlated_outputs_and_classes_are_no_list_of_models():
    both = outputs(outputs=1)
    with pytest.raises(rgp.RecycleGPError, match=r"correlated; use independent\(\).to_botorch"):
        both.to_botorch()
    assert isinstance(both.independent().to_botorch(), ModelList)
    X = 4 * numbers(40, 2, seed=15)
    kinds = rgp.fit(X, np.array(["ash", "birch"])[(X[:, 0] > 2).long()], likelihood="categorical", learn=False)
    with pytest.raises(rgp.RecycleGPError, match="models are of outputs, and this one has classes"):
        rgp.merge([kinds], learn=False).to_botorch()


def test_wrong_shapes_are_named(model):
    with pytest.raises(rgp.RecycleGPError, match=r"X has shape \(3, 1\); pass \(…, q, 2\)"):
        model.posterior(torch.zeros(3, 1))
    with pytest.raises(rgp.RecycleGPError, match=r"and Y \(3,\)"):
        model.condition_on_observations(torch.zeros(3, 2), torch.zeros(3))


def test_without_botorch_the_remedy_is_named(merged, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "botorch", None)
    monkeypatch.setitem(sys.modules, "botorch.models.model", None)
    monkeypatch.delitem(sys.modules, "recyclegp.export.botorch_model")
    monkeypatch.delattr("recyclegp.export.botorch_model")
    with pytest.raises(ModuleNotFoundError, match=re.escape(install("botorch"))):
        merged.to_botorch()

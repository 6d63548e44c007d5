"""GPyTorch's fitted models as modules: they predict what GPyTorch predicts."""

import warnings

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_gpytorch import (
    DISTRIBUTIONS,
    KERNELS,
    LIKELIHOODS,
    MEANS,
    STRATEGIES,
    constant,
    exact,
    latent,
    numbers,
    sparse,
    theirs,
)

X = 5 * numbers(40, 2, seed=9) - 0.5


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sparse_models_predict_the_same(strategy, distribution, mean, kernel):
    model = sparse(strategy, distribution, mean, kernel)
    expected = theirs(model, X)
    for likelihood in LIKELIHOODS.values():
        noise = likelihood().double()
        module = rgp.from_gpytorch(model, noise, name="w")
        for ours, wanted in zip(module.predict(X.numpy()), expected, strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-9)
        assert module.jitter == 1e-6
        np.testing.assert_array_equal(module.inducing, model.variational_strategy.inducing_points.detach().numpy())
        _same_observations(model, noise, module)


def _same_observations(model, likelihood, module):
    y = torch.where(X[:, 0] > 2, 1.0, 0.0).double()
    with torch.no_grad():
        q = model(X)
        if isinstance(likelihood, gpytorch.likelihoods.GaussianLikelihood):
            np.testing.assert_allclose(module.predict_y(X.numpy())[1], likelihood(q).variance, rtol=0, atol=1.1e-6)
        elif isinstance(likelihood, gpytorch.likelihoods.BernoulliLikelihood):
            np.testing.assert_allclose(module.predict_proba(X.numpy())[:, 1], likelihood(q).probs, rtol=0, atol=1e-6)
        elif isinstance(likelihood, gpytorch.likelihoods.StudentTLikelihood):
            # (of counts and logistic classes GPyTorch's twenty quadrature points are off by up to 0.05 nats)
            wanted = likelihood.log_marginal(y, q)
            np.testing.assert_allclose(module.log_density(X.numpy(), y.numpy()), wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_float32_models(strategy, distribution, kernel):
    model = sparse(strategy, distribution, kernel=kernel, dtype=torch.float32)
    module = rgp.from_gpytorch(model, gpytorch.likelihoods.BernoulliLikelihood())
    expected = theirs(model, X.float())
    for ours, wanted in zip(module.predict(X.float().double().numpy()), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-3)
    assert module.jitter == pytest.approx(1e-4)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_wider_than_the_prior_keeps_the_mean_and_warns(strategy, distribution):
    model = sparse(strategy, distribution, wide=True)
    with pytest.warns(rgp.RecycleGPWarning, match=r"module lab: \d+ of 11 directions .* wider than the prior") as seen:
        module = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"](), name="lab")
    assert seen[0].filename == __file__
    assert not module.convergence.converged
    assert "NOT CONVERGED" in repr(module)
    mean, variance = module.predict(X.numpy())
    expected = theirs(model, X)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-6)
    assert (variance <= expected[1] + 1e-6).all()
    assert (variance < expected[1] - 1e-3).any()


def test_one_direction_wider_than_the_prior_does_not_wreck_a_merge():
    """It pulls within a few prior standard deviations; at 1e4 of them a learned kernel would explode."""
    model = sparse()
    with pytest.warns(rgp.RecycleGPWarning, match="far outside what any of them says"):  # its q is made up
        good = rgp.merge([rgp.from_gpytorch(model, LIKELIHOODS["gaussian"](), name="w")])
    q = model.variational_strategy._variational_distribution
    with torch.no_grad():
        v = torch.linalg.eigh(q().covariance_matrix).eigenvectors[:, -1]  # where it had learned least
        S = q().covariance_matrix + 1.5 * torch.outer(v, v)
        q.chol_variational_covar.copy_(torch.linalg.cholesky(S))
    model.train().eval()  # forget what it kept
    with pytest.warns(rgp.RecycleGPWarning, match="module w: 1 of 11 directions"):
        wide = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"](), name="w")
    np.testing.assert_allclose(wide.predict(X.numpy())[0], theirs(model, X)[0], rtol=0, atol=1e-9)
    with pytest.warns(rgp.RecycleGPWarning, match="w were fitted elsewhere by searches that had not ended"):
        merged = rgp.merge([wide])
    assert merged.kernel.outputscale < 5 * good.kernel.outputscale
    spread = np.ptp(good.predict(X.numpy())[0])
    assert np.abs(merged.predict(X.numpy())[0] - good.predict(X.numpy())[0]).max() < 0.5 * spread


def test_untrained_unwhitened_models_begin_wider_than_their_prior():
    """GPyTorch starts q(u) at K + 1e-3 and uses K + 1e-6 ever after."""
    model = sparse("unwhitened")
    model.variational_strategy.variational_params_initialized.fill_(0)
    with torch.random.fork_rng():
        model(X)
    with pytest.warns(rgp.RecycleGPWarning, match="wider than the prior"):
        rgp.from_gpytorch(model, LIKELIHOODS["gaussian"]())


@pytest.mark.parametrize("jitter", [1e-3, 3e-5])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_strategys_own_jitter_is_kept(strategy, jitter):
    model = sparse(strategy, jitter_val=jitter)
    module = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"]())
    assert module.jitter == jitter
    np.testing.assert_allclose(module.predict(X.numpy())[0], theirs(model, X)[0], rtol=0, atol=1e-9)
    with gpytorch.settings.variational_cholesky_jitter(double_value=2e-4):
        model = sparse(strategy)
        assert model.variational_strategy.jitter_val == rgp.from_gpytorch(model, LIKELIHOODS["gaussian"]()).jitter


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_jitter_that_gpytorch_had_to_add_is_found(strategy):
    """Points so close that K + jitter is not positive definite: GPyTorch adds more, with a warning of its own."""
    close = torch.linspace(0, 1, 30, dtype=torch.float64)[:, None].expand(-1, 2).contiguous()
    model = sparse(strategy, M=30, mean="zero", jitter_val=1e-3)
    with torch.no_grad():
        model.variational_strategy.inducing_points.copy_(close)
        model.variational_strategy.jitter_val = 1e-18
        model.variational_strategy._variational_distribution.chol_variational_covar.copy_(
            1e-4 * torch.eye(30, dtype=torch.float64)
        )
        model.variational_strategy._variational_distribution.variational_mean.copy_(0.1 * torch.sin(3 * close[:, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpytorch.utils.warnings.NumericalWarning)
        expected = latent(model, X)
        module = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"]())
    assert 0.9e-8 < module.jitter < 1.1e-6
    np.testing.assert_allclose(module.predict(X.numpy())[0], expected[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_read_and_never_changed(training):
    for model in (sparse(), exact()):
        model.train(training)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        state = torch.random.get_rng_state()
        rgp.from_gpytorch(model, getattr(model, "likelihood", LIKELIHOODS["gaussian"]()))
        assert model.training is training
        assert torch.equal(torch.random.get_rng_state(), state)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


# --- exact models -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
def test_exact_models_predict_the_same_where_they_are_published(mean, kernel):
    model = exact(kernel, mean)
    module = rgp.from_gpytorch(model, model.likelihood, name="w")
    assert module.rows == 30
    assert 5 <= len(module.inducing) <= 64
    rows = {tuple(row) for row in model.train_inputs[0].tolist()}
    assert not rows & {tuple(row) for row in module.inducing.tolist()}
    expected = latent(model, torch.tensor(module.inducing))
    for ours, wanted in zip(module.predict(module.inducing), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-6)
    assert module.noise == pytest.approx(0.23)


def test_exact_models_published_at_given_points_and_with_their_evidence():
    model = exact()
    module = rgp.from_gpytorch(model, publish=model.train_inputs[0])
    points = X.numpy()
    expected = latent(model, X)
    for ours, wanted in zip(module.predict(points), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-7)  # all rows: the whole model
    model.train()
    with torch.no_grad():
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(
            model(*model.train_inputs), model.train_targets
        )
    assert module.evidence == pytest.approx(30 * float(evidence), abs=1e-6)
    few = rgp.from_gpytorch(model, publish=7, seed=3)
    assert len(few.inducing) == 7
    np.testing.assert_array_equal(few.inducing, rgp.from_gpytorch(model, publish=7, seed=3).inducing)
    assert not np.array_equal(few.inducing, rgp.from_gpytorch(model, publish=7, seed=4).inducing)


def test_exact_models_in_float32():
    model = exact(dtype=torch.float32)
    module = rgp.from_gpytorch(model)
    expected = latent(model, torch.tensor(module.inducing).float())
    for ours, wanted in zip(module.predict(module.inducing), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize("more", [False, True])
def test_exact_models_with_a_noise_for_each_row(more):
    variances = 0.05 + 0.4 * numbers(30, seed=5)
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(variances, learn_additional_noise=more)
    if more:
        likelihood.second_noise = 0.3
    model = exact(likelihood=likelihood)
    module = rgp.from_gpytorch(model)
    expected = latent(model, torch.tensor(module.inducing))
    for ours, wanted in zip(module.predict(module.inducing), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-6)
    assert module.noise == pytest.approx(float(variances.mean()) + 0.3 * more)


# --- merging ----------------------------------------------------------------------------------


def test_a_converted_module_merges_with_ours_and_survives_a_file(tmp_path):
    model = exact("scaled rbf, ARD")
    left = rgp.from_gpytorch(model, name="left")
    left.save(tmp_path / "left.safetensors")
    rng = np.random.default_rng(0)
    X_b = np.stack([rng.uniform(4, 8, 60), rng.uniform(0, 4, 60)], axis=1)
    right = rgp.fit(X_b, np.sin(2 * X_b[:, 0]) + 0.3 * X_b[:, 1] + 0.1 * rng.normal(size=60), name="right")
    both = rgp.merge([rgp.load(tmp_path / "left.safetensors"), right])
    grid = np.stack(np.meshgrid(np.linspace(0.5, 7.5, 15), np.linspace(0.5, 3.5, 7)), axis=-1).reshape(-1, 2)
    truth = np.sin(2 * grid[:, 0]) + 0.3 * grid[:, 1]

    def rmse(m):
        return float(np.sqrt(np.mean((m.predict(grid)[0] - truth) ** 2)))

    assert rmse(both) < 0.5 * min(rmse(left), rmse(right))
    assert both.names == ["left", "right"]


def test_sparse_model_of_all_rows_is_the_exact_model():
    """q(u) at the exact posterior of f(X): two routes to one merge."""
    model = exact("matern32", "constant", n=14)
    with torch.no_grad(), gpytorch.settings.debug(False):  # which would warn of training inputs
        q = model(model.train_inputs[0])
    other = sparse("unwhitened", "cholesky", "constant", "matern32", M=14)
    with torch.no_grad():
        other.variational_strategy.inducing_points.copy_(model.train_inputs[0])
        distribution = other.variational_strategy._variational_distribution
        distribution.variational_mean.copy_(q.mean)
        distribution.chol_variational_covar.copy_(torch.linalg.cholesky(q.covariance_matrix))
    a = rgp.from_gpytorch(model, publish=model.train_inputs[0], name="a")
    b = rgp.from_gpytorch(other, model.likelihood, name="b", rows=14)
    assert a.rows == b.rows == 14
    for ours, wanted in zip(a.predict(X.numpy()), b.predict(X.numpy()), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-4)  # one has jitter 1e-6, the other 1e-10


def test_publish_moves_a_sparse_model_to_other_points():
    """The exact marginal: at the new points what the model predicts, everywhere if they are its own."""
    model = sparse()
    module = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"](), publish=5, seed=2)
    assert len(module.inducing) == 5
    assert module.jitter < 1e-8  # the model's own stays with its own points
    expected = theirs(model, torch.tensor(module.inducing))
    for ours, wanted in zip(module.predict(module.inducing), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-6)
    own = model.variational_strategy.inducing_points.detach()
    same = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"](), publish=own)
    for ours, wanted in zip(same.predict(X.numpy()), theirs(model, X), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-6)


def test_points_that_need_more_jitter_than_the_model_had_are_refused():
    model = sparse(jitter_val=1e-15)
    line = np.linspace(0, 4, 500)[:, None] * [1.0, 0.5]
    with pytest.raises(rgp.RecycleGPError, match=r"publish: 500 points so close .* above the model's own of 1e-15"):
        rgp.from_gpytorch(model, LIKELIHOODS["gaussian"](), publish=line)
    with pytest.raises(rgp.RecycleGPError, match="publish='all'"):
        rgp.from_gpytorch(model, LIKELIHOODS["gaussian"](), publish="all")


def test_a_prior_mean_is_kept_in_full_precision():
    model = sparse(mean="zero")
    model.mean_module = constant(1 / 3).double()
    with torch.no_grad():
        model.mean_module.raw_constant.fill_(1e5 / 3)
    module = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"]())
    assert module.mean == float(model.mean_module.constant.detach())
    np.testing.assert_allclose(module.predict(X.numpy())[0], theirs(model, X)[0], rtol=1e-12, atol=0)

"""Central rivals against their formulas in NumPy; all rows leave their owners."""

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
import reference as ref
from cases import check_close, fixed_case, gpytorch_kernel, with_jitter
from recyclegp import likelihoods
from recyclegp.baselines import central
from recyclegp.baselines.central import SVGP, Training, bound, train
from recyclegp.baselines.rival import Part, checked

CASE = fixed_case()
PARTS = [(p.X, p.y) for p in CASE.parts]
ROWS = 8 * 3 * (11 + 8 + 13) / 3  # two inputs and a target, 32 rows, three owners


def learned(theta, noise):
    amplitude, *lengths = theta.exp().tolist()
    return ref.Kernel("rbf", tuple(lengths), amplitude), np.full(32, noise)


def test_exact():
    rival = central.exact(PARTS)
    m = rgp.fit(CASE.inputs, CASE.y, kernel="rbf", method="exact")
    k, noise = learned(m.kernel_spec.theta, m.noise)
    truth = ref.exact_gp(k, CASE.inputs, CASE.y, m.mean, noise, CASE.Xt)
    mean, variance = rival.predict(CASE.Xt)
    check_close(mean, truth.mean, 1e-3)  # the same hyperparameters, but for the order of the rows
    check_close(variance, np.diag(truth.cov), 1e-3)
    assert rival.bytes_sent(1000) == ROWS
    with pytest.raises(rgp.RecycleGPError, match="does not fit"):
        central.exact([(np.zeros((12_001, 1)), np.zeros(12_001))])


def test_sparse_is_sgpr():
    plan = {"kernel": gpytorch_kernel(CASE.kernel), "learn": False, "noise": 0.13}
    rival = central.sparse(PARTS, inducing=CASE.Z, **plan)
    jitter = rgp.fit(CASE.inputs, CASE.y, inducing=CASE.Z, **plan)
    k = with_jitter(CASE.kernel, jitter)
    truth = ref.sgpr(k, CASE.Z, CASE.inputs, CASE.y, 0.0, np.full(32, 0.13), CASE.Xt)
    mean, variance = rival.predict_y(CASE.Xt)
    check_close(mean, truth.mean)
    check_close(variance, np.diag(truth.cov) + 0.13)
    assert rival.bytes_sent() == ROWS


@pytest.mark.slow
def test_sparse_classes():
    y = [(p.y > 1).astype(float) for p in CASE.parts]
    parts = [(p.X, t) for p, t in zip(CASE.parts, y, strict=True)]
    rival = central.sparse(parts, inducing=CASE.Z, likelihood="bernoulli")
    m = rgp.fit(CASE.inputs, np.concatenate(y), inducing=CASE.Z, likelihood="bernoulli", kernel="rbf")
    check_close(rival.log_density(CASE.Xt, np.ones(7)), m.log_density(CASE.Xt, np.ones(7)), 1e-12)
    assert rival.name == "SVGP (dual)"


@pytest.mark.parametrize(("likelihood", "parameters"), [("gaussian", (0.3,)), ("bernoulli", ())])
def test_svgp_bound_is_the_formula(likelihood, parameters):
    """GPyTorch's pieces put together: E_q[log p(y|f)] − KL at a generic q(u)."""
    rng = np.random.default_rng(1)
    y = CASE.y if likelihood == "gaussian" else (CASE.y > 1).astype(float)
    model = SVGP(torch.tensor(CASE.Z), gpytorch_kernel(CASE.kernel), 0.7).double().train()
    M = len(CASE.Z)
    m_w, A = rng.normal(size=M), 0.3 * rng.normal(size=(M, M))
    S_w = np.eye(M) * 0.4 + A @ A.T
    q = model.variational_strategy._variational_distribution
    q.natural_vec.data = torch.tensor(np.linalg.solve(S_w, m_w))
    q.natural_mat.data = torch.tensor(-0.5 * np.linalg.inv(S_w))
    jitter = gpytorch.settings.variational_cholesky_jitter.value(torch.float64)
    k = ref.Kernel(CASE.kernel.kind, CASE.kernel.lengthscales, CASE.kernel.variance, nugget=jitter)
    L = np.linalg.cholesky(k(CASE.Z, CASE.Z))
    moments = ref.Moments(0.7 + L @ m_w, L @ S_w @ L.T)
    expected = ref.elbo(moments, k, 0.7, CASE.Z, CASE.inputs, y, likelihood, parameters)
    observed = likelihoods.named(likelihood, parameters)
    found = bound(model, torch.tensor(CASE.inputs), torch.tensor(y), 32, observed)
    assert found.item() == pytest.approx(expected, rel=1e-4)  # GPyTorch adds its jitter to variances, too
    half = bound(model, torch.tensor(CASE.inputs[:16]), torch.tensor(y[:16]), 16, observed)
    double = bound(model, torch.tensor(CASE.inputs[:16]), torch.tensor(y[:16]), 32, observed)
    kl = ref.kl(moments, ref.Moments(np.full(M, 0.7), k(CASE.Z, CASE.Z)))
    assert (double + kl).item() == pytest.approx(2 * (half + kl).item(), rel=1e-6)


@pytest.mark.slow
def test_svgp_finds_the_best_q():
    """At its points and hyperparameters (held still here) its predictions are SGPR's."""
    data = Part(torch.tensor(CASE.inputs), torch.tensor(CASE.y))
    model, likelihood = train(data, 8, "gaussian", "rbf", Training(steps=20, natural=1.0, rate=1e-12), 0)
    noise = likelihood.noise
    k = ref.Kernel(
        "rbf",
        tuple(model.covar_module.base_kernel.lengthscale[0].tolist()),
        model.covar_module.outputscale.item(),
        nugget=gpytorch.settings.variational_cholesky_jitter.value(torch.float64),
    )
    Z = model.variational_strategy.inducing_points.detach().numpy()
    mean = model.mean_module.constant.item()
    truth = ref.sgpr(k, Z, CASE.inputs, CASE.y, mean, np.full(32, noise), CASE.Xt)
    found = model.latent(torch.tensor(CASE.Xt))
    check_close(found[0], truth.mean, 1e-5)
    check_close(found[1], np.diag(truth.cov), 1e-5)


def test_svgp_does_not_know_the_units():
    """Standardised inside: 1000·y − 5 in other input units gives the same predictions, changed back."""
    how, state = Training(steps=30), torch.random.get_rng_state()
    a = central.svgp(PARTS, inducing=6, training=how)
    b = central.svgp([(3 * X + 1, 1000 * y - 5) for X, y in PARTS], inducing=6, training=how)
    mean, variance = b.predict_y(3 * CASE.Xt + 1)
    check_close((mean + 5) / 1000, a.predict_y(CASE.Xt)[0], 1e-4)
    check_close(variance / 1000**2, a.predict_y(CASE.Xt)[1], 1e-4)
    check_close(variance - b.predict(3 * CASE.Xt + 1)[1], np.full(7, b.likelihoods[0].parameters[0]), 1e-6)
    assert a.sent.fit == ROWS
    assert torch.equal(torch.random.get_rng_state(), state)  # which belongs to the user


def test_parts_are_checked():
    with pytest.raises(rgp.RecycleGPError, match="same columns"):
        checked([(np.zeros((3, 1)), np.zeros(3)), (np.zeros((3, 2)), np.zeros(3))], "gaussian")
    with pytest.raises(rgp.RecycleGPError, match="same columns"):
        checked([], "gaussian")
    with pytest.raises(rgp.RecycleGPError, match=r"parts\[1\]"):
        checked([(np.zeros((3, 1)), np.zeros(3)), (np.zeros((3, 1)), np.zeros(4))], "gaussian")

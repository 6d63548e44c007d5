"""Faults once found by reading: each stays away."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp import likelihoods, merging

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.fixture(scope="module")
def module():
    return rgp.fit(X, Y, publish=12, name="a")


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


@pytest.mark.parametrize("M", [8, 16, 30])
def test_moments_of_an_exact_gp_need_no_jitter(M):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.3, 1.7
    Z = torch.linspace(0, 1, M, dtype=torch.float64)[:, None]
    data = torch.as_tensor(RNG.uniform(0, 1, (40, 1)))
    y = torch.sin(7 * data[:, 0]) + 0.3
    with torch.no_grad():
        K = kernel(data).to_dense() + 0.01 * torch.eye(40)
        cross = kernel(Z, data).to_dense()
        mean = cross @ torch.linalg.solve(K, y)
        S = kernel(Z).to_dense() - cross @ torch.linalg.solve(K, cross.mT)
    m = rgp.Module.from_moments(Z, mean, S, kernel=kernel, name="w")
    np.testing.assert_allclose(m.predict(Z.numpy())[0], mean, atol=1e-5)
    np.testing.assert_allclose(m.predict(Z.numpy())[1], S.diagonal(), atol=1e-5)


def test_threads_leave_gpytorch_as_it_was(module):
    before = gpytorch.settings.lazily_evaluate_kernels.on()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: module.predict(X)[0], range(40)))
    assert gpytorch.settings.lazily_evaluate_kernels.on() == before
    assert all(np.array_equal(a, answers[0]) for a in answers)


def test_what_is_handed_out_is_a_copy(module):
    e = rgp.merge([module])
    before = module.predict(X)[0]
    module.site.rho[:] = 100.0
    with pytest.raises(ValueError, match="read-only"):
        e.inducing[0] = 3.0
    np.testing.assert_array_equal(module.predict(X)[0], before)


def test_relearning_chooses_the_number_of_points_again(module):
    far = rgp.fit(X + 40, Y, publish=12, name="far")
    fresh = rgp.merge([module, far])
    again = rgp.merge([module]).add(far, relearn=True)
    assert len(again.inducing) == len(fresh.inducing)
    np.testing.assert_allclose(again.predict(X + 40)[0], fresh.predict(X + 40)[0], atol=1e-6)


def test_too_few_points_are_reported(module, monkeypatch):
    monkeypatch.setattr(merging, "LARGEST", 3)
    with pytest.warns(rgp.RecycleGPWarning, match="pass a larger inducing="):
        rgp.merge([module], learn=False)


def test_a_weight_of_almost_nothing_survives_a_file(module, tmp_path):
    rgp.merge([module], weights=[0.001]).to_module("x").save(tmp_path / "x")
    assert rgp.load(tmp_path / "x").rows == 1


def test_inference_mode_leaves_nothing_behind():
    m = rgp.fit(X[:20], Y[:20], publish=6, name="m")
    with torch.inference_mode():
        m.predict(X)
    at = torch.as_tensor(X, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(m.predict(at)[0].sum(), at)
    assert bool(torch.isfinite(gradient).all())


def test_pickles_hold_no_caches():
    m = rgp.fit(X[:20], Y[:20], publish=6, name="m")
    small = len(pickle.dumps(m))
    m.predict(X)
    assert len(pickle.dumps(m)) == small


@pytest.mark.parametrize("df", [30.0, 300.0, 1e4])
def test_student_t_becomes_a_gaussian(df):
    """For many degrees of freedom, and for tails that only few of them have."""
    y, m, v = (torch.tensor([t], dtype=torch.float64) for t in (1.3, 0.2, 0.5))
    log_p = torch.tensor([math.log(0.4), math.log(df)], dtype=torch.float64)
    f = torch.linspace(-12, 12, 200001, dtype=torch.float64)
    joint = likelihoods.FAMILIES["student-t"].log_prob(y, f, log_p) - 0.5 * (f - m) ** 2 / v
    expected = torch.logsumexp(joint, 0) + math.log(24 / 200000) - 0.5 * math.log(2 * math.pi * 0.5)
    assert float(likelihoods.log_density("student-t", y, m, v, log_p)[0]) == pytest.approx(float(expected), abs=1e-7)


def test_learning_does_not_creep_when_rows_are_many(module):
    """The kernel of many modules is learned as far as that of few."""
    few = [module.transform(input_shift=[s]).rename(f"m{i}") for i, s in enumerate(np.pi * np.arange(5))]
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    kernel.base_kernel.lengthscale = 0.2
    once = rgp.merge(few, inducing=30, kernel=kernel)
    thousandfold = rgp.merge(few, inducing=30, kernel=kernel, weights=[1000.0] * 5)
    for e in (once, thousandfold):
        assert e.kernel.base_kernel.lengthscale.item() > 0.3  # it began at 0.2

"""What a module holds, and what it hands out."""

import pickle

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.fixture(scope="module")
def module():
    return rgp.fit(X, Y, publish=12, name="a")


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


def test_what_is_handed_out_is_a_copy(module):
    e = rgp.merge([module])
    before = module.predict(X)[0]
    module.site.rho[:] = 100.0
    with pytest.raises(ValueError, match="read-only"):
        e.inducing[0] = 3.0
    np.testing.assert_array_equal(module.predict(X)[0], before)


def test_pickles_hold_no_caches():
    m = rgp.fit(X[:20], Y[:20], publish=6, name="m")
    small = len(pickle.dumps(m))
    m.predict(X)
    assert len(pickle.dumps(m)) == small

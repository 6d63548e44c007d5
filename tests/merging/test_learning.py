"""The ensemble's kernel, learned by the evidence."""

import gpytorch
import numpy as np
import pytest

import recyclegp as rgp

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.fixture(scope="module")
def module():
    return rgp.fit(X, Y, publish=12, name="a")


@pytest.mark.slow
def test_learning_does_not_creep_when_rows_are_many(module):
    """The kernel of many modules is learned as far as that of few."""
    few = [module.transform(input_shift=[s]).rename(f"m{i}") for i, s in enumerate(np.pi * np.arange(5))]
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    kernel.base_kernel.lengthscale = 0.2
    once = rgp.merge(few, inducing=30, kernel=kernel)
    thousandfold = rgp.merge(few, inducing=30, kernel=kernel, weights=[1000.0] * 5)
    for e in (once, thousandfold):
        assert e.kernel.base_kernel.lengthscale.item() > 0.3  # it began at 0.2


@pytest.mark.parametrize("seed", [0, 2])
def test_the_shared_kernel_does_not_collapse_where_owners_contradict_each_other(seed):
    """Without effects only a function of next to no length explains owners with functions of their own."""
    rng = np.random.default_rng(seed)
    data = []
    for _ in range(12):
        t = np.sort(rng.uniform(0, 6, 16))
        near = t + 0.5 * rng.normal(size=16)
        a, b = rng.normal(size=2)
        data.append((np.stack([near, t], 1), 3 * a + a * t / 2 + b * np.sin(t) + 0.1 * rng.normal(size=16)))
    modules = rgp.fit_many(data, names="abcdefghijkl", kernel="rbf")
    e = rgp.merge(modules, trust=None)
    lengths = np.array([m.kernel.base_kernel.lengthscale.detach().numpy().ravel() for m in modules])
    assert (e.kernel.base_kernel.lengthscale.detach().numpy().ravel() > 0.3 * lengths.min(0)).all()
    assert e.smooth_sd > 0.5

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

"""A kernel of transformed inputs is a kernel of the inputs: k(a∘x + b, a∘x' + b), for every kind."""

import numpy as np
import pytest
import torch

from cases_gpytorch import KERNELS, numbers
from recyclegp.kernels import parse
from recyclegp.kernels.gpytorch_objects import from_gpytorch
from recyclegp.kernels.units import stretched

A, B = torch.tensor([0.3, -2.5], dtype=torch.float64), torch.tensor([1.7, -0.4], dtype=torch.float64)
X = 4 * numbers(12, 2, seed=0)


def evaluate(kernel, points):
    return kernel.matrix(points, points).numpy()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("scale", [A, torch.full_like(A, 0.7)])
def test_gpytorchs_kernels(name, scale):
    kernel = from_gpytorch(KERNELS[name]().double(), 2)
    np.testing.assert_allclose(evaluate(stretched(kernel, scale, B), X), evaluate(kernel, scale * X + B), rtol=1e-9)


@pytest.mark.parametrize("expression", ["linear", "matern52 + linear", "rbf * linear", "rq * periodic + linear"])
def test_named_kernels_which_have_centres(expression):
    kernel = parse(expression, 2)
    kernel = kernel.with_theta(torch.linspace(-0.5, 0.7, len(kernel.theta), dtype=torch.float64))
    there = stretched(kernel, A, B)
    np.testing.assert_allclose(evaluate(there, X), evaluate(kernel, A * X + B), rtol=1e-9, atol=1e-12)
    back = stretched(there, 1 / A, -B / A)
    np.testing.assert_allclose(evaluate(back, X), evaluate(kernel, X), rtol=1e-9, atol=1e-12)


def test_an_equal_stretch_keeps_one_length_for_all_columns():
    kernel = from_gpytorch(KERNELS["matern32"](), 2)
    assert stretched(kernel, torch.full_like(A, 0.7), B).structure == kernel.structure
    assert stretched(kernel, A, B).parameters[-1].size == 2


def test_a_linear_kernel_in_a_sum_does_not_factor_the_rest():
    """linear_operator decomposes the other kernel's matrix to add a low-rank one, and warns where it is singular."""
    kernel = from_gpytorch(KERNELS["rq + linear"](), 2)
    close = torch.linspace(0, 1, 200, dtype=torch.float64)[:, None].expand(-1, 2)
    apart = [from_gpytorch(part, 2) for part in KERNELS["rq + linear"]().kernels]  # a warning would be an error here
    np.testing.assert_allclose(evaluate(kernel, close), sum(evaluate(k, close) for k in apart), rtol=1e-12)

"""What kernels are in the units of their data: absolute values, where test_kernels.py asks for invariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, RQKernel, ScaleKernel

from recyclegp.kernels import parse, units
from recyclegp.kernels.gpytorch_objects import from_gpytorch

X_SCALE, CENTRE, Y_SCALE = np.array([0.8, 6.0, 0.05]), np.array([1.0, -2.0, 30.0]), 2.5
A, B, C = np.log(X_SCALE)
Y2 = 2 * math.log(Y_SCALE)

REFERENCES = {
    "rbf": (parse("rbf", 3), [Y2, A, B, C]),
    "rq": (parse("rq", 3), [Y2, A, B, C, 0.0]),
    "periodic": (parse("periodic", 3), [Y2, 0.0, 0.0, 0.0, A, B, C]),
    "constant": (parse("constant", 3), [Y2]),
    "linear": (parse("linear", 3), [*(Y2 - 2 * np.array([A, B, C]) - math.log(3)), *CENTRE]),
    "sum": (parse("matern32 + constant", 3), [Y2, A, B, C, Y2]),
    "product": (parse("matern32 * constant", 3), [Y2, A, B, C]),
    "one length for all": (from_gpytorch(RBFKernel().double(), 3), [(A + B + C) / 3]),
    "one length for two": (from_gpytorch(RBFKernel(active_dims=[2, 0]).double(), 3), [(A + C) / 2]),
    "each of two": (from_gpytorch(RBFKernel(active_dims=[2, 0], ard_num_dims=2).double(), 3), [C, A]),
    "one slope for two": (
        from_gpytorch(LinearKernel(active_dims=[1, 2]).double(), 3),
        [Y2 - (B + C) - math.log(2), *CENTRE[1:]],
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_lengths_and_amplitudes_are_one_standard_deviation(name):
    kernel, expected = REFERENCES[name]
    found = units.reference(
        kernel.structure, torch.tensor(X_SCALE), torch.tensor(CENTRE), torch.tensor(Y_SCALE).double()
    )
    np.testing.assert_allclose(found[: len(expected)], expected, rtol=1e-12, atol=1e-12)
    assert not found[len(expected) :].any()


@pytest.mark.parametrize("kernel", [parse("rbf * linear + rq", 3), from_gpytorch(RBFKernel() + LinearKernel(), 3)])
def test_references_of_many_data_sets_are_those_of_each(kernel):
    """With a length for each column, or one for all."""
    structure = kernel.structure
    rng = np.random.default_rng(0)
    x, centre, y = rng.uniform(0.1, 9, (4, 3)), rng.standard_normal((4, 3)), rng.uniform(0.1, 9, 4)
    found = units.reference(structure, torch.tensor(x), torch.tensor(centre), torch.tensor(y))
    for i in range(4):
        one = units.reference(structure, torch.tensor(x[i]), torch.tensor(centre[i]), torch.tensor(y[i]))
        np.testing.assert_allclose(found[i], one, rtol=1e-13, atol=1e-13)


def test_a_linear_kernel_of_reference_has_the_variance_of_y():
    """One standard deviation away in every column k(x, x) is that of y, however many columns there are."""
    kernel = parse("linear", 3)
    theta = units.reference(
        kernel.structure, torch.tensor(X_SCALE), torch.tensor(CENTRE), torch.tensor(Y_SCALE).double()
    )
    away = torch.tensor(CENTRE + X_SCALE * [1, -1, 1])[None]
    assert float(kernel.with_theta(theta).diagonal(away)) == pytest.approx(Y_SCALE**2, rel=1e-12)


def test_lengths_are_the_shortest_along_each_column():
    """Of all parts that look at it; periods, slopes and pure numbers are no lengths."""
    wide, narrow = MaternKernel(nu=1.5, ard_num_dims=2, active_dims=[0, 2]), RQKernel(active_dims=[2])
    wide.lengthscale, narrow.lengthscale, narrow.alpha = torch.tensor([[3.0, 7.0]]), 0.4, 0.01
    wave = PeriodicKernel(active_dims=[0])
    wave.lengthscale, wave.period_length = 0.001, 0.002
    kernel = from_gpytorch((ScaleKernel(wide) + narrow * wave + LinearKernel(active_dims=[3])).double(), 4)
    expected = [3.0, math.inf, 0.4, math.inf]
    np.testing.assert_allclose(kernel.lengths(4), expected, rtol=1e-6)
    steps = torch.tensor([0.0, 0.5, -1.0], dtype=torch.float64)[:, None]
    many = kernel.with_theta(kernel.theta + steps)
    np.testing.assert_allclose(many.lengths(4), np.exp(steps.numpy()) * expected, rtol=1e-6)
    same = from_gpytorch((RBFKernel() + ScaleKernel(wide)).double(), 3)
    np.testing.assert_allclose(same.lengths(3), [math.log(2)] * 3, rtol=1e-6)


@pytest.mark.parametrize("expression", ["rbf", "rq * linear", "periodic + linear"])
def test_a_function_in_other_units(expression):
    """k of s·f((x − c)/a) is s²k((x − c)/a, (x' − c)/a)."""
    kernel = parse(expression, 2)
    kernel = kernel.with_theta(torch.linspace(-0.6, 0.5, len(kernel.theta), dtype=torch.float64))
    rng = np.random.default_rng(1)
    X1, X2 = torch.tensor(rng.standard_normal((5, 2))), torch.tensor(rng.standard_normal((4, 2)))
    scale, shift = torch.tensor([0.1, 40.0], dtype=torch.float64), torch.tensor([3.0, -0.7], dtype=torch.float64)
    found = units.in_units(kernel, -3.0, units.InputUnits(scale, shift)).matrix(scale * X1 + shift, scale * X2 + shift)
    np.testing.assert_allclose(found, 9.0 * kernel.matrix(X1, X2), rtol=1e-11, atol=1e-12)

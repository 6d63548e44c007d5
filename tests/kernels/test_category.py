"""The kernel of categories: its formula, names, files, GPyTorch, units, and where points go beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.errors import RecycleGPError
from recyclegp.kernels import Kernel, file_form, parse, units
from recyclegp.kernels.gpytorch_objects import from_gpytorch, to_gpytorch
from recyclegp.local import placement

RNG = np.random.default_rng(3)


def rows(n):
    """A number, a level of three, another number, a level of four."""
    return np.column_stack([RNG.normal(size=n), RNG.integers(3, size=n), RNG.normal(2, 5, n), RNG.integers(4, size=n)])


A, B = rows(9), rows(7)
DISCRETE = (1, 3)


def categories(X1, X2, correlations):
    """By NumPy."""
    found = np.ones((len(X1), len(X2)))
    for column, rho in zip(DISCRETE, correlations, strict=True):
        found *= np.where(X1[:, None, column] == X2[None, :, column], 1.0, rho)
    return found


def rbf(X1, X2, lengths):
    numbers = [0, 2]
    return np.exp(-0.5 * (((X1[:, None, numbers] - X2[None, :, numbers]) / lengths) ** 2).sum(-1))


def made(expression, theta):
    return parse(expression, 4, DISCRETE).with_theta(torch.tensor(theta, dtype=torch.float64))


def logs(correlations):
    return list(np.log(-np.log(correlations)))


PRODUCT = made("rbf", [np.log(1.7), *np.log([0.8, 3.0]), *logs([0.3, 0.85])])
SUM = made("rbf + category", [np.log(1.7), *np.log([0.8, 3.0]), np.log(0.4), *logs([0.3, 0.85])])


def value(kernel, X1=A, X2=B):
    return kernel.matrix(torch.tensor(X1), torch.tensor(X2)).numpy()


def test_formula():
    shared, own = 1.7 * rbf(A, B, [0.8, 3.0]), categories(A, B, [0.3, 0.85])
    np.testing.assert_allclose(value(PRODUCT), shared * own, rtol=1e-13)
    np.testing.assert_allclose(value(SUM), shared + 0.4 * own, rtol=1e-13)
    np.testing.assert_allclose(PRODUCT.diagonal(torch.tensor(A)), np.full(9, 1.7), rtol=1e-13)


def test_many_side_by_side():
    both = Kernel(PRODUCT.structure, torch.stack([PRODUCT.theta, PRODUCT.theta - 0.3]))
    X = torch.tensor(np.stack([A[:7], B]))
    for i, K in enumerate(both.matrix(X, X)):
        np.testing.assert_allclose(K, both.select(i).matrix(X[i], X[i]), rtol=1e-13)


def test_derivative():
    def of(theta):
        return PRODUCT.with_theta(theta).matrix(torch.tensor(A), torch.tensor(B))

    assert torch.autograd.gradcheck(of, PRODUCT.theta.clone().requires_grad_())


def test_names():
    assert parse("rbf", 4, DISCRETE).structure == parse("rbf * category", 4, DISCRETE).structure
    each = parse("rbf * category + linear * category", 4, DISCRETE).structure
    assert parse("rbf + linear", 4, DISCRETE).structure == each
    assert parse("rbf", 2, (0, 1)).structure == parse("category", 2, (0, 1)).structure
    assert PRODUCT.structure.discrete == DISCRETE
    assert "correlation=0.3/0.85" in PRODUCT.describe()
    with pytest.raises(RecycleGPError, match="no input column holds categories"):
        parse("rbf * category", 4)
    with pytest.raises(RecycleGPError, match="'matern32' needs a column of numbers"):
        parse("matern32", 2, (0, 1))


@pytest.mark.parametrize("kernel", [PRODUCT, SUM])
def test_there_and_back(kernel):
    assert file_form.from_json(file_form.to_json(kernel, 4), 4) == kernel
    object_ = to_gpytorch(kernel, 4)
    np.testing.assert_allclose(from_gpytorch(object_, 4).theta, kernel.theta, atol=1e-12)
    with torch.no_grad():
        np.testing.assert_allclose(object_(torch.tensor(A), torch.tensor(B)).to_dense(), value(kernel), rtol=1e-10)


@pytest.mark.parametrize("dims", [None, [], [4], [1, 1], [1.0], "1"])
def test_a_file_must_say_which_columns(dims):
    with pytest.raises(RecycleGPError, match="'category'"):
        file_form.from_json({"tree": {"kind": "category", "dims": dims}, "log_parameters": [0.0]}, 4)


def test_units_and_order():
    scale, shift = np.array([5.0, 1.0, 0.3, 1.0]), np.array([1.0, 0.0, -2.0, 0.0])
    moved = units.in_units(PRODUCT, 3.0, units.InputUnits(torch.tensor(scale), torch.tensor(shift)))
    np.testing.assert_allclose(value(moved, scale * A + shift, scale * B + shift), 9 * value(PRODUCT), rtol=1e-9)
    order = [3, 0, 1, 2]
    turned = units.permuted(PRODUCT, order)
    np.testing.assert_allclose(value(turned, A[:, order], B[:, order]), value(PRODUCT), rtol=1e-12)
    assert turned.structure.discrete == (0, 2)


@pytest.mark.parametrize("method", ["exact", "collapsed", "dual"])
def test_points_have_levels_that_occur_and_are_no_rows(method):
    X = rows(120)
    X[:, 1] *= 2  # codes 0, 2 and 4: nothing may lie between them
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=120)
    inducing = None if method == "exact" else 40
    module = rgp.fit(X, y, kernel=to_gpytorch(PRODUCT, 4), method=method, inducing=inducing, publish=30)
    for made_of_it in (module, module.publish(8), module.rounded(3)):
        Z = made_of_it.inducing
        assert set(Z[:, 1]) <= {0.0, 2.0, 4.0}
        assert set(Z[:, 3]) <= {0.0, 1.0, 2.0, 3.0}
        assert not (Z[:, None] == X[None]).all(-1).any()


def test_points_over_a_grid_that_all_levels_share():
    X = np.column_stack([np.tile(np.arange(6.0), 5), np.repeat(np.arange(5.0), 6)])
    kernel = parse("rbf", 2, (1,))
    Z = placement.over(torch.tensor(X), 40, kernel, np.random.default_rng(0)).numpy()
    assert not (Z[:, None] == X[None]).all(-1).any()
    assert not np.isin(Z[:, 0], X[:, 0]).any()
    assert set(Z[:, 1]) == set(range(5))


def test_points_where_all_numbers_are_one():
    X = np.column_stack([np.full(6, 2.5), [0.0, 1.0, 2.0] * 2])
    Z = placement.over(torch.tensor(X), 8, parse("rbf", 2, (1,)), np.random.default_rng(0)).numpy()
    assert set(Z[:, 1]) == {0.0, 1.0, 2.0}
    assert (Z[:, 0] != 2.5).all()


def test_points_of_levels_alone_are_combinations_that_occur():
    X = np.column_stack([RNG.integers(3, size=50), RNG.integers(4, size=50)]).astype(float)
    module = rgp.fit(X, X[:, 0] - X[:, 1] + 0.1 * RNG.normal(size=50), kernel=to_gpytorch(parse("rbf", 2, (0, 1)), 2))
    assert {tuple(z) for z in module.inducing} <= {tuple(x) for x in X}


def test_points_of_a_merge_that_move():
    X = rows(200)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=200)
    kernel = to_gpytorch(PRODUCT, 4)
    modules = [rgp.fit(X[i::4], y[i::4], kernel=kernel, name=str(i)) for i in range(4)]
    known = np.concatenate([m.inducing for m in modules])
    Z = rgp.merge(modules, inducing=6).inducing
    assert not (Z[:, None] == known[None]).all(-1).all()  # some have moved
    assert set(Z[:, 1]) <= {0.0, 1.0, 2.0}
    assert set(Z[:, 3]) <= {0.0, 1.0, 2.0, 3.0}

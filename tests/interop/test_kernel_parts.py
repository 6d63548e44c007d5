"""Kernels put together from other libraries' numbers: against the formulas in NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import reference as ref
from recyclegp import RecycleGPError
from recyclegp.interop.kernel_parts import Reader, checked, product, total

D = 3
A, B = (np.random.default_rng(seed).uniform(-1, 3, (5, D)) for seed in (0, 1))
ZERO = np.zeros(D)


def read(kind, variance, columns=slice(None), stretch=1.0, **numbers):
    reader = Reader("from_elsewhere", SimpleNamespace(active_dims=columns), D)
    return reader.term(kind, (numbers | {"variance": variance}).__getitem__, stretch)


TERMS = {
    "constant": (lambda: read("constant", 0.7), lambda: np.full((5, 5), 0.7)),
    "linear": (lambda: read("linear", 0.3), lambda: ref.linear(A, B, [0.3] * D, ZERO)),
    "linear, ARD": (lambda: read("linear", [0.3, 0.8, 0.1]), lambda: ref.linear(A, B, [0.3, 0.8, 0.1], ZERO)),
    "rbf": (lambda: read("rbf", 1.7, lengthscales=[0.8, 2.1, 1.2]), lambda: 1.7 * ref.rbf(A, B, [0.8, 2.1, 1.2])),
    "stretched": (
        lambda: read("matern12", 0.6, lengthscales=0.9, stretch=2.0),
        lambda: 0.6 * ref.matern(A, B, [1.8] * D, 0.5),
    ),
    "some columns": (
        lambda: read("matern52", 0.6, [2, -3], lengthscales=[0.9, 1.4]),
        lambda: 0.6 * ref.matern(A[:, [2, 0]], B[:, [2, 0]], [0.9, 1.4], 2.5),
    ),
    "linear in one column": (
        lambda: read("linear", 0.4, [1]),
        lambda: ref.linear(A[:, [1]], B[:, [1]], [0.4], ZERO[:1]),
    ),
    "rational quadratic": (
        lambda: read("rq", 1.2, lengthscales=[1.1, 0.8, 2.0], alpha=0.7),
        lambda: 1.2 * ref.rational_quadratic(A, B, [1.1, 0.8, 2.0], 0.7),
    ),
    "periodic": (
        lambda: read("periodic", 1.4, slice(0, 2), lengthscales=0.9, period=[2.6, 3.1]),
        lambda: 1.4 * ref.periodic(A[:, :2], B[:, :2], [4 * 0.9**2] * 2, [2.6, 3.1]),
    ),
}


def check_kernel(term, wanted):
    kernel = checked(term.kernel(), D)
    assert kernel == term.kernel()
    np.testing.assert_allclose(kernel.matrix(torch.tensor(A), torch.tensor(B)), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TERMS)
def test_terms(name):
    term, wanted = TERMS[name]
    check_kernel(term(), wanted())


@pytest.mark.parametrize("first", TERMS)
@pytest.mark.parametrize("second", TERMS)
def test_sums_and_products(first, second):
    (a, wanted_a), (b, wanted_b) = TERMS[first], TERMS[second]
    check_kernel(total([a(), b()]), wanted_a() + wanted_b())
    check_kernel(product([a(), b()]), wanted_a() * wanted_b())
    check_kernel(product([total([a(), b()]), b()]), (wanted_a() + wanted_b()) * wanted_b())


def test_nested_sums_are_one_sum():
    a, b, c = (TERMS[name][0]() for name in ("rbf", "constant", "linear"))
    assert total([total([a, b]), c]).kernel() == total([a, b, c]).kernel()
    assert len(total([total([a, b]), c]).kernel().structure.parts) == 3


REFUSED = {
    "over the columns": lambda: read("constant", 1.0, [0, 3]),
    "over the columns ": lambda: read("constant", 1.0, []),
    "2 lengthscales for 3 columns": lambda: read("rbf", 1.0, lengthscales=[1.0, 2.0]),
    r"lengthscales=\[0.0\]; a module's are positive": lambda: read("rbf", 1.0, lengthscales=0.0),
    "3 of variance; a module has one": lambda: read("rbf", [1.0, 2.0, 3.0], lengthscales=1.0),
    "or to one twice": lambda: checked(read("rbf", 1.0, [1, 1], lengthscales=1.0).kernel(), D),
    "too large": lambda: checked(total([TERMS["rbf"][0]()] * 40).kernel(), D),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    with pytest.raises(RecycleGPError, match=message):
        REFUSED[message]()

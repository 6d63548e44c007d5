"""Asking: from many threads, in every mode of autograd."""

from concurrent.futures import ThreadPoolExecutor

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


def test_threads_leave_gpytorch_as_it_was(module):
    before = gpytorch.settings.lazily_evaluate_kernels.on()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: module.predict(X)[0], range(40)))
    assert gpytorch.settings.lazily_evaluate_kernels.on() == before
    assert all(np.array_equal(a, answers[0]) for a in answers)


def test_inference_mode_leaves_nothing_behind():
    m = rgp.fit(X[:20], Y[:20], publish=6, name="m")
    with torch.inference_mode():
        m.predict(X)
    at = torch.as_tensor(X, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(m.predict(at)[0].sum(), at)
    assert bool(torch.isfinite(gradient).all())

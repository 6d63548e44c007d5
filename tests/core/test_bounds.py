"""The objectives against the least-squares problem they abbreviate."""

from __future__ import annotations

import numpy as np
import torch

from recyclegp.core import bounds, least_squares
from recyclegp.core.posterior import basis, features
from recyclegp.kernels import parse
from recyclegp.local.observations import gaussian_rows


def random(*shape, seed=0):
    return torch.tensor(np.random.default_rng([seed, *shape]).normal(size=shape))


def test_collapsed_bound_is_the_least_squares_problem():
    """Value and gradient, with padding, against rows and their solution."""
    B, n, M = 3, 17, 4
    X, y, Z = random(B, n, 2), random(B, n, seed=1), random(B, M, 2, seed=2)
    w = (torch.arange(n) < torch.tensor([17, 11, 14])[:, None]).double()
    theta = (0.3 * random(B, 3, seed=3)).requires_grad_()
    noise, mean = random(B, seed=4).exp().requires_grad_(), random(B, seed=5).requires_grad_()
    base = basis(parse("matern52", 2).with_theta(theta), Z)
    a = bounds.collapsed(features(base, X), base.kernel.diagonal(X), y, mean, noise, w)
    rows = gaussian_rows(base, X, y, noise, marginal=False, w=w)
    b = least_squares.solve(least_squares.centre(rows, mean)).bound
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    grads = [torch.autograd.grad(v.sum(), (theta, noise, mean), retain_graph=True) for v in (a, b)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)

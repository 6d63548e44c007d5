"""One owner's problem with generic values, and checks of what the library makes of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st

import reference as ref
from recyclegp.core import least_squares, sites
from recyclegp.core.packing import pack, project
from recyclegp.core.posterior import basis
from recyclegp.kernels import parse
from recyclegp.likelihoods import named
from recyclegp.local import dual, observations

many = settings(max_examples=20, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
SCALE = np.array([0.6, 5.0])


@st.composite
def problems(draw):
    """A kernel, points, data and a prior mean, none of them special."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["rbf", "matern12", "matern32", "matern52"]))
    lengthscales = tuple(s * draw(st.floats(0.3, 0.7)) for s in SCALE)
    kernel = ref.Kernel(kind, lengthscales, draw(st.floats(0.3, 3.0)))
    Z = spread(rng, draw(st.integers(3, 8)))
    n = draw(st.integers(2, 15))
    X = SCALE * rng.uniform(0, 2.5, (n, 2))
    mean, noise = draw(st.floats(-2, 3)), draw(st.floats(0.02, 0.8))
    y = mean + 1.5 * np.sin(X[:, 0] * 3) + math.sqrt(noise) * rng.standard_normal(n)
    return Problem(kernel, Z, X, y, mean, noise)


def spread(rng, count):
    """A perturbed lattice: points far enough apart for explicit inverses."""
    lattice = np.array([(i, j) for i in range(3) for j in range(3)], dtype=float)
    return SCALE * (lattice[rng.permutation(9)[:count]] + rng.uniform(-0.25, 0.25, (count, 2)))


class Problem:
    """The same numbers for the library (a basis) and for the reference (a kernel with the basis' jitter)."""

    def __init__(self, kernel, Z, X, y, mean, noise):
        theta = torch.tensor([kernel.variance, *kernel.lengthscales], dtype=torch.float64).log()
        self.spec = parse(kernel.kind, 2).with_theta(theta)
        self.base = basis(self.spec, torch.tensor(Z))
        self.kernel = replace(kernel, nugget=float(self.base.jitter))
        self.Z, self.X, self.y, self.mean, self.noise = Z, X, y, mean, noise
        self.args = (self.kernel, Z, X, y, mean, np.full(len(y), noise))

    def __repr__(self):
        return f"Problem({self.kernel}, {len(self.y)} rows, {len(self.Z)} points, m={self.mean}, noise={self.noise})"

    def rows(self, *, marginal):
        X, y, noise = torch.tensor(self.X), torch.tensor(self.y), torch.tensor(self.noise, dtype=torch.float64)
        return least_squares.centre(observations.gaussian_rows(self.base, X, y, noise, marginal=marginal), self.mean)

    def site(self, *, marginal):
        return sites.from_rows(self.base.Z, self.base.L, self.rows(marginal=marginal), self.mean)

    def data(self, likelihood="gaussian", y=None, parameters=None):
        y = self.y if y is None else y
        observed = named(likelihood, [self.noise] if parameters is None else parameters)
        mean = torch.tensor(self.mean, dtype=torch.float64)
        return dual.whiten(self.base, torch.tensor(self.X), torch.tensor(y), observed, mean)


def check_close(actual, expected, tolerance=1e-8):
    expected = np.asarray(expected)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max()))


def log_t(site, u):
    """log t(u) = e − ½‖Rᵀu − ρ‖², as the library defines it."""
    return float(site.e) - 0.5 * float(((site.Rt.numpy() @ u - site.rho.numpy()) ** 2).sum())


def check_site(site, expected, tolerance=1e-7):
    """Λ, λ, and the very value of log t at a few u."""
    Rt, rho = site.Rt.numpy(), site.rho.numpy()
    assert len(Rt) <= len(site.Z)
    check_close(Rt.T @ Rt, expected.Lam, tolerance)
    check_close(Rt.T @ rho, expected.lam, tolerance)
    for u in np.random.default_rng(3).normal(0.4, 1.7, (4, len(expected.lam))):
        check_close(log_t(site, u), expected(u), tolerance)


def evidence(site, problem):
    rows = sites.to_rows(site, problem.base.L, problem.mean)
    return float(least_squares.solve(rows).bound)


def observe(base, site, mean, *, marginal):
    """One site as rows about another basis."""
    return least_squares.centre(project(base, pack([site], [0])).rows(marginal=marginal), mean)

"""Generic problems for the theorems, and the library and the reference (reference.py) on the same problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st

import recyclegp as rgp
import reference as ref
from recyclegp.kernels import parse
from recyclegp.kernels.gpytorch_objects import to_gpytorch

# A failing case is a seed and a few numbers: shrinking it would take minutes and explain nothing.
PHASES = (Phase.explicit, Phase.generate)
theorem = settings(max_examples=15, deadline=None, derandomize=True, phases=PHASES)
slow = settings(theorem, max_examples=4)

SCALE = np.array([1.3, 4.0])  # the two input columns are measured in different units
ORIGIN = np.array([-0.7, 2.5])


# --- generic problems -------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One data owner: data, points, and local hyperparameters that are nobody else's."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    kernel: ref.Kernel
    mean: float
    noise: float

    @property
    def noises(self):
        return np.full(len(self.y), self.noise)


@dataclass(frozen=True)
class Case:
    parts: list[Part]
    kernel: ref.Kernel  # the global one
    Z: np.ndarray
    Xt: np.ndarray
    weights: list[float]

    @property
    def inputs(self):
        return np.concatenate([p.X for p in self.parts])

    @property
    def y(self):
        return np.concatenate([p.y for p in self.parts])

    @property
    def noises(self):
        return np.concatenate([p.noises for p in self.parts])

    def shared(self):
        """Everybody on one plan: the same points, kernel and mean (noise stays everybody's own)."""
        mean = self.parts[0].mean
        return replace(self, parts=[replace(p, Z=self.Z, kernel=self.kernel, mean=mean) for p in self.parts])

    def same_mean(self):
        """Medians of means depend on the grouping; equal means do not."""
        return replace(self, parts=[replace(p, mean=self.parts[0].mean) for p in self.parts])


def scatter(rng, count):
    """Well separated points, none on a grid: farthest-point sampling of random candidates."""
    pool = rng.uniform(0, 3, (30 * count, 2))
    chosen = [0]
    for _ in range(count - 1):
        gaps = ((pool[:, None] - pool[chosen]) ** 2).sum(-1).min(1)
        chosen.append(int(gaps.argmax()))
    return ORIGIN + SCALE * pool[chosen]


def truth(X):
    a, b = ((X - ORIGIN) / SCALE).T
    return 1.7 + np.sin(2.1 * a) - 0.6 * a * np.cos(1.3 * b)


@st.composite
def kernels_of(draw):
    kind = draw(st.sampled_from(["rbf", "matern32", "matern52"]))
    lengths = [draw(st.floats(0.35, 0.8)) * s for s in SCALE]
    return ref.Kernel(kind, tuple(lengths), draw(st.floats(0.4, 2.5)))


@st.composite
def cases(draw, owners=(2, 4)):
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    parts = []
    for _ in range(draw(st.integers(*owners))):
        n, M = draw(st.integers(5, 14)), draw(st.integers(3, 8))
        X, noise = scatter(rng, n), draw(st.floats(0.03, 0.5))
        y = truth(X) + math.sqrt(noise) * rng.standard_normal(n)
        parts.append(Part(X, y, scatter(rng, M), draw(kernels_of()), draw(st.floats(-1.5, 2.5)), noise))
    weights = [draw(st.floats(0.2, 3.0)) for _ in parts]
    return Case(parts, draw(kernels_of()), scatter(rng, draw(st.integers(6, 11))), scatter(rng, 7), weights)


def fixed_case():
    """One generic problem where no property needs many."""
    rng = np.random.default_rng(20_10_02554)
    parts = []
    for n, M, kind, mean, noise in (
        (11, 5, "rbf", 0.8, 0.11),
        (8, 7, "matern32", -0.6, 0.27),
        (13, 4, "rbf", 2.1, 0.06),
    ):
        X = scatter(rng, n)
        y = truth(X) + math.sqrt(noise) * rng.standard_normal(n)
        kernel = ref.Kernel(kind, tuple(SCALE * rng.uniform(0.4, 0.8, 2)), rng.uniform(0.5, 2.0))
        parts.append(Part(X, y, scatter(rng, M), kernel, mean, noise))
    return Case(parts, ref.Kernel("matern52", (0.9, 2.2), 1.4), scatter(rng, 9), scatter(rng, 7), [0.7, 1.9, 0.4])


# --- the library and the reference on the same problem ----------------------------------------


def spec(kernel):
    """The same kernel inside the library."""
    theta = torch.tensor([kernel.variance, *kernel.lengthscales], dtype=torch.float64).log()
    return parse(kernel.kind, len(kernel.lengthscales)).with_theta(theta)


def gpytorch_kernel(kernel):
    return to_gpytorch(spec(kernel), len(kernel.lengthscales))


def module(part, method, name):
    """A local fit at fixed hyperparameters; a prior mean m is a fit of y − m, moved up by m."""
    where = {"publish": part.Z} if method == "exact" else {"inducing": part.Z}
    options = {"kernel": gpytorch_kernel(part.kernel), "method": method, "learn": False, "noise": part.noise}
    fitted = rgp.fit(part.X, part.y - part.mean, name=name, **options, **where)
    return fitted.transform(output_shift=part.mean)


def modules(case, method):
    return [module(p, method, f"owner-{i}") for i, p in enumerate(case.parts)]


def merged(case, parts, **options):
    return rgp.merge(parts, inducing=case.Z, kernel=gpytorch_kernel(case.kernel), learn=False, **options)


def with_jitter(kernel, model):
    """The library's jitter is part of its kernel, and is written down in the model."""
    return replace(kernel, nugget=model.jitter)


def reference_sites(case, parts, method):
    """Straight from the data."""
    make = {"exact": ref.exact_site, "collapsed": ref.collapsed_site}[method]
    return [
        make(with_jitter(p.kernel, m), p.Z, p.X, p.y, p.mean, p.noises) for p, m in zip(case.parts, parts, strict=True)
    ]


def natural_site(site):
    """The library's square root in natural parameters."""
    Z, Rt, rho, e = (np.asarray(t) for t in site)
    return ref.Site(Z, Rt.T @ Rt, Rt.T @ rho, float(e) - 0.5 * float(rho @ rho))


def whitened(e, v, C):
    """q(u_*) = N(m + Lv, L(CCᵀ)⁻¹Lᵀ) as NumPy moments."""
    L = e.basis.L.numpy()
    half = L @ np.linalg.inv(C.detach().numpy()).T
    return ref.Moments(e.mean + L @ v.detach().numpy(), half @ half.T)


def check_close(actual, expected, tolerance=1e-8):
    expected = np.asarray(expected)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max()))


def check_predictions(model, expected, Xt, tolerance=1e-8):
    mean, variance = model.predict(Xt)
    check_close(mean, expected.mean, tolerance)
    check_close(variance, np.diag(expected.cov), tolerance)


def check_same_models(a, b, Xt, tolerance=1e-8):
    for one, other in zip(a.predict(Xt), b.predict(Xt), strict=True):
        check_close(one, other, tolerance)
    check_close([a.bound, a.evidence, a.slack], [b.bound, b.evidence, b.slack], tolerance)

"""The streamed evidence has the value, the mean and the gradient of the unstreamed formula."""

import numpy as np
import pytest
import torch

from recyclegp.core import least_squares, packing
from recyclegp.core.packing import project
from recyclegp.core.posterior import basis
from recyclegp.core.sites import Site
from recyclegp.kernels import entries, parse
from recyclegp.merging.evidence import evidence, profiled_mean
from recyclegp.merging.site_store import SiteStore

CENTRE = [0.3, -1.0]


def price(slack):
    return 30.0 * torch.log1p(slack / 30.0)


def problem(kind, seed=3, level=0.7, precision=1.5):
    """Sites of three sizes, some short of rows, about a function with a mean; weights of all kinds."""
    rng = np.random.default_rng(seed)
    sites, weights = [], []
    for i in range(23):
        M = (2, 5, 7)[i % 3]
        r = M if i % 4 else M - 1
        Z = np.array(CENTRE) + rng.uniform(-1, 2, (M, 2)) * [1.0, 4.0]
        Rt = precision * rng.standard_normal((r, M))
        rho = Rt @ (level + np.sin(2 * Z[:, 0]) + 0.3 * Z[:, 1]) + rng.standard_normal(r)
        sites.append(Site(*(torch.tensor(t) for t in (Z, Rt, rho, rng.standard_normal()))))
        weights.append(float(rng.uniform(0.2, 3.0)) if i % 5 else 1.0)
    # some points are the modules' own, so that the jitter meets itself
    Z = torch.cat([sites[0].Z, sites[1].Z, torch.tensor(CENTRE) + torch.tensor(rng.uniform(-1, 2, (6, 2))) * 3])
    kernel = parse(kind, 2)
    theta = torch.tensor(rng.uniform(-0.4, 0.6, len(kernel.theta)))
    theta[[not p.learned for p in entries(kernel.structure)]] += torch.tensor(CENTRE) if "linear" in kind else 0.0
    store = SiteStore()
    for i, (site, weight) in enumerate(zip(sites, weights, strict=True)):
        store.put(site, weight, i)
    return kernel, theta, Z, store


def plain(kernel, Z, store):
    """All rows at once, one autograd graph: (E − price, m̂)."""
    base = basis(kernel, Z)
    parts = [project(base, packed) for packed in store.packs(1)]
    H, rho, ones, e, slack = zip(*(p.rows(marginal=True) for p in parts), strict=True)
    rows = least_squares.Rows(torch.cat(H), torch.cat(rho), torch.cat(ones), sum(e), sum(slack))
    slack = torch.stack([least_squares.jensen_slack(p.H, p.RKR) for p in parts]).sum()
    mean = least_squares.best_mean(rows)
    solution = least_squares.solve(least_squares.centre(rows, mean))
    return solution.bound - price(slack), float(mean.detach())


@pytest.mark.parametrize("kind", ["rbf", "matern32", "rbf + linear", "rq * periodic"])
@pytest.mark.parametrize("about", [0.0, 0.9])
def test_value_mean_and_gradient_are_those_of_the_whole(kind, about, monkeypatch):
    kernel, theta, Z, store = problem(kind)
    theta.requires_grad_()
    expected, mean = plain(kernel.with_theta(theta), Z, store)
    (gradient,) = torch.autograd.grad(expected, theta)
    assert len(list(store.packs(len(Z)))) == 3
    for chunk in (2**21, 300):
        monkeypatch.setattr(packing, "FEATURES", chunk)
        value = evidence(kernel.with_theta(theta), Z, store, price, about)
        assert float(value.detach()) == pytest.approx(float(expected.detach()), rel=1e-12)
        (found,) = torch.autograd.grad(value, theta)
        torch.testing.assert_close(found, gradient, rtol=1e-8, atol=1e-8)
        assert profiled_mean(kernel.with_theta(theta.detach()), Z, store, about) == pytest.approx(mean, rel=1e-10)
    assert len(list(store.packs(len(Z)))) == 6


def test_gradient_counts_the_jitter_which_grows_with_the_variance():
    """Where there are so many points that most of them differ by little more than it."""
    rng, store = np.random.default_rng(0), SiteStore()
    Z = torch.linspace(0, 1, 30, dtype=torch.float64)[:, None]
    for i in range(3):
        Rt = torch.tensor(1e4 * rng.standard_normal((10, 10)))
        own = Z[i::3]
        store.put(Site(own, Rt, Rt @ own.sin()[:, 0], Rt.new_zeros(())), 1.0, i)
    kernel, theta = parse("rbf", 1), torch.tensor([2.0, 0.0], dtype=torch.float64)
    value = evidence(kernel.with_theta(theta.requires_grad_()), Z, store, price, 0.0)
    (gradient,) = torch.autograd.grad(value, theta)
    for i, step in enumerate(1e-2 * torch.eye(2, dtype=torch.float64)):
        up, down = (
            float(evidence(kernel.with_theta(theta.detach() + s * step), Z, store, price, 0.0)) for s in (1.0, -1.0)
        )
        assert float(gradient[i]) == pytest.approx((up - down) / 2e-2, rel=1e-3)


def test_gradient_is_the_slope():
    kernel, theta, Z, store = problem("matern52")
    value = evidence(kernel.with_theta(theta.requires_grad_()), Z, store, price, 0.0)
    (gradient,) = torch.autograd.grad(value, theta)
    for i, step in enumerate(1e-5 * torch.eye(len(theta), dtype=torch.float64)):
        up, down = (
            float(evidence(kernel.with_theta(theta.detach() + s * step), Z, store, price, 0.0)) for s in (1.0, -1.0)
        )
        assert float(gradient[i]) == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", ["rbf", "matern52", "rbf + linear", "rq * periodic"])
def test_gradient_in_the_points_is_the_slope(kind):
    kernel, theta, Z, store = problem(kind)
    # A module's own points stay: their jitter meets itself there, and is gone a step beside it.
    free = torch.arange(len(Z)) >= len(Z) - 6
    value = evidence(kernel.with_theta(theta), Z.requires_grad_(), store, price, 0.0)
    (gradient,) = torch.autograd.grad(value, Z)
    direction = free[:, None] * torch.tensor(np.random.default_rng(0).standard_normal(Z.shape))
    up, down = (
        float(evidence(kernel.with_theta(theta), Z.detach() + s * 1e-6 * direction, store, price, 0.0)) for s in (1, -1)
    )
    assert float((gradient * direction).sum()) == pytest.approx((up - down) / 2e-6, rel=1e-5)


@pytest.mark.parametrize(("level", "precision"), [(1e6, 1.0), (0.7, 1e4), (1e4, 1e4)])
def test_large_means_and_certain_sites_keep_their_digits(level, precision):
    """What a constant can explain is not found as the difference of two large numbers."""
    kernel, theta, Z, store = problem("rbf", level=level, precision=precision)
    theta = theta + torch.tensor([2.0, 1.0, 2.0])  # a wide kernel, which expresses constants well
    expected, mean = plain(kernel.with_theta(theta.requires_grad_()), Z, store)
    (gradient,) = torch.autograd.grad(expected, theta)
    value = evidence(kernel.with_theta(theta), Z, store, price, level)
    (found,) = torch.autograd.grad(value, theta)
    # E at any v and m lies below E: of two inaccurate maxima the larger is the better
    exact = float(expected.detach())
    assert exact * (1 + 1e-9) <= float(value.detach()) <= exact + 1e-3
    assert profiled_mean(kernel.with_theta(theta.detach()), Z, store, level) == pytest.approx(mean, rel=1e-5)
    torch.testing.assert_close(found, gradient, rtol=0, atol=1e-5 * float(gradient.abs().max()))

"""Many sites at once are the sites one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

import reference as ref
from problems import SCALE, Problem, check_close, check_site, many, observe, problems, spread
from recyclegp.core import least_squares, packing, sites
from recyclegp.core.packing import pack, project
from recyclegp.core.posterior import basis
from recyclegp.merging.site_store import SiteStore


@many
@given(problem=problems(), other=problems())
def test_observing_a_site_from_another_basis(problem, other):
    """One site on another kernel's points: by Jensen (expect) or exactly (publish), as in the reference."""
    source = other.site(marginal=True)
    truth = ref.exact_site(*other.args)
    for marginal, move in ((True, ref.publish), (False, ref.expect)):
        rows = observe(problem.base, source, problem.mean, marginal=marginal)
        site = sites.from_rows(problem.base.Z, problem.base.L, rows, problem.mean)
        check_site(site, move(truth, problem.kernel, problem.mean, problem.Z), 1e-6)


def test_batched_sites_are_the_sites_one_by_one():
    """Equal sizes are batched, short ones padded with zero rows, chunks split: all exact."""
    rng = np.random.default_rng(8)
    several = [
        sites.Site(
            torch.tensor(SCALE * rng.uniform(0, 2, (M, 2))),
            torch.tensor(rng.standard_normal((r, M))),
            torch.tensor(rng.standard_normal(r)),
            torch.tensor(rng.standard_normal()),
        )
        for M, r in ((4, 4), (4, 2), (5, 5), (4, 1), (5, 3))
    ]
    kernel = ref.Kernel("rbf", tuple(0.5 * SCALE), 1.3)
    problem = Problem(kernel, spread(rng, 6), SCALE * rng.uniform(0, 2, (3, 2)), rng.standard_normal(3), 0.4, 0.1)

    def solution(groups, marginal):
        parts = [least_squares.centre(project(problem.base, g).rows(marginal=marginal), problem.mean) for g in groups]
        return least_squares.solve(least_squares.stack(parts))

    with SiteStore() as packed:
        for i, site in enumerate(several):
            packed.put(site, 1.0, i)
        grouped = list(packed.packs(6))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packing, "FEATURES", 48)
            chunked = list(packed.packs(6))
    assert len(grouped) == 2
    assert len(chunked) > 2
    for groups in (grouped, chunked):
        counts = {i: n for g in groups for i, n in zip(g.members, g.counts, strict=True)}
        assert counts == dict(enumerate((4, 2, 5, 1, 3)))
    alone = [pack([s], [i]) for i, s in enumerate(several)]
    for marginal in (True, False):
        expected = solution(alone, marginal)
        for groups in (grouped, chunked):
            found = solution(groups, marginal)
            check_close(float(found.bound), float(expected.bound), 1e-11)
            check_close(found.v, expected.v.numpy(), 1e-10)


def test_points_shared_with_the_basis_cost_no_slack():
    """The jitter is part of the kernel wherever a point meets itself: identical points leave no slack."""
    rng = np.random.default_rng(9)
    problem = Problem(
        ref.Kernel("rbf", (30.0, 200.0), 2.0),
        spread(rng, 8),
        SCALE * rng.uniform(0, 2, (20, 2)),
        rng.standard_normal(20),
        0.7,
        0.05,
    )
    assert problem.base.jitter > 0
    certain = sites.Site(
        problem.base.Z,
        1e3 * torch.eye(8, dtype=torch.float64),
        torch.ones(8, dtype=torch.float64),
        torch.zeros((), dtype=torch.float64),
    )
    shared = observe(problem.base, certain, problem.mean, marginal=False)
    assert float(shared.slack) < 1e-6
    check_close(
        float(problem.base.L.mT.diagonal().sum()),
        np.trace(np.linalg.cholesky(problem.kernel(problem.Z, problem.Z))),
        1e-5,
    )


def test_points_that_meet_the_basis_are_found():
    """Compared as numbers, so that −0 is 0."""
    A = torch.tensor([[0.0, 1.0], [2.0, 3.0], [-0.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    B = torch.tensor([[2.0, 3.0], [0.0, 4.0], [2.0, 3.1], [-0.0, 1.0], [2.0, 3.0], [7.0, 7.0]], dtype=torch.float64)
    same = packing.shared_points(A, B)
    assert sorted(zip(same.j.tolist(), same.i.tolist(), strict=True)) == [(0, 1), (1, 2), (3, 0), (4, 1)]


def some_sites(rng, K, M=3, r=2):
    shapes = ((M, 2), (r, M), (r,), ())
    return [sites.Site(*(torch.tensor(rng.standard_normal(shape)) for shape in shapes)) for _ in range(K)]


@pytest.mark.parametrize("weights", [None, [1.0, 1.0, 1.0], [1.0, 2.5, 0.3], [0.0, 0.7, 4.0]])
def test_packed_sites_are_powers_by_their_weights(weights):
    """Also where only some of the weights are one."""
    rng = np.random.default_rng(1)
    several = some_sites(rng, 3)
    packed = pack(several, [4, 0, 9], weights)
    assert packed.members == (4, 0, 9)
    for k, (site, weight) in enumerate(zip(several, weights or [1.0] * 3, strict=True)):
        Rt, rho = site.Rt.numpy(), site.rho.numpy()
        check_close(packed.Z[k], site.Z.numpy())
        check_close(packed.Rt[k], weight**0.5 * Rt, 1e-14)
        check_close(packed.rho[k], weight**0.5 * rho, 1e-14)
        check_close(float(packed.e[k]), weight * float(site.e), 1e-14)


@pytest.mark.parametrize("K", [1, 2, 7, 8, 12])
@pytest.mark.parametrize("inducing", [1, 2, 10, 100])
def test_chunks_are_as_few_as_fit_and_of_one_size(K, inducing, monkeypatch):
    """Features of M_k points on the larger of M and M_k; a single site that does not fit goes alone."""
    monkeypatch.setattr(packing, "FEATURES", 120)
    whole = pack(some_sites(np.random.default_rng(K), K), range(K))
    chunks = list(packing.split(whole, inducing))
    assert [i for c in chunks for i in c.members] == list(range(K))
    check_close(torch.cat([c.Rt for c in chunks]), whole.Rt.numpy())
    fit = max(1, 120 // (3 * max(inducing, 3)))
    sizes = [len(c.Z) for c in chunks]
    assert len(sizes) == -(K // -fit)
    assert max(sizes) <= min(fit, -(K // -len(sizes)))
    assert set(sizes[:-1]) <= {sizes[0]}


@pytest.mark.parametrize("own", [None, 0.3, 0.002])
def test_points_in_common_share_the_smaller_jitter(own):
    """H = R'(K_k* + min(ε_k, ε_*)[same])L⁻ᵀ and R'(K_kk + ε_kI)R, with ε_k the basis' own unless given."""
    rng = np.random.default_rng(2)
    kernel = ref.Kernel("matern52", tuple(0.7 * SCALE), 1.9)
    problem = Problem(kernel, spread(rng, 6), SCALE * rng.uniform(0, 2, (3, 2)), rng.standard_normal(3), 0.4, 0.1)
    base = basis(problem.spec, problem.base.Z, 0.05)
    several = [
        s._replace(Z=base.Z[[5, k, 1]] + torch.tensor([[0.0], [0.1 * k], [0.0]]))
        for k, s in enumerate(some_sites(rng, 3))
    ]
    jitter = None if own is None else torch.tensor(own, dtype=torch.float64)
    found = project(base, pack(several, range(3)), jitter)
    on, between = (own or 0.05), min(own or 0.05, 0.05)
    L = np.linalg.cholesky(kernel(problem.Z, problem.Z) + 0.05 * np.eye(6))
    for k, site in enumerate(several):
        Z, Rt = site.Z.numpy(), site.Rt.numpy()
        same = (Z[:, None] == problem.Z).all(-1)
        assert same.sum() == (3 if k == 0 else 2)
        check_close(found.H[k], Rt @ np.linalg.solve(L, (kernel(Z, problem.Z) + between * same).T).T, 1e-11)
        check_close(found.RKR[k], Rt @ (kernel(Z, Z) + on * np.eye(3)) @ Rt.T, 1e-12)
        check_close(found.ones[k], Rt.sum(1))
        check_close(found.rho[k], site.rho.numpy())
        check_close(float(found.e[k]), float(site.e))


def test_points_meet_in_any_number_of_columns_and_order():
    """Every pair of equal rows, for each row of the second set once; against a comparison of all pairs."""
    rng = np.random.default_rng(3)
    for m, n, D in ((1, 4, 1), (6, 9, 1), (9, 5, 3)):
        A = rng.permutation(np.arange(30.0 * D).reshape(30, D) - 40.5)[:m]
        B = np.concatenate([A[rng.permutation(m)[: n // 2]], rng.standard_normal((n - min(m, n // 2), D))])
        same = packing.shared_points(torch.tensor(A), torch.tensor(B))
        i, j = np.nonzero((A[:, None] == B).all(-1))
        assert sorted(zip(same.i.tolist(), same.j.tolist(), strict=True)) == sorted(zip(i, j, strict=True))

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
    same = packing.meeting(A, B)
    assert sorted(zip(same.j.tolist(), same.i.tolist(), strict=True)) == [(0, 1), (1, 2), (3, 0), (4, 1)]

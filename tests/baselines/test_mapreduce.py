"""Gal et al.'s map-reduce: with a plan it is the merge and the central SGPR; learning it is what costs rounds."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

import recyclegp as rgp
import reference as ref
from cases import cases, check_close, fixed_case, gpytorch_kernel, merged, modules, spec, theorem, with_jitter
from recyclegp.baselines.mapreduce import Plan, mapreduce, one_round, sums_bytes
from recyclegp.baselines.rival import checked


def planned(case):
    """Everybody on one plan, with one noise."""
    shared = case.shared()
    noise = shared.parts[0].noise
    return replace(shared, parts=[replace(p, noise=noise) for p in shared.parts])


@pytest.mark.slow
@theorem
@given(case=cases())
def test_with_a_plan_it_is_the_merge_and_the_central_sgpr(case):
    case = planned(case)
    mean, noise = case.parts[0].mean, case.parts[0].noise
    parts = [(p.X, p.y) for p in case.parts]
    bound, _ = one_round(Plan(spec(case.kernel), torch.tensor(case.Z), mean, noise), checked(parts, "gaussian"))
    plan = {"inducing": case.Z, "kernel": gpytorch_kernel(case.kernel), "learn": False, "noise": noise, "mean": mean}
    rival = mapreduce(parts, **plan)
    e = merged(case, modules(case, "collapsed"))
    found = rival.predict(case.Xt)
    for mine, theirs in zip(found, e.predict(case.Xt), strict=True):
        check_close(mine, theirs)
    check_close(bound, e.bound)
    data = (with_jitter(case.kernel, e), case.Z, case.inputs, case.y, mean, case.noises)
    central = ref.sgpr(*data, case.Xt)
    check_close(found[0], central.mean)
    check_close(found[1], np.diag(central.cov))
    check_close(bound, ref.sgpr_bound(*data))
    M = len(case.Z)
    assert rival.bytes_sent(10_000) == sums_bytes(M) == 8 * ((M * M + M) // 2 + M + 3)
    assert rival.rounds == 1


def test_a_learned_plan_is_the_central_one():
    """The same points, objective and start as `fit` on all rows: the same optimum."""
    case = fixed_case()
    parts = [(p.X, p.y) for p in case.parts]
    rival = mapreduce(parts, inducing=case.Z)
    central = rgp.fit(case.inputs, case.y, kernel="rbf", method="collapsed", inducing=case.Z)
    for mine, theirs in zip(rival.predict_y(case.Xt), central.predict_y(case.Xt), strict=True):
        check_close(mine, theirs, 1e-4)
    evaluations, rest = divmod(rival.rounds - 2, 2)
    assert rest == 0
    assert rival.sent.fit == 8 * 7 + evaluations * (sums_bytes(9) + 8 * 5) + sums_bytes(9)


def test_owners_propose_points():
    rng = np.random.default_rng(3)
    ends = np.linspace(0, 3, 6)
    xs = [rng.uniform(a, b, (40, 1)) for a, b in itertools.pairwise(ends)]
    parts = [(x, np.sin(4 * x[:, 0]) + 0.1 * rng.normal(size=40)) for x in xs]
    rival = mapreduce(parts, inducing=12)
    Xt = np.linspace(0.1, 2.9, 50)[:, None]
    assert np.abs(rival.predict(Xt)[0] - np.sin(4 * Xt[:, 0])).max() < 0.15
    assert rival.rounds > 20
    evaluations = (rival.rounds - 3) // 2  # units, proposals, then two messages a trial, and the last sums
    proposed = 8 * math.ceil(4 * 12 / 5)
    assert rival.sent.fit == 8 * 5 + proposed + evaluations * (sums_bytes(12) + 8 * 4) + sums_bytes(12)


def test_a_plan_must_be_complete():
    case = fixed_case()
    parts = [(p.X, p.y) for p in case.parts]
    with pytest.raises(rgp.RecycleGPError, match="needs a plan"):
        mapreduce(parts, inducing=case.Z, learn=False, noise=0.1)
    with pytest.raises(rgp.RecycleGPError, match="needs a plan"):
        mapreduce(parts, inducing=case.Z, learn=False, kernel=gpytorch_kernel(case.kernel))

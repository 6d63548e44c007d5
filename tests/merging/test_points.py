"""Z_*: which of the modules' points are kept."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

import recyclegp as rgp
from made_modules import make
from recyclegp.kernels import parse
from recyclegp.merging import affordable, points
from recyclegp.merging.points import select_by_slack


def test_selection_is_a_greedy_pivoted_cholesky():
    """Against the dense residual covariance, recomputed for every step."""
    rng = np.random.default_rng(2)
    Z, precision = rng.uniform(0, 3, (40, 2)), rng.uniform(0.1, 2.0, 40)
    kernel = parse("matern52", 2)
    kernel = kernel.with_theta(kernel.theta - 0.3)
    K = kernel.matrix(torch.tensor(Z), torch.tensor(Z)).numpy()
    expected: list[int] = []
    for _ in range(15):
        B = K[:, expected]
        residual = np.diag(K) - np.einsum("ij,ji->i", B, np.linalg.solve(K[np.ix_(expected, expected)], B.T))
        expected.append(int(np.argmax(precision * residual)))
    found = select_by_slack(torch.tensor(Z), torch.tensor(precision), 15, 0.0, kernel)
    assert found == expected


def test_auto_takes_the_first_points_that_suffice(monkeypatch):
    monkeypatch.setattr(affordable, "DIRECT", 0)
    monkeypatch.setattr(affordable, "HELD", 0)
    many = list(make(60))
    e = rgp.merge(many, learn=False)
    tolerance = 0.15  # 1e-4 of 1,500 rows
    assert e.slack <= tolerance
    fewer = rgp.merge(many, learn=False, inducing=e.inducing[:-1], kernel=e.kernel)
    assert fewer.slack > tolerance
    np.testing.assert_array_equal(rgp.merge(many, learn=False, inducing=len(e.inducing)).inducing, e.inducing)


def test_a_tournament_chooses_nearly_as_well(monkeypatch):
    many = list(make(150))
    merge = partial(rgp.merge, kernel="rbf", learn=False)  # so smooth that 20 points say most of it
    whole = {n: merge(many, inducing=n) for n in ("auto", 20)}
    monkeypatch.setattr(points, "POOL", 100)  # of 600 points
    monkeypatch.setattr(points, "MOST_AUTOMATIC", 50)
    rounds = {n: merge(many, inducing=n) for n in ("auto", 20)}
    anything = np.concatenate([m.inducing for m in many])[::30]
    random = merge(many, inducing=anything)
    assert len(rounds[20].inducing) == len(random.inducing) == 20
    assert rounds[20].slack <= min(2 * whole[20].slack, 0.2 * random.slack)
    assert rounds["auto"].slack <= 0.375  # 1e-4 of 3,750 rows
    assert len(rounds["auto"].inducing) <= 1.2 * len(whole["auto"].inducing)

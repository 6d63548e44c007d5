"""People whose rows do not count equally: the bound is that of the row that counts most. Sums over few are coarse."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.core.least_squares import CentredRows
from recyclegp.local import people
from recyclegp.local.constants import PEOPLE
from recyclegp.local.functions import requests_for
from recyclegp.local.options import FitOptions
from recyclegp.local.samples import side_by_side

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(200)


def alike(x=X, y=Y, weights=None, **options):
    asked = requests_for(x, y, "a", FitOptions.of(privacy="people", **options), weights=weights).requests[0]
    return float(people.rows_alike(side_by_side([asked.sample], asked.device), [asked])[0])


def test_how_many_rows_are_like_the_one_that_counts_most():
    assert alike() == pytest.approx(200)
    noise = np.full(200, 0.09)
    assert alike(noise=noise) == pytest.approx(200)
    noise[7] = 0.03
    assert alike(noise=noise) == pytest.approx((199 + 3) / 3)
    weights = np.ones(200)
    weights[7] = 2.5
    assert alike(weights=weights) == pytest.approx((199 + 2.5) / 2.5**2)
    assert alike(weights=np.full(200, 2.0)) == pytest.approx(400 / 4)
    assert alike(np.r_[X, X, X[:40]], np.r_[Y, Y, Y[:40]]) == pytest.approx(440)  # equal rows are as many people


@pytest.mark.parametrize("way", ["noise", "weights"])
def test_what_few_rows_decide_is_refused(way):
    some = {"noise": np.where(np.arange(200) == 3, 0.0009, 0.09), "weights": np.where(np.arange(200) == 3, 50.0, 1.0)}
    how = {way: some[way]}
    with pytest.raises(rgp.RecycleGPError, match=r"^privacy='people': one row counts so much more than others"):
        rgp.fit(X, Y, privacy="people", **how)
    rgp.fit(X, Y, privacy="things", **how)


def told_apart(monkeypatch, precision, n, most):
    """d² by which the released numbers tell the first row, the median of many outcomes."""
    rng, M, many = np.random.default_rng(1), 6, 3000
    root = np.sqrt(precision)[:, None]
    H = root * rng.standard_normal((n, M)) / np.sqrt(3)
    H = np.broadcast_to(H, (many, n, M)).copy()
    H[:, 0] = np.sqrt(precision[0] / 3) * rng.standard_normal((many, M))  # wherever that person is
    made = np.sqrt(precision.mean() / 3) * rng.standard_normal((n, M))
    v = rng.standard_normal((many, M, 1))
    rho = (H @ v)[..., 0] + rng.standard_normal((many, n))
    without = [H.copy(), rho.copy()]
    without[0][:, 0], without[1][:, 0] = 0, 0
    asked = requests_for(X, Y, "a", FitOptions.of(privacy="people")).requests[0]
    zero, budget = torch.zeros(many, dtype=torch.float64), torch.full((many,), float(most), dtype=torch.float64)
    resembling = CentredRows(
        torch.as_tensor(np.broadcast_to(made, (many, n, M)).copy()), torch.zeros(many, n), zero, zero
    )
    each = [asked._replace(entropy=[i]) for i in range(many)]
    with monkeypatch.context() as quiet:  # what is added has the same distribution with and without that person
        quiet.setattr(np.random, "default_rng", lambda seed: SimpleNamespace(standard_normal=np.zeros))
        found = [
            people.shared(CentredRows(torch.as_tensor(h), torch.as_tensor(r), zero, zero), resembling, budget, each, 1)
            for h, r in ((H, rho), without)
        ]
    moved = [(f.H.mT @ f.rho[..., None])[..., 0] for f in found]
    P = found[0].H.mT @ found[0].H
    size = torch.linalg.pinv(P, rtol=1e-6) @ (moved[0] - moved[1])[..., None]
    return float(((moved[0] - moved[1])[..., None] * size).sum((1, 2)).median())


def test_the_row_that_counts_most_is_hidden_as_all_are_where_rows_are_alike(monkeypatch):
    n = 200
    equal, unequal = np.ones(n), np.ones(n)
    unequal[0] = 8.0
    usual = told_apart(monkeypatch, equal, n, n)
    as_counted = told_apart(monkeypatch, unequal, n, n)
    as_alike = told_apart(monkeypatch, unequal, n, unequal.sum() / unequal.max())
    assert usual < 1 / PEOPLE.rows_share
    assert as_counted > 3 * usual  # what was said of equal rows does not hold
    assert as_alike < 1 / PEOPLE.rows_share


def test_sums_over_rows_are_coarse_and_right_on_average():
    """Whoever knows all rows but one has no exact number of those that go with a row."""
    rng = np.random.default_rng(2)
    parts = [(X + 1e-9 * rng.standard_normal(X.shape), Y) for _ in range(60)]
    exact = rgp.fit(X, Y, privacy="things", kernel="rbf")
    made = list(rgp.fit_many(parts, privacy="people", kernel="rbf", progress=False))
    e = np.array([float(m.site.e) for m in made])
    step = PEOPLE.rows_share
    assert e.std() > 0.2 * step
    said = np.array([[m.noise_evidence.chi2, m.noise_evidence.residual, m.noise_evidence.dof] for m in made])
    logs = np.log(said)
    assert (logs[:, :2].std(0) > 0.2 * step / 200).all()
    assert said[:, 2].std() > 0
    assert (said[:, 2] <= 200).all()
    variance = np.log(said[:, 1] / said[:, 2])
    plain = exact.noise_evidence
    assert variance.mean() == pytest.approx(np.log(plain.residual / plain.dof), abs=0.05)
    assert np.abs(variance - variance.mean()).max() < 0.75 * step / 200 + 0.1
    assert said[:, 2].mean() == pytest.approx(plain.dof, abs=12)


def test_ways_to_see_classes_in_which_few_rows_decide_are_not_tried():
    """Classes of people are regressions with noises of rows; of a rare class few would count far more than others."""
    words = np.array(["low", "middle", "high"])[
        np.digitize(X[:100, 0], [-1.0, np.sort(X[:100, 0])[-6]])
    ]  # five are high
    asked = requests_for(X[:100], words, "a", FitOptions.of(privacy="people", likelihood="categorical"))
    ways = (asked, *asked.alternatives)
    assert len(ways) > 2
    assert all(people.are_alike(own) for way in ways for own in way.requests)
    assert any(way.requests[0].noise != asked.requests[0].noise for way in ways[1:])  # others are
    with pytest.raises(rgp.RecycleGPError, match="so much more than others"):
        rgp.fit(X, Y, noise=np.where(np.arange(200) == 3, 1e-6, 1.0), privacy="people")

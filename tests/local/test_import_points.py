"""Points of models that were fitted elsewhere: against the definition of what they keep, in NumPy; what they show."""

import numpy as np
import pytest
import torch

import reference as ref
from recyclegp.kernels import parse
from recyclegp.local import import_points
from recyclegp.local.candidates import is_row
from recyclegp.local.constants import IMPORTED
from recyclegp.local.import_points import Known
from recyclegp.local.request import Share

ALL = Share(IMPORTED.kept, IMPORTED.most)


def kernels(D, lengthscale=1.3, kind="matern52"):
    """One kernel, ours and the reference's."""
    lengthscales = tuple(lengthscale * np.linspace(0.8, 1.4, D))
    theta = torch.tensor([1.7, *lengthscales], dtype=torch.float64).log()
    return parse(kind, D).with_theta(theta), ref.Kernel(kind, lengthscales, 1.7)


def case(n=13, D=2, seed=0):
    """Rows, and observations of sums of f there, with unit noise: Rᵀ is no diagonal."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, D))
    Rt = np.diag(rng.uniform(1.5, 8.0, n)) + 0.7 * rng.normal(size=(n, n))
    return X, Rt, rng.uniform(-0.5, 4.5, (60, D))


def left(X, Rt, Z, kernel):
    """½logdet(I + Rᵀ Cov[f(X) | f(Z)] R)."""
    Q = kernel(X, X)
    if len(Z):
        KZX = kernel(Z, X)
        Q = Q - KZX.T @ np.linalg.solve(kernel(Z, Z), KZX)
    return 0.5 * np.linalg.slogdet(np.eye(len(Rt)) + Rt @ Q @ Rt.T)[1]


def rows_as_known(X, noise):
    X = torch.as_tensor(X)
    return Known(X, torch.eye(len(X), dtype=torch.float64) / np.sqrt(noise))


def place(X, kernel, wanted=ALL, noise=0.01, seed=0):
    found = import_points.place(rows_as_known(X, noise), torch.as_tensor(X), kernel, wanted, [seed, 5])
    return found.numpy()


def kept(X, Z, kernel, noise=0.01):
    Rt = np.eye(len(X)) / np.sqrt(noise)
    return 1 - left(X, Rt, Z, kernel) / left(X, Rt, Z[:0], kernel)


@pytest.mark.parametrize("D", [1, 3])
@pytest.mark.parametrize("kind", ["matern32", "rbf"])
def test_each_point_is_the_one_that_keeps_most(D, kind):
    X, Rt, candidates = case(D=D)
    ours, reference = kernels(D, kind=kind)
    known = Known(torch.as_tensor(X), torch.as_tensor(Rt))
    found = import_points.choose(known, torch.as_tensor(candidates), ours, 6, 1.0, give_up=False)
    picked: list[int] = []
    for _ in range(6):
        remaining = [left(X, Rt, candidates[[*picked, i]], reference) if i not in picked else np.inf for i in range(60)]
        picked.append(int(np.argmin(remaining)))
    np.testing.assert_array_equal(found.points, candidates[picked])
    total = left(X, Rt, candidates[:0], reference)
    assert found.kept == pytest.approx(1 - left(X, Rt, candidates[picked], reference) / total, rel=1e-8)


def test_it_ends_where_the_share_is_kept_or_cannot_be():
    X, Rt, _ = case(n=9)
    candidates = np.repeat(X, 8, axis=0) + 0.2 * np.random.default_rng(1).normal(size=(72, 2))
    ours, reference = kernels(2)
    known = Known(torch.as_tensor(X), torch.as_tensor(Rt))

    def choose(count, share, give_up):
        found = import_points.choose(known, torch.as_tensor(candidates), ours, count, share, give_up=give_up)
        total = left(X, Rt, candidates[:0], reference)
        assert found.kept == pytest.approx(1 - left(X, Rt, found.points.numpy(), reference) / total, rel=1e-6)
        return found

    enough = choose(60, 0.6, give_up=True)
    assert 0.6 < enough.kept < 0.99
    assert len(enough.points) < 20
    assert len(choose(12, 0.999, give_up=False).points) == 12
    assert len(choose(12, 0.999, give_up=True).points) < 12  # said to be too few before all were chosen


@pytest.mark.parametrize(("D", "n"), [(1, 21), (2, 45), (4, 40), (6, 24)])
def test_the_share_is_kept(D, n):
    X = np.random.default_rng(n).uniform(0, 4, (n, D))
    ours, reference = kernels(D, lengthscale=1.0 + 0.5 * D)
    Z = place(X, ours)
    assert kept(X, Z, reference) > IMPORTED.kept
    assert not is_row(torch.as_tensor(Z), torch.as_tensor(X)).any()
    if D == 1:
        assert len(Z) <= n  # no more than rows where that is enough
    np.testing.assert_array_equal(Z, place(X, ours))
    assert not np.array_equal(Z, place(X, ours, seed=1))


def distances(X, Z):
    """To the nearest row, in distances from there to the next row."""
    X, Z = X / X.std(0), Z / X.std(0)
    apart = np.sort(np.linalg.norm(X[:, None] - X[None], axis=-1), axis=1)[:, 1]
    to = np.linalg.norm(Z[:, None] - X[None], axis=-1)
    return to.min(1) / apart[to.argmin(1)]


def test_points_of_a_rough_function_are_not_shown_at_rows():
    """Half as near to rows as those of a fit, and not nearer: what is not kept is not."""
    X = np.random.default_rng(8).uniform(0, 4, (30, 6))
    ours, reference = kernels(6, lengthscale=1.1)
    Z = place(X, ours)
    assert 0.3 < kept(X, Z, reference) < 0.99
    assert len(Z) == IMPORTED.otherwise * len(X)
    assert np.median(distances(X, Z)) > 0.15
    assert distances(X, Z).min() >= 0.1 * (1 - 1e-9)


@pytest.mark.parametrize("way", ["whole numbers", "one decimal"])
def test_recorded_values_are_not_found_by_rounding(way):
    """Rows of whole numbers, or of few decimals, are no nearer than to a fit's points."""
    rng = np.random.default_rng(3)
    step = 1.0 if way == "whole numbers" else 0.1
    X = np.unique(np.round(rng.uniform(0, 9 * step, (40, 6)) / step), axis=0) * step
    ours, _ = kernels(6, lengthscale=3.0 * step)
    Z = place(X, ours)
    rows = {tuple(row) for row in np.round(X / step).astype(int).tolist()}
    found = np.mean([tuple(z) in rows for z in np.round(Z / step).astype(int).tolist()])
    assert found < 0.15
    assert len(Z) > len(X)


def test_fewer_points_than_rows_are_as_far_from_rows_as_those_of_a_fit():
    X = np.random.default_rng(5).uniform(0, 4, (40, 3))
    ours, reference = kernels(3)
    few, many = place(X, ours, 30), place(X, ours, 160)
    assert (len(few), len(many)) == (30, 160)
    assert np.median(distances(X, few)) > 0.25
    assert distances(X, few).min() >= 0.2 * (1 - 1e-9)
    assert kept(X, many, reference) > 0.97 > kept(X, few, reference)


@pytest.mark.parametrize("scale", [[1024.0, 0.25], [1000.0, 0.3]])
def test_units_change_nothing(scale):
    X = np.random.default_rng(2).uniform(0, 4, (30, 2))
    ours, _ = kernels(2)
    theta = ours.theta.clone()
    theta[1:] += torch.tensor(scale, dtype=torch.float64).log()
    theta[0] += np.log(49.0)
    Z = place(X, ours)
    np.testing.assert_allclose(place(X * scale, ours.with_theta(theta), noise=0.49), Z * scale, rtol=1e-9)


def test_levels_stay_levels():
    """A point that comes nearer to a row keeps its category."""
    rng = np.random.default_rng(4)
    X = torch.as_tensor(np.c_[rng.uniform(0, 4, (20, 2)), rng.integers(0, 3, 20)])
    ours = parse("rbf * category", 3, (2,))
    points = import_points._candidates(X, 30, ours, np.random.default_rng(0))
    all_, nearer = (import_points._nearer(points, X, near, ours) for near in (1.0, 0.5))
    assert len(all_) > 0.5 * len(points)
    assert torch.equal(nearer[:, 2], all_[:, 2])
    before, after = (torch.cdist(t[:, :2] / X[:, :2].std(0), X[:, :2] / X[:, :2].std(0)) for t in (all_, nearer))
    torch.testing.assert_close(after.min(1).values, before.min(1).values / 2)


def test_rows_at_one_place_and_a_single_row():
    ours, _ = kernels(2)
    for X in (np.ones((1, 2)), np.array([[0.3, 1.2], [0.3, 1.2]])):
        Z = place(X, ours)
        assert 1 <= len(Z) <= 32
        assert not is_row(torch.as_tensor(Z), torch.as_tensor(X)).any()


@pytest.mark.slow
def test_many_rows_are_seen_in_part():
    """Points are chosen by a part of the rows, so that the cost is bounded, and keep what all of them say."""
    rng = np.random.default_rng(6)
    X = rng.uniform(0, 4, (1500, 2))
    ours, reference = kernels(2, lengthscale=2.0)
    known = rows_as_known(X[rng.permutation(1500)[: IMPORTED.rows_seen]], 0.01)
    Z = import_points.place(known, torch.as_tensor(X), ours, ALL, [3]).numpy()
    assert kept(X, Z, reference) > IMPORTED.kept
    assert len(Z) < 400


def test_no_point_is_on_the_line_between_two_rows():
    """Nor between any two, wherever points lie half as far from rows as those of a fit."""
    X = np.random.default_rng(9).uniform(0, 4, (25, 3))
    ours, _ = kernels(3, lengthscale=1.6)
    Z = place(X, ours)
    assert distances(X, Z).min() < 0.2  # they do
    along = X[None] - X[:, None]
    along = along / np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), 1e-300)
    for z in Z:
        from_a = (z - X)[:, None]
        away = np.linalg.norm(from_a - (from_a * along).sum(-1, keepdims=True) * along, axis=-1)
        assert away[~np.eye(len(X), dtype=bool)].min() > 1e-5

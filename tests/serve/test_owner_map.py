"""The map of owners: distances and places against NumPy."""

import numpy as np
import pandas as pd
import pytest

import cases_serve as cases
import recyclegp as rgp
from recyclegp.serve.owner_map import LITTLE, NO_LEEWAY, Leeway, classical, owner_map, plane, said_by, through_others


@pytest.fixture(scope="module")
def modules():
    return cases.modules()


def placed(modules, leeway=NO_LEEWAY):
    said = said_by(modules)
    return None if said is None else owner_map(said, leeway)


def distance(one, other):
    """Between two modules, as the page explains it; and how much both know."""
    X = np.concatenate([one.inducing, other.inducing])
    (m1, v1), (m2, v2) = one.predict(X), other.predict(X)
    w = (1 - v1 / prior(one)) * (1 - v2 / prior(other))
    return np.sqrt(np.sum(w * (m1 - m2) ** 2 / (v1 + v2)) / np.sum(w)), np.mean(w)


def test_distances(modules):
    found = placed(modules)
    assert [p.owner for p in found.places] == ["north", "south", "east", "west"]
    assert {(p.a, p.b) for p in found.pairs} == {(a, b) for a in range(4) for b in range(a)}
    for pair in found.pairs:
        expected, shared = distance(modules[pair.a], modules[pair.b])
        np.testing.assert_allclose(pair.shared, shared, rtol=1e-9)
        np.testing.assert_allclose(pair.distance, expected, rtol=1e-9)
    far = [p.distance for p in found.pairs if p.a == 3]
    near = [p.distance for p in found.pairs if p.a != 3]
    assert min(far) > 10 > 3 > max(near)


def test_places_show_who_is_far_from_everybody(modules):
    xy = np.array([(p.x, p.y) for p in placed(modules).places])
    gaps = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
    assert gaps[3, :3].min() > 2 * gaps[:3, :3].max()


def test_an_owner_with_several_modules_is_one_place(modules):
    twice = [*modules, cases.fitted(cases.table(11, 0, 6), "north again", owner="north")]
    found = placed(twice)
    assert found.places[0].modules == [0, 4]
    w = np.array([distance(m, modules[1]) for m in (twice[0], twice[4])])
    pair = next(p for p in found.pairs if (p.a, p.b) == (1, 0))
    assert w[:, 0].min() * 0.7 < pair.distance < w[:, 0].max() * 1.3


def test_owners_who_know_nothing_in_common_have_no_distance():
    apart = [cases.fitted(cases.table(k, low, low + 3), name) for k, low, name in ((0, 0, "a"), (1, 90, "b"))]
    (pair,) = placed(apart).pairs
    assert pair.distance is None
    assert pair.shared < LITTLE


def test_nobody_to_compare_with_or_too_many(modules):
    assert placed(modules[:1]) is None
    assert placed([modules[0].rename(f"m{k}") for k in range(61)]) is None
    assert placed([modules[k % 2].rename(f"m{k}").owned_by(f"owner {k % 2}") for k in range(201)]) is None


def test_columns_in_another_order_are_the_same_columns():
    rng = np.random.default_rng(0)
    rows = cases.table(0, 0, 6).assign(depth=rng.uniform(-1, 1, 60))[["hour", "depth", "level"]]
    one, other = cases.fitted(rows, "one"), cases.fitted(rows[["depth", "hour", "level"]], "other")
    (pair,) = placed([one, other]).pairs
    assert pair.distance < 0.5


def test_categories_are_compared_level_by_level():
    """What two owners say at the same hour in different wards is no contradiction."""
    some = []
    for k in range(2):
        rng = np.random.default_rng(k)
        X = pd.DataFrame({"hour": rng.uniform(0, 6, 80), "ward": rng.choice(["a", "b"], 80)})
        y = np.sin(X["hour"]) + 9 * (X["ward"] == "b") + 0.1 * rng.standard_normal(80)
        some.append(rgp.fit(X[["ward", "hour"]] if k else X, y, name=f"m{k}", publish=16))
    (pair,) = placed(some).pairs
    tables = [pd.DataFrame(m.categories.named(m.inducing), columns=list(m.columns)) for m in some]
    X = pd.concat([t[["hour", "ward"]] for t in tables]).astype({"hour": float})
    (m0, v0), (m1, v1) = (tuple(np.asarray(part) for part in m.predict(X)) for m in some)
    w = np.prod([1 - v / v_prior for v, v_prior in ((v0, prior(some[0])), (v1, prior(some[1])))], axis=0)
    expected = np.sqrt(np.sum(w * (m0 - m1) ** 2 / (v0 + v1)) / np.sum(w))
    assert pair.distance == pytest.approx(expected, rel=1e-6)
    assert pair.distance < 3


def prior(module):
    return float(module.kernel_spec.diagonal(module._points[0][:1])[0])


def test_owners_that_differ_anyway_are_no_further_apart_than_that(modules):
    """The variances of a constant and of a function of each owner's own are added to those of what they say."""
    one, other = modules[:2]
    X = np.concatenate([one.inducing, other.inducing])
    (m1, v1), (m2, v2) = one.predict(X), other.predict(X)
    w = (1 - v1 / prior(one)) * (1 - v2 / prior(other))
    own = 2 * 0.7**2 + 0.3**2 * (prior(one) + prior(other))
    expected = np.sqrt(np.sum(w * (m1 - m2) ** 2 / (v1 + v2 + own)) / np.sum(w))
    found = placed(modules, Leeway(0.7, 0.3))
    assert next(p.distance for p in found.pairs if (p.a, p.b) == (1, 0)) == pytest.approx(expected, rel=1e-9)


def test_the_noise_of_the_merged_model_counts(modules):
    """What rows add to the prior, 1/v − 1/k, is worth less where their noise is larger."""
    one, other = modules[:2]
    X = np.concatenate([one.inducing, other.inducing])
    (m1, v1), (m2, v2) = one.predict(X), other.predict(X)
    w = (1 - v1 / prior(one)) * (1 - v2 / prior(other))
    v1 = 1 / (1 / prior(one) + (1 / v1 - 1 / prior(one)) / 2.5)
    v2 = 1 / (1 / prior(other) + (1 / v2 - 1 / prior(other)) / 0.4)
    expected = np.sqrt(np.sum(w * (m1 - m2) ** 2 / (v1 + v2)) / np.sum(w))
    found = placed(modules, Leeway(noise=(2.5, 0.4, 1.0, 1.0)))
    assert next(p.distance for p in found.pairs if (p.a, p.b) == (1, 0)) == pytest.approx(expected, rel=1e-9)


def test_plane_reproduces_distances_that_fit_into_one():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((7, 2)) * [3, 1]
    D = np.linalg.norm(X[:, None] - X[None], axis=-1)
    xy, shown = plane(D)
    np.testing.assert_allclose(np.linalg.norm(xy[:, None] - xy[None], axis=-1), D, atol=1e-9)
    assert shown == pytest.approx(1.0)
    assert plane(np.zeros((3, 3)))[1] == 1.0


def stress(xy, D):
    return np.sum((np.linalg.norm(xy[:, None] - xy[None], axis=-1) - D) ** 2)


def test_who_is_far_from_everybody_is_not_placed_among_those_who_agree():
    """Five owners, each wrong in a way of its own: two axes of classical scaling would show two of them."""
    far = np.array([2.4, 4.5, 3.7, 3.85, 2.6])  # logarithms of distances
    D = np.full((17, 17), 0.7)
    D[12:, :12] = far[:, None]
    D[:12, 12:] = far
    D[12:, 12:] = np.maximum.outer(far, far)
    np.fill_diagonal(D, 0.0)
    xy, shown = plane(D)
    before = classical(D)
    gaps = [np.linalg.norm(found[12:] - found[:12].mean(0), axis=-1) / far for found in (before, xy)]
    assert gaps[0].min() < 0.5  # two are less than half as far as they should be
    np.testing.assert_allclose(gaps[1], 1, atol=0.15)
    assert stress(xy, D) < 0.5 * stress(before, D)
    inside = np.linalg.norm(xy[:12] - xy[:12].mean(0), axis=-1)
    assert 0.1 < inside.mean() < 0.7  # and those who agree are not all at one place
    assert shown == pytest.approx(1 - stress(xy, D) / np.sum(D**2), abs=1e-3)


def test_unknown_distances_go_through_others():
    nan = np.nan
    D = np.array([[0, 1, nan, nan], [1, 0, 2, nan], [nan, 2, 0, nan], [nan, nan, nan, 0]])
    found = through_others(D)
    assert found[0, 2] == found[2, 0] == 3.0
    np.testing.assert_allclose(found[3, :3], 2.0)  # the median of 1, 2 and 3

"""Levels and scales as files have them, and modules in other units that they give away."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes

import recyclegp as rgp
from recyclegp.errors import ContradictionWarning
from recyclegp.merging.constants import LEVELS
from recyclegp.merging.levels import Levels, levels, unit_doubts
from recyclegp.merging.member import Member, stored
from recyclegp.merging.unit_table import KNOWN, KnownChange

# --- what files say -----------------------------------------------------------------------------


def rows(seed, n=40):
    rng = np.random.default_rng(seed)
    X = rng.uniform([0, 100], [5, 120], (n, 2))
    return X, 150 + 30 * np.sin(X[:, 0]) + 20 * rng.standard_normal(n)


def levels_of(modules, weights=None):
    weights = [1.0] * len(modules) if weights is None else weights
    members = [Member(m.about, m.latents[0], m.likelihoods, w) for m, w in zip(modules, weights, strict=True)]
    with stored(members) as store:
        return levels(members, store)


def test_they_are_those_of_the_rows():
    """To the last digits where every row is a point, nearly so where there are few."""
    data = [rows(k, 30 + 5 * k) for k in range(3)]
    expected = [[y.mean() for _, y in data], [y.std() for _, y in data]]
    exact = levels_of([rgp.fit(X, y, name=f"m{k}", publish=None, inducing=X) for k, (X, y) in enumerate(data)])
    np.testing.assert_allclose([exact.centre[:, 0], exact.spread[:, 0]], expected, rtol=1e-5)
    np.testing.assert_allclose(exact.centre[:, 1:], [X.mean(0) for X, _ in data], rtol=1e-9)
    few = [rgp.fit(X, y, name=f"m{k}", publish=8) for k, (X, y) in enumerate(data)]
    np.testing.assert_allclose(levels_of(few).centre[:, 0], expected[0], rtol=0.05)
    np.testing.assert_allclose(levels_of(few).spread[:, 0], expected[1], rtol=0.15)
    weighted = levels_of(few, [0.3, 2.0, 1.0])
    np.testing.assert_allclose(weighted.spread, levels_of(few).spread, rtol=1e-9)


def test_they_go_with_the_units():
    modules = [rgp.fit(*rows(k), name=f"m{k}") for k in range(3)]
    turned = [m.transform(output_scale=1.8, output_shift=32, input_scale=[10, 1], input_shift=[0, 5]) for m in modules]
    before, after = levels_of(modules), levels_of(turned)
    scale, shift = np.array([1.8, 10, 1]), np.array([32, 0, 5])
    np.testing.assert_allclose(after.centre, before.centre.numpy() * scale + shift, rtol=1e-9)
    np.testing.assert_allclose(after.spread, before.spread.numpy() * scale, rtol=1e-9)


def test_classes_have_inputs_only():
    rng = np.random.default_rng(0)
    modules = []
    for k in range(3):
        X = rng.uniform(0, 3, (30, 1))
        modules.append(rgp.fit(X, X[:, 0] > 1.5, likelihood="bernoulli", name=f"m{k}"))
    found = levels_of(modules)
    assert bool(found.centre[:, 0].isnan().all())
    assert bool((found.spread[:, 1] > 0).all())


# --- who is doubted -----------------------------------------------------------------------------


def numbers(K=5, seed=0, centre=150.0, spread=70.0, n=50.0):
    """Of honest modules of two columns, y and one input."""
    rng = np.random.default_rng(seed)
    m = centre + spread * rng.normal(0, 0.2, (K, 2))
    s = spread * np.exp(rng.normal(0, 0.1, (K, 2)))
    return lying_at(torch.tensor(m), torch.tensor(s), n)


def lying_at(centre, spread, n):
    """With points as far as twice the spread."""
    rows = torch.full((len(centre), 1), n, dtype=torch.float64)
    return Levels(centre, spread, rows, centre - 2 * spread, centre + 2 * spread)


def changed(at, member, column, scale, shift=0.0):
    centre, spread = at.centre.clone(), at.spread.clone()
    centre[member, column] = scale * centre[member, column] + shift
    spread[member, column] *= scale
    return lying_at(centre, spread, float(at.rows[0]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("K", [3, 5, 40])
def test_honest_ones_are_not(seed, K):
    assert unit_doubts(numbers(K, seed)) == {}


@pytest.mark.parametrize("change", KNOWN, ids=lambda c: f"{c.scale:.4g}x+{c.shift:.4g}")
def test_every_known_change_is_found_in_the_right_module(change):
    at = numbers(centre=150.0, spread=20.0)
    for column in (0, 1):
        found = unit_doubts(changed(at, 3, column, *change))
        assert list(found) == [3]
        (doubt,) = found[3]
        assert doubt.column == column - 1
        assert any(c.scale * change.scale == pytest.approx(1) for c in doubt.undone_by)
        assert doubt.gross == (column == 0 and abs(np.log(change.scale)) > np.log(LEVELS.gross_factor))
    assert unit_doubts(changed(at, 3, 1, *change), inputs=False) == {}


def test_of_two_nobody_is_and_of_three_nobody_is_left_out():
    assert unit_doubts(changed(numbers(2), 0, 0, 10.0)) == {}
    assert unit_doubts(changed(numbers(3), 0, 0, 10.0)) == {}  # two others say little of how much honest ones differ
    (doubt,) = unit_doubts(changed(numbers(3), 0, 0, 1000.0))[0]
    assert doubt.undone_by == (KnownChange(0.001),)
    assert not doubt.gross


def test_two_of_ten_in_other_units_are_found():
    at = numbers(10)
    for k, factor in ((1, 10.0), (4, 2.54)):
        at = changed(at, k, 0, factor, 0.0)
    assert set(unit_doubts(at)) == {1, 4}


def test_owners_who_differ_by_any_factor_hide_another_one():
    """Firms of all sizes: one ten times as large as the others in the middle is none that is in other units."""
    rng = np.random.default_rng(1)
    size = torch.tensor(np.exp(rng.normal(0, 1.5, (12, 1))))
    assert unit_doubts(lying_at(50 * size, 20 * size, 20.0)) == {}


def test_an_input_that_is_one_number_throughout_is_no_other_unit_where_others_have_that_number():
    """A column of few values: 1 for most, and 3 in all rows of one owner."""
    at = numbers(6, centre=1.2, spread=0.5)
    at.centre[2, 1], at.spread[2, 1] = 3.0, 0.0
    alone = lying_at(at.centre, at.spread, 50.0)
    assert list(unit_doubts(alone)) == [2]  # nobody else has been at 3
    alone.highest[0, 1] = 3.0
    assert list(unit_doubts(alone)) == [2]  # one other may be in the same wrong unit
    alone.highest[5, 1] = 3.0
    assert unit_doubts(alone) == {}


def test_a_level_or_a_scale_of_its_own_is_no_other_unit():
    at = numbers()
    assert unit_doubts(changed(at, 2, 0, 1.0, 700.0)) == {}
    twice = at.spread.clone()
    twice[2, 0] *= 10
    assert unit_doubts(at._replace(spread=twice)) == {}


def test_logarithms_have_no_inches():
    at = numbers(centre=-9.0, spread=0.4)
    assert unit_doubts(changed(at, 2, 1, 1.609344)) == {}
    assert list(unit_doubts(changed(at, 2, 1, 10.0))) == [2]


def test_what_is_not_known_is_not_compared():
    at = changed(numbers(), 2, 0, 10.0)
    assert unit_doubts(at._replace(centre=torch.where(torch.tensor([True, False]), torch.nan, at.centre))) == {}
    constant = at._replace(spread=torch.zeros_like(at.spread))
    assert unit_doubts(constant) == {}


# --- real tables ----------------------------------------------------------------------------------


def hospitals(change=lambda X, y: (X, y)):
    """Diabetes, five hospitals of 56 rows, of which the third has measured something differently; and further rows."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    order = np.random.default_rng(0).permutation(len(y))
    mine, rest = order[:280], order[280:]
    parts = [(X[i], y[i]) for i in np.array_split(mine, 5)]
    parts[2] = change(*parts[2])
    return rgp.fit_many(parts, names=[f"h{k}" for k in range(5)], progress=False), X[rest], y[rest]


def merged(modules):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        e = rgp.merge(modules)
    return e, " ".join(str(w.message) for w in told if issubclass(w.category, ContradictionWarning))


def flagged(e):
    return [row["name"] for row in e.report() if row["trust"].startswith("flagged")]


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.1, 10.0, 1 / 7.500617])
def test_a_hospital_with_y_in_another_unit_does_not_count(factor):
    honest, X, y = hospitals()
    clean, said = merged(honest)
    assert (flagged(clean), said) == ([], "")
    modules, *_ = hospitals(lambda X, y: (X, factor * y))
    e, said = merged(modules)
    assert flagged(e) == ["h2"]
    assert "h2 (in other units: y is " in said
    assert "in which unit is it?" in said

    def error(model):
        return np.sqrt(np.mean((model.predict(X)[0] - y) ** 2))

    assert error(e) < 1.05 * error(clean)
    right = f"transform(output_scale={1 / factor:.6g})"
    proposal = next(row["proposal"] for row in e.report() if row["name"] == "h2")
    assert proposal in (right, "")  # nothing where 7.5 and 10 cannot be told apart; then the reason names both
    assert f"{1 / factor:.4g}·y" in said
    with pytest.warns(rgp.RecycleGPWarning):  # asked for itself, it is answered from its own module
        own = e.predict(X, owner="h2")[0]
    np.testing.assert_allclose(own, modules[2].predict(X)[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "change", "words"),
    [
        (3, lambda v: v / 7.500617, "7.501·input 4"),  # mean blood pressure
        (2, lambda v: 10 * v, "0.1·input 3"),
        (0, lambda v: 1.8 * v + 32, "0.5556·input 1 − 17.78"),
    ],
)
def test_a_hospital_with_an_input_in_another_unit_is_asked(column, change, words):
    def elsewhere(X, y):
        return np.where(np.arange(X.shape[1]) == column, change(X), X), y

    e, said = merged(hospitals(elsewhere)[0])
    assert set(flagged(e)) <= {"h2"}
    assert "h2 (" in said
    assert words in said
    assert not any(f"h{k} (" in said for k in (0, 1, 3, 4))

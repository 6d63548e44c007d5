"""Which rows are held back depends on nothing but what is in each of them."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import recyclegp as rgp
from recyclegp.arrays import CodedInputs
from recyclegp.categories import Categories, Levels
from recyclegp.local.held_back import is_held_back, take

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2000, 3)), RNG.standard_normal(2000)


def test_it_is_the_share_and_no_pattern():
    for share in (0.05, 0.1, 0.5):
        held = is_held_back(X, Y, share)
        assert held.mean() == pytest.approx(share, abs=4 * (share * (1 - share) / len(X)) ** 0.5)
        for column in (*X.T, Y):  # those that are held back are like the others
            assert abs(column[held].mean() - column[~held].mean()) < 4 * (1 / held.sum() + 1 / (~held).sum()) ** 0.5
    whole = np.arange(4000).reshape(-1, 2)  # numbers that follow each other are no less random
    assert is_held_back(whole, whole[:, 0], 0.1).mean() == pytest.approx(0.1, abs=0.03)
    assert (is_held_back(X, Y, 0.1) <= is_held_back(X, Y, 0.3)).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), share=st.floats(0.01, 0.99))
def test_neither_order_nor_columns_nor_other_rows_matter(seed, n, share):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((n, 3)), rng.standard_normal(n)
    held = is_held_back(x, y, share)
    assert 0 < held.sum() < n
    order = rng.permutation(n)
    assert (is_held_back(x[order][:, [2, 0, 1]], y[order], share) == held[order]).all()
    more = is_held_back(np.r_[X[:500], x], np.r_[Y[:500], y], share)[500:]
    assert (more != held).sum() <= 1  # but that one row at least is held back, and one is not


def test_the_same_table_in_any_form():
    x, y = X[:200], Y[:200]
    held = is_held_back(x, y, 0.2)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    forms = [
        (torch.as_tensor(x), torch.as_tensor(y)),
        (frame, pd.Series(y)),
        (frame[["c", "a", "b"]], y[:, None]),
        (x.tolist(), y.tolist()),
        (x.astype(np.float32), y.astype(np.float32)),
        (frame.astype(object), y),
        (CodedInputs(x), y),
        (np.ma.array(x), y),
    ]
    for one, other in forms:
        assert (is_held_back(one, other, 0.2) == held).all(), type(one)
    assert (is_held_back(-0.0 * x, y, 0.2) == is_held_back(0.0 * x, y, 0.2)).all()


def test_levels_and_classes_count_by_name():
    ward = np.array(["north", "south", "west"])[RNG.integers(0, 3, 300)]
    x, y = X[:300, 0], RNG.integers(0, 3, 300)
    frame = pd.DataFrame({"x": x, "ward": ward})
    held = is_held_back(frame, y, 0.2)
    assert (is_held_back(frame.astype({"ward": "category"}), y, 0.2) == held).all()
    assert (is_held_back(frame, y.astype(str), 0.2) == held).all()
    names = ("west", "north", "south")
    coded = np.c_[x, [names.index(w) for w in ward]]
    assert (is_held_back(CodedInputs(coded, None, Categories((Levels(1, names),))), y, 0.2) == held).all()
    assert not (is_held_back(frame.assign(ward="north"), y, 0.2) == held).all()


def test_what_is_missing_does_not_count():
    y = np.c_[Y, Y + 1]
    y[::3, 1] = np.nan
    held = is_held_back(X, y, 0.2)
    assert (is_held_back(X, np.c_[y, np.full(len(y), np.nan)], 0.2) == held).all()
    assert (is_held_back(X, pd.DataFrame(y), 0.2) == held).all()
    assert (held[::3] == is_held_back(X[::3], Y[::3], 0.2)).all()


def test_equal_rows_stay_together_and_small_tables_hold_back_something():
    held = is_held_back(np.r_[X, X], np.r_[Y, Y], 0.1)
    assert (held[: len(X)] == held[len(X) :]).all()
    for n in (2, 3, 5):
        assert 0 < is_held_back(X[:n], Y[:n], 1e-9).sum() < n
        assert 0 < is_held_back(X[:n], Y[:n], 1 - 1e-9).sum() < n
    with pytest.raises(rgp.RecycleGPError, match="all of the 3 rows are equal, and none can be held back"):
        is_held_back([[1.0]] * 3, [2.0] * 3, 0.5)


def test_some_rows_of_anything():
    chosen = np.array([True, False, True])
    assert take([1, 2, 3], chosen) == [1, 3]
    assert take(np.arange(6).reshape(3, 2), chosen).tolist() == [[0, 1], [4, 5]]
    assert take(torch.arange(3), chosen).tolist() == [0, 2]
    assert take(pd.Series([1, 2, 3], index=[9, 8, 7]), chosen).tolist() == [1, 3]
    assert take(0.5, chosen) == 0.5
    assert take(None, chosen) is None
    assert take([1, 2], chosen) == [1, 2]  # which is refused later


# --- in fits --------------------------------------------------------------------------------------


def same(one, other):
    at = X[:5, :1]
    np.testing.assert_array_equal(one.predict(at), other.predict(at))
    assert (one.rows, one.noise) == (other.rows, other.noise)


def test_a_fit_is_that_of_the_rows_that_are_left():
    n = 40
    x, y = X[:n, :1], np.sin(X[:n, 0]) + 0.1 * Y[:n]
    held = is_held_back(x, y, 0.2)
    noise = np.linspace(0.01, 0.02, n)
    weights = np.where(np.arange(n) % 2, 1.0, 2.0)
    for how in ({}, {"noise": noise}, {"weights": weights}):
        m = rgp.fit(x, y, hold_back=0.2, name="a", **how)
        same(m, rgp.fit(x[~held], y[~held], name="a", **{key: v[~held] for key, v in how.items()}))
        assert m.held_back == 0.2
    many = rgp.fit_many([(x, y), (x[:30], y[:30], noise[:30])], names=["a", "b"], hold_back=0.2)
    same(many[0], rgp.fit(x, y, hold_back=0.2))
    same(many[1], rgp.fit(x[:30], y[:30], noise=noise[:30], hold_back=0.2))
    assert [m.held_back for m in many] == [0.2, 0.2]
    assert rgp.fit(x, y).held_back is None


def test_it_travels_with_the_module(tmp_path):
    x, y = X[:60, :1], np.sin(X[:60, 0])
    many = rgp.fit_many([(x, y), (x + 1, y)], names=["a", "b"], hold_back=0.25)
    many.save(tmp_path / "many.safetensors")
    m = many[0]
    m.save(tmp_path / "a.safetensors")
    assert rgp.load(tmp_path / "a.safetensors").held_back == 0.25
    assert rgp.load_many(tmp_path / "many.safetensors")[1].held_back == 0.25
    for changed in (m.rename("c"), m.rounded(6), m.publish(4), m.owned_by("o"), m.with_columns(["x"])):
        assert changed.held_back == 0.25
    e = rgp.merge(many, learn=False)
    e.save(tmp_path / "e.safetensors")
    assert {r.about.held_back for r in rgp.load(tmp_path / "e.safetensors")._members} == {0.25}
    # rows in other units would not be found again
    assert m.transform(output_scale=2).held_back is None
    assert many.transform(output_scale=2)[0].held_back is None
    assert {r.about.held_back for r in e.transform(output_scale=2)._members} == {None}
    assert e.to_module("both").held_back is None


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 1.5, "some", True, float("nan"), [0.1]])
def test_what_is_no_share_is_refused(wrong):
    with pytest.raises(rgp.RecycleGPError, match=r"hold_back=.*pass a share of the rows between 0 and 1, as 0.1"):
        rgp.fit(X[:20, :1], Y[:20], hold_back=wrong)


def test_levels_of_few_rows_are_counted_without_those_that_are_held_back():
    """Else a file could name a level that hardly any of the rows behind it have."""
    x, y = X[:60, 0], Y[:60]
    ward = np.array(["north"] * 54 + ["south"] * 6)
    held = is_held_back(pd.DataFrame({"x": x, "ward": ward}), y, 0.4)
    assert (~held[54:]).sum() < 5
    with pytest.raises(rgp.RecycleGPError, match="ward"):
        rgp.fit(pd.DataFrame({"x": x, "ward": ward}), y, hold_back=0.4)


def test_what_does_not_fit_together_is_said():
    with pytest.raises(rgp.RecycleGPError, match="y has 19 rows but X has 20"):
        rgp.fit(X[:20], Y[:19], hold_back=0.1)
    with pytest.raises(rgp.RecycleGPError, match="noise has shape"):
        rgp.fit(X[:20], Y[:20], noise=np.ones(7), hold_back=0.1)
    with pytest.raises(rgp.RecycleGPError, match="X has no rows"):
        rgp.fit(X[:0], Y[:0], hold_back=0.1)


def test_estimators_and_engines_take_it(tmp_path):
    from recyclegp.engines import joblib
    from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor

    x, y = X[:120, :1], np.sin(X[:120, 0]) + 0.1 * Y[:120]
    regressor = RecyclableGPRegressor(hold_back=0.2).fit(x, y)
    assert [m.held_back for m in regressor.modules_] == [0.2]
    assert regressor.modules_[0].rows == (~is_held_back(x, y, 0.2)).sum()
    classifier = RecyclableGPClassifier(hold_back=0.2, publish=6).fit(x, y > 0)
    assert classifier.modules_[0].rows < 120
    parts = [(x[:60], y[:60]), (x[60:], y[60:])]
    e = joblib.fit_partitions(parts, jobs=1, folder=tmp_path, hold_back=0.2, progress=False)
    assert {m.about.held_back for m in e._members} == {0.2}
    assert e.rows == sum((~is_held_back(*part, 0.2)).sum() for part in parts)

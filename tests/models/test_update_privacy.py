"""Rows that come by update are published as those of a fit are: few points, none of them a row, never of a few rows."""

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.merging import affordable

SD = 75.0


def rows(n, seed, low=(20.0, 50.0), high=(80.0, 120.0)):
    """Age and weight, and something that depends on them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, 2))
    return X, 150 + SD * np.sin(X[:, 0] / 15 + X[:, 1] / 25) + 10 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def city():
    return rgp.merge([rgp.fit(*rows(80, i), name=name, privacy="things") for i, name in enumerate("ab")])


def saved(e, path):
    e.save(path)
    return rgp.load(path)


def known(m):
    """All that somebody who has the file knows of a member, and K of its kernel."""
    kernel, site = m.kernel, m.site

    def K(a, b):  # noqa: N802 (the symbol)
        return kernel.matrix(torch.as_tensor(a), torch.as_tensor(b)).numpy()

    return K, site.Z.numpy(), site.Rt.numpy(), site.rho.numpy(), m.mean


def recovered_targets(m, X):
    """Of somebody who knows the inputs: Rᵀu = Tf(X), so that y is a solution of T(y − m) = ρ − mRᵀ1."""
    K, Z, Rt, rho, mean = known(m)
    T = Rt @ K(Z, X) @ np.linalg.pinv(K(X, X), rcond=1e-10)
    return mean + np.linalg.lstsq(T, rho - mean * Rt.sum(1), rcond=1e-8)[0]


def test_one_row_does_not_leave(city, tmp_path):
    """Its x and y were in the file, to rounding error."""
    one = city.update([[47.0, 83.0]], [1.234])
    assert one.names == ["a", "b", "update-1"]
    assert one.predict([[47.0, 83.0]])[1] < city.predict([[47.0, 83.0]])[1]  # it counts
    assert one.report()[-1]["waiting"]
    for leave in (lambda: one.save(tmp_path / "e"), lambda: one.to_module("all"), lambda: one.drop_sites().save("e")):
        with pytest.raises(
            rgp.RecycleGPError, match=r"update-1 \(1 of 10 rows\).*more rows first, or with allow_small"
        ):
            leave()
    assert not (tmp_path / "e").exists()
    back = one.remove("update-1")
    np.testing.assert_allclose(back.predict([[47.0, 83.0]]), city.predict([[47.0, 83.0]]), rtol=1e-12)


def test_the_remedies_that_are_named_work(city, tmp_path):
    X, y = rows(10, 5)
    few = city.update(X[:3], y[:3])
    more = saved(few.update(X[3:], y[3:]), tmp_path / "more")
    assert [r["rows"] for r in more.report()] == [80, 80, 10]
    assert more.report()[-1]["points"] <= 5
    small = saved(city.update(X[:3], y[:3], allow_small=True), tmp_path / "small")
    assert small.report()[-1]["points_per_row"] == 1 / 3
    # whoever has that file could tell what comes after it: its rows do not help
    with pytest.raises(rgp.RecycleGPError, match=r"2 of 10 rows"):
        small.update(X[3:5], y[3:5]).save(tmp_path / "e")
    again = saved(small.update(X, y), tmp_path / "again")
    assert (again.names, again.report()[-1]["rows"]) == (["a", "b", "update-1"], 13)


def test_a_single_row_that_may_leave_has_one_point_that_is_not_it(city, tmp_path):
    (row,) = [
        r for r in saved(city.update([[47.0, 83.0]], [1.234], allow_small=True), tmp_path / "e")._members if r.update
    ]
    assert row.site.Z.shape == (1, 2)
    assert not np.isin(row.site.Z.numpy(), [47.0, 83.0]).any()


@pytest.mark.parametrize("low", [(20.0, 50.0), (60.0, 90.0), (90.0, 130.0)], ids=["known", "partly", "new"])
@pytest.mark.parametrize("form", ["exact", "points"])
def test_an_update_gives_its_rows_away_no_more_than_the_model_does(city, tmp_path, low, form, monkeypatch):
    """All 40 outcomes were in the file, to ±0.007 of a standard deviation of 75."""
    if form == "points":
        monkeypatch.setattr(affordable, "DIRECT", 0)
        monkeypatch.setattr(affordable, "held", lambda: 0)
        city = rgp.merge([rgp.fit(*rows(80, i), name=name, privacy="things") for i, name in enumerate("ab")])
    X, y = rows(40, 7, low, np.array(low) + 40)
    e = saved(city.update(X, y), tmp_path / "e")
    assert e.size.form == form
    m = e._members[-1]
    assert m.points_per_row <= 0.5
    assert not np.isin(m.site.Z.numpy(), X).any()
    guess = np.abs(e.predict(X)[0] - y)
    attack = np.abs(recovered_targets(m, X) - y)
    assert np.median(attack) > 0.5 * np.median(guess)
    # rows that are fewer than points would span a space in which nothing but they lie
    assert len(m.site.rho) == len(m.site.Z)


def test_rows_one_by_one_are_no_easier_to_find(city, tmp_path):
    X, y = rows(12, 9)
    e = city
    for x, value in zip(X, y, strict=True):
        e = e.update([x], [value])
    m = saved(e, tmp_path / "e")._members[-1]
    assert (m.rows, len(m.site.Z)) == (12, 6)
    assert np.median(np.abs(recovered_targets(m, X) - y)) > 0.5 * np.median(np.abs(e.predict(X)[0] - y))


def test_rows_in_a_known_region_add_no_points(city, tmp_path):
    before = {tuple(z) for m in city._members for z in m.site.Z.tolist()}
    e = city
    for i in range(4):
        e = saved(e.update(*rows(40, 20 + i, (35.0, 70.0), (65.0, 100.0))), tmp_path / "e")
    assert {tuple(z) for m in e._members for z in m.site.Z.tolist()} == before
    assert e.names == ["a", "b", "update-1"]


def test_the_options_of_publishing(city, tmp_path):
    X, y = rows(40, 11)

    def points(**options):
        return len(saved(city.update(X, y, **options), tmp_path / "e")._members[-1].site.Z)

    assert points(rows_per_point=10) <= 4
    assert points(publish=3) == 3
    assert points(publish=rgp.Publishing(3)) == 3
    assert points(publish=0.5) < points(publish=0.9)
    given = np.array([[40.0, 70.0], [50.0, 90.0]])
    e = saved(city.update(X, y, publish=given), tmp_path / "e")
    np.testing.assert_array_equal(e._members[-1].site.Z.numpy(), given)
    with pytest.raises(rgp.RecycleGPError, match="rows_per_point=0; pass a whole number"):
        city.update(X, y, rows_per_point=0)
    with pytest.raises(rgp.RecycleGPError, match=r"update-1 \(40 of 41 rows\)"):
        city.update(X, y, rows_per_point=41).save(tmp_path / "e")
    with pytest.raises(rgp.RecycleGPError, match="publish=None, to stay in memory"):
        city.update(X, y, publish=None).save(tmp_path / "e")
    later = city.update(X, y, publish=None).update(X[:1], y[:1], publish=0.95)
    assert saved(later, tmp_path / "e").rows == 201


def test_rows_of_people_are_published_by_a_fit_only(city, tmp_path):
    """Rows beside those of people are of people, unless somebody says otherwise."""
    e, (X, y) = rgp.merge(rgp.fit(*rows(200, 0), name="a", privacy="people")), rows(60, 1)
    for more in (e.update(X, y), city.update(X, y, privacy="people")):
        assert more.report()[-1]["waiting"]
        with pytest.raises(rgp.RecycleGPError, match=r"is about people.*privacy='people' and add that, or update with"):
            more.save(tmp_path / "e")
    assert saved(e.update(X, y, privacy="things"), tmp_path / "e").rows == 260
    assert saved(e.add(rgp.fit(X, y, name="b", privacy="people")), tmp_path / "e").rows == 260


def test_names_only(city, tmp_path):
    X, y = rows(40, 11)
    small = city.drop_sites()
    with pytest.raises(rgp.RecycleGPError, match="3 of 10 rows"):
        small.update(X[:3], y[:3]).save(tmp_path / "e")
    more = small.update(X, y)
    np.testing.assert_allclose(more.predict(X), city.update(X, y).predict(X), rtol=1e-9)
    back = saved(more, tmp_path / "e")
    np.testing.assert_allclose(back.predict(X), more.predict(X), rtol=1e-9)
    # there is no site to join: they have a name of their own
    assert back.update(X, y).names == ["a", "b", "update-1", "update-2"]
    with pytest.raises(rgp.RecycleGPError, match="already named 'update-1'"):
        back.update(X, y, name="update-1")


def test_who_joins_whom(city):
    X, y = rows(12, 13)
    e = city.update(X, y, name="july").update(X, y, owner="a").update(X, y).update(X, y, owner="a")
    assert e.names == ["a", "b", "july", "update-1", "update-2"]
    assert [r["rows"] for r in e.report()] == [80, 80, 12, 24, 12]
    assert e.update(X, y, name="july").names == e.names
    with pytest.raises(rgp.RecycleGPError, match="of another owner is already named 'july'"):
        e.update(X, y, name="july", owner="a")
    with pytest.raises(rgp.RecycleGPError, match="a module is already named 'b'"):
        e.update(X, y, name="b")


def test_what_is_done_with_an_ensemble_is_done_with_rows_that_wait(city, tmp_path):
    X, y = rows(6, 15)
    few, at = city.update(X, y), rows(9, 16)[0]
    module = rgp.fit(*rows(60, 3), name="c", privacy="things")

    def same(one, other):
        np.testing.assert_allclose(one.predict(at), other.predict(at), rtol=1e-7)

    same(few.add(module), city.add(module).update(X, y))
    same(few.remove("b", relearn=False), city.remove("b", relearn=False).update(X, y))
    same(few.reweight({"b": 0.5}), city.reweight({"b": 0.5}).update(X, y))
    same(few.reweight({"update-1": 0.0}), city)
    np.testing.assert_allclose(few.transform(output_scale=2).predict(at)[0], 2 * few.predict(at)[0], rtol=1e-9)
    same(few.drop_sites(), few)
    assert few.add(module, relearn=True).names == ["a", "b", "c", "update-1"]
    again = few.update(*rows(20, 17))
    assert again.remove("a").remove("b").names == ["update-1"]
    with pytest.raises(rgp.RecycleGPError, match="6 of 10 rows"):
        few.remove(["a", "b"])


def test_decay_makes_rows_fewer(city, tmp_path):
    """A stream of which only the last few rows count is as telling as these few."""
    X, y = rows(40, 18)
    e = city
    for i in range(40):
        e = e.update(X[i : i + 1], y[i : i + 1], decay=0.5)
    assert e.report()[-1]["rows"] == 2
    with pytest.raises(rgp.RecycleGPError, match="2 of 10 rows"):
        e.save(tmp_path / "e")

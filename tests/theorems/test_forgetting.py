"""Forgetting is merging with powers: by age, and step by step."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.merging.member import stored
from recyclegp.merging.noise import Readings
from recyclegp.times import ages, when, written
from weighted_sites import kernel, made, some_rows, together

AT = np.random.default_rng(5).uniform(-2.5, 2.5, (9, 2))
POINTS = np.random.default_rng(6).uniform(-2, 2, (8, 2))
EXACTLY = {"rtol": 1e-10, "atol": 1e-10}
FORMS = pytest.mark.parametrize("inducing", ["all", "given"])


def options(inducing, **more):
    return {"inducing": POINTS if inducing == "given" else "all", "learn": False, "kernel": kernel(), **more}


def parts(owners=(None, None, None), times=(None, None, None)):
    sizes = {"a": (12, 5), "b": (17, 7), "c": (9, 4)}
    return [
        made(name, n, seed, M, shift=0.4 * seed, owner=owner, time=time)
        for seed, ((name, (n, M)), owner, time) in enumerate(zip(sizes.items(), owners, times, strict=True))
    ]


def same(one, other, *, evidence=True, owners=(None,)):
    assert one.names == other.names
    assert [r["weight"] for r in one.report()] == pytest.approx([r["weight"] for r in other.report()], rel=1e-12)
    for owner in owners:
        for p, q in zip(one.predict(AT, owner=owner), other.predict(AT, owner=owner), strict=True):
            np.testing.assert_allclose(p, q, **EXACTLY)
    np.testing.assert_allclose([one.bound, one.slack], [other.bound, other.slack], **EXACTLY)
    if evidence:
        assert one.evidence == pytest.approx(other.evidence, rel=1e-10)


# --- step by step -----------------------------------------------------------------------------


def test_two_updates_that_forget_are_what_numpy_says_of_powers():
    e = rgp.merge(parts(), **options("all", owners=None))
    for i in range(2):
        e = e.update(*some_rows(11, 20 + i), noise=0.1, forget=0.7, name=f"day {i}")
    weights = [0.49, 0.49, 0.49, 0.7, 1.0]
    mean, variance, evidence = together([m.site for m in e._members], weights, "abcde", AT)
    np.testing.assert_allclose(e.predict(AT)[0], mean, **EXACTLY)
    np.testing.assert_allclose(e.predict(AT)[1], variance, **EXACTLY)
    assert e.evidence == pytest.approx(evidence, rel=1e-10)
    assert [r["weight"] for r in e.report()] == pytest.approx(weights)
    assert e.rows == round(0.49 * 38 + 1.7 * 11)


@FORMS
@pytest.mark.parametrize("owners", [None, "smooth"])
def test_forgetting_is_reweighting(inducing, owners, tmp_path):
    """Both forms, with owners' own functions too; after a file as well."""
    old = rgp.merge(parts(owners=("x", "y", "x")), **options(inducing, owners=owners))
    assert old.evidence < 0  # asked for before, so that its rows are known, and must be forgotten as well
    old.save(tmp_path / "e")
    X, y = some_rows(11, 20)
    known = [None, "x", "y"] if owners else [None]
    for e in (old, rgp.load(tmp_path / "e")):
        found = e.update(X, y, noise=0.1, forget=0.6)
        same(found, e.reweight(dict.fromkeys("abc", 0.6)).update(X, y, noise=0.1), owners=known)
    found.save(tmp_path / "found")
    same(rgp.load(tmp_path / "found"), found, owners=known)
    weighted = rgp.merge(parts(owners=("x", "y", "x")), weights=[0.6] * 3, **options(inducing, owners=None))
    if owners is None:
        same(found.remove("update-1"), weighted)


@FORMS
def test_names_only_forget_as_sites_do(inducing):
    """At points the evidence is of another power: of what modules say at the points, not of modules."""
    full = rgp.merge(parts(), **options(inducing, owners=None))
    X, y = some_rows(11, 20)
    small = full.forget_sites().update(X, y, noise=0.1, forget=0.6)
    same(small, full.update(X, y, noise=0.1, forget=0.6), evidence=inducing == "all")
    assert np.isfinite(small.evidence)


def test_names_only_at_points_cannot_forget_where_owners_differ():
    e = rgp.merge(parts(), keep="names", **options("given", owners="offset"))
    with pytest.raises(rgp.RecycleGPError, match="merge with keep='sites', or with owners=None"):
        e.update(*some_rows(5, 2), noise=0.1, forget=0.5)


@pytest.mark.parametrize("wrong", [0, -0.5, 1.01, float("nan")])
def test_a_share_is_a_share(wrong):
    e = rgp.merge(parts(), **options("all"))
    with pytest.raises(rgp.RecycleGPError, match="forget"):
        e.update(*some_rows(5, 2), forget=wrong)


def test_removing_after_forgetting_is_never_having_had_it():
    a, b, c = parts()
    X, y = some_rows(11, 20)

    def then(modules):
        return rgp.merge(modules, **options("given", owners=None)).update(X, y, noise=0.1, forget=0.6)

    same(then([a, b, c]).remove("b"), then([a, c]))


# --- noise ------------------------------------------------------------------------------------


def noisy(n=3):
    rng = np.random.default_rng(4)
    sets = [rng.uniform(-2, 2, (20 + 8 * i, 2)) for i in range(n)]
    return [
        rgp.fit(X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(len(X)), name=f"m{i}", publish=10)
        for i, X in enumerate(sets)
    ]


@pytest.mark.slow
# few rows that count half: whether that makes the kernel rough is a matter of luck
@pytest.mark.filterwarnings("ignore:the kernel that was learned:recyclegp.errors.RecycleGPWarning")
@pytest.mark.parametrize("inducing", ["all", 14])
def test_a_noise_that_was_pooled_stays_and_is_weighted_when_it_is_learned_anew(inducing):
    e = rgp.merge(noisy(), inducing=inducing, owners=None, trust=None)
    X, y = some_rows(30, 20)
    found = e.update(X, y, forget=0.5)
    assert found.noise == e.noise
    assert [r["noise"] for r in found.report()[:3]] == [r["noise"] for r in e.report()]
    same(found, e.reweight(dict.fromkeys(e.names, 0.5)).update(X, y))
    again = e.update(X, y, forget=0.5, relearn=True)
    reference = e.reweight(dict.fromkeys(e.names, 0.5)).update(X, y, relearn=True)
    np.testing.assert_allclose(again.predict(AT), reference.predict(AT), rtol=1e-6)


def test_what_a_member_says_about_noise_counts_with_its_weight():
    members = rgp.merge(noisy(), learn=False, owners=None)._members
    heavy = (members[0]._replace(weight=2.0), *members[1:])
    twice = (members[0], *members)
    once, two, both = (Readings.of(some, stored(some)).level for some in (members, heavy, twice))
    assert two == pytest.approx(both, rel=1e-12)
    assert two != pytest.approx(once, rel=1e-3)


# --- by age -----------------------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize("learn", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_half_life_is_weights(inducing, learn):
    modules = parts(times=(3.0, 10.5, 12.0))
    how = options(inducing, owners=None) | {"learn": learn}
    weights = 2.0 ** -(np.array([9.0, 1.5, 0.0]) / 4)
    found = rgp.merge(modules, half_life=4, **how)
    same(found, rgp.merge(modules, weights=list(weights), **how))
    both = rgp.merge(modules, half_life=4, weights={"b": 3.0}, now=13, **how)
    same(both, rgp.merge(modules, weights=list(weights * [1, 3, 1] * 2**-0.25), **how))


def test_half_life_with_pooled_noise_is_weights():
    """Powers and noises are both applied to the same sites."""
    modules = [m.at_time(i) for i, m in enumerate(noisy())]
    one = rgp.merge(modules, half_life=1, inducing="all", owners=None)
    other = rgp.merge(modules, weights=[0.25, 0.5, 1], inducing="all", owners=None)
    np.testing.assert_allclose(one.predict(AT), other.predict(AT), rtol=1e-9)
    assert one.noise == pytest.approx(other.noise, rel=1e-9)


def test_dates_are_days(tmp_path):
    a, b, c = parts(times=("2026-03-01", date(2026, 3, 11), datetime(2026, 3, 20, 12)))
    e = rgp.merge([a, b, c], half_life=10, **options("all", owners=None))
    assert [r["weight"] for r in e.report()] == pytest.approx([2**-1.95, 2**-0.95, 1])
    for m in (a, b, c):
        m.save(tmp_path / m.name)
        assert rgp.load(tmp_path / m.name).time == m.time
    assert a.rename("z").publish(3).transform(output_scale=2.0).time == a.time
    e.save(tmp_path / "e")
    assert [m.time for m in rgp.load(tmp_path / "e")._members] == [m.time for m in e._members]
    assert [r["time"] for r in e.report()] == ["2026-03-01", "2026-03-11", "2026-03-20T12:00:00+00:00"]
    later = rgp.merge([a, b, c], half_life=10, now="2026-03-30T12:00", **options("all", owners=None))
    assert later.report()[2]["weight"] == pytest.approx(0.5)


def test_what_is_wrong_with_ages_is_said():
    a, b, c = parts(times=(1.0, None, 2.0))
    dated = made("d", time="2026-03-01")
    cases = [
        ([a, b, c], {"half_life": 3}, r"half_life= needs ages, and b do not say when .*time=, or use module.at_time"),
        ([a, c], {"half_life": 0}, "half_life"),
        ([a, c], {"now": 3}, "now= is the time from which ages are counted"),
        ([a, c], {"half_life": 3, "now": 1.5}, "now=1.5: c was observed later"),
        ([a, dated], {"half_life": 3}, "some times are numbers and others dates"),
        ([a, c], {"half_life": 3, "now": "2026-03-01"}, "some times are numbers and others dates"),
        ([a, c], {"half_life": 3, "now": "yesterday"}, "now='yesterday': write a number, or a date"),
        ([a, c], {"half_life": 1e-4, "now": 9}, "count nothing"),
    ]
    for modules, how, message in cases:
        with pytest.raises(rgp.RecycleGPError, match=message):
            rgp.merge(modules, learn=False, **how)
    for wrong in (float("inf"), "last week"):
        with pytest.raises(rgp.RecycleGPError, match="time"):
            a.at_time(wrong)
    with pytest.raises(TypeError, match="time must be a number or a date"):
        a.at_time([1])


def test_times():
    assert when("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)
    assert when("2026-03-01T01:30+02:00") == datetime(2026, 2, 28, 23, 30, tzinfo=UTC)
    assert (written(when("2026-03-01")), written(7.5)) == ("2026-03-01", 7.5)
    assert when(written(when("2026-03-01T12:34:56"))) == datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
    assert ages({"a": 1.0, "b": 3.5}, None) == {"a": 2.5, "b": 0.0}

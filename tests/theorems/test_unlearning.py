"""remove is never having had the module, whatever came in between; and relearning is merging the others."""

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.merging import affordable
from recyclegp.models.unlearning import Guarantee, Trace
from recyclegp.storage.facts import At
from weighted_sites import NOISE, kernel, made, some_rows, together, truth

AT = np.random.default_rng(5).uniform(-2.5, 2.5, (9, 2))
POINTS = np.random.default_rng(6).uniform(-2, 2, (8, 2))
EXACTLY = {"rtol": 1e-10, "atol": 1e-10}
FORMS = pytest.mark.parametrize("inducing", ["all", "given"])


def options(inducing, **more):
    return {"inducing": POINTS if inducing == "given" else "all", "learn": False, "kernel": kernel(), **more}


def parts(owners=(None, None, None)):
    sizes = {"a": (12, 5), "b": (17, 7), "c": (9, 4)}
    return [
        made(name, n, seed, M, shift=0.4 * seed, owner=owner)
        for seed, ((name, (n, M)), owner) in enumerate(zip(sizes.items(), owners, strict=True))
    ]


def same(one, other, owners=(None,)):
    """In mean, variance, evidence, bound, noise, and what each module is said to be."""
    assert one.names == other.names
    for owner in owners:
        for p, q in zip(one.predict(AT, owner=owner), other.predict(AT, owner=owner), strict=True):
            np.testing.assert_allclose(p, q, **EXACTLY)
    np.testing.assert_allclose([one.evidence, one.bound], [other.evidence, other.bound], rtol=1e-10)
    assert one.likelihoods == other.likelihoods
    for p, q in zip(one.report(), other.report(), strict=True):
        assert p["surprise"] == pytest.approx(q["surprise"], rel=1e-6)


def events(seed=3):
    """(X, y, likelihood, noise) of an update, by likelihood."""
    rng = np.random.default_rng(seed)
    X, y = some_rows(13, 50)
    return {
        "gaussian": (X, y, "gaussian", None),
        "poisson": (X, rng.poisson(np.exp(truth(X))).astype(float), "poisson", None),
        "bernoulli": (X, (rng.uniform(size=13) < 1 / (1 + np.exp(-truth(X)))).astype(float), "bernoulli", None),
        "student-t": (X, y + (rng.uniform(size=13) < 0.2), "student-t", 0.1),
    }


def with_event(e, name):
    X, y, likelihood, noise = events()[name]
    return e.update(X, y, likelihood=likelihood, noise=noise, name=f"new {name}")


# --- at a given kernel, mean and points -------------------------------------------------------


@FORMS
def test_removing_is_never_having_had_it(inducing):
    a, b, c = parts()
    less = rgp.merge([a, b, c], **options(inducing, owners=None)).remove("b")
    same(less, rgp.merge([a, c], **options(inducing, owners=None)))
    assert less.unlearned.guarantee is Guarantee.EXACT
    assert less.traces_of_removed == 0


def test_what_is_left_is_what_numpy_says_of_the_others():
    a, b, c = parts()
    less = rgp.merge([a, b, c], **options("all", owners=None)).remove("b")
    mean, variance, evidence = together([a.site, c.site], [1, 1], "ac", AT)
    np.testing.assert_allclose(less.predict(AT)[0], mean, **EXACTLY)
    np.testing.assert_allclose(less.predict(AT)[1], variance, **EXACTLY)
    assert less.evidence == pytest.approx(evidence, rel=1e-10)


@FORMS
@pytest.mark.parametrize("likelihood", events())
def test_after_a_file_an_addition_and_an_update(inducing, likelihood, tmp_path):
    """Rows of any likelihood are summarised without looking at the modules: none of them leaves a trace there.

    But a file has them at points of the modules, where no others were given: that is a trace, and said to be one.
    """
    a, b, c = parts()
    d = made("d", 8, 9, 6)

    def grown(modules):
        first = rgp.merge(modules, **options(inducing, owners=None))
        return with_event(with_event(first.add(d), likelihood), "poisson" if likelihood != "poisson" else "bernoulli")

    whole = grown([a, b, c])
    whole.save(tmp_path / "whole")
    for e in (whole, rgp.load(tmp_path / "whole")):
        less = e.remove("b")
        assert e is not whole or less.unlearned.guarantee is Guarantee.EXACT
        assert inducing == "all" or less.unlearned.guarantee is Guarantee.EXACT
        if less.unlearned.guarantee is Guarantee.EXACT:
            same(less, grown([a, c]))
    less = whole.remove("b")
    less.save(tmp_path / "less")
    back = rgp.load(tmp_path / "less")
    same(back, grown([a, c]))
    assert back.unlearned == less.unlearned


@FORMS
def test_what_was_added_or_updated_goes_again(inducing):
    a, b, c = parts()
    old = rgp.merge([a, c], **options(inducing, owners=None))
    for new in (old.add(b), with_event(old, "bernoulli"), with_event(old, "gaussian")):
        same(new.remove(new.names[-1]), old)
        assert new.remove(new.names[-1]).unlearned.guarantee is Guarantee.EXACT


@pytest.mark.parametrize("owners", ["offset", "smooth"])
def test_an_owner_goes_with_its_effect(owners):
    """At the owners' variances that were learned with it: those stay, and are named."""
    a, b, c = parts()
    whole = rgp.merge([a, b, c], **options("all", owners=owners))
    less = whole.remove("b", relearn=False)
    effects = (whole.offset_sd**2, whole.smooth_sd**2)
    assert effects[0] > 0.01
    mean, variance, evidence = together([a.site, c.site], [1, 1], "ac", AT, effects, whole.mean)
    np.testing.assert_allclose(less.predict(AT)[0], mean, **EXACTLY)
    np.testing.assert_allclose(less.predict(AT)[1], variance, **EXACTLY)
    assert less.evidence == pytest.approx(evidence, rel=1e-10)
    assert less.owners == ["a", "c"]
    assert less.unlearned.traces == (Trace.MEAN, Trace.OWNERS)  # learned beside each other


def test_one_of_two_modules_of_an_owner():
    a, b, c = parts(owners=("x", "x", None))
    points = options("given", owners="offset")
    whole, exact = rgp.merge([a, b, c], **points), rgp.merge([a, b, c], **options("all", owners="offset"))
    for e in (whole, exact):
        less = e.remove("b", relearn=False)
        again = less.add(b).remove("b", relearn=False)
        same(again, less, owners=(None, "x"))
        assert less.unlearned.traces == (Trace.MEAN, Trace.OWNERS)


# --- what stays, and what is said about it ----------------------------------------------------


def learned(n=3, **options):
    rng = np.random.default_rng(2)
    made = []
    for i in range(n):
        X = rng.uniform(-2, 2, (25 + 5 * i, 2))
        y = truth(X) + 0.3 * rng.standard_normal(len(X))
        made.append(rgp.fit(X, y, name=f"m{i}", kernel="rbf", publish=8, **options))
    return made


def test_what_was_chosen_from_modules_is_named_where_it_would_have_been_another():
    a, b, c = parts()
    e = rgp.merge([a, b, c], inducing=6, learn=False, owners=None)
    assert e.remove("b", relearn=False).unlearned.traces == (Trace.POINTS,)  # their kernels and means are the same
    other = rgp.merge(learned(), learn=False, owners=None)
    assert other.remove("m1", relearn=False).unlearned.traces == (Trace.KERNEL, Trace.MEAN)
    assert rgp.merge([a, b, c], learn=False, kernel=kernel()).remove("b").unlearned.guarantee is Guarantee.EXACT


@pytest.mark.slow
def test_what_was_learned_is_named(tmp_path):
    modules = learned()
    e = rgp.merge(modules, inducing=10, owners="offset")
    assert e.unlearned.guarantee is Guarantee.NOTHING_REMOVED
    less = e.remove("m1", relearn=False)
    assert less.unlearned.guarantee is Guarantee.TRACES
    assert less.unlearned.traces == tuple(t for t in Trace if t is not Trace.TRUST)  # nobody was left out
    assert "kernel, mean, noise, points and owners' variances had been chosen with them" in str(less.unlearned)
    assert less.traces_of_removed == 1
    less.save(tmp_path / "e")
    assert rgp.load(tmp_path / "e").unlearned == less.unlearned
    # what came later has not been seen by them
    assert e.add(modules[0].rename("late")).remove("late").unlearned.guarantee is Guarantee.EXACT
    # and choosing anew leaves nothing
    assert less.reweight({"m0": 1.0}, relearn=True).unlearned.guarantee is Guarantee.EXACT
    clean = less.remove("m2", relearn=True)
    assert (clean.unlearned.removed, clean.unlearned.guarantee) == (2, Guarantee.EXACT)


def test_rows_that_were_summarised_under_what_was_chosen_with_it_are_named():
    a, b, c = parts()
    e = with_event(rgp.merge([a, b, c], inducing=14, learn=False, owners=None), "gaussian")
    less = e.remove("b", relearn=False)
    assert less.unlearned.updates == ("new gaussian",)
    relearned = less.remove("c", relearn=True)
    assert (relearned.unlearned.traces, relearned.unlearned.updates) == ((), ("new gaussian",))
    assert relearned.unlearned.guarantee is Guarantee.TRACES
    assert "rows that came by update (new gaussian)" in str(relearned.unlearned)
    assert relearned.remove("new gaussian", relearn=True).unlearned.guarantee is Guarantee.EXACT


def test_rows_that_took_a_noise_it_had_a_part_in_are_named():
    """The noise of y is pooled again without it; rows that were read under the old one are not."""
    from dataclasses import replace

    from recyclegp.likelihoods import Gaussian

    a, b, c = parts()
    b = replace(b, likelihoods=(Gaussian(0.5),))
    e = rgp.merge([a, b, c], **options("given", owners=None))
    assert e.noise > 2 * NOISE
    less = with_event(e, "gaussian").remove("b", relearn=False)
    assert less.noise == pytest.approx(NOISE)
    assert less.unlearned.updates == ("new gaussian",)
    given = e.update(*some_rows(5, 2), noise=0.1, name="new").remove("b", relearn=False)
    assert given.unlearned.guarantee is Guarantee.EXACT
    same(given, rgp.merge([a, c], **options("given", owners=None)).update(*some_rows(5, 2), noise=0.1, name="new"))


def test_an_older_file_says_what_it_could():
    from recyclegp.models.ensemble_json import UNLEARNED
    from recyclegp.models.legacy_files import _unlearned

    assert _unlearned({}) is None
    old = UNLEARNED.read(_unlearned({"traces_of_removed": 2}), At(1))
    assert (old.removed, old.traces) == (2, (Trace.KERNEL, Trace.MEAN, Trace.NOISE, Trace.POINTS))


# --- relearning is merging the others ---------------------------------------------------------


def identical(one, other):
    assert one.names == other.names
    assert one.kernel_spec == other.kernel_spec
    assert (one.mean, one.likelihoods, one.offset_sd, one.smooth_sd) == (
        other.mean,
        other.likelihoods,
        other.offset_sd,
        other.smooth_sd,
    )
    np.testing.assert_array_equal(one.inducing, other.inducing)
    np.testing.assert_array_equal(one.predict(AT), other.predict(AT))
    assert one.evidence == other.evidence


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"inducing": 9},
        {"inducing": POINTS},
        {"kernel": "matern52"},
        {"kernel": "auto"},
        {"kernel": kernel()},
        {"owners": "offset"},
        {"noise": "keep"},
        {"learn": False},
    ],
    ids=str,
)
def test_relearning_is_merging_the_others(how, tmp_path):
    """Bit for bit, also what learn=False had left as it was: relearning learns, and pools the noise."""
    modules = learned()
    rgp.merge(modules, **how).save(tmp_path / "e")
    less = rgp.load(tmp_path / "e").remove("m1", relearn=True)
    identical(less, rgp.merge([modules[0], modules[2]], **how | {"learn": True}))
    assert less.unlearned.guarantee is Guarantee.EXACT


@pytest.mark.slow
def test_a_structure_that_the_removed_had_decided_goes_with_it():
    smooth = learned(2)
    rough = rgp.fit(*some_rows(300, 7), kernel="matern32", publish=8, name="large")
    e = rgp.merge([*smooth, rough])
    assert "matern" in e.kernel_spec.describe()
    identical(e.remove("large", relearn=True), rgp.merge(smooth))


@pytest.fixture
def at_points(monkeypatch):
    """No ensemble is exact."""
    monkeypatch.setattr(affordable, "DIRECT", 0)
    monkeypatch.setattr(affordable, "held", lambda: 0)


def line(name, low, high, seed, rows=60):
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (rows, 1))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(rows), name


def fitted(X, y, name):
    return rgp.fit(X, y, name=name)


@pytest.mark.usefixtures("at_points")
def test_rows_that_were_summarised_at_its_points_are_named():
    first = rgp.merge([fitted(*line("first", 0, 5, 0))])
    more = first.add(fitted(*line("far", 8, 14, 1)))
    X, y, _ = line("rows", 8, 14, 2)
    assert more._members[1].points_appended > 0
    less = more.update(X, y, name="rows").remove("far")
    assert (less.unlearned.traces, less.unlearned.updates) == ((), ("rows",))
    assert more.update(X, y, name="rows").remove("rows").unlearned.guarantee is Guarantee.EXACT
    before = first.update(X, y, name="rows").add(fitted(*line("far", 8, 14, 1)))
    assert before.remove("far").unlearned.guarantee is Guarantee.EXACT


@pytest.mark.usefixtures("at_points")
def test_points_that_were_appended_are_none_when_all_are_chosen_anew():
    more = rgp.merge([fitted(*line("first", 0, 5, 0))]).add(fitted(*line("far", 8, 14, 1)))
    assert more._members[1].points_appended > 0
    again = more.reweight({"first": 1.0}, relearn=True)
    np.testing.assert_array_equal(again.remove("far", relearn=False).inducing, again.inducing)


@pytest.mark.usefixtures("at_points")
def test_an_exact_form_that_became_too_large_has_points_that_have_seen_everybody(monkeypatch):
    monkeypatch.setattr(affordable, "DIRECT", 100)
    first = rgp.merge([fitted(*line("first", 0, 5, 0))])
    assert first.size.form == "exact"
    more = first.add(fitted(*line("far", 8, 14, 1)))
    assert more.size.form == "points"
    assert Trace.POINTS in more.remove("far", relearn=False).unlearned.traces


# --- what is done unless somebody says otherwise ----------------------------------------------


def test_what_was_chosen_with_a_module_goes_with_it():
    """By default it is a merge that never had the module, with the arguments that the merge had."""
    modules = learned()
    rest = [m for m in modules if m.name != "m1"]
    for how in (
        {"inducing": 6, "learn": False, "owners": None},
        {"inducing": "all", "learn": False, "owners": "offset"},
    ):
        e = rgp.merge(modules, **how)
        less = e.remove("m1")
        assert e.remove("m1", relearn=False).unlearned.guarantee is Guarantee.TRACES
        assert less.unlearned.guarantee is Guarantee.EXACT
        same(less, rgp.merge(rest, **how))
        np.testing.assert_array_equal(less.inducing, rgp.merge(rest, **how).inducing)


def test_what_was_chosen_without_it_stays():
    a, b, c = parts()
    e = rgp.merge([a, c], inducing=6, owners=None)
    less = e.add(b).remove("b")
    np.testing.assert_array_equal(less.inducing, e.inducing)
    assert less.kernel.base_kernel.lengthscale.tolist() == e.kernel.base_kernel.lengthscale.tolist()
    same(less, e)


def test_traces_of_an_earlier_removal_go_as_well():
    modules = learned(4)
    e = rgp.merge(modules, inducing=6, learn=False, owners=None).remove("m1", relearn=False)
    assert e.remove("m2").unlearned.guarantee is Guarantee.EXACT

"""Ordered levels through the whole house: owners' modules merge to nearly the model of all rows in one place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok

LEVELS = ("none", "mild", "moderate", "severe")
CUTS = np.array([0.0, 1.1, 2.0])
COMMON = {"likelihood": "ordinal", "classes": list(LEVELS), "privacy": "things"}
XT = np.linspace(0.2, 5.8, 9)[:, None]


def rows(seed, n, low, high):
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, 1))
    u = 0.8 + 1.6 * np.sin(X[:, 0]) + rng.standard_normal(n)
    return X, np.array(LEVELS)[(u[:, None] > CUTS).sum(1)]


OWNERS = {"a": rows(1, 130, 0, 4), "b": rows(2, 110, 2, 6), "c": rows(3, 80, 1, 5)}
UNSEEN = rows(9, 1500, 0, 6)


def all_rows():
    return tuple(np.concatenate([own[i] for own in OWNERS.values()]) for i in (0, 1))


def below(X, y, level):
    """Rows below a level, and what they are."""
    kept = np.isin(y, LEVELS[: LEVELS.index(level)])
    return X[kept], y[kept]


@pytest.fixture(scope="module")
def modules():
    return [rgp.fit(*own, name=name, target="pain", **COMMON) for name, own in OWNERS.items()]


@pytest.fixture(scope="module")
def merged(modules):
    return rgp.merge(modules)


@pytest.fixture(scope="module")
def central():
    return rgp.fit(*all_rows(), **COMMON)


def nlpd(model, **more):
    return -np.mean(model.log_density(*UNSEEN, **more))


# --- fit and merge ------------------------------------------------------------------------------------------------


def test_the_merge_is_near_a_central_model_and_better_than_each_alone(modules, merged, central):
    assert nlpd(merged) == pytest.approx(nlpd(central), abs=0.01)
    assert all(nlpd(own) > nlpd(merged) + 0.01 for own in modules)
    assert np.abs(merged.predict_proba(XT) - central.predict_proba(XT)).max() < 0.1
    assert np.abs(np.array(merged.likelihoods[0].cuts) - CUTS).max() < 0.3
    np.testing.assert_allclose(merged.likelihoods[0].cuts, central.likelihoods[0].cuts, atol=0.15)


def test_gaps_are_pooled_by_rows(modules, merged):
    each = np.array([m.likelihoods[0].parameters for m in modules])
    weights = np.array([len(own[1]) for own in OWNERS.values()])
    found = merged.likelihoods[0].parameters
    assert (each.min(0) < found).all()
    assert (found < each.max(0)).all()
    np.testing.assert_allclose(found, weights @ each / weights.sum(), rtol=0.08)


def test_answers_about_levels(merged):
    p = merged.predict_proba(XT)
    assert merged.classes == LEVELS
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-12)
    assert merged.predict_class(XT).tolist() == [LEVELS[k] for k in p.argmax(-1)]
    np.testing.assert_allclose(merged.predict_y(XT)[0], p @ np.arange(4), atol=1e-12)
    np.testing.assert_allclose(merged.predict_survival(XT, 1), p[:, 2:].sum(-1), atol=1e-12)
    low, high = merged.predict_interval(XT, 0.8)
    inside = [p[i, int(a) : int(b) + 1].sum() for i, (a, b) in enumerate(zip(low, high, strict=True))]
    assert min(inside) >= 0.8
    score = rgp.metrics.score(merged, *UNSEEN)
    assert score.nlpd == pytest.approx(nlpd(merged))
    codes = np.array([LEVELS.index(own) for own in UNSEEN[1]])
    found = merged.predict_proba(UNSEEN[0])
    assert score.error == pytest.approx(np.mean(found.argmax(-1) != codes))
    assert score.rmse == pytest.approx(np.sqrt(np.mean((found @ np.arange(4) - codes) ** 2)))
    ranked = (np.cumsum(found, -1)[:, :-1] - (codes[:, None] <= np.arange(3))) ** 2
    assert score.crps == pytest.approx(ranked.sum(-1).mean())
    assert score.coverage >= 0.93


def test_numbers_answer_as_numbers():
    X, y = OWNERS["a"]
    found = rgp.fit(X, [1 + LEVELS.index(own) for own in y], likelihood="ordinal", privacy="things")
    words = rgp.fit(X, y, **COMMON)
    assert found.classes == ("1", "2", "3", "4")
    np.testing.assert_allclose(found.predict_proba(XT), words.predict_proba(XT), atol=1e-6)
    np.testing.assert_allclose(found.predict_y(XT)[0], 1 + words.predict_y(XT)[0], atol=1e-6)
    assert set(found.predict_quantiles(XT, 0.5)) <= {1, 2, 3, 4}


@pytest.mark.slow
def test_many_are_each_alone(modules, tmp_path):
    many = rgp.fit_many(list(OWNERS.values()), names=list(OWNERS), **COMMON)
    for own, alone in zip(many, modules, strict=True):
        np.testing.assert_allclose(own.predict_proba(XT), alone.predict_proba(XT), atol=1e-4)
    many.save(tmp_path / "many.safetensors")
    again = rgp.load_many(tmp_path / "many.safetensors")
    np.testing.assert_allclose(rgp.merge(again).predict_proba(XT), rgp.merge(many).predict_proba(XT), atol=1e-6)


# --- add, remove, update, files -------------------------------------------------------------------------------------


def test_rows_and_modules_come_and_go(modules, merged):
    grown = rgp.merge(modules[:2], learn=False).add(modules[2])
    np.testing.assert_allclose(grown.predict(XT), rgp.merge(modules, learn=False).predict(XT), atol=0.2)
    np.testing.assert_allclose(
        merged.add(modules[0].rename("d")).remove("d").predict(XT), merged.predict(XT), atol=1e-6
    )
    late = rows(7, 200, 0, 6)
    more = merged.update(*late, name="late")
    everything = rgp.fit(*(np.concatenate(own) for own in zip(all_rows(), late, strict=True)), **COMMON)
    assert nlpd(more) == pytest.approx(nlpd(everything), abs=0.01)
    assert (more.predict(XT)[1] < merged.predict(XT)[1]).all()
    with pytest.raises(rgp.RecycleGPError, match="classes the model does not know: awful; it has none, mild"):
        merged.update(XT[:1], ["awful"])


def test_files(modules, merged, tmp_path):
    for model in (modules[0], merged):
        model.save(tmp_path / "m.safetensors")
        read = rgp.load(tmp_path / "m.safetensors")
        assert read.likelihoods == model.likelihoods
        np.testing.assert_allclose(read.predict_proba(XT), model.predict_proba(XT), atol=1e-12)


@pytest.mark.slow
def test_owners_answer_a_plan(modules, central):
    """Rounds go to the model of all rows, at the cuts that owners had when the plan was made."""
    plan = rgp.merge(modules).plan(points=10)
    for _ in range(4):
        answers = [plan.contribute(*own, name=name, privacy="things") for name, own in OWNERS.items()]
        found, plan = plan.combine(answers)
    assert nlpd(found) == pytest.approx(nlpd(central), abs=0.01)
    with pytest.raises(
        rgp.RecycleGPError, match="the gap of it is learned from rows; merge modules, and make the plan"
    ):
        rgp.Plan(points=XT, likelihood="ordinal", kernel="rbf", classes=list(LEVELS))


def test_whether_merging_helps(modules):
    X, y = OWNERS["a"]
    mine = rgp.fit(X, y, name="mine", hold_back=0.3, **COMMON)
    found = rgp.merge([mine, *modules[1:]]).gain(X, y)
    assert 20 < found.rows < 60
    assert np.isfinite([found.merged, found.alone]).all()


@pytest.mark.slow
def test_owners_may_differ_by_a_constant(modules):
    """Who calls everything worse has another f, by a constant; somebody new has any of them."""
    X, y = rows(11, 120, 0, 6)
    worse = np.array(LEVELS)[np.minimum(3, [LEVELS.index(own) + 1 for own in y])]
    e = rgp.merge([*modules, rgp.fit(X, worse, name="w", **COMMON)], owners="offset")
    assert e.offset_sd > 0.2
    assert (e.predict_y(XT, owner="w")[0] > e.predict_y(XT, owner="a")[0] + 0.2).all()
    p = e.predict_proba(XT, owner="new")
    expected = [np.searchsorted(np.cumsum(row), 0.9) for row in p]
    assert e.predict_quantiles(XT, 0.9, owner="new").tolist() == expected


# --- levels of owners ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_levels_that_some_lack_at_the_top_are_united(modules, central):
    """The first cut is where f is zero: who lacks the highest levels says the same of all the others."""
    few = rgp.fit(*below(*OWNERS["c"], "severe"), name="few", **COMMON | {"classes": list(LEVELS[:3])})
    any_pain = rgp.fit(OWNERS["c"][0], (OWNERS["c"][1] != "none") * 1, likelihood="bernoulli-probit", **{"name": "p"})
    united = rgp.merge([few, *modules[:2]])
    assert united.classes == LEVELS
    assert nlpd(united) == pytest.approx(nlpd(central), abs=0.03)
    grown = rgp.merge([few]).add(modules[0])
    assert grown.classes == LEVELS
    assert grown.likelihoods[0].parameters == (*few.likelihoods[0].parameters, modules[0].likelihoods[0].parameters[1])
    assert grown.remove("a").classes == LEVELS[:3]
    mixed = rgp.merge([*modules[:2], any_pain])
    assert nlpd(mixed, likelihood="ordinal") == pytest.approx(nlpd(central), abs=0.03)
    same = mixed.predict_proba(XT, "bernoulli-probit")[:, 0]
    np.testing.assert_allclose(same, mixed.predict_proba(XT, "ordinal")[:, 0], atol=1e-9)


@pytest.mark.parametrize(
    "levels", [("mild", "none", "moderate", "severe"), ("mild", "moderate", "severe"), ("none", "mild", "severe")]
)
def test_other_levels_are_refused_by_name(levels, modules):
    X, y = OWNERS["c"]
    kept = np.isin(y, levels)
    other = rgp.fit(X[kept], y[kept], name="other", **COMMON | {"classes": list(levels)})
    said = (
        f"levels {' < '.join(levels)} for module 'other' and none < mild < moderate < severe for 'a'; fit them again "
        "with the same classes="
    )
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.merge([modules[0], other])
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.merge(modules[:1]).add(other)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "whose order nobody has said; pass classes="),
        ({"classes": ["none", "mild"]}, "and classes= names none, mild; name all of them"),
        ({"classes": list(LEVELS), "noise": 0.1}, "likelihood 'ordinal' has no noise; leave it out"),
        ({"classes": list(LEVELS), "positive": "mild"}, "it is for y of two classes"),
        ({"classes": list(LEVELS), "method": "exact"}, "needs a gaussian likelihood, not 'ordinal'"),
    ],
)
def test_refused(more, said):
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.fit(*OWNERS["a"], **{"likelihood": "ordinal", **more})


def test_refused_questions(merged):
    for ask, said in (
        (lambda: merged.predict_noise(XT), "likelihood 'ordinal' has no noise"),
        (lambda: merged.with_noise(0.2), "for gaussian modules"),
        (lambda: merged.transform(output_scale=2.0), "whose f has fixed units"),
        (lambda: merged.to_gpytorch(), "GPyTorch has no likelihood 'ordinal'; use predict_y"),
        (lambda: rgp.fit(XT, np.c_[XT, XT], likelihood="ordinal"), "pass one class per row"),
        (lambda: rgp.fit(XT, XT[:, 0], classes=["a"]), "only likelihoods 'categorical' and 'ordinal' have any to name"),
        (lambda: rgp.fit(XT, ["x"] * 9), "levels in an order for likelihood='ordinal'"),
    ):
        with pytest.raises(rgp.RecycleGPError, match=said):
            ask()


# --- the estimator ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_classifier_takes_levels(merged):
    classifier = pytest.importorskip("recyclegp.sklearn").RecyclableGPClassifier
    X, y = OWNERS["a"]
    options = {"likelihood": "ordinal", "privacy": "things"}
    found = classifier(**options, levels=list(LEVELS)).fit(X, y)
    assert found.classes_.tolist() == sorted(LEVELS)
    p = found.ensemble_.predict_proba(XT)[:, [LEVELS.index(name) for name in found.classes_]]
    np.testing.assert_allclose(found.predict_proba(XT), p)
    assert found.partial_fit(*OWNERS["b"]).ensemble_.classes == LEVELS
    ordered = pd.Series(pd.Categorical(y, categories=LEVELS, ordered=True))
    other = classifier(**options).fit(X, ordered)
    assert other.ensemble_.classes == LEVELS
    assert other.merge(found).predict(XT).tolist() == other.merge(found).ensemble_.predict_class(XT).tolist()
    numbers = classifier(**options).fit(X, np.array([LEVELS.index(own) for own in y]) + 1)
    assert numbers.predict(XT).dtype.kind == "i"
    with pytest.raises(rgp.RecycleGPError, match="whose order nobody has said; pass levels="):
        classifier(**options).fit(X, y)
    with pytest.raises(rgp.RecycleGPError, match="they are for likelihood='ordinal'; leave them out"):
        classifier(levels=list(LEVELS)).fit(X, y)


# --- on the command line --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("levels")
    for name, (X, y) in {**OWNERS, "new": rows(8, 60, 0, 6)}.items():
        numbers = [LEVELS.index(own) for own in y]
        table = pd.DataFrame({"age": X[:, 0], "pain": y, "points": numbers, "ward": np.where(X[:, 0] > 3, "p", "q")})
        table.to_csv(found / f"{name}.csv", index=False)
    return found


@pytest.mark.slow
def test_from_tables_to_predictions(folder, tmp_path, merged):
    how = ["-t", "pain", "--inputs", "age", "--likelihood", "ordinal", "--classes", ",".join(LEVELS), "--things", "-q"]
    files = [tmp_path / f"{name}.safetensors" for name in OWNERS]
    for name, file in zip(OWNERS, files, strict=True):
        ok("fit", folder / f"{name}.csv", *how, "-o", file)
    both = tmp_path / "e.safetensors"
    ok("merge", *files, "-o", both, "-q")
    e = rgp.load(both)
    np.testing.assert_allclose(e.predict_proba(XT), merged.predict_proba(XT), atol=1e-6)
    shown = ok("inspect", files[0]).stdout
    assert "none < mild < moderate < severe; f is cut at 0, " in " ".join(shown.split())
    assert answer("inspect", both)["levels"] == {"names": list(LEVELS), "cuts": list(e.likelihoods[0].cuts)}
    ok("predict", both, folder / "new.csv", "-o", tmp_path / "p.csv", "-q")
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found[[f"p_{name}" for name in LEVELS]], e.predict_proba(found[["age"]]), rtol=1e-6)
    assert set(found["class"]) <= set(LEVELS)
    scored = answer("score", both, folder / "new.csv", "--target", "pain")
    expected = rgp.metrics.score(e, found[["age"]], found["pain"])
    assert (scored["nlpd"], scored["crps"]) == pytest.approx((expected.nlpd, expected.crps), rel=1e-6)


@pytest.mark.slow
def test_partitions_have_the_levels_of_the_whole_table(folder, tmp_path):
    """Also those that a partition has no row of."""
    table = pd.read_csv(folder / "a.csv")
    table.drop(table.index[(table["ward"] == "p") & (table["points"] == 1)]).to_csv(tmp_path / "t.csv", index=False)
    how = ["-t", "points", "--inputs", "age", "--likelihood", "ordinal", "--partition-by", "ward", "--things", "-q"]
    ok("fit", tmp_path / "t.csv", *how, "-o", tmp_path / "e.safetensors")
    assert rgp.load(tmp_path / "e.safetensors").classes == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--likelihood", "ordinal"], "whose order nobody has said; pass --classes with all levels"),
        (["--likelihood", "ordinal", "--classes", "none,mild"], "--classes names none, mild; name all of them"),
        (["--likelihood", "ordinal", "--positive", "mild"], "categorical and ordinal take labels as they are"),
        (["--likelihood", "poisson", "--classes", "none,mild"], "they are for --likelihood categorical and ordinal"),
        (["--likelihood", "ordinal", "--target", "points"], "--likelihood ordinal has one target"),
    ],
)
def test_refused_on_the_command_line(options, said, folder, tmp_path):
    how = ["--target", "pain", "--inputs", "age", "--things", "-o", tmp_path / "m.safetensors"]
    assert said in one_line(call("fit", folder / "a.csv", *how, *options))

"""Yes and no in words: y may hold them, and the model remembers what they are called."""

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from recyclegp.likelihoods.labels import holds_words, two_classes
from recyclegp.target import Target

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (90, 1))
ILL = np.sin(X[:, 0]) + 0.5 * RNG.standard_normal(90) > 0
WORDS = np.where(ILL, "ill", "well")
NUMBERS = ILL.astype(float)


def fit(y, **options):
    return rgp.fit(X, y, **({"likelihood": "bernoulli", "name": "a", "publish": 8, "inducing": 16} | options))


CALLED = "nobody has said what the classes of this model are called; pass 0 and 1"
GAUSSIAN = {"likelihood": "gaussian", "inducing": None}
EXPECTED = fit(NUMBERS).predict(X[:5])[0]


@pytest.mark.parametrize(
    ("y", "options", "labels"),
    [
        (WORDS, {"labels": ["well", "ill"]}, ("well", "ill")),
        (WORDS, {"positive": "ill"}, ("well", "ill")),
        (WORDS, {"labels": [None, "ill"]}, (None, "ill")),
        (WORDS, {"labels": ["well", None]}, ("well", None)),
        (list(WORDS), {"positive": "ill"}, ("well", "ill")),
        (pd.Series(WORDS, dtype="category"), {"positive": "ill"}, ("well", "ill")),
        (pd.DataFrame({"state": WORDS}), {"positive": "ill"}, ("well", "ill")),
        (np.where(ILL, 2, 1), {"positive": 2}, ("1", "2")),
        (np.where(ILL, 2.0, 1.0), {"positive": "2"}, ("1", "2")),
        (np.where(ILL, "ill", np.where(X[:, 0] > 3, "well", "fine")), {"positive": "ill"}, (None, "ill")),
        (ILL, {"labels": ["well", "ill"]}, ("well", "ill")),
        (torch.tensor(NUMBERS), {"labels": ["well", "ill"]}, ("well", "ill")),
    ],
)
def test_words_are_numbers(y, options, labels):
    module = fit(y, **options)
    np.testing.assert_array_equal(module.predict(X[:5])[0], EXPECTED)
    assert module.target.labels == labels


def test_the_name_of_a_series_is_kept():
    assert fit(pd.Series(WORDS, name="state"), positive="ill").target == Target("state", None, ("well", "ill"))
    assert fit(pd.Series(WORDS, name="state"), positive="ill", target="outcome").target.name == "outcome"


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (
            WORDS,
            {},
            r"y holds the classes ill, well; say which of them is 1: positive='well', or labels=\['ill', 'well'\]",
        ),
        (WORDS, {"positive": "dead"}, "positive='dead': y holds no such class, but ill, well"),
        (WORDS, {"positive": "ill", "labels": ["well", "ill"]}, "positive: labels say already what class 1 is"),
        (WORDS, {"labels": ["healthy", "ill"]}, "y holds the classes well, beside healthy for 0 and ill for 1"),
        ([None, *WORDS[1:]], {"positive": "ill"}, "y has 1 missing classes"),
        (
            WORDS,
            {"likelihood": "gaussian", "inducing": None},
            "y holds words; two classes are for likelihood='bernoulli'",
        ),
        (
            NUMBERS,
            {"likelihood": "gaussian", "inducing": None, "positive": "ill"},
            "positive='ill': it is for y of two",
        ),
        (
            WORDS,
            {"likelihood": "categorical", "inducing": None, "positive": "ill"},
            "positive='ill': it is for y of two",
        ),
        (np.c_[WORDS, WORDS], {"positive": "ill"}, "positive='ill': it is for y of two classes"),
    ],
)
def test_what_is_refused(y, options, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        fit(y, **options)


def test_of_many_each_may_have_one_class():
    data = [(X, WORDS), (X[ILL], WORDS[ILL]), (X[:30], WORDS[:30])]
    how = {"likelihood": "bernoulli", "names": list("abc"), "publish": 8, "inducing": 16}
    with pytest.warns(rgp.RecycleGPWarning, match="b: 'y' is 'ill' in all rows"):
        modules = rgp.fit_many(data, labels=["well", "ill"], **how)
    assert {m.target.labels for m in modules} == {("well", "ill")}
    np.testing.assert_array_equal(modules[0].predict(X[:5])[0], EXPECTED)
    plain = rgp.fit_many([(X, NUMBERS), (X, NUMBERS)], positive=1, **(how | {"names": ["a", "b"]}))
    assert plain[1].target.labels == ("0", "1")


def test_the_model_takes_its_words():
    modules = [fit(WORDS, positive="ill", hold_back=0.3), fit(NUMBERS, labels=["well", "ill"], name="b")]
    e = rgp.merge(modules, trust=None)
    assert e.classes == ("well", "ill")
    assert rgp.metrics.score(e, X, WORDS) == rgp.metrics.score(e, X, NUMBERS)
    np.testing.assert_array_equal(e.log_density(X, WORDS), e.log_density(X, NUMBERS))
    tuned = rgp.calibrate(e, X, WORDS)
    assert tuned.calibration == rgp.calibrate(e, X, NUMBERS).calibration
    np.testing.assert_array_equal(tuned.covers(X, WORDS, 0.8), tuned.covers(X, NUMBERS, 0.8))
    assert e.gain(X, WORDS, name="a") == e.gain(X, NUMBERS, name="a")
    updated = [e.update(X[:12], y[:12], name="new").predict(X)[0] for y in (WORDS, NUMBERS)]
    np.testing.assert_array_equal(*updated)
    with pytest.raises(rgp.RecycleGPError, match="y holds the classes dead, beside well for 0 and ill for 1"):
        e.log_density(X[:1], ["dead"])
    with pytest.raises(rgp.RecycleGPError, match=CALLED):
        fit(NUMBERS).log_density(X, WORDS)


def test_an_answer_to_a_plan_takes_words():
    grid = np.linspace(0, 6, 8)[:, None]
    labelled = rgp.merge([fit(WORDS, positive="ill")]).plan(grid)
    said = [labelled.combine([labelled.contribute(X, y, name="a", privacy="things")])[0] for y in (WORDS, NUMBERS)]
    np.testing.assert_array_equal(*(e.predict(X)[0] for e in said))
    plan = rgp.Plan(points=grid, kernel="rbf(outputscale=1.3, lengthscale=0.9)", likelihood="bernoulli")
    with pytest.raises(rgp.RecycleGPError, match=CALLED):
        plan.contribute(X, WORDS, name="a", privacy="things")


@pytest.mark.parametrize("y", [NUMBERS, ILL, [1, 0], torch.tensor([1.0]), np.c_[WORDS, WORDS], [[1, 2], [3]], None])
def test_what_are_no_words(y):
    assert not holds_words(y)
    assert two_classes(y) is None

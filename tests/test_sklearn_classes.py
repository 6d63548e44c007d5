"""The classifier with any number of classes: labels of every kind, owners who know different ones, and merging."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from gpytorch.kernels import RBFKernel, ScaleKernel

pytest.importorskip("sklearn")
from sklearn.model_selection import cross_val_score

import recyclegp as rgp
from recyclegp.sklearn import RecyclableGPClassifier

NAMES = np.array(["ash", "birch", "cedar"])


def forest(n=90, seed=0):
    """Three classes in rings, which no line divides."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.digitize(np.hypot(*X.T), [0.9, 1.6])


X, Y = forest()
XT, YT = forest(200, seed=1)
FAST = {"likelihood": "categorical"}


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "names",
    [["c", "a", "b"], [10, 9, -3], [2.0, 11.0, 5.0], np.array(["x", "y", "z"], dtype=object)],
    ids=["text", "numbers", "whole floats", "objects"],
)
def test_any_labels(names):
    """Labels are names: probabilities are those of `fit` in the order of classes_, whatever order text would have."""
    y = np.asarray(names)[Y]
    options = FAST | {"learn": False, "publish": XT[:40]}
    estimator = RecyclableGPClassifier(**options).fit(X, y)
    np.testing.assert_array_equal(estimator.classes_, np.unique(y))
    p = estimator.predict_proba(XT)
    close(p.sum(1), 1)
    direct = rgp.fit(X, [f"class {i}" for i in Y], **options).predict_proba(XT)
    close(p[:, np.searchsorted(estimator.classes_, np.asarray(names))], direct, 1e-7)
    np.testing.assert_array_equal(estimator.predict(XT), estimator.classes_[p.argmax(1)])
    assert estimator.score(XT, np.asarray(names)[YT]) > 0.7
    assert estimator.score(X, pd.Series(y)) == estimator.score(X, y)


def test_truth_values_with_classes_by_name():
    y = np.hypot(*X.T) > 1.2
    estimator = RecyclableGPClassifier(**FAST).fit(X, y)
    assert estimator.classes_.tolist() == [False, True]
    assert estimator.modules_[0].classes == ("False", "True")
    assert estimator.score(XT, np.hypot(*XT.T) > 1.2) > 0.9


def test_regressions_are_the_default_of_three_classes_and_logistic_of_two():
    three = RecyclableGPClassifier(learn=False, inducing=20).fit(X, NAMES[Y])
    assert three.likelihood_ == "categorical"
    assert three.ensemble_.functions == three.modules_[0].functions == tuple(NAMES)
    direct = rgp.fit(X, NAMES[Y], likelihood="categorical", learn=False, inducing=20)
    close(three.predict_proba(XT), direct.predict_proba(XT), 1e-7)
    two = RecyclableGPClassifier(learn=False, inducing=20).fit(X, Y > 0)
    assert two.likelihood_ == "bernoulli"
    assert two.ensemble_.functions == ("f",)
    probit = RecyclableGPClassifier(likelihood="bernoulli-probit", learn=False, inducing=20).fit(X, Y > 0)
    assert probit.ensemble_.likelihoods[0].name == "bernoulli-probit"
    close(probit.predict_proba(XT).sum(1), 1)


@pytest.mark.slow
def test_softmax_learned():
    estimator = RecyclableGPClassifier(inducing=20).fit(X, NAMES[Y])
    assert estimator.score(XT, NAMES[YT]) > 0.78


def test_owners_with_different_classes():
    """Each knows two of three; together they know all, and better than either could."""
    low, high = Y < 2, Y > 0
    a = RecyclableGPClassifier(name="a", **FAST).fit(X[low], NAMES[Y[low]])
    b = RecyclableGPClassifier(name="b", **FAST).fit(X[high], NAMES[Y[high]])
    assert a.classes_.tolist() == ["ash", "birch"]
    both = a.merge(b)
    assert both.classes_.tolist() == NAMES.tolist()
    assert [m.classes for m in both.modules_] == [("ash", "birch"), ("birch", "cedar")]
    close(both.predict_proba(XT).sum(1), 1)
    truth = NAMES[YT]
    assert both.score(XT, truth) > max(a.score(XT, truth), b.score(XT, truth))
    assert a.classes_.tolist() == ["ash", "birch"]
    close(a.merge(b.modules_[0]).predict_proba(XT), both.predict_proba(XT))
    close(b.merge(a).predict_proba(XT), both.predict_proba(XT), 1e-3)


def test_modules_from_files_bring_labels_of_the_kind_there_is(tmp_path):
    numbers = RecyclableGPClassifier(name="n", **FAST).fit(X[Y < 2], Y[Y < 2])
    rgp.fit(X[Y > 0], Y[Y > 0], name="m", **FAST).save(tmp_path / "m.safetensors")
    both = numbers.merge(rgp.load(tmp_path / "m.safetensors"))
    assert both.classes_.tolist() == [0, 1, 2]
    assert both.classes_.dtype.kind == "i"
    assert both.score(XT, YT) > 0.6
    with pytest.raises(rgp.RecycleGPError, match=r"merge: classes \['ash', 'birch', 'cedar'\] against labels \[0, 1\]"):
        numbers.merge(rgp.fit(X, NAMES[Y], name="m", **FAST))
    with pytest.raises(rgp.RecycleGPError, match=r"merge: labels \['ash', 'birch', 'cedar'\] against \[0, 1\]"):
        numbers.merge(RecyclableGPClassifier(**FAST).fit(X, NAMES[Y]))


def test_parts_know_all_classes():
    """Of one data set, in regions or one after the other: a region without a class says that it is not there."""
    order = np.argsort(X[:, 0])
    Xs, ys = X[order], NAMES[Y[order]]
    parts = RecyclableGPClassifier(n_partitions=3, **FAST).fit(X, NAMES[Y])
    stream = RecyclableGPClassifier(**FAST).partial_fit(Xs[:10], ys[:10], classes=NAMES)
    assert set(ys[:10]) < set(NAMES)
    stream.partial_fit(Xs[10:], ys[10:])
    for estimator, count in ((parts, 3), (stream, 2)):
        assert len(estimator.modules_) == count
        assert all(m.classes == tuple(NAMES) for m in estimator.modules_)
        assert estimator.score(XT, NAMES[YT]) > 0.75
    with pytest.raises(rgp.RecycleGPError, match=r"y holds \['oak'\], but the labels are"):
        stream.partial_fit(Xs[:3], ["oak"] * 3)


def test_what_cannot_be_merged_is_said_with_the_remedy():
    two = RecyclableGPClassifier(learn=False, inducing=20, name="t").fit(X, NAMES[(Y > 0).astype(int)])
    three = RecyclableGPClassifier(name="c", **FAST).fit(X, NAMES[Y])
    for one, other in ((two, three), (three, two), (two, three.modules_[0]), (three, two.modules_[0])):
        with pytest.raises(rgp.RecycleGPError, match=r"some have two classes, 0 and 1.*likelihood='categorical'"):
            one.merge(other)
    other = RecyclableGPClassifier(learn=False, inducing=20, name="d", likelihood="categorical-softmax").fit(
        X, NAMES[Y]
    )
    with pytest.raises(rgp.RecycleGPError, match="one module has likelihood 'categorical', another"):
        three.merge(other)


def test_labels_that_modules_cannot_hold():
    with pytest.raises(rgp.RecycleGPError, match="not different as text"):
        RecyclableGPClassifier(**FAST).fit(X, np.array(["a", " a", "b"])[Y])
    with pytest.raises(rgp.RecycleGPError, match="a class is called ''"):
        RecyclableGPClassifier(**FAST).fit(X, np.array(["a", "", "b"])[Y])
    with pytest.raises(rgp.RecycleGPError, match="likelihood='softmax'; use auto, bernoulli"):
        RecyclableGPClassifier(likelihood="softmax").fit(X, Y)
    with pytest.raises(rgp.RecycleGPError, match="y holds one class"):
        RecyclableGPClassifier(**FAST).fit(X, 0 * Y)


def test_owners_by_a_column():
    """Owners who name the rings differently by an offset of their own; the answer of one is asked for by name."""
    owner = np.where(np.arange(len(X)) % 2 == 0, "north", "south")
    y = np.where(owner == "north", Y, np.digitize(np.hypot(*X.T), [0.5, 1.1]))
    estimator = RecyclableGPClassifier(owners="smooth", kernel="rbf", **FAST).fit(X, NAMES[y], owner=owner)
    assert estimator.ensemble_.owners == ["north", "south"]
    north, south = (estimator.predict(XT, owner=who) for who in ("north", "south"))
    assert (north == "cedar").sum() < (south == "cedar").sum()


@pytest.mark.parametrize("likelihood", ["categorical-softmax", "bernoulli", "bernoulli-probit"])
def test_a_row_of_weight_three_is_there_three_times(likelihood):
    """At a given kernel and points, of modules and of the estimator."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale = 0.7
    weights = 1 + np.arange(len(X)) % 3
    often = np.repeat(np.arange(len(X)), weights)
    options = {"likelihood": likelihood, "kernel": kernel, "inducing": XT[:15], "publish": None, "learn": False}
    y = Y if likelihood == "categorical-softmax" else Y > 0
    module = rgp.fit(X, y, weights=weights, **options)
    assert module.rows == weights.sum()
    close(module.predict_proba(XT), rgp.fit(X[often], y[often], **options).predict_proba(XT), 1e-6)
    assert np.abs(module.predict_proba(XT) - rgp.fit(X, y, **options).predict_proba(XT)).max() > 0.01
    weighted = RecyclableGPClassifier(**options).fit(X, y, sample_weight=weights)
    close(weighted.predict_proba(XT), module.predict_proba(XT), 1e-6)


def test_weights_of_one_change_nothing_seven_is_seven_times_and_zero_leaves_out():
    fast = RecyclableGPClassifier(learn=False, **FAST)
    close(fast.fit(X, Y, sample_weight=np.ones(len(X))).predict_proba(XT), fast.fit(X, Y).predict_proba(XT), 0)
    seven = fast.fit(X, Y, sample_weight=np.full(len(X), 7.0)).predict_proba(XT)
    close(seven, fast.fit(np.tile(X, (7, 1)), np.tile(Y, 7)).predict_proba(XT), 1e-9)
    assert np.abs(seven - fast.fit(X, Y).predict_proba(XT)).max() > 0.01
    some = fast.fit(X, Y, sample_weight=(Y < 2).astype(float))
    assert some.classes_.tolist() == [0, 1]
    assert some.ensemble_.rows == (Y < 2).sum()


@pytest.mark.slow
def test_cross_validation_with_three_classes():
    scores = cross_val_score(RecyclableGPClassifier(**FAST), X, NAMES[Y], cv=3, scoring="neg_log_loss")
    assert scores.mean() > -0.6


def test_columns_of_text_beside_classes():
    frame = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "site": np.array(["north", "south"])[np.arange(len(X)) % 2]})
    estimator = RecyclableGPClassifier(**FAST).fit(frame, NAMES[Y], owner=frame["site"])
    close(estimator.predict_proba(frame).sum(1), 1)
    assert estimator.score(frame, NAMES[Y]) > 0.8

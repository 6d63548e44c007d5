"""The scikit-learn estimators: against scikit-learn's exact GP where they are exact, and in its pipelines."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recyclegp as rgp
from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor, regions

VARIANCE, LENGTHS, NOISE = 1.8, (0.9, 2.3), 0.07


def rough():
    kernel = ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=2)).double()
    kernel.outputscale = VARIANCE
    kernel.base_kernel.lengthscale = torch.tensor([LENGTHS], dtype=torch.float64)
    return kernel


def data(n=48, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.25 * rng.normal(size=n)


X, Y = data()
XT = np.random.default_rng(1).uniform(-0.5, 4.5, (20, 2))


def exact(rows=slice(None)):
    """scikit-learn's GP with the same kernel and noise: standard deviations and covariances are of f."""
    kernel = VARIANCE * Matern(LENGTHS, nu=1.5)
    return GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X[rows], Y[rows])


def planned(**options):
    """Published at all of X, where nothing is lost: then every way of dividing the rows is the exact GP."""
    return RecyclableGPRegressor(rough(), noise=NOISE, learn=False, publish=X, ensemble_inducing=X, **options)


def labels(n=80, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, 2))
    return X, np.where(X[:, 1] > 2 + np.sin(2 * X[:, 0]), "up", "down")


XC, YC = labels()


def close(actual, expected, tolerance=1e-7):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


# --- regression, where it is exact ------------------------------------------------------------


def parted():
    return planned().partial_fit(X[:20], Y[:20]).partial_fit(X[20:], Y[20:])


def merged():
    return planned().fit(X[:20], Y[:20]).merge(planned().fit(X[20:], Y[20:]))


WAYS = {
    "fit": (lambda: planned().fit(X, Y), 1),
    "n_partitions": (lambda: planned(n_partitions=3).fit(X, Y), 3),
    "partial_fit": (parted, 2),
    "merge": (merged, 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_the_exact_gp(way):
    """Mean, standard deviation and covariance of f, as GaussianProcessRegressor has them with alpha."""
    make, count = WAYS[way]
    estimator, gp = make(), exact()
    mean, sd = estimator.predict(XT, return_std=True)
    close(mean, gp.predict(XT))
    close(sd, gp.predict(XT, return_std=True)[1])
    _, covariance = estimator.predict(XT, return_cov=True)
    close(covariance, gp.predict(XT, return_cov=True)[1])
    close(estimator.predict(XT), mean, 0)
    assert estimator.score(X, Y) == pytest.approx(gp.score(X, Y), abs=1e-7)
    assert len(estimator.modules_) == count == len(estimator.ensemble_.names)
    assert estimator.ensemble_.rows == len(X)
    assert estimator.ensemble_.noise == pytest.approx(NOISE)


def test_samples_are_joint_draws_of_f():
    """Shape as scikit-learn's; mean and covariance of many draws are those predicted, within their own error."""
    estimator, gp = planned().fit(X, Y), exact()
    n = 20_000
    draws = estimator.sample_y(XT, n, random_state=4)
    assert draws.shape == gp.sample_y(XT, n).shape == (20, n)
    assert estimator.sample_y(XT).shape == (20, 1)
    mean, covariance = gp.predict(XT, return_cov=True)
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(1) - mean) / sd).max() < 5 / np.sqrt(n)
    assert np.abs((np.cov(draws) - covariance) / np.outer(sd, sd)).max() < 8 / np.sqrt(n)
    np.testing.assert_array_equal(draws, estimator.sample_y(XT, n, random_state=4))
    assert not np.array_equal(draws, estimator.sample_y(XT, n, random_state=np.random.RandomState(4)))


# --- regression, learned ----------------------------------------------------------------------


def test_one_module_predicts_what_fit_gives():
    estimator = RecyclableGPRegressor("matern52", publish=20, name="ward-7", random_state=5).fit(X, Y)
    (module,) = estimator.modules_
    assert (module.name, len(module.inducing)) == ("ward-7", 20)
    direct = rgp.fit(X, Y, kernel="matern52", publish=20, seed=5)
    close(module.predict(XT)[0], direct.predict(XT)[0], 0)
    close(estimator.predict(XT), direct.predict(XT)[0], 1e-9)
    close(estimator.predict(XT, return_std=True)[1] ** 2, direct.predict(XT)[1], 1e-9)


@pytest.mark.slow
def test_partitions_side_by_side_or_in_processes():
    """The same answer from two workers; and the regions' ensemble knows what one fit knows."""
    X, y = data(180, seed=6)
    one = RecyclableGPRegressor(n_partitions=3, name="a").fit(X, y)
    two = RecyclableGPRegressor(n_partitions=3, name="a", n_jobs=2).fit(X, y)
    assert [m.name for m in one.modules_] == [m.name for m in two.modules_] == ["a", "a-2", "a-3"]
    assert sum(m.rows for m in one.modules_) == 180
    close(one.predict(XT), two.predict(XT), 1e-5)
    Xt, _ = data(300, seed=7)
    truth = np.sin(2 * Xt[:, 0]) + 0.3 * Xt[:, 1]
    assert np.sqrt(np.mean((one.predict(Xt) - truth) ** 2)) < 0.15


@pytest.mark.slow
def test_partial_fit_reaches_a_region_nobody_had_seen():
    """Points and kernel are chosen anew, so that the second half is learned as well as the first."""
    rng = np.random.default_rng(8)
    X = np.sort(rng.uniform(0, 10, (200, 1)), axis=0)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
    estimator = RecyclableGPRegressor(name="stream").partial_fit(X[:100], y[:100])
    early, Xt = estimator.modules_, np.linspace(5.5, 9.5, 50)[:, None]
    before = np.sqrt(np.mean((estimator.predict(Xt) - np.sin(2 * Xt[:, 0])) ** 2))
    estimator.partial_fit(X[100:], y[100:])
    after = np.sqrt(np.mean((estimator.predict(Xt) - np.sin(2 * Xt[:, 0])) ** 2))
    assert after < 0.05 < 0.5 < before
    assert [m.name for m in estimator.modules_] == ["stream", "stream-2"]
    assert len(early) == 1  # handed out, and not changed behind anybody's back
    estimator.fit(X[:50], y[:50])
    assert len(estimator.modules_) == 1


@pytest.mark.slow
def test_merge_returns_a_new_estimator_and_takes_modules(tmp_path):
    """Estimators, one or many, and modules from files or other libraries; the originals stay as they are."""
    a, b, c = (RecyclableGPRegressor(name=n, publish=12).fit(X[i::3], Y[i::3]) for i, n in enumerate("abc"))
    before = a.predict(XT)
    c.modules_[0].save(tmp_path / "c.safetensors")
    module = rgp.load(tmp_path / "c.safetensors")
    gp = rgp.from_sklearn(exact(slice(0, 20)), name="theirs", publish=12)
    together = a.merge([b, c])
    assert together.ensemble_.names == ["a", "b", "c"]
    assert together is not a
    assert together.get_params() == a.get_params()
    close(together.predict(XT), a.merge([b, module]).predict(XT), 1e-9)
    close(a.predict(XT), before, 0)
    assert len(a.modules_) == 1
    assert a.merge(b).ensemble_.names == ["a", "b"]
    assert a.merge(gp).ensemble_.names == ["a", "theirs"]
    error = np.sqrt(np.mean((together.predict(X) - np.sin(2 * X[:, 0]) - 0.3 * X[:, 1]) ** 2))
    assert error < 0.15
    with pytest.raises(rgp.RecycleGPError, match="two modules are named 'a'"):
        a.merge(a)
    with pytest.raises(TypeError, match="merge takes RecyclableGPRegressor or Module objects, not GaussianProcess"):
        a.merge([exact()])
    with pytest.raises(TypeError, match="not RecyclableGPClassifier"):
        a.merge(RecyclableGPClassifier())
    with pytest.raises(NotFittedError):
        a.merge(RecyclableGPRegressor())
    with pytest.raises(NotFittedError):
        RecyclableGPRegressor().merge(a)


def test_owners_may_differ_where_that_is_asked_for():
    """Three owners of one function, each with a constant; a known owner's function is asked for by name."""
    shifts = {"a": -2.0, "b": 0.5, "c": 1.5}
    made = [
        RecyclableGPRegressor(rough(), noise=NOISE, learn=False, publish=12, name=name, owners="offset").fit(
            X[i::3], Y[i::3] + shift
        )
        for i, (name, shift) in enumerate(shifts.items())
    ]
    together = made[0].merge(made[1:])
    e = together.ensemble_
    assert (together.owners, e.owners) == ("offset", ["a", "b", "c"])
    assert e.offset_sd > 0.3
    for owner in (None, "new", "a", "c"):
        mean, variance = e.predict(XT, owner)
        close(together.predict(XT, owner=owner), mean, 1e-12)
        close(together.predict(XT, return_std=True, owner=owner)[1], np.sqrt(variance), 1e-12)
        close(np.diag(together.predict(XT, return_cov=True, owner=owner)[1]), variance, 1e-9)
        close(together.sample_y(XT, 3, 7, owner=owner), e.sample(XT, 3, seed=7, owner=owner).T, 1e-12)
    assert np.mean(together.predict(XT, owner="c") - together.predict(XT, owner="a")) > 2
    with pytest.raises(rgp.RecycleGPError, match="owner='d': nobody here is called so"):
        together.predict(XT, owner="d")
    same = clone(together).set_params(owners=None, name="s")
    assert same.fit(X[:20], Y[:20]).merge(made[1]).ensemble_.offset_sd == 0
    with pytest.raises(rgp.RecycleGPError, match="owners='both'; use 'auto'"):
        clone(together).set_params(owners="both").fit(X, Y)


def test_calls_of_partial_fit_are_owners_and_partitions_are_not():
    options = {"noise": NOISE, "learn": False, "publish": 8, "owners": "offset", "n_partitions": 2, "name": "day"}
    stream = RecyclableGPRegressor(rough(), **options).partial_fit(X[:24], Y[:24])
    assert stream.ensemble_.owners == ["day"]
    assert stream.ensemble_.offset_sd == 0
    stream.partial_fit(X[24:], Y[24:] + 3)
    assert [m.name for m in stream.modules_] == ["day", "day-2", "day-3", "day-4"]
    assert stream.ensemble_.owners == ["day", "day-3"]
    assert stream.ensemble_.offset_sd > 0.5


# --- classification ---------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("down", "up"), (0, 1), (-1, 1), (False, True), (3.0, 7.0)], ids=str)
def test_any_two_labels(names):
    """The labels are only names: probabilities do not depend on them, but on their order."""
    y = np.where(YC == "up", names[1], names[0])
    estimator = RecyclableGPClassifier(publish=20, learn=False).fit(XC, y)
    assert estimator.classes_.tolist() == list(names)
    direct = rgp.fit(XC, (YC == "up").astype(int), likelihood="bernoulli", publish=20, learn=False)
    close(estimator.predict_proba(XT), direct.predict_proba(XT), 1e-8)
    np.testing.assert_array_equal(estimator.predict(XT) == names[1], direct.predict_proba(XT)[:, 1] > 0.5)
    assert estimator.score(XC, y) > 0.85
    swapped = RecyclableGPClassifier(publish=20, learn=False).fit(XC, np.where(YC == "up", "a", "b"))
    close(swapped.predict_proba(XT)[:, ::-1], estimator.predict_proba(XT), 1e-8)


@pytest.mark.slow
def test_classifier_in_parts():
    """partial_fit with classes, where a part holds one of them only; partitions; merge."""
    order = np.argsort(XC[:, 1])  # the lowest third is all "down"
    Xs, ys = XC[order], YC[order]
    low, high = slice(0, 16), slice(16, 80)
    assert set(ys[low]) == {"down"}
    with pytest.raises(rgp.RecycleGPError, match=r"y holds one class.*partial_fit takes classes="):
        RecyclableGPClassifier().partial_fit(Xs[low], ys[low])
    with pytest.warns(rgp.errors.NothingToLearnWarning, match="'down' in all rows"):
        stream = RecyclableGPClassifier(name="s", publish=20).partial_fit(Xs[low], ys[low], classes=["up", "down"])
    stream.partial_fit(Xs[high], ys[high])
    parts = RecyclableGPClassifier(n_partitions=2, learn=False).fit(XC, YC)
    a, b = (RecyclableGPClassifier(name=n, learn=False).fit(XC[i::2], YC[i::2]) for i, n in enumerate("ab"))
    both = a.merge(b)
    Xt, yt = labels(400, seed=9)
    for estimator in (stream, parts, both):
        assert estimator.classes_.tolist() == ["down", "up"]
        assert len(estimator.modules_) == 2
        assert estimator.score(Xt, yt) > 0.85
    with pytest.raises(rgp.RecycleGPError, match=r"classes=\['a', 'b'\], but the first call had"):
        stream.partial_fit(Xs[high], ys[high], classes=["a", "b"])
    with pytest.raises(rgp.RecycleGPError, match=r"y holds \['left'\], but the labels are"):
        stream.partial_fit(Xs[low], ["left"] * 16)
    with pytest.raises(rgp.RecycleGPError, match=r"merge: labels \[0, 1\] against \['down', 'up'\]"):
        both.merge(RecyclableGPClassifier(learn=False).fit(XC, (YC == "up").astype(int)))


def test_labels_of_an_owner():
    """Owners who draw the line elsewhere; without a name the answer is about somebody new."""
    made = [
        RecyclableGPClassifier(learn=False, publish=16, name=name, owners="offset").fit(
            XC, np.where(XC[:, 1] > limit, "up", "down")
        )
        for name, limit in (("strict", 3.2), ("mild", 0.8))
    ]
    both = made[0].merge(made[1])
    assert both.ensemble_.offset_sd > 0
    for owner in (None, "strict", "mild"):
        expected = both.ensemble_.predict_proba(XT, owner=owner or "new")
        close(both.predict_proba(XT, owner=owner), expected, 1e-12)
        np.testing.assert_array_equal(both.predict(XT, owner=owner) == "up", expected[:, 1] > 0.5)
    assert (both.predict(XT, owner="mild") == "up").sum() > (both.predict(XT, owner="strict") == "up").sum()


def test_likelihoods_of_two_classes_refuse_more_and_have_a_remedy():
    three = np.digitize(XC[:, 0], [1.3, 2.6])
    with pytest.raises(rgp.RecycleGPError, match=r"Only binary classification is supported by.*3 classes; use categor"):
        RecyclableGPClassifier(likelihood="bernoulli").fit(XC, three)
    rest = OneVsRestClassifier(RecyclableGPClassifier(publish=16, learn=False))
    assert rest.fit(XC, three).score(XC, three) > 0.85
    with pytest.raises(ValueError, match="Unknown label type"):
        RecyclableGPClassifier().fit(XC, XC[:, 0])


# --- scikit-learn's tools ---------------------------------------------------------------------


@pytest.mark.slow
def test_pipeline_search_and_cross_validation():
    X, y = data(90, seed=10)
    pipeline = make_pipeline(StandardScaler(), RecyclableGPRegressor(publish=16))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.6
    grid = {"recyclablegpregressor__kernel": ["linear", "rbf"], "recyclablegpregressor__publish": [2, 16]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"recyclablegpregressor__kernel": "rbf", "recyclablegpregressor__publish": 16}
    mean, sd = search.best_estimator_.predict(X[:5], return_std=True)
    assert mean.shape == sd.shape == (5,)
    assert (
        cross_val_score(RecyclableGPClassifier(publish=16, learn=False), XC, YC, cv=3, scoring="neg_log_loss").mean()
        > -0.4
    )


def test_clone_and_pickle():
    """Also with a kernel object, which is copied; a pickled estimator predicts the same and can go on."""
    estimator = planned().fit(X[:20], Y[:20])
    copy = clone(estimator)
    with pytest.raises(NotFittedError):
        copy.predict(XT)
    assert copy.kernel is not estimator.kernel
    close(copy.fit(X[:20], Y[:20]).predict(XT), estimator.predict(XT), 0)
    again = pickle.loads(pickle.dumps(estimator))
    close(again.predict(XT), estimator.predict(XT), 0)
    close(again.partial_fit(X[20:], Y[20:]).predict(XT), exact().predict(XT))


@pytest.mark.slow
def test_column_names_are_kept():
    """In the estimator as scikit-learn keeps them, and in the modules, where they are matched by name."""
    frame = pd.DataFrame(X, columns=["age", "dose"])
    estimator = RecyclableGPRegressor(publish=24, name="a").fit(frame, pd.Series(Y))
    assert estimator.feature_names_in_.tolist() == ["age", "dose"]
    assert estimator.modules_[0].columns == estimator.ensemble_.columns == ("age", "dose")
    ask = pd.DataFrame(XT, columns=["age", "dose"])
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(ask[["dose", "age"]])
    turned = RecyclableGPRegressor(publish=24, name="b").fit(frame[["dose", "age"]].iloc[::2], Y[::2])
    together = estimator.merge(turned)
    assert together.feature_names_in_.tolist() == ["age", "dose"]
    straight = estimator.merge(RecyclableGPRegressor(publish=24, name="b").fit(frame.iloc[::2], Y[::2]))
    assert np.abs(together.predict(ask) - straight.predict(ask)).max() < 0.1
    nameless = RecyclableGPRegressor(publish=24, name="c").fit(X[1::2], Y[1::2])
    with pytest.warns(rgp.RecycleGPWarning, match="columns of c have no names"):
        assert nameless.merge(estimator).feature_names_in_.tolist() == ["age", "dose"]
    estimator.partial_fit(frame.iloc[:10], Y[:10])
    assert estimator.modules_[1].columns == ("age", "dose")
    estimator.fit(X, Y)
    assert not hasattr(estimator, "feature_names_in_")


def test_random_state():
    """An integer is the seed, and the global state is left alone; a RandomState is asked for one."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    a, b = (RecyclableGPRegressor(publish=5).fit(X, Y).ensemble_.inducing for _ in range(2))
    np.testing.assert_array_equal(a, b)
    c = RecyclableGPRegressor(publish=5, random_state=np.random.RandomState(2)).fit(X, Y).ensemble_.inducing
    assert not np.array_equal(a, c)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_questions_that_cannot_be_answered():
    estimator = RecyclableGPRegressor(publish=8).fit(X, Y)
    with pytest.raises(rgp.RecycleGPError, match="at most one of them"):
        estimator.predict(XT, return_std=True, return_cov=True)
    for count in (0, 49, 2.5, True):
        with pytest.raises(rgp.RecycleGPError, match=rf"n_partitions={count!r} for 48 rows"):
            RecyclableGPRegressor(n_partitions=count).fit(X, Y)
    with pytest.raises(NotFittedError):
        RecyclableGPRegressor().sample_y(XT)


# --- regions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 48])
def test_regions_hold_every_row_once_and_are_of_one_size(count):
    parts = regions(X, count)
    assert sorted(np.concatenate(parts).tolist()) == list(range(48))
    sizes = [len(p) for p in parts]
    assert max(sizes) - min(sizes) <= 1


def test_regions_are_compact_whatever_the_units():
    """A grid of 2 × 4 halves thrice across the longer side; columns count in standard deviations; ties do no harm."""
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(40.0)), -1).reshape(-1, 2)
    for scale in ([1.0, 1.0], [1000.0, 1000.0]):
        parts = regions(grid * scale, 8)
        assert max(np.ptp(grid[p], axis=0).max() for p in parts) <= 20
    first, second = regions(np.c_[np.zeros(40), np.linspace(0, 1, 40)], 2)
    assert (first.max(), second.min()) == (19, 20)
    assert [len(p) for p in regions(np.zeros((9, 2)), 3)] == [3, 3, 3]


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
@pytest.mark.parametrize("kind", [RecyclableGPRegressor, RecyclableGPClassifier])
def test_rows_per_point_reaches_every_partition(kind):
    X, y = data()
    made = kind(rows_per_point=8, n_partitions=2, learn=False).fit(X, y > np.median(y))
    assert [len(m.inducing) <= 24 // 8 for m in made.modules_] == [True, True]


# --- categories -------------------------------------------------------------------------------


def patients(seed, devices, rows=80):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.uniform(20, 80, rows), "device": rng.choice(devices, rows)})
    return X, np.sin(X["age"] / 12) + 0.7 * (X["device"] == "b") + 0.1 * rng.standard_normal(rows)


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_categories(n_partitions):
    X, y = patients(1, ["a", "b"])
    found = RecyclableGPRegressor(n_partitions=n_partitions).fit(X, y)
    assert list(found.feature_names_in_) == ["age", "device"]
    assert found.score(X, y) > 0.9
    _, sd = found.predict(X, return_std=True)
    _, covariance = found.predict(X, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), sd, rtol=1e-6)
    assert found.sample_y(X, 3).shape == (80, 3)
    more = found.partial_fit(*patients(2, ["b", "c"]))
    assert sorted(more.ensemble_.categories.names(1)) == ["a", "b", "c"]
    assert more.merge(RecyclableGPRegressor().fit(*patients(3, ["d"]))).ensemble_.categories.names(1)[-1] == "d"
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(X.rename(columns={"age": "years"}))


def test_categories_of_a_classifier():
    X, y = patients(4, ["a", "b"], 120)
    labels = np.where(y > 0.3, "high", "low")
    found = RecyclableGPClassifier().fit(X, labels)
    assert found.score(X, labels) > 0.85
    assert found.predict_proba(X).shape == (120, 2)

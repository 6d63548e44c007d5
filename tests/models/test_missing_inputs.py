"""Rows that lack some inputs: left out, filled from similar rows, or integrated over what similar rows have."""

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import call, ok, written

gpytorch = pytest.importorskip("gpytorch")


def table(seed, n=80, gaps=12):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 80, n), rng.uniform(0, 5, n)
    sex = rng.choice(["f", "m"], n)
    y = np.sin(age / 15) + 0.5 * dose + 0.3 * (sex == "m") + 0.1 * rng.standard_normal(n)
    X = pd.DataFrame({"age": age, "dose": dose, "sex": sex})
    X.loc[: gaps - 1, "age"] = np.nan
    X.loc[gaps // 2 : gaps + 3, "sex"] = None
    return X, pd.Series(y, name="crp")


def numbers(seed=0, n=60, gaps=10):
    X, y = table(seed, n, gaps)
    return X[["age", "dose"]].to_numpy(), y.to_numpy()


HOW = {"privacy": "things", "name": "a"}


def same(a, b):
    return a.digest() == b.digest() if hasattr(a, "digest") else a.content_id == b.content_id


@pytest.mark.parametrize("missing", ["drop", "impute", "marginalise"])
def test_rows_that_lack_nothing_are_fitted_as_ever(missing):
    X, y = numbers(gaps=0)
    plain, module = rgp.fit(X, y, **HOW), rgp.fit(X, y, missing=missing, **HOW)
    assert np.array_equal(plain.predict(X), module.predict(X))
    assert module.rows == 60


def test_dropped_rows_are_not_there():
    X, y = table(1)
    complete = X.notna().all(axis=1)
    plain, module = rgp.fit(X[complete], y[complete], **HOW), rgp.fit(X, y, missing="drop", **HOW)
    assert np.array_equal(plain.predict(X[complete]), module.predict(X[complete]))
    assert module.rows == int(complete.sum()) == 64


def test_imputed_numbers_are_those_of_scikit_learn():
    """KNNImputer on standardised inputs and target; one cell is missing in each row, where the two agree."""
    impute = pytest.importorskip("sklearn.impute")
    X, y = numbers(2)
    scale = np.append(np.nanstd(X, 0), y.std())
    filled = impute.KNNImputer(n_neighbors=5).fit_transform(np.c_[X, y] / scale)[:, :2] * scale[:2]
    theirs, ours = rgp.fit(filled, y, **HOW), rgp.fit(X, y, missing="impute", **HOW)
    assert ours.rows == 60
    asked = filled[:7]
    assert ours.predict(asked)[0] == pytest.approx(theirs.predict(asked)[0], abs=1e-6)
    assert ours.noise == pytest.approx(theirs.noise, rel=1e-6)


def test_an_imputed_level_is_the_one_that_most_similar_rows_have():
    x = np.r_[np.linspace(0, 1, 20), np.linspace(5, 6, 20)]
    X = pd.DataFrame({"x": x, "kind": ["a"] * 20 + ["b"] * 20})
    X.loc[[3, 30], "kind"] = None
    full = X.fillna({"kind": pd.Series(["a"] * 20 + ["b"] * 20)})
    y = np.sin(x)
    ours, theirs = (rgp.fit(t, y, missing=m, **HOW) for t, m in ((X, "impute"), (full, "refuse")))
    assert np.array_equal(ours.predict(full), theirs.predict(full))


def test_marginalised_rows_are_the_weighted_mixture_of_what_similar_rows_have():
    """In NumPy: dense GP of complete rows → shares of each value → dense GP in which a row counts as its shares."""
    X, y = numbers(3, n=40, gaps=6)
    s2, scale = 0.04, (1.7, np.array([15.0, 2.0]))
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = scale[0], torch.as_tensor(scale[1])

    def k(A, B):
        return scale[0] * np.exp(-0.5 * (((A[:, None] - B[None]) / scale[1]) ** 2).sum(-1))

    def posterior(A, b, noise, at):
        K, C = k(A, A) + np.diag(noise), k(at, A)
        return C @ np.linalg.solve(K, b), scale[0] - (C * np.linalg.solve(K, C.T).T).sum(1)

    gone = np.isnan(X).any(1)
    A, b = X[~gone], y[~gone]
    rows, targets, weights = [*A], [*b], [1.0] * len(b)
    for x, target in zip(X[gone], y[gone], strict=True):
        near = np.argsort(((A[:, 1] - x[1]) / X[:, 1].std()) ** 2, kind="stable")[:10]
        values = np.stack([A[near, 0], np.full(10, x[1])], 1)
        m, v = posterior(A, b, np.full(len(b), s2), values)
        log_p = -0.5 * ((target - m) ** 2 / (v + s2) + np.log(v + s2))
        q = np.exp(log_p - log_p.max())
        q /= q.sum()
        known = q @ (v + s2)
        reliable = known / (known + q @ (m - q @ m) ** 2)
        keep = q > 1e-3
        rows += [*values[keep]]
        targets += [target] * int(keep.sum())
        weights += [*(q[keep] / q[keep].sum() * reliable)]
    asked = np.stack([np.linspace(25, 75, 9), np.linspace(0.5, 4.5, 9)], 1)
    mean, variance = posterior(np.array(rows), np.array(targets), s2 / np.array(weights), asked)
    module = rgp.fit(X, y, missing="marginalise", kernel=kernel, learn=False, noise=s2, publish=asked, **HOW)
    assert module.predict(asked)[0] == pytest.approx(mean, abs=1e-5)
    assert module.predict(asked)[1] == pytest.approx(variance, abs=1e-5)
    assert module.rows == 40
    assert module.latents[0].effective_rows == pytest.approx(sum(weights), rel=1e-6)


def test_where_most_rows_lack_something_the_others_are_too_few():
    """A quarter of the cells of six correlated inputs: one row in six is complete."""
    error = {"drop": [], "impute": [], "marginalise": []}
    for seed in range(420, 423):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((150, 1)) + 0.5 * rng.standard_normal((150, 6))
        true = X @ np.array([1.0, 0.5, -1.0, 0.3, 0.0, 0.8])
        y, seen = true + 0.3 * rng.standard_normal(150), X.copy()
        seen[rng.random(X.shape) < 0.25] = np.nan
        for how, found in error.items():
            module = rgp.fit(seen[:90], y[:90], missing=how, kernel="linear", **HOW)
            found.append(np.mean((module.predict(X[90:])[0] - true[90:]) ** 2))
    assert np.mean(error["impute"]) < 0.8 * np.mean(error["drop"])
    assert np.mean(error["marginalise"]) < 0.8 * np.mean(error["drop"])


@pytest.mark.parametrize("missing", ["impute", "marginalise"])
def test_every_kind_of_model(missing):
    X, y = table(4, 50, 6)
    low = np.where(y > y.median(), "ill", "well")
    two = rgp.fit(X, low, likelihood="bernoulli", positive="ill", missing=missing, **HOW)
    assert (two.rows, two.targets[0].labels) == (50, ("well", "ill"))
    counts = rgp.fit(X, np.round(np.exp(y / 2)), likelihood="poisson", missing=missing, **HOW)
    classes = rgp.fit(X, np.where(y > 2, "c", low), likelihood="categorical", missing=missing, **HOW)
    noisy = rgp.fit(X, y, noise=np.full(50, 0.01), missing=missing, **HOW)
    full = X.dropna()
    for module in (two, counts, classes, noisy):
        assert module.rows == 50
        assert np.isfinite(np.asarray(module.predict(full))).all()
    assert noisy.noise == pytest.approx(0.01)


def test_many_data_sets_and_rows_that_are_held_back():
    X, y = table(5)
    one = rgp.fit(X, y, missing="marginalise", hold_back=0.2, **HOW)
    many = rgp.fit_many([(X, y), table(6)], missing="marginalise", hold_back=0.2, names=["a", "b"], privacy="things")
    asked = X.dropna()
    assert many[0].predict(asked)[0] == pytest.approx(one.predict(asked)[0], abs=1e-6)
    assert one.rows == many[0].rows < 80
    assert one.held_back == 0.2
    chosen = rgp.fit_many([(X, y), table(6)], missing="impute", kernel="auto", names=["a", "b"], privacy="things")
    assert chosen.names == ["a", "b"]


def test_of_several_outputs_cells_may_be_empty_too():
    X, y = table(7)
    Y = pd.DataFrame({"heat": y, "salt": -y})
    Y.loc[:4, "heat"] = np.nan
    Y.loc[5, :] = np.nan
    module = rgp.fit(X, Y, missing="impute", **HOW)
    assert [latent.rows for latent in module.latents] == [74, 79]
    assert [latent.rows for latent in rgp.fit(X, Y, missing="drop", **HOW).latents] == [64, 64]


def test_a_rare_level_is_nobody_elses():
    """It would be in the file as that of many rows, although few have it."""
    X, y = table(8)
    X.loc[20:22, "sex"] = "x"
    y[20:22] = y[6]
    with pytest.warns(rgp.RecycleGPWarning, match="1 of 3 levels has fewer than 5 rows"):
        module = rgp.fit(X, y, missing="impute", **HOW)
    assert "x" not in module.categories.names(2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: (X, y, "guess"), "missing='guess'; use 'refuse', 'allow', 'drop', 'impute' or 'marginalise'"),
        (lambda X, y: (np.full_like(X, np.nan), y, "drop"), "every row lacks some input"),
        (lambda X, y: (np.c_[X[:, 0] * np.nan, X[:, 1]], y, "impute"), "no row has '0', which others lack; leave"),
        (
            lambda X, y: (X[:15], y[:15], "marginalise"),
            "needs 10 rows that lack nothing, and there are 5; use missing=",
        ),
        (lambda X, y: (X, np.c_[y, y], "marginalise"), "is for one target; use missing='impute'"),
        (lambda X, y: (X, y * np.nan, "impute"), "y has no values at all"),
        (lambda X, y: (X, y[:-1], "impute"), "y has 59 rows but X has 60; pass one target per row"),
        (lambda X, y: (X, 3, "impute"), "cannot be read as tables"),
        (lambda X, y: (X, y, "refuse"), "X holds 10 NaN or infinite values"),
    ],
)
def test_what_is_refused(change, said):
    X, y, missing = change(*numbers())
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.fit(X, y, missing=missing, **HOW)
    if missing != "guess":
        with pytest.raises(rgp.RecycleGPError, match=said):
            rgp.fit_many([(X, y)], missing=missing, privacy="things")


def test_estimators_answer_every_row():
    pytest.importorskip("sklearn")
    from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor

    X, y = numbers(9)
    model = RecyclableGPRegressor(missing="marginalise", privacy="things").fit(X, y)
    mean, sd = model.predict(X, return_std=True)
    assert np.array_equal(np.isnan(mean), np.isnan(X).any(1))
    assert np.array_equal(np.isnan(sd), np.isnan(mean))
    assert mean[10:] == pytest.approx(model.ensemble_.predict(X[10:])[0])
    assert np.isnan(model.predict(X[:3])).all()
    assert np.isnan(model.predict_interval(X)[0]).sum() == 10
    own = rgp.fit(X, y, missing="marginalise", **HOW)
    assert mean[10:] == pytest.approx(own.predict(X[10:])[0], abs=1e-6)
    classes = RecyclableGPClassifier(missing="impute", privacy="things").fit(X, np.where(y > y.mean(), "hi", "lo"))
    assert np.isnan(classes.predict_proba(X)).all(1).sum() == 10
    assert set(classes.predict(X[10:])) == {"hi", "lo"}
    with pytest.raises(rgp.RecycleGPError, match="10 rows lack an input"):
        classes.predict(X)
    with pytest.raises(ValueError, match="contains NaN"):
        RecyclableGPRegressor(privacy="things").fit(X, y)


# --- the command line -------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["impute", "marginalise"])
def test_the_command_line_fits_what_the_library_does(missing, tmp_path):
    X, y = table(10)
    path, out = written(X.assign(crp=y), tmp_path / "ward.csv"), tmp_path / "ward.safetensors"
    done = ok("fit", path, "-t", "crp", "--things", "--missing", missing, "-o", out)
    assert f"16 of 80 rows lack some input: {'filled' if missing == 'impute' else 'integrated'}" in done.stderr
    read = pd.read_csv(path)
    own = rgp.fit(read[["age", "dose", "sex"]], read.crp, missing=missing, privacy="things")
    asked = X.dropna()
    assert rgp.load(out).predict(asked)[0] == pytest.approx(own.predict(asked)[0], abs=1e-9)
    assert rgp.load(out).rows == 80


def test_predict_answers_every_row(tmp_path):
    X, y = table(11)
    path, out = written(X.assign(crp=y), tmp_path / "ward.csv"), tmp_path / "ward.safetensors"
    ok("fit", path, "-t", "crp", "--things", "--drop-missing", "-o", out)
    done = ok("predict", out, path, "-o", tmp_path / "p.csv")
    assert "16 of 80 rows lack an input (age: 12, sex: 10): their predictions are empty" in done.stderr
    found = pd.read_csv(tmp_path / "p.csv")
    gone = X.isna().any(axis=1)
    assert np.array_equal(found["mean"].isna(), gone)
    assert np.array_equal(found["outside"].isna(), gone)
    assert found["crp"].to_numpy() == pytest.approx(y.to_numpy())
    assert found["mean"][~gone].to_numpy() == pytest.approx(rgp.load(out).predict(X[~gone])[0])
    text = (tmp_path / "p.csv").read_text().splitlines()
    assert text[1].endswith("," * 8)
    assert text[-1].split(",")[-1] in "01"
    nothing = written(X[:5].assign(crp=y[:5]), tmp_path / "nothing.csv")
    ok("predict", out, nothing, "-o", tmp_path / "q.csv")
    assert pd.read_csv(tmp_path / "q.csv")["mean"].isna().all()


def test_the_command_line_says_what_helps(tmp_path):
    X, y = table(12)
    path = written(X.assign(crp=y), tmp_path / "ward.csv")
    said = one_line(call("fit", path, "-t", "crp", "--things", "-o", tmp_path / "a.safetensors"))
    assert "leave such rows out with --drop-missing, or take them all the same with --missing impute" in said
    out = tmp_path / "a.safetensors"
    both = call("fit", path, "-t", "crp", "--things", "-o", out, "--missing", "impute", "--drop-missing")
    assert "--missing impute or marginalise and --drop-missing" in one_line(both)
    wrong = one_line(call("fit", path, "-t", "crp", "--things", "-o", out, "--missing", "guess"))
    assert "--missing guess: use refuse, allow, impute or marginalise" in wrong
    parts = call("fit", path, "-t", "crp", "--missing", "impute", "--partitions", "2", "-o", out)
    assert "--missing impute: it is for one model; with partitions use --drop-missing" in one_line(parts)

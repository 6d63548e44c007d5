"""Columns of categories: exact answers, levels by name across owners and files, levels nobody has seen, refusals."""

from __future__ import annotations

import pickle
import warnings

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from cases_bad import check_refused
from recyclegp.categories import Categories, Levels
from recyclegp.kernels.gpytorch_objects import CategoryKernel

VARIANCE, LENGTH, CORRELATIONS, NOISE = 1.7, 12.0, (0.8, 0.4), 0.05
EFFECT = {"a": 0.0, "b": 0.6, "c": -0.5, "d": 0.3}


def table(seed, devices, rows=40, columns=("age", "sex", "device")):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, rows),
            "sex": pd.Categorical(rng.choice(["f", "m"], rows), categories=["m", "f", "never"]),
            "device": rng.choice(devices, rows),
        }
    )
    y = np.sin(X["age"] / 12) + 0.5 * (X["sex"] == "f") + X["device"].map(EFFECT) + 0.2 * rng.standard_normal(rows)
    return X[list(columns)], y.to_numpy()


def kernel_object():
    """In the order age, sex, device."""
    smooth, levels = gpytorch.kernels.MaternKernel(nu=0.5, active_dims=(0,)), CategoryKernel(active_dims=(1, 2))
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.ProductKernel(smooth, levels)).double()
    smooth.lengthscale = torch.tensor(LENGTH, dtype=torch.float64)
    kernel.outputscale = torch.tensor(VARIANCE, dtype=torch.float64)
    levels.distance = -np.log(CORRELATIONS)
    return kernel


def covariance(A, B):
    """The same by NumPy and pandas, from names."""
    K = VARIANCE * np.exp(-np.abs(A["age"].to_numpy()[:, None] - B["age"].to_numpy()) / LENGTH)
    for column, rho in zip(("sex", "device"), CORRELATIONS, strict=True):
        same = A[column].astype(str).to_numpy()[:, None] == B[column].astype(str).to_numpy()
        K = K * np.where(same, 1.0, rho)
    return K


def exact(X, y, Xt):
    A = covariance(X, X) + NOISE * np.eye(len(X))
    C = covariance(Xt, X)
    return C @ np.linalg.solve(A, y), np.diag(covariance(Xt, Xt) - C @ np.linalg.solve(A, C.T))


def planned(X, y, name, publish):
    options = {"kernel": kernel_object(), "learn": False, "noise": NOISE}
    return rgp.fit(X, y, publish=publish, name=name, **options)


OWNERS = {"north": table(1, ["a", "b"]), "south": table(2, ["b", "c"]), "west": table(3, ["c"])}
ALL = pd.concat([X.astype({"sex": str}) for X, _ in OWNERS.values()], ignore_index=True)
ALL_Y = np.concatenate([y for _, y in OWNERS.values()])
TEST = table(9, ["a", "b", "c"], 30)[0]


@pytest.fixture(scope="module")
def modules():
    """Fitted, at points of their own."""
    return {name: rgp.fit(X, y, name=name) for name, (X, y) in OWNERS.items()}


@pytest.fixture(scope="module")
def ensemble(modules):
    return rgp.merge(list(modules.values()), trust=None, owners=None)


def levels(model):
    return {model.columns[c]: names for c, names in model.categories.levels}


def close(found, expected, tolerance=1e-8):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


# --- exactness --------------------------------------------------------------------------------


def test_a_fit_is_the_exact_gp():
    X, y = OWNERS["north"]
    close(planned(X, y, "north", X).predict(TEST[TEST["device"] != "c"]), exact(X, y, TEST[TEST["device"] != "c"]))


def test_a_merge_is_the_exact_gp_of_everybody():
    """Owners have seen different levels, which have different codes."""
    parts = [planned(X, y, name, X) for name, (X, y) in OWNERS.items()]
    for inducing in ("all", ALL):
        merged = rgp.merge(parts, inducing=inducing, learn=False)
        close(merged.predict(TEST), exact(ALL, ALL_Y, TEST))
        close(merged.predict(TEST[["device", "age", "sex"]]), exact(ALL, ALL_Y, TEST))


def test_columns_in_another_order():
    X, y = OWNERS["south"]
    north = rgp.fit(*OWNERS["north"], name="n")
    one, other = (rgp.fit(t, y, name="s", publish=t.head(25)) for t in (X, X[["device", "age", "sex"]]))
    assert (one.categories.columns, other.categories.columns) == ((1, 2), (0, 2))
    found = [rgp.merge([north, m], learn=False, kernel=north.kernel) for m in (one, other)]
    close(found[0].predict(TEST), found[1].predict(TEST), 1e-4)
    assert found[1].columns == ("age", "sex", "device")


def test_an_unseen_level_is_at_the_prior():
    """As the formula says: correlation ρ with every level that is known, and with another unseen one."""
    X, y = OWNERS["north"]
    module = planned(X, y, "north", X)
    new = TEST.assign(device=np.where(np.arange(len(TEST)) % 2, "x", "z"))
    with pytest.warns(rgp.RecycleGPWarning, match=r"levels that the model has not seen: device \(x, z\)") as told:
        found = module.predict(new)
    assert len(told) == 1
    assert told[0].filename == __file__
    close(found, exact(X, y, new))
    with pytest.warns(rgp.RecycleGPWarning):
        draws = module.sample(new, 4000, seed=1)
    C = covariance(new, X)
    joint = covariance(new, new) - C @ np.linalg.solve(covariance(X, X) + NOISE * np.eye(len(X)), C.T)
    np.testing.assert_allclose(np.cov(draws.T), joint, atol=0.15)


# --- through the house ------------------------------------------------------------------------


def test_levels_of_all_owners(modules, ensemble):
    assert levels(modules["north"]) == {"sex": ("f", "m"), "device": ("a", "b")}  # "never" never occurs
    assert levels(modules["south"]) == {"sex": ("f", "m"), "device": ("b", "c")}
    assert levels(ensemble) == {"sex": ("f", "m"), "device": ("a", "b", "c")}
    other = rgp.merge([modules["south"], modules["north"]], trust=None, owners=None)
    assert levels(other)["device"] == ("b", "c", "a")
    one = rgp.merge([modules["north"], modules["south"]], trust=None, owners=None)
    close(other.predict(TEST), one.predict(TEST), 1e-3)  # both searches for a kernel end near its optimum


def test_it_learns(ensemble):
    """Better than the functions of single owners, and than levels left out."""
    X, y = table(77, ["a", "b", "c"], 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = np.sqrt(np.mean((ensemble.predict(X)[0] - y) ** 2))
    alone = [rgp.fit(X[["age"]], y, name=n) for n, (X, y) in OWNERS.items()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)  # levels contradict each other, where nobody tells them
        blind = rgp.merge(alone, owners=None, trust=None)
    assert error < 0.26
    assert error < 0.6 * np.sqrt(np.mean((blind.predict(X[["age"]])[0] - y) ** 2))


@pytest.mark.parametrize("inducing", ["auto", "all", 20])
def test_files(modules, inducing, tmp_path):
    merged = rgp.merge(list(modules.values()), inducing=inducing)
    for model in (modules["south"], merged, merged.forget_sites(), merged.to_module("recycled")):
        model.save(tmp_path / "m.safetensors")
        again = rgp.load(tmp_path / "m.safetensors")
        assert again.categories == model.categories
        X = TEST[TEST["device"] != "a"]
        close(again.predict(X), model.predict(X), 1e-10)
    assert pickle.loads(pickle.dumps(merged)).categories == merged.categories


@pytest.mark.filterwarnings("ignore:20 points cannot express")
@pytest.mark.parametrize("inducing", ["auto", "all", 20])
def test_add_update_remove(modules, inducing):
    north, south, west = modules.values()
    both = rgp.merge([north, west], inducing=inducing, trust=None)
    more = both.add(south)
    assert levels(more)["device"] == ("a", "b", "c")
    X, y = table(5, ["d", "a"], 30)
    updated = more.update(X, y, name="new")
    assert levels(updated)["device"] == ("a", "b", "c", "d")
    if inducing != 20:  # with so many points there is no room for another level
        assert updated.predict(X[X["device"] == "d"])[1].mean() < 0.5 * more_variance(more, X[X["device"] == "d"])
    gone = updated.remove(["new", "south", "west"], relearn=True)
    assert levels(gone)["device"] == ("a", "b")
    close(
        gone.predict(X[X["device"] == "a"]), rgp.merge([north], inducing=inducing).predict(X[X["device"] == "a"]), 1e-6
    )
    kept = updated.remove("new")
    close(kept.predict(TEST), more.predict(TEST), 1e-6)


def more_variance(model, X):
    with pytest.warns(rgp.RecycleGPWarning, match="has not seen"):
        return model.predict(X)[1].mean()


def test_kernels_of_a_merge(modules):
    for kernel in ("rbf + category", "matern32", "auto", "category"):
        merged = rgp.merge(list(modules.values()), kernel=kernel, trust=None, owners=None)
        assert "category" in merged.kernel_spec.describe()
        assert merged.kernel_spec.structure.discrete == (1, 2)
        assert np.isfinite(merged.predict(TEST)[0]).all()


def test_many_at_once(tmp_path):
    data = [table(i, devices) for i, devices in enumerate((["a", "b"], ["c"], ["b", "d"]))]
    many = rgp.fit_many(data, names=["x", "y", "z"])
    for i, name in enumerate(many.names):
        X = data[i][0]
        close(many[i].predict(X), rgp.fit(*data[i], name=name).predict(X), 1e-6)
    many.save(tmp_path / "many.safetensors")
    again = rgp.load_many(tmp_path / "many.safetensors")
    assert again[2].categories == many[2].categories
    merged = rgp.merge(tmp_path / "many.safetensors")
    assert levels(merged)["device"] == ("a", "b", "c", "d")
    close(
        merged.predict(TEST),
        rgp.merge([rgp.fit(*d, name=n) for d, n in zip(data, "xyz", strict=True)]).predict(TEST),
        1e-4,
    )


def test_other_likelihoods():
    X, y = table(4, ["a", "b"], 120)
    module = rgp.fit(X, y > 0.5, likelihood="bernoulli")
    assert ((module.predict_proba(X)[:, 1] > 0.5) == (y > 0.5)).mean() > 0.85
    assert module.log_density(X, y > 0.5).mean() > np.log(0.6)
    assert set(module.inducing[:, 2]) <= {0.0, 1.0}


def test_categories_alone():
    X, y = table(6, ["a", "b", "c"], 90, columns=("sex", "device"))
    for kernel in ("rbf", "category"):
        module = rgp.fit(X, y, kernel=kernel, name="levels")
        assert module.kernel_spec.describe().startswith("category")
        assert len(module.inducing) <= 6
    means = module.predict(pd.DataFrame({"sex": ["f", "m"], "device": ["b", "c"]}))[0]
    assert means[0] > means[1]
    merged = rgp.merge([module, rgp.fit(X, y, name="again", kernel="category")], inducing=3, trust=None)
    assert set(map(tuple, merged.inducing)) <= {(i, j) for i in (0.0, 1.0) for j in (0.0, 1.0, 2.0)}
    check_refused("'linear' needs a column of numbers", rgp.fit, X, y, kernel="linear")


def test_truths_arrays_and_lists():
    X, y = table(8, ["a", "b"], 30)
    smoker = np.arange(30) % 3 == 0
    one = rgp.fit(X.assign(smoker=smoker), y)
    assert levels(one)["smoker"] == ("False", "True")
    array = X.to_numpy()
    other = rgp.fit(array, y, columns=list(X.columns))
    close(other.predict(X), rgp.fit(X, y).predict(X), 1e-10)
    close(other.predict(array), other.predict(X))
    close(other.predict(array.tolist()), other.predict(X))
    unnamed = rgp.fit(array, y)
    assert unnamed.categories.columns == (1, 2)
    close(unnamed.predict(array), other.predict(X))


def test_a_plan_with_levels_that_an_owner_lacks():
    X, y = OWNERS["north"]
    plan = TEST.sample(12, random_state=0)
    module = rgp.fit(X, y, kernel=kernel_object(), inducing=plan, method="collapsed", learn=False, noise=NOISE)
    assert levels(module)["device"] == ("a", "b", "c")
    assert len(module.inducing) == 12


# --- refusals ---------------------------------------------------------------------------------


def test_numbers_against_categories(modules):
    X, y = table(2, ["a", "b"])
    other = rgp.fit(X.assign(sex=np.where(X["sex"] == "f", 1.0, 0.0)), y, name="codes")
    check_refused(
        "module 'codes' has numbers in sex where 'north' has categories", rgp.merge, [modules["north"], other]
    )
    check_refused(
        "module 'north' has categories in sex where 'codes' has numbers", rgp.merge, [other, modules["north"]]
    )
    check_refused("has numbers in sex", rgp.merge([modules["north"]]).add, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sex": 1.0}, "column 'sex' holds categories, and 1.0 is a float; pass all of it as text"),
        ({"sex": None}, "column 'sex' lacks 30 of 30 levels; fill them"),
        ({"sex": [None, *["f"] * 29]}, "column 'sex' lacks 1 of 30 levels"),
        ({"sex": [pd.NA, *["f"] * 29]}, "column 'sex' lacks 1 of 30 levels"),
        ({"sex": [np.nan, *["f"] * 29]}, "column 'sex' lacks 1 of 30 levels"),
        ({"sex": [3, *["f"] * 29]}, "column 'sex' holds categories, and 3 is a int"),
        ({"age": "old"}, "column 'age' cannot be read as numbers, which are what the model has there"),
        ({"age": pd.Timestamp("2020-01-01")}, "column 'age' holds dates"),
    ],
)
def test_questions(modules, change, message):
    check_refused(message, modules["north"].predict, TEST.assign(**change))


def test_questions_without_names(modules):
    message = r"X holds numbers, and the model has categories: sex \(f, m\), device \(a, b\); pass a DataFrame"
    check_refused(message, modules["north"].predict, np.zeros((3, 3)))
    check_refused(message, modules["north"].predict, torch.zeros(3, 3))
    check_refused(r"X has shape \(30, 2\)", modules["north"].predict, TEST.to_numpy()[:, :2])
    check_refused("points has levels that no row has: device", modules["north"].publish, TEST)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([None, "a"] * 15, "column 'device' lacks 15 of 30 levels"),
        ([1, "a"] * 15, "column 'device' holds categories, and 1 is a int"),
        (["", "a"] * 15, "the level ''; a level has 1 to 200 printable characters"),
        (["\x1b[2J", "a"] * 15, "printable characters"),
        (["n" * 201, "a"] * 15, "1 to 200"),
        (pd.date_range("2020", periods=30), "column 'device' holds dates; pass numbers instead"),
        ([pd.Timestamp("2020").date()] * 30, "column 'device' holds dates"),
    ],
)
def test_data(column, message):
    X, y = table(1, ["a"], 30)
    check_refused(message, rgp.fit, X.assign(device=column), y)


def test_a_kernel_object_that_takes_levels_for_numbers():
    message = r"takes sex for numbers, which holds categories; give that part active_dims=\(0,\)"
    check_refused(message, rgp.fit, *OWNERS["north"], kernel=gpytorch.kernels.RBFKernel(ard_num_dims=3))


def test_a_category_has_no_place(modules):
    check_refused(r"input_shift: column '\w+' holds categories", modules["north"].transform, [1.0, 1.0, 0.0])
    moved = modules["north"].transform([5.0, 0.0, 0.0])
    X = TEST[TEST["device"] != "c"]
    close(moved.predict(X.assign(age=X["age"] + 5)), modules["north"].predict(X))


# --- values -----------------------------------------------------------------------------------


def test_values():
    one = Categories((Levels(0, ("x", "y")), Levels(2, ("u",))))
    other = Categories((Levels(0, ("z", "y")), Levels(2, ("u", "v"))))
    both = one.union(other)
    assert both.levels == (Levels(0, ("x", "y", "z")), Levels(2, ("u", "v")))
    Z = torch.tensor([[0.0, 0.3, 1.0], [1.0, 0.7, 0.0]], dtype=torch.float64)
    assert other.recoded(Z, both).tolist() == [[2.0, 0.3, 1.0], [1.0, 0.7, 0.0]]
    assert other.named(Z.numpy()).tolist() == [["z", 0.3, "v"], ["y", 0.7, "u"]]
    assert one.permuted([2, 0, 1]).levels == (Levels(0, ("u",)), Levels(1, ("x", "y")))
    assert both.beyond(one) == [Levels(0, ("z",)), Levels(2, ("v",))]
    with pytest.raises(rgp.RecycleGPError, match="column 0: a level is given twice"):
        Categories((Levels(0, ("x", "x")),))


def test_levels_that_nobody_shares_are_told():
    def fitted(name, seed, sexes, hospital):
        X, y = table(seed, ["a", "b"])
        X = X.assign(sex=np.where(X["sex"] == "f", *sexes), hospital=hospital)
        return rgp.fit(X, y, kernel="matern52", publish=6, name=name)

    here, there = fitted("here", 1, ("f", "m"), "H1"), fitted("there", 2, ("f", "m"), "H2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a hospital has one name, which others need not share
        both = rgp.merge([here, there], learn=False)
    other = fitted("other", 3, ("female", "male"), "H3")
    message = r"modules share no level of sex: f, m \(here\) against female, male \(other\); if they mean the same"
    with pytest.warns(rgp.RecycleGPWarning, match=message):
        rgp.merge([here, other, there], learn=False)
    with pytest.warns(rgp.RecycleGPWarning, match="modules share no level of sex: f, m .* against female, male"):
        both.add([other])
    bridge = fitted("bridge", 4, ("f", "male"), "H4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rgp.merge([here, bridge, other], learn=False)


def test_a_kernel_that_is_chosen_where_all_inputs_are_levels():
    """There is nothing to choose between: levels are neither smooth nor rough."""
    rng = np.random.default_rng(5)

    def fitted(name):
        X = pd.DataFrame({"ward": rng.choice(["a", "b", "c"], 60)})
        return rgp.fit(X, X["ward"].map({"a": 0.0, "b": 1.0, "c": 3.0}) + 0.1 * rng.normal(size=60), name=name)

    modules = [fitted("here"), fitted("there")]
    chosen, plain = rgp.merge(modules, kernel="auto"), rgp.merge(modules)
    asked = pd.DataFrame({"ward": ["a", "b", "c"]})
    np.testing.assert_allclose(chosen.predict(asked), plain.predict(asked))
    np.testing.assert_allclose(chosen.predict(asked)[0], [0, 1, 3], atol=0.1)

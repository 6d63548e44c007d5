"""Models of several functions: quantiles, covariances, regions, calibration, noises of cells, inputs of categories."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import recyclegp as rgp
import reference as ref
from cases import gpytorch_kernel
from cases_joint import CLASSES, classes, outputs, varying

INPUTS = ["day", "depth"]
KERNEL = ref.Kernel("matern52", (1.1, 2.4), 1.6)
FIXED = {"kernel": gpytorch_kernel(KERNEL), "learn": False}
NEW = outputs(7, 0, 6, 9)[INPUTS]


def of_outputs(**options):
    tables = [outputs(seed, low, low + 4) for seed, low in enumerate((0, 2))]
    modules = [rgp.fit(t[INPUTS], t[["heat", "salt"]], publish=8, name=f"o{i}") for i, t in enumerate(tables)]
    return rgp.merge(modules, owners=None, **options)


def of_classes():
    tables = [classes(seed, low, low + 4) for seed, low in enumerate((0, 2))]
    how = {"likelihood": "categorical", "publish": 8}
    return rgp.merge([rgp.fit(t[INPUTS], t["kind"], name=f"o{i}", **how) for i, t in enumerate(tables)], owners=None)


def of_noise():
    t = varying(1, 0, 6, 120)
    return rgp.merge([rgp.fit(t[["day"]], t["y"], likelihood="heteroscedastic", publish=8, name="a")])


# --- quantiles, covariances, regions ---


@pytest.mark.parametrize("how", ["independent", "correlated"])
def test_quantiles_of_outputs_are_those_of_gaussians(how):
    model = of_outputs(outputs=how)
    mean, variance = model.predict_y(NEW)
    several = model.predict_quantiles(NEW, [0.1, 0.5, 0.975])
    expected = stats.norm.ppf(np.array([0.1, 0.5, 0.975]), mean[..., None], np.sqrt(variance)[..., None])
    np.testing.assert_allclose(several, expected, rtol=1e-8)
    assert several.shape == (9, 2, 3)
    np.testing.assert_allclose(model.predict_quantiles(NEW, 0.1), expected[..., 0], rtol=1e-8)


def test_quantiles_of_varying_noise_are_where_the_draws_are():
    model, X = of_noise(), NEW[["day"]]
    found = model.predict_quantiles(X, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(found[:, 1], model.predict(X)[0], rtol=1e-12)
    mean, variance = (t.numpy() for t in model._moments(X, None, of_y=True))
    rng = np.random.default_rng(3)
    f = rng.normal(mean[:, 0], np.sqrt(variance[:, 0]), (200_000, 9))
    y = rng.normal(f, np.exp(0.5 * rng.normal(mean[:, 1], np.sqrt(variance[:, 1]), f.shape)))
    for c, p in enumerate((0.1, 0.5, 0.9)):
        assert np.mean(y <= found[:, c], 0) == pytest.approx(np.full(9, p), abs=5e-3)
    low, high = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(found[:, [0, 2]], np.stack([low, high], 1), rtol=1e-9)


@pytest.mark.parametrize("how", ["independent", "correlated"])
def test_covariances_of_outputs(how):
    model = of_outputs(outputs=how)
    mean, covariance = model.predict_joint(NEW)
    assert (mean.shape, covariance.shape) == ((9, 2), (2, 9, 9))
    np.testing.assert_allclose(np.diagonal(covariance, axis1=1, axis2=2).T, model.predict(NEW)[1], rtol=1e-7, atol=1e-9)
    if how == "independent":
        np.testing.assert_allclose(covariance[1], model.part("salt").predict_joint(NEW)[1], rtol=1e-9)
    spread = np.cov(model.sample(NEW, 6000)[:, :, 1].T)
    np.testing.assert_allclose(covariance[1], spread, atol=0.06 * spread.max())


def test_covariances_of_classes_and_of_varying_noise():
    assert of_classes().predict_joint(NEW)[1].shape == (3, 9, 9)
    model = of_noise()
    mean, covariance = model.predict_joint(NEW[["day"]])
    np.testing.assert_allclose(mean, model.predict(NEW[["day"]])[0])
    np.testing.assert_allclose(covariance, model.part("f").predict_joint(NEW[["day"]])[1])


def test_rows_outside_every_region():
    """Two owners, of whom each has measured one output in a place of its own."""
    rng = np.random.default_rng(2)
    parts = []
    for name, low in (("heat", 0.0), ("salt", 100.0)):
        X = rng.uniform(low, low + 5, (30, 1))
        own = rgp.fit(X, np.sin(X[:, 0]), name=f"by {name}", target=name, publish=6)
        parts.append(rgp.Module.of_outputs([own]))
    merged = rgp.merge(parts, owners=None, outputs="independent")
    at = np.array([[2.5], [50.0], [102.5], [-40.0]])
    assert merged.outside(at).tolist() == [False, True, False, True]
    assert merged.part("heat").outside(at).tolist() == [False, True, True, True]
    assert parts[0].outside(at).tolist() == [False, True, True, True]


def test_what_classes_do_not_have():
    with pytest.raises(rgp.RecycleGPError, match="quantiles of y are not defined for classes; use predict_proba"):
        of_classes().predict_quantiles(NEW, 0.5)
    with pytest.raises(rgp.RecycleGPError, match="q is empty"):
        of_outputs().predict_quantiles(NEW, [])
    with pytest.raises(rgp.RecycleGPError, match="nobody here is called so"):
        of_outputs().predict_joint(NEW, owner="x")


# --- calibration ---


def test_sets_of_any_number_of_classes():
    model, local = of_classes(), classes(21, 0, 6, 60)
    c = rgp.calibrate(model, local[INPUTS], local["kind"])
    p = model.predict_proba(local[INPUTS])
    true = np.array([CLASSES.index(k) for k in local["kind"]])
    scores = np.sort(1 - p[np.arange(60), true])
    assert c.is_of_classes
    assert c.calibration.likelihood == "categorical"
    assert c.calibration.quantile(0.8) == pytest.approx(scores[math.ceil(61 * 0.8) - 1])
    among = c.predict_set(local[INPUTS], 0.8)
    expected = (1 - p <= c.calibration.quantile(0.8)) | (p == p.max(1, keepdims=True))
    np.testing.assert_array_equal(among, expected)
    np.testing.assert_array_equal(c.covers(local[INPUTS], local["kind"], 0.8), among[np.arange(60), true])
    with pytest.raises(rgp.RecycleGPError, match="use predict_set"):
        c.predict_interval(NEW)


def test_intervals_of_varying_noise_follow_it(tmp_path):
    model, local = of_noise(), varying(21, 0, 6, 80)
    c = rgp.calibrate(model, local[["day"]], local["y"])
    low, high = (np.asarray(end) for end in model.predict_interval(local[["day"]], 0.6826894921370859))
    scores = np.sort(np.abs(local["y"] - 0.5 * (low + high)) / (0.5 * (high - low)))
    assert c.calibration.quantile(0.9) == pytest.approx(scores[math.ceil(81 * 0.9) - 1])
    assert c.covers(local[["day"]], local["y"], 0.9).sum() == math.ceil(81 * 0.9)
    low, high = c.predict_interval(pd.DataFrame({"day": [0.5, 5.5]}))
    assert (high - low)[1] > 1.5 * (high - low)[0]
    c.save(tmp_path / "c.json")
    again = rgp.Calibrated(model, rgp.Calibration.load(tmp_path / "c.json"))
    np.testing.assert_array_equal(again.predict_interval(NEW[["day"]]), c.predict_interval(NEW[["day"]]))


def test_outputs_are_calibrated_one_by_one(tmp_path):
    model, local = of_outputs(), outputs(21, 0, 6, 40)
    with pytest.raises(rgp.RecycleGPError, match="this model has 2 outputs: heat, salt; name the one that y is"):
        rgp.calibrate(model, local[INPUTS], local[["heat", "salt"]])
    for own in (
        rgp.calibrate(model, local[INPUTS], local["salt"], output="salt"),
        rgp.calibrate(model.part("salt"), local[INPUTS], local["salt"]),
    ):
        assert own.covers(local[INPUTS], local["salt"], 0.9).sum() == math.ceil(41 * 0.9)
    own.save(tmp_path / "salt.json")
    assert rgp.Calibration.load(tmp_path / "salt.json") == own.calibration


# --- noises of cells ---


@pytest.mark.parametrize("shape", ["rows", "cells", "table"])
def test_known_noises_go_with_the_cells_that_were_seen(shape):
    rng = np.random.default_rng(5)
    X, at = rng.uniform(0, 4, (24, 2)), rng.uniform(0, 4, (5, 2))
    noise = np.exp(rng.uniform(-5, 0, (24, 2)))
    noise = noise[:, [0, 0]] if shape == "rows" else noise
    Y = np.sin(X) + np.sqrt(noise) * rng.standard_normal((24, 2))
    Y[::3, 1] = np.nan
    given = np.where(np.isnan(Y), np.nan, noise)
    if shape == "table":  # by name, in another order
        given = pd.DataFrame(given, columns=["a", "b"])[["b", "a"]]
    how = {"target": ["a", "b"], "missing": "allow", "publish": X, **FIXED}
    module = rgp.fit(X, Y, noise=noise[:, 0] if shape == "rows" else given, name="m", **how)
    mean, variance = module.predict(at)
    for c in range(2):
        seen = np.isfinite(Y[:, c])
        expected = ref.exact_gp(KERNEL, X[seen], Y[seen, c], 0.0, noise[seen, c], at)
        np.testing.assert_allclose(mean[:, c], expected.mean, atol=1e-7)
        np.testing.assert_allclose(variance[:, c], np.diag(expected.cov), atol=1e-7)


def test_new_rows_may_have_noises_of_their_own():
    rng = np.random.default_rng(6)
    X, Y = rng.uniform(0, 4, (20, 2)), rng.standard_normal((20, 2))
    merged = rgp.merge([rgp.fit(X, Y, noise=0.3, name="m", **FIXED)], owners=None, outputs="independent")
    new, y, noise = rng.uniform(0, 4, (6, 2)), rng.standard_normal((6, 2)), rng.uniform(0.1, 2, (6, 2))
    y[2, 0] = np.nan
    more = merged.update(new, y, noise=noise)
    for c, name in enumerate(("y1", "y2")):
        seen = np.isfinite(y[:, c])
        alone = merged.part(name).update(new[seen], y[seen, c], noise=noise[seen, c])
        np.testing.assert_allclose(more.predict(X)[0][:, c], alone.predict(X)[0], atol=1e-10)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (np.ones((20, 3)), r"noise has shape \(20, 3\) for 20 rows of X and 2 outputs"),
        (np.ones(19), r"noise has shape \(19,\)"),
        (np.zeros((20, 2)), "noise"),
        (np.full((20, 2), np.nan), "noise"),
    ],
)
def test_noises_that_are_none(noise, message):
    rng = np.random.default_rng(6)
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.fit(rng.uniform(0, 4, (20, 2)), rng.standard_normal((20, 2)), noise=noise)


@pytest.mark.parametrize("likelihood", ["categorical", "categorical-softmax"])
@pytest.mark.parametrize("noise", [0.1, np.full(60, 0.1)])
def test_classes_have_no_noise(likelihood, noise):
    t = classes(0, 0, 6, 60)
    said = f"noise: likelihood '{likelihood}' has none to give, it follows from its functions; leave it out"
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.fit(t[INPUTS], t["kind"], likelihood=likelihood, noise=noise)


# --- units ---


def test_outputs_get_other_units_by_name():
    model = of_outputs(outputs="correlated")
    other = model.transform(output_scale={"salt": -2.0}, output_shift={"salt": 60.0}, unit={"salt": "‰"})
    np.testing.assert_allclose(other.predict(NEW)[0], model.predict(NEW)[0] * [1, -2] + [0, 60], rtol=1e-8)
    np.testing.assert_allclose(other.output_covariance, model.output_covariance * [[1, -2], [-2, 4]], rtol=1e-9)
    rows = sum(t.shape[0] for t in (outputs(0, 0, 4), outputs(1, 2, 6)))
    assert other.evidence == pytest.approx(model.evidence - rows * np.log(2), rel=1e-8)
    assert [str(target) for target in other.targets] == ["heat", "salt in ‰"]
    with pytest.raises(rgp.RecycleGPError, match="output_scale: no output sugar; there are heat, salt"):
        model.transform(output_scale={"sugar": 2.0})
    with pytest.raises(rgp.RecycleGPError, match="output_shift has 3 values for 2 outputs"):
        model.transform(output_shift=[1.0, 2.0, 3.0])


def test_units_of_turned_correlated_outputs_are_kept_in_files(tmp_path):
    turned = of_outputs(outputs="correlated").transform(output_scale=[-1.0, 3.0])
    turned.save(tmp_path / "e.safetensors")
    loaded = rgp.load(tmp_path / "e.safetensors")
    np.testing.assert_allclose(loaded.predict(NEW)[0], turned.predict(NEW)[0], rtol=1e-9)


# --- inputs of categories ---


def wards(seed, levels, rows=40):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.uniform(0, 6, rows), "ward": rng.choice(levels, rows)})
    effect = X["ward"].map({"a": 0.0, "b": 1.0, "c": -1.0}).to_numpy()
    f = np.sin(X["age"].to_numpy()) + effect
    Y = np.stack([f, 30 - 2 * f], 1) + 0.1 * rng.standard_normal((rows, 2))
    kind = np.where(f + 0.2 * rng.standard_normal(rows) > 0.3, "ill", np.where(f > -0.6, "so-so", "well"))
    return X, {"outputs": Y, "categorical": kind, "heteroscedastic": f + 0.2 * rng.standard_normal(rows)}


@pytest.mark.parametrize("kind", ["outputs", "correlated", "categorical", "heteroscedastic"])
def test_inputs_of_categories(kind, tmp_path):
    """Owners have seen different wards; levels are known by name through merging, new rows and files."""
    of = "outputs" if kind == "correlated" else kind
    how = {} if of == "outputs" else {"likelihood": kind}
    how_merged = {"outputs": "independent" if kind == "outputs" else "correlated"} if of == "outputs" else {}
    tables = [wards(0, ["b", "a"]), wards(1, ["c", "b"])]
    modules = [rgp.fit(X, y[of], name=f"o{i}", publish=12, **how) for i, (X, y) in enumerate(tables)]
    merged = rgp.merge(modules, owners=None, **how_merged)
    assert merged.categories.names(1) == ("a", "b", "c")
    at = pd.DataFrame({"age": [1.5, 1.5, 4.5], "ward": ["c", "a", "b"]})
    X, y = wards(2, ["c"], 10)
    more = merged.update(X, y[of], name="late")
    for model in (*modules, merged, more):
        model.save(tmp_path / "m.safetensors")
        loaded = rgp.load(tmp_path / "m.safetensors")
        known = at[at["ward"].isin(model.categories.names(1))]
        for found, expected in zip(loaded.predict_y(known), model.predict_y(known), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert not loaded.outside(known).any()
    assert (more.predict(X)[1].mean(0) < merged.predict(X)[1].mean(0)).all()
    f = np.sin(at["age"]) + np.array([-1.0, 0.0, 1.0])
    if of == "outputs":
        np.testing.assert_allclose(merged.predict(at)[0], np.stack([f, 30 - 2 * f], 1), atol=0.6)
    elif kind == "heteroscedastic":
        np.testing.assert_allclose(merged.predict(at)[0], f, atol=0.4)
    else:
        assert merged.predict_class(pd.DataFrame({"age": [1.5, 4.7], "ward": ["b", "c"]})).tolist() == ["ill", "well"]
    unseen = pd.DataFrame({"age": [1.5], "ward": ["z"]})
    with pytest.warns(rgp.RecycleGPWarning, match="levels that the model has not seen"):
        merged.part(merged.functions[0]).predict(unseen)
    assert merged.outside(unseen).all()

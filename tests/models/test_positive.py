"""Positive targets through the whole house: everything is that of a Gaussian log y, and answers are about y."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import recyclegp as rgp
from recyclegp.errors import ContradictionWarning

RNG = np.random.default_rng(5)
XT = np.linspace(0.2, 7.5, 11)[:, None]
COMMON = {"publish": 10, "privacy": "things"}


def rows(low, high, n=70):
    X = RNG.uniform(low, high, (n, 1))
    return X, np.exp(3 + np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(n))


A, B = rows(0, 4), rows(3, 8)


def fitted(data, name, **more):
    return rgp.fit(*data, likelihood="lognormal", name=name, **COMMON, **more)


def logs(data):
    return data[0], np.log(data[1])


@pytest.fixture(scope="module")
def pair():
    return [fitted(own, name, target="crp", unit="mg/L") for own, name in ((A, "a"), (B, "b"))]


@pytest.fixture(scope="module")
def merged(pair):
    return rgp.merge(pair)


def test_it_is_the_gaussian_of_log_y(pair, merged):
    """The same module, and the same merge, as of y = log y; answers about y pass through exp."""
    plain = [rgp.fit(*logs(own), name=name, **COMMON) for own, name in ((A, "a"), (B, "b"))]
    for positive, gaussian in ((pair[0], plain[0]), (merged, rgp.merge(plain))):
        np.testing.assert_allclose(positive.predict(XT), gaussian.predict(XT), rtol=1e-9)
        assert positive.noise == pytest.approx(gaussian.noise, rel=1e-9)
        m, v = (np.asarray(t) for t in gaussian.predict_y(XT))
        law = stats.lognorm(s=np.sqrt(v), scale=np.exp(m))
        np.testing.assert_allclose(positive.predict_y(XT), (law.mean(), law.var()), rtol=1e-6)
        np.testing.assert_allclose(
            positive.predict_quantiles(XT, [0.1, 0.5]), np.exp(gaussian.predict_quantiles(XT, [0.1, 0.5]))
        )
        np.testing.assert_allclose(positive.predict_interval(XT, 0.8), np.exp(gaussian.predict_interval(XT, 0.8)))
        y = law.median() * 1.1
        density = gaussian.log_density(XT, np.log(y)) - np.log(y)
        np.testing.assert_allclose(positive.log_density(XT, y), density, rtol=1e-9)
        np.testing.assert_allclose(positive.sample(XT, 3, seed=1), gaussian.sample(XT, 3, seed=1), atol=1e-8)


def test_the_merge_is_near_a_central_model(merged):
    central = fitted((np.concatenate([A[0], B[0]]), np.concatenate([A[1], B[1]])), "all")
    there, here = (np.asarray(m.predict_quantiles(XT, [0.5])) for m in (central, merged))
    np.testing.assert_allclose(here, there, rtol=0.12)  # half of one relative error of y
    unseen = rows(0, 8, 200)
    assert np.mean(merged.log_density(*unseen)) == pytest.approx(np.mean(central.log_density(*unseen)), abs=0.05)


def test_units_are_factors(pair, merged):
    grams = pair[1].transform(output_scale=1e-3, unit="g/L")
    assert grams.target.unit == "g/L"
    np.testing.assert_allclose(grams.predict_y(XT)[0], 1e-3 * pair[1].predict_y(XT)[0], rtol=1e-12)
    with pytest.raises(rgp.RecycleGPError, match="y is in 'mg/L' for one and in 'g/L'"):
        rgp.merge([pair[0], grams])
    back = rgp.merge([pair[0], grams.transform(output_scale=1e3, unit="mg/L")])
    np.testing.assert_allclose(back.predict(XT)[0], merged.predict(XT)[0], atol=1e-8)
    with pytest.raises(rgp.RecycleGPError, match="positive in any unit"):
        pair[0].transform(output_shift=2.0)


def test_a_module_in_other_units_is_told_the_factor():
    """mmol/L among mg/dL: f is shifted by the logarithm of 18.016."""
    others = [fitted(rows(0, 8, 60), f"o{i}") for i in range(5)]
    X, y = rows(0, 8, 60)
    strange = fitted((X, y * 18.016), "strange")
    with pytest.warns(
        ContradictionWarning, match=r"strange \(in other units: about 1[678](\.\d)?·y; transform\(output_scale=0\.0555"
    ):
        rgp.merge([*others, strange])


def test_not_with_modules_of_y_itself(pair, merged):
    plain = rgp.fit(*B, name="plain", **COMMON)
    said = "f is y for module 'plain' .gaussian. and the logarithm of y for 'a' .lognormal."
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.merge([pair[0], plain])
    with pytest.raises(rgp.RecycleGPError, match="f is y for module 'plain'"):
        merged.add(plain)


def test_rows_and_modules_come_and_go(pair, merged):
    new = rows(2, 6, 30)
    more = merged.update(*new, name="c")
    same = rgp.merge([rgp.fit(*logs(own), name=name, **COMMON) for own, name in ((A, "a"), (B, "b"))])
    same = same.update(new[0], np.log(new[1]), name="c")
    np.testing.assert_allclose(more.predict(XT), same.predict(XT), rtol=1e-7)
    left = merged.add(fitted(rows(2, 6), "d")).remove("d")
    np.testing.assert_allclose(left.predict(XT), merged.predict(XT), rtol=1e-5)
    assert merged.with_noise(0.07).likelihoods[0].parameters == (0.07,)


def test_files_and_many(pair, merged, tmp_path):
    for model in (pair[0], merged):
        model.save(tmp_path / "m.safetensors")
        read = rgp.load(tmp_path / "m.safetensors")
        assert read.likelihood == "lognormal"
        np.testing.assert_allclose(read.predict_interval(XT), model.predict_interval(XT), rtol=1e-10)
    many = rgp.fit_many([A, B], names=["a", "b"], likelihood="lognormal", **COMMON)
    # searches end within their tolerance
    np.testing.assert_allclose(many[1].predict(XT), pair[1].predict(XT), rtol=1e-5)
    many.save(tmp_path / "many.safetensors")
    again = rgp.load_many(tmp_path / "many.safetensors")
    np.testing.assert_allclose(rgp.merge(again).predict(XT), merged.predict(XT), rtol=1e-5)


def test_calibrated_intervals_stay_positive(merged):
    held = rows(0, 8, 60)
    calibrated = rgp.calibrate(merged, *held)
    low, high = calibrated.predict_interval(XT, 0.9)
    assert (low > 0).all()
    assert (high > low).all()
    assert calibrated.covers(*held, 0.9).mean() >= 0.9


def test_an_answer_to_a_plan_is_that_of_log_y(merged):
    """Sums of log y: the model of all answers is that of a Gaussian plan for the logarithms."""
    Z = np.linspace(0, 8, 12)[:, None]
    public = {"kernel": "rbf(outputscale=1.2, lengthscale=1.9)", "noise": 0.04, "mean": 3.0, "learn": False}
    found = []
    for likelihood, owners in (("lognormal", (A, B)), ("gaussian", (logs(A), logs(B)))):
        plan = rgp.Plan(points=Z, likelihood=likelihood, **public)
        answers = [plan.contribute(*own, name=n, privacy="things") for own, n in zip(owners, "ab", strict=True)]
        found.append(plan.combine(answers)[0])
    positive, gaussian = found
    assert positive.likelihood == "lognormal"
    np.testing.assert_allclose(positive.predict(XT), gaussian.predict(XT), rtol=1e-9)
    np.testing.assert_allclose(positive.predict_interval(XT), np.exp(gaussian.predict_interval(XT)), rtol=1e-9)
    m, v = merged.predict(XT)
    assert (np.abs(positive.predict(XT)[0] - m) < 3 * np.sqrt(v + positive.predict(XT)[1])).all()


def test_several_positive_outputs():
    X, y = A
    both = rgp.fit(X, np.stack([y, y**2], 1), likelihood="lognormal", target=["a", "b"], **COMMON)
    assert both.predict_quantiles(XT[:6], [0.5]).shape == (6, 2, 1)
    np.testing.assert_allclose(
        both.predict_quantiles(XT[:6], [0.5])[:, 1], both.predict_quantiles(XT[:6], [0.5])[:, 0] ** 2, rtol=0.05
    )


def test_scikit_learn_answers_in_the_units_of_y():
    sklearn = pytest.importorskip("recyclegp.sklearn")
    X, y = (np.concatenate(parts) for parts in zip(A, B, strict=True))
    gp = sklearn.RecyclableGPRegressor(likelihood="lognormal", privacy="things", publish=10).fit(X, y)
    mean, sd = gp.predict(XT, return_std=True)
    np.testing.assert_allclose(mean, gp.ensemble_.predict_y(XT)[0], rtol=1e-9)
    drawn = gp.sample_y(XT, 4000)
    np.testing.assert_allclose(drawn.mean(1), mean, rtol=0.02)
    np.testing.assert_allclose(drawn.std(1), sd, rtol=0.12)
    assert gp.score(X, y) > 0.8

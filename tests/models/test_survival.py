"""Censored times through the whole house: fitted, merged, told more, scored, beside one central fit of all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import recyclegp as rgp
from cases_cli import answer, call, ok
from recyclegp.sklearn import RecyclableGPRegressor

COMMON = {"likelihood": "survival", "publish": 10, "privacy": "things"}
XT = np.linspace(0.3, 5.7, 9)[:, None]


def truth(X):
    return 1 + np.sin(X[:, 0])


def times(seed, n, low, high, shift=0.0):
    """X, y with its sign, and when it would have happened; about four in ten are censored."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, 1))
    t = np.exp(truth(X) + shift + 0.5 * rng.standard_normal(n))
    waited = np.exp(rng.normal(1.2, 0.8, n))
    return X, np.where(t <= waited, t, -waited), t


OWNERS = {"a": times(1, 90, 0, 3), "b": times(2, 60, 2, 6), "c": times(3, 120, 1, 5)}


@pytest.fixture(scope="module")
def modules():
    return [rgp.fit(X, y, name=name, target="days", unit="days", **COMMON) for name, (X, y, _) in OWNERS.items()]


@pytest.fixture(scope="module")
def merged(modules):
    return rgp.merge(modules)


@pytest.fixture(scope="module")
def central():
    X, y, _ = (np.concatenate(part) for part in zip(*OWNERS.values(), strict=True))
    return rgp.fit(X, y, **COMMON)


def test_without_censored_rows_it_is_the_lognormal():
    X, _, t = OWNERS["a"]
    plain = rgp.fit(X, t, **COMMON | {"likelihood": "lognormal", "method": "dual"})
    found = rgp.fit(X, t, **COMMON)
    np.testing.assert_allclose(found.predict(XT), plain.predict(XT), rtol=1e-4, atol=1e-5)
    assert found.noise == pytest.approx(plain.noise, rel=1e-4)


def test_the_merge_is_near_a_central_model(merged, central):
    """Within half of a posterior standard deviation; as good on times that all are known; intervals hold 95%."""
    (m, v), (mc, vc) = merged.predict(XT), central.predict(XT)
    assert np.abs(m - mc).max() < 0.15
    np.testing.assert_allclose(v, vc, rtol=0.6)
    assert merged.noise == pytest.approx(central.noise, rel=0.15)
    X, _, t = times(9, 800, 0, 6)
    here, there = (rgp.metrics.score(model, X, t) for model in (merged, central))
    assert here.nlpd == pytest.approx(there.nlpd, abs=0.03)
    assert 0.91 < here.coverage < 0.98


def test_censored_rows_taken_for_events_would_mislead(merged):
    """What the likelihood is for: without it times come out far too short."""
    X, y, _ = (np.concatenate(part) for part in zip(*OWNERS.values(), strict=True))
    naive = rgp.fit(X, np.abs(y), **COMMON | {"likelihood": "lognormal"})
    off = [np.mean(model.predict(XT)[0] - truth(XT)) for model in (naive, merged)]
    assert off[0] < -0.3
    assert abs(off[1]) < 0.12


def test_owners_may_differ_by_a_factor_of_time():
    shifts = np.linspace(-0.9, 0.9, 6)
    data = [times(20 + i, 70, 0, 6, shift) for i, shift in enumerate(shifts)]
    e = rgp.merge([rgp.fit(X, y, name=f"o{i}", **COMMON) for i, (X, y, _) in enumerate(data)], owners="offset")
    assert 0.3 < e.offset_sd < 1.3
    found = [np.mean(e.predict(XT, owner=f"o{i}")[0] - truth(XT)) for i in range(6)]
    np.testing.assert_allclose(found, shifts, atol=0.25)


def test_what_is_asked_of_times(merged):
    m, v = merged.predict(XT)
    law = stats.lognorm(s=np.sqrt(v + merged.noise), scale=np.exp(m))
    np.testing.assert_allclose(merged.predict_survival(XT, 4.0), law.sf(4.0), rtol=1e-9)
    np.testing.assert_allclose(merged.predict_survival(XT, np.arange(9.0) - 1), law.sf(np.arange(9.0) - 1), rtol=1e-9)
    np.testing.assert_allclose(merged.predict_quantiles(XT, [0.5, 0.9]).T, [law.median(), law.ppf(0.9)], rtol=1e-9)
    seen = np.where(np.arange(9) % 2, -3.0, 2.5)
    expected = np.where(seen > 0, law.logpdf(2.5), law.logsf(3.0))
    np.testing.assert_allclose(merged.log_density(XT, seen), expected, rtol=1e-9)


def test_scores_of_censored_rows(merged):
    """What is known of them: log P(T > t), and how much of what is beyond t an interval holds."""
    X, y, t = times(31, 3000, 0, 6)
    seen, all_known = (rgp.metrics.score(merged, X, of) for of in (y, t))
    assert np.isnan([seen.rmse, seen.mae, seen.crps]).all()
    assert seen.nlpd == pytest.approx(-np.mean(merged.log_density(X, y)))
    for name in ("coverage", "coverage_80", "coverage_50"):
        assert getattr(seen, name) == pytest.approx(getattr(all_known, name), abs=0.03)
    rows = rgp.metrics.evaluate(merged, X, y)
    shares = rgp.metrics.pit_histogram(rows.below, rows.up_to, 5)
    np.testing.assert_allclose(shares, 0.2, atol=0.05)


def test_files_units_and_more_rows(modules, merged, tmp_path):
    merged.save(tmp_path / "e.safetensors")
    again = rgp.load(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(again.predict_survival(XT, 3.0), merged.predict_survival(XT, 3.0))
    hours = merged.transform(output_scale=24.0, unit="h")
    np.testing.assert_allclose(hours.predict_survival(XT, 72.0), merged.predict_survival(XT, 3.0), rtol=1e-9)
    X, y, _ = times(5, 40, 0, 6)
    more = merged.update(X, y, name="more", privacy="things")
    assert more.names == ["a", "b", "c", "more"]
    fitted = merged.add(rgp.fit(X, y, name="more", target="days", unit="days", **COMMON))
    assert np.abs(more.predict(XT)[0] - fitted.predict(XT)[0]).max() < 0.15


def test_it_merges_with_lognormal_modules_whose_f_is_the_same(modules):
    X, _, t = OWNERS["c"]
    other = rgp.fit(X, t, name="all seen", **COMMON | {"likelihood": "lognormal"})
    e = rgp.merge([*modules[:2], other])
    assert set(e.likelihood.split("+")) == {"lognormal", "survival"}
    assert np.abs(e.predict(XT)[0] - truth(XT)).max() < 0.45
    assert e.predict_survival(XT, 2.0, likelihood="survival").shape == (9,)
    plain = rgp.fit(X, t, name="plain", privacy="things")
    with pytest.raises(rgp.RecycleGPError, match="f is y for module 'plain'"):
        rgp.merge([modules[0], plain])


def test_what_is_not_covered_is_refused_by_name(merged):
    X, y, _ = times(6, 60, 0, 6)
    with pytest.raises(rgp.RecycleGPError, match="calibrate: of a time that is censored"):
        rgp.calibrate(merged, X, y)
    with pytest.raises(rgp.RecycleGPError, match="takes times, and −t where nothing had happened"):
        rgp.fit(X, np.where(y > 0, y, 0), **COMMON)
    with pytest.raises(rgp.RecycleGPError, match="for gaussian modules"):
        merged.with_noise(0.3)


def test_owners_answer_a_plan(merged, central):
    """Rounds find the central optimum, whoever holds the rows."""
    plan = merged.plan(points=9, learn=False)
    for _ in range(6):
        answers = [plan.contribute(X, y, name=name, privacy="things") for name, (X, y, _) in OWNERS.items()]
        found, plan = plan.combine(answers)
    assert np.abs(found.predict(XT)[0] - central.predict(XT)[0]).max() < 0.15


def test_the_estimator_takes_times_with_their_sign():
    X, y, _ = times(7, 300, 0, 6)
    model = RecyclableGPRegressor(likelihood="survival", privacy="things", random_state=0).fit(X, y)
    mean = model.predict(XT)
    np.testing.assert_allclose(mean, model.ensemble_.predict_y(XT)[0], rtol=1e-8)
    assert np.abs(np.log(mean) - truth(XT) - 0.125).max() < 0.5
    drawn = model.sample_y(XT, 4000)
    np.testing.assert_allclose(drawn.mean(1), mean, rtol=0.05)


# --- on the command line ----------------------------------------------------------------------------------------


def table(path, data, words=("no", "yes")):
    X, y, _ = data
    pd.DataFrame({"dose": X[:, 0], "days": np.abs(y), "waiting": np.where(y < 0, words[1], words[0])}).to_csv(path)
    return path


def test_a_column_says_which_times_are_censored(tmp_path):
    how = ["--target", "days", "--inputs", "dose", "--censored", "waiting", "--things", "-q"]
    for name, data in OWNERS.items():
        path = table(tmp_path / f"{name}.csv", data)
        ok("fit", path, *how, "--likelihood", "survival", "-o", tmp_path / f"{name}.safetensors")
    found = rgp.load(tmp_path / "a.safetensors")
    direct = rgp.fit(*OWNERS["a"][:2], likelihood="survival", privacy="things", columns=["dose"])
    np.testing.assert_allclose(found.predict(XT), direct.predict(XT), rtol=1e-9)
    ok("merge", *(tmp_path / f"{name}.safetensors" for name in OWNERS), "-o", tmp_path / "e.safetensors", "-q")
    new = table(tmp_path / "new.csv", times(8, 50, 0, 6), (0, 1))
    scored = answer("score", tmp_path / "e.safetensors", new, "--target", "days", "--censored", "waiting")
    merged = rgp.load(tmp_path / "e.safetensors")
    assert scored["nlpd"] == pytest.approx(-np.mean(merged.log_density(*times(8, 50, 0, 6)[:2])), rel=1e-6)
    assert scored["crps"] is None
    more = ["--target", "days", "--censored", "waiting", "--things", "-q"]
    ok("update", tmp_path / "e.safetensors", new, *more, "-o", tmp_path / "u.safetensors")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--censored", "dose"], "it is the target or an input"),
        (["--censored", "waiting", "--likelihood", "lognormal"], "it is for one target, of --likelihood survival"),
        (["--censored", "odd"], "'perhaps' in row 2; --censored takes 1 or yes"),
        (["--censored", "waiting", "--target", "signed"], "-2 in row 2; with --censored times are positive"),
    ],
)
def test_refused_columns(options, said, tmp_path):
    columns = {"dose": [0.1, 0.5, 0.9], "days": [3, 2, 5], "signed": [3, -2, 5], "waiting": ["no", "Yes", "FALSE"]}
    pd.DataFrame(columns | {"odd": ["1", "perhaps", "0"]}).to_csv(tmp_path / "t.csv", index=False)
    usual = ["--target", "days", "--likelihood", "survival"]
    usual = [x for i in (0, 2) if usual[i] not in options for x in usual[i : i + 2]]
    found = call("fit", tmp_path / "t.csv", "--inputs", "dose", *usual, *options, "-o", tmp_path / "m.safetensors")
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())

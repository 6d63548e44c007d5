"""What went wrong while several functions were another kind of model: each from its reproduction."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import recyclegp as rgp
from parity_cases import OWNERS, ensemble, module, options, rows
from recyclegp.record import Origin

X = np.linspace(0.6, 5.4, 7)[:, None]


@pytest.fixture
def inbox(tmp_path):
    """A folder whose first file has one function, and a later one several."""
    one = rgp.fit(*rows("one output", 1), name="alone", **options("one output"))
    one.save(tmp_path / "1.safetensors")
    for i, owner in enumerate(OWNERS):
        module("several outputs", owner).save(tmp_path / f"{i + 2}.safetensors")
    return tmp_path


def test_a_folder_of_one_and_of_several_functions(inbox):
    files = sorted(inbox.iterdir())
    merged, listed = rgp.merge(inbox, outputs="independent"), rgp.merge(files, outputs="independent")
    assert merged.functions == ("a", "b")
    assert merged.names == ["alone", *OWNERS]
    np.testing.assert_array_equal(merged.predict(X)[0], listed.predict(X)[0])
    assert {row["name"] for row in merged.report() if row["function"] == "b"} == set(OWNERS)
    assert set(rgp.screen(inbox).verdicts) == {*OWNERS, "alone"}


@pytest.mark.parametrize("kind", ["several outputs", "classes", "varying noise"])
def test_a_generator_of_modules(kind):
    modules = [module(kind, owner) for owner in OWNERS]
    merged = rgp.merge(m for m in modules)
    np.testing.assert_array_equal(merged.predict(X)[0], rgp.merge(modules).predict(X)[0])


@pytest.mark.parametrize("kind", ["several outputs", "classes"])
def test_old_knowledge_never_counts_more(kind):
    new, old = rows(kind, 5), ensemble(kind, "exact")
    with pytest.raises(rgp.RecycleGPError, match=r"forget=5; pass what old knowledge still counts, in \(0, 1\]"):
        old.update(new.X, new.y, forget=5.0)


def test_decay_leaves_verdicts_and_names_only_ensembles_alone():
    X_, y = rows("classes", 3, 200)
    flipped = np.where(y == "high", "low", np.where(y == "low", "high", y))
    fit = {"likelihood": "categorical", "publish": 8, "allow_small": True}
    modules = [rgp.fit(X_[i::5], y[i::5], name=f"m{i}", **fit) for i in range(5)]
    modules.append(rgp.fit(X_[::5], flipped[::5], name="odd", **fit))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        merged = rgp.merge(modules, trust="report")
        small = merged.drop_sites().update(X_[:30], y[:30], decay=0.9)
        before = {(m.name, m.function): m.verdict for m in merged._members}
        after = merged.update(X_[:30], y[:30], decay=0.9)
    assert any(verdict is not None for verdict in before.values())
    assert {(m.name, m.function): m.verdict for m in after._members if m.name != "update-1"} == before
    assert {m.weight for m in small._members if m.name == "m0"} == {0.9}


@pytest.mark.parametrize("kind", ["several outputs", "correlated outputs", "classes", "varying noise"])
def test_a_file_is_added(kind, tmp_path):
    east = module(kind, "east")
    east.save(tmp_path / "east.safetensors")
    more = ensemble(kind, "exact").add(tmp_path / "east.safetensors")
    expected = ensemble(kind, "exact").add(east)
    np.testing.assert_allclose(more.predict(X)[0], expected.predict(X)[0], atol=1e-9)
    assert ensemble(kind, "exact").add(tmp_path).names == more.names


@pytest.mark.parametrize("kind", ["several outputs", "classes", "varying noise"])
def test_many_of_several_functions_are_columns(kind, tmp_path):
    data = [rows(kind, seed) for seed in range(4)]
    names, times = [f"m{i}" for i in range(4)], [1.0, 2.0, 3.0, 4.0]
    many = rgp.fit_many(data, names=names, times=times, progress=False, **options(kind))
    assert isinstance(many, rgp.Modules)
    for i, (X_, y) in enumerate(data):
        alone = rgp.fit(X_, y, name=names[i], time=times[i], **options(kind))
        np.testing.assert_allclose(many[i].predict(X)[0], alone.predict(X)[0], atol=5e-5)
        assert many[i].time == times[i]
    many.save(tmp_path / "many.safetensors")
    again = rgp.load_many(tmp_path / "many.safetensors")
    np.testing.assert_array_equal(again[2].predict(X)[0], many[2].predict(X)[0])
    assert [m.time for m in again] == times
    np.testing.assert_array_equal(rgp.merge(again).predict(X)[0], rgp.merge(many).predict(X)[0])
    halved = rgp.merge(many, half_life=1.0, learn=False)
    assert [row["weight"] for row in halved.report()[:4]] == [0.125, 0.25, 0.5, 1.0]


def test_a_data_set_of_several_outputs_that_fails_is_named_or_left_out():
    good, bad = rows("several outputs", 1), rows("several outputs", 2)
    wrong = (bad.X, bad.y * 1e200)
    fit = {"names": ["good", "bad"], "progress": False, "publish": 8, "allow_small": True}
    with pytest.raises(rgp.RecycleGPError, match="bad"):
        rgp.fit_many([good, wrong], **fit)


def test_two_that_contradict_each_other_are_said():
    X_ = np.linspace(0, 6, 60)[:, None]
    rng = np.random.default_rng(4)
    up = rgp.fit(X_, np.sin(X_[:, 0]) + 0.1 * rng.standard_normal(60), name="up")
    down = rgp.fit(X_, 5 - np.sin(X_[:, 0]) + 0.1 * rng.standard_normal(60), name="down")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        merged = rgp.merge([up, down])
    assert any("up, down contradict each other, and nobody can say who is right" in str(w.message) for w in told)
    assert {row["weight"] for row in merged.report()} == {1.0}


def test_weights_count_where_outputs_are_correlated():
    modules = [module("several outputs", owner) for owner in OWNERS]
    weighted = rgp.merge(modules, weights={"north": 0.0, "south": 1.0, "west": 1.0}, outputs=np.eye(2) * 2, learn=False)
    without = rgp.merge(modules[1:], outputs=np.eye(2) * 2, learn=False)
    np.testing.assert_allclose(weighted.predict(X)[0], without.predict(X)[0], atol=0.2)
    assert weighted.names == list(OWNERS)


def test_modules_of_one_output_keep_their_place():
    salt = rgp.fit(*rows("one output", 8), name="first", **(options("one output") | {"target": "b"}))
    several = [module("several outputs", owner) for owner in OWNERS]
    merged = rgp.merge([salt, *several], outputs="independent", trust=None)
    assert merged.part("b").names == ["first", *OWNERS]
    assert merged.part("a").names == list(OWNERS)


def test_a_recycled_import_is_still_an_import():
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    moments = rgp.Module.from_moments(X, np.sin(X[:, 0]), 0.01 * np.eye(len(X)), kernel=kernel, noise=0.1, name="m")
    assert rgp.merge([moments], learn=False).to_module("again").disclosure.origin is Origin.UNKNOWN
    assert ensemble("one output", "exact").to_module("again").disclosure.origin is Origin.PLACED

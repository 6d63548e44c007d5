"""Many modules as columns are the same modules: as a list, in one file, and in a merge."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import recyclegp as rgp
from recyclegp.cli import app
from recyclegp.models import modules_file


def data_sets(K=9, D=2, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for n in rng.integers(6, 40, size=K):
        X = rng.normal(size=(n, D))
        made.append((X, np.sin(X.sum(1)) + 0.2 * rng.normal(size=n)))
    return made


@pytest.fixture(scope="module")
def modules():
    data = data_sets()
    names = [f"ward-{i}" for i in range(len(data))]
    return rgp.fit_many(data, names=names, owners=[f"hospital-{i % 4}" for i in range(len(data))], progress=False)


def same(a: rgp.Module, b: rgp.Module) -> None:
    assert (a.name, a.owner, a.rows, a.mean, a.jitter, a.kept) == (b.name, b.owner, b.rows, b.mean, b.jitter, b.kept)
    assert (a.likelihoods, a.noise_evidence, a.convergence) == (b.likelihoods, b.noise_evidence, b.convergence)
    assert (a.method, a.columns, a.target, a.kernel_spec) == (b.method, b.columns, b.target, b.kernel_spec)
    assert all(torch.equal(x, y) for x, y in zip(a.site, b.site, strict=True))


def test_it_is_a_sequence(modules):
    assert len(modules) == 9
    assert [m.name for m in modules] == modules.names == [f"ward-{i}" for i in range(9)]
    assert modules[-1].name == "ward-8"
    assert [m.name for m in modules[7:2:-2]] == ["ward-7", "ward-5", "ward-3"]
    assert isinstance(modules[2:4], rgp.Modules)
    one = [modules[3]]
    assert [m.name for m in modules[:1] + one] == ["ward-0", "ward-3"]
    assert [m.name for m in one + modules[:1]] == ["ward-3", "ward-0"]
    assert modules[4] in modules
    assert "9: ward-0" in repr(modules)
    with pytest.raises(IndexError):
        modules[9]


def test_a_module_that_somebody_holds_is_given_again(modules):
    held = modules[3]
    assert modules[3] is held


def test_columns_are_what_fit_makes(modules):
    """Those of one data set, fitted alone, to what learning leaves open."""
    X, y = data_sets()[5]
    alone = rgp.fit(X, y, name="ward-5", owner="hospital-1")
    assert modules[5].evidence == pytest.approx(alone.evidence, abs=1e-4)
    assert modules[5].owner == "hospital-1"


@pytest.mark.parametrize("options", [{}, {"method": "collapsed", "inducing": 5}, {"likelihood": "poisson"}])
def test_one_file_and_back(tmp_path, options):
    data = data_sets()
    if options.get("likelihood") == "poisson":
        data = [(X, np.round(np.exp(y))) for X, y in data]
    made = rgp.fit_many(data, progress=False, **options)
    made.save(tmp_path / "all.safetensors")
    read = rgp.load_many(tmp_path / "all.safetensors")
    assert isinstance(read, rgp.Modules)
    for a, b in zip(made, read, strict=True):
        same(a, b)


def test_slices_are_saved_and_pickled_without_the_rest(tmp_path, modules):
    modules.save(tmp_path / "all.safetensors")
    modules[6:2:-3].save(tmp_path / "some.safetensors")
    read = rgp.load_many(tmp_path / "some.safetensors")
    assert read.names == ["ward-6", "ward-3"]
    same(read[0], modules[6])
    assert (tmp_path / "some.safetensors").stat().st_size < (tmp_path / "all.safetensors").stat().st_size / 2
    copied = pickle.loads(pickle.dumps(modules[6:2:-3]))
    assert len(pickle.dumps(modules[:1])) < len(pickle.dumps(modules)) * 0.55
    same(copied[1], modules[3])


def test_kinds_side_by_side(tmp_path):
    """Different columns, different targets and both methods: blocks of their own, one order."""
    rng = np.random.default_rng(3)
    frames = []
    for i in range(6):
        X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["age", "dose"] if i % 2 else ["dose", "age"])
        frames.append((X, pd.Series(np.sin(X["age"]) + 0.1 * rng.normal(size=20), name="pressure")))
    made = rgp.fit_many(frames, names=list("abcdef"), progress=False)
    made.save(tmp_path / "m.safetensors")
    read = rgp.load_many(tmp_path / "m.safetensors")
    assert read.names == list("abcdef")
    assert [m.columns for m in read] == [("dose", "age"), ("age", "dose")] * 3
    whole, single = (rgp.merge(some, learn=False) for some in (read, list(made)))
    X = rng.normal(size=(7, 2))
    for a, b in zip(whole.predict(X), single.predict(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("keep", ["sites", "names"])
@pytest.mark.parametrize("inducing", ["all", 12])
def test_merging_columns_is_merging_modules(tmp_path, modules, keep, inducing):
    """From memory and from the file, with weights, to rounding."""
    modules.save(tmp_path / "all.safetensors")
    weights = {"ward-2": 0.0, "ward-4": 2.0, "ward-8": 0.5}
    options = {"inducing": inducing, "keep": keep, "learn": False, "weights": weights}
    expected = rgp.merge(list(modules), **options)
    X = np.random.default_rng(1).normal(size=(11, 2))
    for source in (modules, tmp_path / "all.safetensors", [modules[:4], *modules[4:]]):
        found = rgp.merge(source, **options)
        assert found.names == expected.names
        np.testing.assert_allclose(found.evidence, expected.evidence, rtol=1e-10)
        for a, b in zip(found.predict(X), expected.predict(X), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


def test_operations_on_a_merge_of_columns(modules):
    e = rgp.merge(modules, owners=None, trust=None)
    back = e.remove("ward-3", relearn=False).add(modules[3])
    np.testing.assert_allclose(back.bound, e.bound, rtol=1e-8)
    assert [m.name for m in e.modules] == modules.names if hasattr(e, "modules") else True


def test_no_module_objects_are_made(modules, monkeypatch):
    """Merging columns looks at one example of each block."""
    made = []
    real = rgp.Module.__post_init__
    monkeypatch.setattr(rgp.Module, "__post_init__", lambda self: (made.append(self.name), real(self)))
    rgp.merge(modules, learn=False)
    assert len(made) <= len(modules._blocks)


def test_names_must_differ(tmp_path, modules):
    with pytest.raises(rgp.RecycleGPError, match="two modules are named 'ward-0'"):
        rgp.merge([modules, modules[:1]])


def test_load_says_how_to_read_it(tmp_path, modules):
    modules.save(tmp_path / "all.safetensors")
    with pytest.raises(rgp.RecycleGPError, match="load_many"):
        rgp.load(tmp_path / "all.safetensors")
    modules[0].save(tmp_path / "one.safetensors")
    with pytest.raises(rgp.RecycleGPError, match="'module', not modules"):
        rgp.load_many(tmp_path / "one.safetensors")


def test_a_file_is_read_in_pieces(tmp_path, modules, monkeypatch):
    """No more sites at once than a piece holds, unless one alone is larger."""
    modules.save(tmp_path / "all.safetensors")
    monkeypatch.setattr(modules_file, "PIECE", 200)
    sizes = [len(piece.block) for piece in modules_file.pieces(tmp_path / "all.safetensors")]
    assert sum(sizes) == 9
    assert len(sizes) >= 3
    for a, b in zip(modules, rgp.load_many(tmp_path / "all.safetensors"), strict=True):
        same(a, b)


def test_the_golden_file_stays_readable():
    folder = Path(__file__).parents[1] / "golden" / "many"
    expected = json.loads((folder / "expected.json").read_text())
    at = np.array(expected.pop("at"))
    read = rgp.load_many(folder / "modules.safetensors")
    assert {m.name: m.owner for m in read} == {"spring": "ward-7", "autumn": "ward-7", "lab": "lab", "field": "field"}
    for m in read:
        assert (m.target.name, m.target.unit, m.columns) == ("pressure", "mmHg", ("a", "b"))
        for found, wanted in zip(m.predict(at), expected[m.name], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_commands(tmp_path, modules):
    """inspect, merge, sign and verify take a file of many modules."""
    run = CliRunner().invoke
    path, merged = tmp_path / "all.safetensors", tmp_path / "merged.safetensors"
    modules.save(path)
    seen = json.loads(run(app, ["inspect", str(path), "--json"]).stdout)
    assert (seen["kind"], seen["modules"], seen["names"]) == ("modules", 9, modules.names)
    assert seen["rows"] == sum(m.rows for m in modules)
    assert "9 (ward-0, ward-1" in run(app, ["inspect", str(path)]).stdout
    assert "9 modules" in run(app, ["inspect", str(path), str(path)]).stdout
    done = run(app, ["merge", str(path), "-o", str(merged)])
    assert done.exit_code == 0, done.output
    assert rgp.load(merged).names == modules.names
    assert run(app, ["keygen", "-o", str(tmp_path / "me")]).exit_code == 0
    assert run(app, ["sign", str(path), "--key", str(tmp_path / "me.pem")]).exit_code == 0

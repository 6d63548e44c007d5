"""Files: bit-exact, small, readable for ever, written whole, and refused with one clear error."""

import json
import os
import pickle
import stat
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import recyclegp as rgp
from hostile_files import rebuilt, sealed, taken_apart, without_digests

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
MODULES = ["gaussian", "bernoulli", "bernoulli-probit", "poisson", "student-t"]
ENSEMBLES = ["ensemble", "ensemble-names"]


@pytest.fixture(scope="module")
def module():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 3, (40, 2))
    frame = pd.DataFrame(X, columns=["größe", "x"])
    return rgp.fit(frame, np.sin(X[:, 0]) + X[:, 1], kernel="rbf + linear", name="Zürich 7", publish=9)


@pytest.fixture(scope="module")
def ensemble(module):
    other = module.rename("b").transform(input_shift=[0.2, 0.0])
    return rgp.merge([module, other], weights={"b": 0.5}, learn=False)


def tensors_of(path):
    return {k: (v.dtype, tuple(v.shape), v.numpy().tobytes()) for k, v in load_file(path).items()}


def header_of(path):
    with safe_open(str(path), framework="pt") as f:
        return json.loads(f.metadata()["recyclegp"])


def rewrite(source, target, *, header=None, tensors=None):
    """The same file with something changed in it."""
    old = header_of(source)
    new = load_file(source)
    if header:
        header(old)
    if tensors:
        tensors(new)
    save_file({k: v.contiguous() for k, v in new.items()}, target, metadata={"recyclegp": json.dumps(old)})
    if isinstance(old, dict):
        Path(target).write_bytes(sealed(Path(target).read_bytes()))
    return target


# --- round trip -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES + ENSEMBLES)
def test_golden_files(name):
    model = rgp.load(GOLDEN / f"{name}.safetensors")
    assert isinstance(model, rgp.Module if name in MODULES else rgp.Ensemble)
    points, want = np.array(EXPECTED["points"]), EXPECTED[name]
    mean, variance = model.predict(points)
    np.testing.assert_allclose(mean, want["mean"], rtol=1e-9)
    np.testing.assert_allclose(variance, want["variance"], rtol=1e-9)
    assert model.evidence == pytest.approx(want["evidence"], rel=1e-9)
    densities = [k.split()[1] for k in want if k.startswith("log_density")]
    assert sorted(p.name for p in model.likelihoods) == sorted(densities)
    for p in densities:
        found = model.log_density(points, [0.0, 1.0, 1.0], p)
        np.testing.assert_allclose(found, want[f"log_density {p}"], rtol=1e-9)


def check_written_again(model, source, folder):
    """Today's schema holds the same numbers, bit for bit; what it holds is what it held."""
    first, second = folder / "first.safetensors", folder / "second.safetensors"
    model.save(first)
    again = rgp.load(first)
    again.save(second)
    assert first.read_bytes() == second.read_bytes()
    now, then = tensors_of(first), tensors_of(source)
    old = header_of(source)["schema"] < 3 and "parts" not in header_of(source)
    assert {name if "/" in name or name in now else f"0/{name}": t for name, t in then.items()} == now or not old
    assert header_of(first)["schema"] == 3
    assert again.evidence == model.evidence
    return again


@pytest.mark.parametrize("name", MODULES + ENSEMBLES)
def test_golden_files_round_trip(name, tmp_path):
    source = GOLDEN / f"{name}.safetensors"
    assert header_of(source)["schema"] == 1
    model = rgp.load(source)
    again = check_written_again(model, source, tmp_path)
    X = np.array(EXPECTED["points"])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["module", "exact", "exact-names", "points", "points-names"])
def test_golden_files_of_schema_2(name, tmp_path):
    """Owners, effects and exact ensembles, with sites and without them."""
    folder = GOLDEN / "2"
    known = json.loads((folder / "expected.json").read_text())
    loaded = rgp.load(folder / f"{name}.safetensors")
    for model in (loaded, check_written_again(loaded, folder / f"{name}.safetensors", tmp_path)):
        for owner, (mean, variance) in known[name]["predictions"].items():
            found = model.predict(np.array(known["at"]), owner=None if owner == "None" else owner)
            np.testing.assert_allclose(found, [mean, variance], rtol=1e-9)
        assert model.evidence == pytest.approx(known[name]["evidence"], rel=1e-9)


@pytest.mark.parametrize("name", ["module", "exact", "points"])
def test_golden_files_with_categories(name, tmp_path):
    path = GOLDEN / "categories" / f"{name}.safetensors"
    known = json.loads((GOLDEN / "categories" / "expected.json").read_text())[name]
    loaded = rgp.load(path)
    X = pd.DataFrame({"age": [0.3, -1.0, 1.4], "sex": ["f", "m", "f"], "device": ["a", "b", "c"]})
    for model in (loaded, check_written_again(loaded, path, tmp_path)):
        assert {model.columns[c]: list(names) for c, names in model.categories.levels} == {
            key: known[key] for key in ("sex", "device")
        }
        np.testing.assert_allclose(model.predict(X), known["predictions"], rtol=1e-9)
        assert model.evidence == pytest.approx(known["evidence"], rel=1e-9)


@pytest.mark.parametrize("name", [f"{k}{m}" for k in ("outputs", "classes", "varying") for m in ("", "-merged")])
def test_golden_files_of_several_functions(name, tmp_path):
    folder = GOLDEN / "joint"
    known = json.loads((folder / "expected.json").read_text())
    loaded = rgp.load(folder / f"{name}.safetensors")
    assert isinstance(loaded, rgp.Ensemble if name.endswith("-merged") else rgp.Module)
    X = np.array(known["at"])
    sums = 1e-4 if name.startswith("classes") else 1e-9  # probabilities are sums that later versions may take otherwise
    for model in (loaded, check_written_again(loaded, folder / f"{name}.safetensors", tmp_path)):
        np.testing.assert_allclose(model.predict(X), known[name]["f"], rtol=1e-9)
        np.testing.assert_allclose(model.predict_y(X), known[name]["y"], rtol=sums)
    assert tensors_of(tmp_path / "first.safetensors") == tensors_of(folder / f"{name}.safetensors")


def test_golden_file_of_correlated_outputs(tmp_path):
    path = GOLDEN / "joint" / "coupled-merged.safetensors"
    known = json.loads((GOLDEN / "joint" / "expected-coupled.json").read_text())
    loaded = rgp.load(path)
    X = np.array(known["at"])
    for model in (loaded, check_written_again(loaded, path, tmp_path)):
        np.testing.assert_allclose(model.predict(X), known["f"], rtol=1e-9)
        np.testing.assert_allclose(model.predict_y(X), known["y"], rtol=1e-9)
        np.testing.assert_allclose(model.output_covariance, known["covariance"], rtol=1e-9)
        assert model.evidence == pytest.approx(known["evidence"], rel=1e-9)
    then, now = tensors_of(path), tensors_of(tmp_path / "first.safetensors")
    for part in ("Z", "Rt", "rho", "e"):  # of the modules, as they were published: one output behind the other
        assert now[f"0/sites.{part}"][2] == then[f"0/sites.{part}"][2] + then[f"1/sites.{part}"][2]


@pytest.mark.parametrize("name", ["outputs", "coupled"])
def test_old_parts_with_columns_in_another_order(tmp_path, name):
    """Every output was merged by itself, and its columns had the order of its first module."""
    source = GOLDEN / "joint" / f"{name}-merged.safetensors"

    def turn(header):
        part = header["parts"][1]
        part["columns"] = part["columns"][::-1]
        for holder in (part, *part["members"]):
            s, a, b = holder["kernel"]["log_parameters"]
            holder["kernel"]["log_parameters"] = [s, b, a]

    turned = rewrite(
        source, tmp_path / "m", header=turn, tensors=lambda t: t.update({"1/sites.Z": t["1/sites.Z"].flip(1)})
    )
    X = np.array([[-1.0, 0.3], [0.2, 1.1]])
    model, other = rgp.load(source), rgp.load(turned)
    assert other.columns == ("a", "b")
    np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-9)
    np.testing.assert_allclose(
        other.remove("south", relearn=False).predict(X), model.remove("south", relearn=False).predict(X), rtol=1e-9
    )


def test_old_parts_with_other_levels(tmp_path):
    """Somebody who has not seen an output brings no levels to it: codes are those of all levels together."""
    source = GOLDEN / "categories" / "exact.safetensors"
    single, tensors = header_of(source), load_file(source)

    def only(header, c):
        return {k: v for k, v in header.items() if k not in ("schema", "written_by")} | {
            "categories": [
                header["categories"][0],
                {"column": 2, "levels": (["a", "b", "c", "d"], ["d", "c", "b", "a"])[c]},
            ]
        }

    backwards = dict(tensors)
    backwards["sites.Z"] = tensors["sites.Z"].clone()
    backwards["sites.Z"][:, 2] = 3 - backwards["sites.Z"][:, 2]
    assert single["categories"][1]["levels"] == ["a", "b", "c", "d"]
    parts = [only(single, 0), only(single, 1)]
    header = {"schema": 2, "kind": "joint ensemble", "parts": parts, "link": {"kind": "outputs", "names": ["p", "q"]}}
    both = {f"{c}/{k}": v.clone() for c, part in enumerate((tensors, backwards)) for k, v in part.items()}
    save_file(both, tmp_path / "m", metadata={"recyclegp": json.dumps(header)})
    X = pd.DataFrame({"age": [0.3, -1.0, 1.4], "sex": ["f", "m", "f"], "device": ["a", "b", "d"]})
    mean, variance = rgp.load(tmp_path / "m").predict(X)
    for c in (0, 1):
        np.testing.assert_allclose([mean[:, c], variance[:, c]], rgp.load(source).predict(X), rtol=1e-9)


@pytest.mark.parametrize("name", ["varying", "classes"])
@pytest.mark.parametrize("merged", ["", "-merged"])
def test_one_function_of_several(tmp_path, name, merged):
    """As a model by itself, in today's file and in one of schema 2."""
    source = GOLDEN / "joint" / f"{name}{merged}.safetensors"
    whole = rgp.load(source)
    part, X = whole.part(whole.functions[0]), np.array([[-1.0, 0.3], [0.2, 1.1]])
    part.save(tmp_path / "new")
    header, tensors = header_of(source), load_file(source)
    old = {**header["parts"][0], "schema": 2}
    own = {k.removeprefix("0/"): v for k, v in tensors.items() if k.startswith("0/") or k == "Z"}
    save_file(own, tmp_path / "old", metadata={"recyclegp": json.dumps(old)})
    for path in (tmp_path / "new", tmp_path / "old"):
        found = rgp.load(path)
        assert found.likelihoods == part.likelihoods
        np.testing.assert_array_equal(found.predict(X), part.predict(X))


NEW = json.loads((GOLDEN / "3" / "expected.json").read_text())


@pytest.mark.parametrize("name", sorted(set(NEW) - {"at", "at levels", "modules"}))
def test_golden_files_of_schema_3(name, tmp_path):
    path, known = GOLDEN / "3" / f"{name}.safetensors", NEW[name]
    model = rgp.load(path)
    X = pd.DataFrame(NEW["at levels" if "categories" in name else "at"])
    np.testing.assert_allclose(model.predict(X), known["f"], rtol=1e-9)
    np.testing.assert_allclose(model.predict_y(X), known["y"], rtol=1e-4 if "classes" in name else 1e-9)
    assert model.evidence == pytest.approx(known["evidence"], rel=1e-9)
    model.save(tmp_path / "again")
    assert without_digests((tmp_path / "again").read_bytes()) == without_digests(path.read_bytes())


def test_golden_file_of_many_modules_of_schema_3(tmp_path):
    path, X = GOLDEN / "3" / "modules.safetensors", pd.DataFrame(NEW["at"])
    modules = rgp.load_many(path)
    assert [m.time for m in modules] == [1.0, 2.5, 3.0]
    assert [m.owner for m in modules] == ["o", "o", "p"]
    for m in modules:
        np.testing.assert_allclose(m.predict(X), NEW["modules"][m.name]["f"], rtol=1e-9)
        assert m.evidence == pytest.approx(NEW["modules"][m.name]["evidence"], rel=1e-9)
    modules.save(tmp_path / "again")
    assert without_digests((tmp_path / "again").read_bytes()) == without_digests(path.read_bytes())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scale": [1.0], "shift": [0.0, 0.0]}, "not about the outputs"),
        ({"scale": [1.0, 0.0], "shift": [0.0, 0.0]}, "not about the outputs"),
        ({"scale": [1.0, "x"], "shift": [0.0, 0.0]}, "a scale is x"),
        ({"scale": [1.0, 1.0]}, "malformed"),
    ],
)
def test_broken_correlated_outputs(tmp_path, change, said):
    path = GOLDEN / "joint" / "coupled-merged.safetensors"
    check_refused(rewrite(path, tmp_path / "m", header=lambda h: h.update(coupled=change)), said)


@pytest.mark.parametrize(
    ("categories", "said"),
    [
        ("sex", "categories is not a list"),
        ([{"column": 1}], "malformed"),
        ([{"column": 3, "levels": ["f", "m"]}], "categories in column 3 of 3"),
        ([{"column": True, "levels": ["f", "m"]}], "a column of categories is True"),
        ([{"column": 1, "levels": []}], "column 1 has 0 levels"),
        ([{"column": 1, "levels": ["f", "f"]}], "a level is given twice"),
        ([{"column": 1, "levels": ["f", 1]}], "a level is not text"),
        ([{"column": 1, "levels": ["f", "\x1b[2J"]}], "printable"),
        ([{"column": 1, "levels": ["f"]}], "a point has no level in column 1"),
        ([{"column": 0, "levels": ["f", "m"]}], "a point has no level in column 0"),
        ([{"column": 1, "levels": ["f", "m"]}] * 2, "given twice"),
        ([{"column": 1, "levels": [f"l{i}" for i in range(10_001)]}], "levels is not a list of at most 10,000"),
    ],
)
def test_categories_from_strangers(categories, said, tmp_path):
    content = (GOLDEN / "categories" / "module.safetensors").read_bytes()
    outer, header, body = taken_apart(content)
    (tmp_path / "m.safetensors").write_bytes(rebuilt(outer, header | {"categories": categories}, body))
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h: h["link"].update(kind="other"), "link is not one that this version knows"),
        (lambda h: h["link"].update(names=["low", "low", "top"]), "give 1 to 256 that are different"),
        (lambda h: h["link"].update(names=["low", "top"]), "3 parts for 2 functions"),
        (lambda h: h["link"].pop("likelihood"), "malformed"),
        (lambda h: h["parts"][1].update(kind="ensemble"), "part 1 is not a module"),
        (lambda h: h["parts"][1].update(name="other"), "must have its name"),
        (lambda h: h["parts"].pop(), "2 parts for 3 functions"),
        (lambda h: h.pop("parts"), "malformed"),
        (lambda h: h.update(parts=[{}] * 300), "parts is not a list of at most 256"),
    ],
)
def test_broken_joint_modules(tmp_path, change, said):
    check_refused(rewrite(GOLDEN / "joint" / "classes.safetensors", tmp_path / "m", header=change), said)


def test_points_that_functions_share_are_in_the_file_once():
    found = tensors_of(GOLDEN / "joint" / "classes.safetensors")
    assert set(found) == {"Z", *(f"{i}/{name}" for i in range(3) for name in ("Rt", "rho", "e"))}
    assert "0/Z" in tensors_of(GOLDEN / "joint" / "outputs.safetensors")  # which have not been seen in the same rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h: h.update(form="other"), "the form is other"),
        (lambda h: h.update(effects={"offset": -1.0, "smooth": 0.0}), "offset is -1.0, not a finite number"),
        (lambda h: h.update(owners="sometimes"), "malformed"),
        (lambda h: h.update(anonymous=[[7, 7, 99]] * 3), "an owner who is not here"),
        (lambda h: h.pop("anonymous"), "anonymous is not a list"),
        (lambda h: h["members"][0].update(owner="new"), "nobody has met"),
    ],
)
def test_broken_exact_ensembles(tmp_path, change, said):
    check_refused(rewrite(GOLDEN / "2" / "exact-names.safetensors", tmp_path / "m", header=change), said)


@pytest.mark.parametrize("which", ["module", "ensemble"])
def test_round_trip_is_bit_exact(which, request, tmp_path):
    model = request.getfixturevalue(which)
    path = tmp_path / "m.safetensors"
    assert model.save(path) is None
    again = rgp.load(str(path))
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    assert again.columns == model.columns == ("größe", "x")
    assert again.kernel_spec == model.kernel_spec
    assert again.targets == model.targets
    assert again.likelihoods == model.likelihoods
    assert (again.mean, again.jitter, again.rows) == (model.mean, model.jitter, model.rows)
    X = np.random.default_rng(0).uniform(-3, 4, (20, 2))
    for a, b in zip((*model.predict(X), *model.predict_y(X)), (*again.predict(X), *again.predict_y(X)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.evidence == model.evidence
    np.testing.assert_array_equal(again.inducing, model.inducing)
    again.save(tmp_path / "n.safetensors")
    assert (tmp_path / "n.safetensors").read_bytes() == path.read_bytes()


def test_a_loaded_ensemble_goes_on(ensemble, module, tmp_path):
    ensemble.save(tmp_path / "e")
    again = rgp.load(tmp_path / "e")
    X = module.inducing + 0.1
    for operation in (
        lambda e: e.remove("b"),
        lambda e: e.add(module.rename("c")),
        lambda e: e.to_module("all"),
        lambda e: e.update(X, X[:, 0]),
    ):
        np.testing.assert_array_equal(operation(ensemble).predict(X)[0], operation(again).predict(X)[0])
    assert again.report() == ensemble.report()


def test_names_only_ensemble_keeps_its_report(ensemble, tmp_path):
    small = ensemble.forget_sites()
    small.save(tmp_path / "e")
    again = rgp.load(tmp_path / "e")
    assert [r["surprise"] for r in again.report()] == [r["surprise"] for r in small.report()]
    with pytest.raises(rgp.RecycleGPError, match="keeps only names"):
        again.remove("b")


def test_header_says_what_is_inside(module, tmp_path):
    module.save(tmp_path / "m")
    header = header_of(tmp_path / "m")
    assert {"schema", "kind", "name", "parts", "likelihoods", "units", "columns", "method"} <= set(header)
    assert (header["schema"], header["kind"], header["name"]) == (3, "module", "Zürich 7")
    assert header["columns"] == ["größe", "x"]
    (part,) = header["parts"]
    assert (part["rows"], part["jitter"], part["mean"]) == (40, module.jitter, module.mean)
    assert not {"owner", "time", "targets", "categories"} & set(header)  # about which nobody has said anything


def test_64_points_in_2d_are_under_50_kb(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (200, 2))
    Z = np.stack(np.meshgrid(np.linspace(-2, 2, 8), np.linspace(-2, 2, 8)), -1).reshape(-1, 2) + 0.01
    m = rgp.fit(X, np.sin(9 * X[:, 0]), kernel="matern12", publish=Z, learn=False)
    m.save(tmp_path / "m")
    assert len(m.inducing) == 64
    assert (tmp_path / "m").stat().st_size < 50_000


# --- writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize("existing", [True, False])
def test_writing_is_atomic(module, tmp_path, monkeypatch, step, existing):
    target = tmp_path / "m.safetensors"
    if existing:
        target.write_bytes(b"what was there before")

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        module.save(target)
    assert os.listdir(tmp_path) == (["m.safetensors"] if existing else [])
    assert not existing or target.read_bytes() == b"what was there before"


def test_interruption_leaves_nothing(module, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        module.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_overwriting_replaces(module, ensemble, tmp_path):
    module.save(tmp_path / "m")
    ensemble.save(tmp_path / "m")
    assert isinstance(rgp.load(tmp_path / "m"), rgp.Ensemble)
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_new_files_have_the_users_permissions(module, tmp_path):
    (tmp_path / "other").touch()
    module.save(tmp_path / "m")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_saving_nowhere(module, tmp_path):
    with pytest.raises(FileNotFoundError):
        module.save(tmp_path / "no" / "folder")
    with pytest.raises(OSError, match=r"."):
        module.save(tmp_path)
    assert os.listdir(tmp_path) == []


# --- reading what is broken -------------------------------------------------------------------


def check_refused(path, message):
    with pytest.raises(rgp.RecycleGPError, match=message) as caught:
        rgp.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        rgp.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        rgp.load(tmp_path)
    with pytest.raises(TypeError):
        rgp.load(None)


def test_every_truncation_is_refused(tmp_path):
    whole = (GOLDEN / "gaussian.safetensors").read_bytes()
    target = tmp_path / "m"
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        target.write_bytes(whole[:size])
        check_refused(target, "not a complete recyclegp file")


def test_trailing_bytes_are_refused(tmp_path):
    (tmp_path / "m").write_bytes((GOLDEN / "gaussian.safetensors").read_bytes() + b"more")
    check_refused(tmp_path / "m", "not a complete recyclegp file")


def test_other_formats_are_refused(tmp_path, module):
    target = tmp_path / "m"
    for content in (b"", b"hello", b"\x80\x04" * 50, pickle.dumps({"a": 1}), struct.pack("<Q", 2**62) + b"{}"):
        target.write_bytes(content)
        check_refused(target, "not a complete recyclegp file")
    save_file({"Z": torch.ones(2)}, target)
    check_refused(target, "not one of recyclegp's")
    np.save(tmp_path / "x.npy", np.ones(3))
    check_refused(tmp_path / "x.npy", "not a complete")


def test_pickle_is_never_executed(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "executed",))

    for write in (lambda b, f: f.write_bytes(pickle.dumps(b)), lambda b, f: torch.save(b, f)):
        write(Bomb(), tmp_path / "m")
        check_refused(tmp_path / "m", "not a complete")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("schema", [0, 4, 99, "1", None, 1.0, True, [1]], ids=str)
def test_unknown_schema(tmp_path, schema):
    path = rewrite(GOLDEN / "gaussian.safetensors", tmp_path / "m", header=lambda h: h.update(schema=schema))
    check_refused(path, r"schema .*[Uu]pgrade")


@pytest.mark.parametrize("text", ["", "[]", "1", "{", "nonsense", '{"schema": NaN}', "[" * 100_000], ids=range(7))
def test_broken_header_text(tmp_path, text):
    save_file({"Z": torch.ones(2, 2)}, tmp_path / "m", metadata={"recyclegp": text})
    check_refused(tmp_path / "m", "not a complete|schema")


@pytest.mark.parametrize("name", ["gaussian", "ensemble", "3/module", "3/learned", "3/points", "3/coupled"])
def test_every_missing_field_and_tensor_is_refused(tmp_path, name):
    source = GOLDEN / f"{name}.safetensors"
    optional = {"written_by", "units"}
    if header_of(source)["schema"] == 3:  # what says nothing is not written, so that it may be missing
        optional |= {"method", "owner", "time", "targets", "columns"}
    for key in set(header_of(source)) - optional:
        path = rewrite(source, tmp_path / "m", header=lambda h, key=key: h.pop(key))
        check_refused(path, key if key not in ("kind", "schema") else "upgrade|Upgrade")
    for key in load_file(source):
        check_refused(rewrite(source, tmp_path / "m", tensors=lambda t, key=key: t.pop(key)), "is missing")


@pytest.mark.parametrize("name", ["gaussian", "ensemble", "3/module", "3/points", "3/coupled-names"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.flatten().index_fill(0, torch.tensor([0]), float("nan")).reshape(t.shape), "NaN or infinite"),
        (lambda t: t.flatten().index_fill(0, torch.tensor([0]), float("-inf")).reshape(t.shape), "NaN or infinite"),
        (lambda t: t[None], "of shape"),
        (lambda t: torch.cat([t, t]) if t.ndim else t.expand(2), "of shape|more rows|is not one"),
        (lambda t: t.float(), "float32"),
        (lambda t: t.long(), "int64"),
    ],
    ids=["nan", "inf", "rank", "longer", "float32", "int64"],
)
def test_every_broken_tensor_is_refused(tmp_path, name, change, message):
    source = GOLDEN / f"{name}.safetensors"
    for key in [key for key, t in load_file(source).items() if t.numel()]:
        path = rewrite(source, tmp_path / "m", tensors=lambda t, key=key: t.update({key: change(t[key])}))
        check_refused(path, message)


def put(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(header):
        for key in keys:
            header = header[key]
        header[last] = value

    return change


LEAF = {"kind": "rbf", "ard": 2, "dims": None}


OF_A_FUNCTION = ("mean", "jitter", "rows", "convergence", "kernel")
BROKEN_MODULES = [
    ("kind", "pickle"),
    ("kind", ["module"]),
    ("name", 7),
    ("name", ""),
    ("name", "a\x00b"),
    ("name", "n" * 1000),
    ("mean", None),
    ("mean", "0"),
    ("mean", 10**400),
    ("jitter", -1.0),
    ("jitter", True),
    ("rows", -1),
    ("rows", 0),
    ("rows", 2.5),
    ("columns", ["a"]),
    ("columns", ["a", "a"]),
    ("columns", "ab"),
    ("columns", [1, 2]),
    ("columns", {"a": 1, "b": 2}),
    ("likelihoods", []),
    ("likelihoods", [{"name": "os.system", "parameters": []}]),
    ("likelihoods", 0, "parameters", [-1.0]),
    ("likelihoods", 0, "parameters", ["0.1"]),
    ("likelihoods", 0, "parameters", [0.1, 0.2, 0.3]),
    ("likelihoods", None),
    ("convergence", None),
    ("convergence", "evaluations", "many"),
    ("method", 3),
    ("kernel", None),
    ("kernel", "rbf"),
    ("kernel", "log_parameters", []),
    ("kernel", "log_parameters", ["0", "0", "0"]),
    ("kernel", "log_parameters", [1e9, 0.0, 0.0]),
    ("kernel", "log_parameters", [None, 0.0, 0.0]),
    ("kernel", "tree", None),
    ("kernel", "tree", {"kind": "eval", "base": LEAF}),
    ("kernel", "tree", {"kind": "scale"}),
    ("kernel", "tree", {"kind": "scale", "base": {"kind": "rbf"}}),
    ("kernel", "tree", {"kind": "scale", "base": {**LEAF, "ard": 7}}),
    ("kernel", "tree", {"kind": "scale", "base": {**LEAF, "dims": [0, 9]}}),
    ("kernel", "tree", {"kind": "scale", "base": {**LEAF, "dims": 3}}),
    ("kernel", "tree", {"kind": "matern", "nu": 7, "ard": 2, "dims": None}),
    ("kernel", "tree", {"kind": "centred", "centre": [0.0], "base": LEAF}),
    ("kernel", "tree", {"kind": "sum", "parts": []}),
    ("kernel", "tree", {"kind": "sum", "parts": [LEAF] * 1000}),
]


@pytest.mark.parametrize("keys", BROKEN_MODULES, ids=str)
def test_broken_module_headers_are_refused(tmp_path, keys):
    path = rewrite(GOLDEN / "gaussian.safetensors", tmp_path / "m", header=put(*keys))
    check_refused(path, "ask for the file again|upgrade")
    new = put("parts", 0, *keys) if keys[0] in OF_A_FUNCTION else put(*keys)
    if keys[0] != "convergence":  # which may be missing today
        path = rewrite(GOLDEN / "3" / "module.safetensors", tmp_path / "m", header=new)
        check_refused(path, "ask for the file again|upgrade")


@pytest.mark.parametrize(
    "change",
    [
        put("members", []),
        put("members", None),
        put("members", 0, "name", "poisson"),
        put("members", 0, "name", 5),
        put("members", 0, "rows", -5),
        put("members", 0, "rows", 0),
        put("members", 0, "weight", -1.0),
        put("members", 0, "weight", "1"),
        put("members", 0, "weight", None),
        put("members", 0, "surprise", "x"),
        put("members", 0, "site", [7]),
        put("members", 0, "site", [7, 8]),
        put("members", 0, "site", [-7, 7]),
        put("members", 0, "site", None),
        put("members", 0, "site", [10**9, 10**9]),
        put("members", 0, "likelihoods", []),
        put("likelihoods", []),
        put("jitter", "small"),
    ],
)
def test_broken_ensemble_headers_are_refused(tmp_path, change):
    check_refused(rewrite(GOLDEN / "ensemble.safetensors", tmp_path / "m", header=change), "ask for the file again")


def test_infinity_written_as_a_number_is_refused(tmp_path):
    source = GOLDEN / "gaussian.safetensors"
    text = json.dumps(header_of(source))
    for key in ('"mean": ', '"jitter": '):
        start = text.index(key) + len(key)
        broken = text[:start] + "1e999" + text[text.index(",", start) :]
        save_file(load_file(source), tmp_path / "m", metadata={"recyclegp": broken})
        check_refused(tmp_path / "m", "not a finite number")


def test_flipped_bytes_never_crash(tmp_path):
    """Whatever single byte is damaged: a clear error, or an object that still answers."""
    whole = bytearray((GOLDEN / "gaussian.safetensors").read_bytes())
    rng = np.random.default_rng(0)
    target = tmp_path / "m"
    errors = 0
    for place in rng.integers(0, len(whole), 150):
        broken = whole.copy()
        broken[place] ^= int(rng.integers(1, 256))
        target.write_bytes(bytes(broken))
        try:
            mean, variance = rgp.load(target).predict(np.zeros((1, 2)))
        except rgp.RecycleGPError:
            errors += 1
        else:
            assert np.isfinite(mean).all()
            assert np.isfinite(variance).all()
    assert errors > 10

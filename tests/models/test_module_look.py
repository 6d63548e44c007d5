"""Modules that are only looked at, without torch: the same is said of them, and nothing is let through."""

import json
import math
import random
from array import array

import numpy as np
import pandas as pd
import pytest
import torch

import hostile_files
import recyclegp as rgp
from recyclegp import RecycleGPError, likelihoods
from recyclegp.commands import facts, inspecting
from recyclegp.kernels import Kernel, file_form, parse
from recyclegp.likelihoods import FAMILIES, DirichletCategorical, Heteroscedastic, Ordinal, Outputs, SoftmaxCategorical
from recyclegp.models import likelihood_words, module_look
from recyclegp.storage.numbers import Numbers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
F = np.sin(X[:, 0]) + 0.3 * X[:, 1]
Y = F + 0.1 * RNG.normal(size=40)
KINDS = np.array(["ant", "bee", "wasp"])[RNG.integers(0, 3, 40)]
KERNELS = ("rbf", "matern12", "rq", "periodic", "rbf + linear", "rbf * periodic", "rbf * linear + constant", "matern52")
TARGETS = {
    "gaussian": Y,
    "lognormal": np.exp(Y),
    "bernoulli": (Y > 0) * 1,
    "bernoulli-probit": (Y > 0) * 1,
    "poisson": RNG.poisson(np.exp(F)),
    "negative-binomial": RNG.poisson(np.exp(F)),
    "student-t": Y,
    "survival": np.exp(Y),
    "ordinal": (F > 0) * 1 + (F > 0.5) * 1,
    "categorical": KINDS,
    "categorical-softmax": KINDS,
    "heteroscedastic": Y,
}


def fitted(name, y=Y, inputs=X, **options):
    return rgp.fit(inputs, y, publish=6, name=name, learn=False, **options)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Bytes of modules of all likelihoods and many kernels, by what they are."""
    folder, found = tmp_path_factory.mktemp("look"), {}

    def keep(what, module):
        module.save(folder / "m.safetensors")
        found[what] = (folder / "m.safetensors").read_bytes()

    for kernel in KERNELS:
        keep(kernel, fitted("k", kernel=kernel, target="y", unit="m", owner="o", time="2026-03-01"))
    for name, y in TARGETS.items():
        keep(name, fitted(name, y, likelihood=name))
    keep("outputs", fitted("two", np.c_[Y, F + 0.2 * RNG.normal(size=40)], target=["heat", "salt"]))
    keep("categories", fitted("c", inputs=pd.DataFrame({"a": X[:, 0], "s": np.where(X[:, 1] > 0, "x", "y")})))
    keep("things", fitted("t", privacy="things", labels=None))
    return found


def in_full(path):
    """What is said after all was loaded, without what only that can find out."""
    return facts.of_file(path) | {"evidence": None}


# --- the same is said -------------------------------------------------------------------------


@pytest.mark.parametrize("what", [*KERNELS, *TARGETS, "outputs", "categories", "things"])
def test_the_same_is_said_of_a_module(files, what, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(files[what])
    found = inspecting.of_file(str(path), for_machines=False)
    assert found is not None
    assert found == in_full(path)
    assert list(found) == list(in_full(path))
    told = inspecting.of_file(str(path), for_machines=True)
    assert told == facts.of_file(path)
    assert told["evidence"] == pytest.approx(rgp.load(path).evidence, rel=1e-7)


@pytest.mark.parametrize("name", likelihood_words.FAMILIES)
def test_families_are_those_of_the_classes(name):
    said, family = likelihood_words.FAMILIES[name], FAMILIES[name]
    assert said == (family.parameter_names, family.has_units, family.conjugate)
    p = family()
    words = likelihood_words.read({"name": name})
    for what in ("name", "meaning", "functions", "known", "parameters", "has_units", "conjugate"):
        assert getattr(words, what) == getattr(p, what), what


def test_families_of_several_functions_are_those_of_the_classes():
    assert set(FAMILIES) == {
        *likelihood_words.FAMILIES,
        *likelihood_words.CATEGORICAL,
        likelihood_words.HETEROSCEDASTIC,
    }
    gaussian = {"name": "gaussian", "parameters": [0.3]}
    each = (likelihoods.Gaussian(0.3), likelihoods.StudentT())
    outputs = [{"name": "a", "likelihood": gaussian}, {"name": "b", "likelihood": {"name": "student_t"}}]
    for entry, p in (
        ({"name": "categorical", "labels": ["x", "y", "z"]}, DirichletCategorical(("x", "y", "z"))),
        ({"name": "categorical"}, DirichletCategorical()),
        ({"name": "categorical-softmax", "labels": []}, SoftmaxCategorical()),
        ({"name": "ordinal", "labels": ["x", "y", "z"], "parameters": [0.7]}, Ordinal(("x", "y", "z"), (0.7,))),
        ({"name": "ordinal", "labels": ["x", "y", "z"]}, Ordinal(("x", "y", "z"))),
        ({"name": "heteroscedastic"}, Heteroscedastic()),
        ({"name": "heteroscedastic", "function": "log noise"}, Heteroscedastic("log noise")),
        ({"name": "outputs", "functions": outputs}, Outputs(("a", "b"), each)),
    ):
        words = likelihood_words.read(entry)
        for what in (
            "name",
            "meaning",
            "functions",
            "known",
            "has_units",
            "ordered",
            "own_labels",
            "cuts",
            "words_of_y",
        ):
            assert getattr(words, what) == getattr(p, what), (entry, what)
        for own, part in zip(words.parts, p.parts, strict=True):
            assert (own.name, own.parameters, own.known, own.has_units, own.conjugate) == (
                *(part.name, part.parameters, part.known),
                *(part.has_units, part.conjugate),
            )


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "gaussian", "parameters": [0.3, 0.4]},
        {"name": "gaussian", "parameters": [0.0]},
        {"name": "gaussian", "labels": ["x", "y"]},
        {"name": "bernoulli", "parameters": [1.0]},
        {"name": "categorical", "labels": ["x", "x"]},
        {"name": "ordinal", "labels": ["x"]},
        {"name": "ordinal", "labels": ["x", "x"]},
        {"name": "ordinal", "labels": ["x", "y", "z"], "parameters": [1.0, 2.0]},
        {"name": "ordinal", "parameters": [1.0]},
        {"name": "categorical", "labels": ["x", 3]},
        {"name": "categorical", "parameters": [1.0]},
        {"name": "heteroscedastic", "function": "g"},
        {"name": "nothing"},
        {"name": "outputs", "functions": [{"name": "a", "likelihood": {"name": "categorical"}}]},
        {"name": "outputs", "functions": [{"name": "a", "likelihood": {"name": "outputs", "functions": []}}]},
        {"name": "outputs", "functions": []},
        ["gaussian"],
    ],
)
def test_likelihoods_of_strangers_are_refused_by_both(entry):
    from recyclegp.storage.record_json import likelihood_from_json

    for read in (likelihood_from_json, likelihood_words.read):
        with pytest.raises((RecycleGPError, KeyError, TypeError)):
            read(entry)


@pytest.mark.parametrize(
    "spec",
    [*KERNELS, "rq + periodic * (linear + constant)", "linear", "constant", "(rbf + rq) * (matern12 + linear)"],
)
def test_kernels_are_described_alike(spec):
    structure = parse(spec, 3).structure
    rng = np.random.default_rng(1)
    kernel = Kernel(structure, torch.tensor(rng.normal(size=structure.size)))
    words = module_look.KernelWords(module_look.trees.read(file_form.to_json(kernel, 3), 3))
    assert words.describe() == kernel.describe()
    assert words.describe(None) == kernel.describe(None)
    assert tuple(words.parameters) == kernel.parameters
    assert words.theta == kernel.theta.tolist()


def test_kernels_of_levels_are_described_alike():
    for tree, logs in (
        ({"kind": "category", "dims": [0, 2]}, [0.3, -0.4]),
        ({"kind": "index", "dims": [1], "levels": 3, "rank": 2}, [*np.linspace(-1, 1, 6), 0.1, 0.2, 0.3]),
        ({"kind": "index", "dims": [1], "levels": 2, "rank": 0}, [0.1, 0.2]),
    ):
        spec = {"tree": {"kind": "scale", "base": tree}, "log_parameters": [0.7, *map(float, logs)]}
        kernel, words = file_form.from_json(spec, 3), module_look.KernelWords(module_look.trees.read(spec, 3))
        assert words.describe(None) == kernel.describe(None)
        assert tuple(words.parameters) == kernel.parameters


# --- nothing is let through -------------------------------------------------------------------


def agrees(path):
    """Whether the file is said something of without torch; then the same is said of it with torch."""
    found = inspecting.of_file(str(path), for_machines=False)
    if found is None:
        return False
    full = in_full(path)  # an error where the file is refused
    assert json.dumps(found) == json.dumps(full)
    return True


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 5))])
def test_whatever_is_done_to_a_file(files, tmp_path, block):
    path, contents, looked = tmp_path / "m.safetensors", list(files.values()), 0
    for case in range(500 * block, 500 * (block + 1)):
        change = hostile_files.forged if case % 10 < 7 else hostile_files.mutated
        path.write_bytes(change(contents, "look", case))
        looked += agrees(path)
    assert 50 < looked < 400


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 5))])
def test_what_is_taken_for_certain_is_certain(files, tmp_path, block):
    """Points that coincide, lie far apart or far away; parameters, precisions and jitter of all sizes."""
    path, contents, looked = tmp_path / "m.safetensors", list(files.values()), 0
    for case in range(200 * block, 200 * (block + 1)):
        rng = random.Random(case)
        path.write_bytes(extreme(rng.choice(contents), rng))
        looked += agrees(path)
    assert 60 < looked < 195


def extreme(content, rng):
    outer, header, body = hostile_files.taken_apart(content)
    body, most = bytearray(body), math.log(module_look.LARGEST_NUMBER)
    for part in header["parts"]:
        size = rng.choice([1, 1, 5, math.log(module_look.LARGEST_RATIO), most])
        logs = part["kernel"]["log_parameters"]
        part["kernel"]["log_parameters"] = [rng.choice([v, rng.uniform(-size, size), size, -size]) for v in logs]
        part["jitter"] = rng.choice([0.0, 0.0, 1e-300, 1e-9, 1.0, 1e9])
        part["mean"] = rng.choice([0.0, 1e9, part["mean"]])
    for name, place in outer.items():
        if name == "__metadata__" or (name.endswith("Z") and header.get("categories")):
            continue
        start, stop = place["data_offsets"]
        values = np.frombuffer(bytes(body[start:stop]), "<f8").copy()
        if name.endswith("Z"):
            values = hostile_files.changed_points(values.reshape(place["shape"]), rng).reshape(-1)
        elif not name.endswith("/e"):
            values = np.clip(values * 10.0 ** rng.choice([0, 0, 3, 8, -9]), -1e9, 1e9)
        body[start:stop] = values.tobytes()
    return hostile_files.rebuilt(outer, header, bytes(body))


def test_what_is_left_to_torch(files, tmp_path):
    path = tmp_path / "m.safetensors"

    def left(change=lambda header: None, content=files["rbf"]):
        outer, header, body = hostile_files.taken_apart(content)
        change(header)
        path.write_bytes(hostile_files.rebuilt(outer, header, body))
        return module_look.look(path) is None

    def kernel(header):
        return header["parts"][0]["kernel"]

    assert not left()
    assert left(lambda header: header["parts"][0].update(rows=0))  # refused
    assert left(lambda header: header.update(kind="ensemble"))
    assert left(lambda header: kernel(header).update(log_parameters=[0.0, math.log(1e-5), 0.0]))  # far apart
    assert left(lambda header: kernel(header).update(log_parameters=[21.0, 0.0, 0.0]))
    assert left(lambda header: header["parts"][0].update(mean=1e10))
    linear = {"tree": {"kind": "linear", "ard": None, "dims": None}, "log_parameters": [0.0]}
    assert left(lambda header: header["parts"][0].update(kernel=linear))  # nothing at its centre
    rgp.merge([fitted("a"), fitted("b", Y + 0.01)], learn=False).save(path)
    assert module_look.look(path) is None
    path.write_bytes(files["rbf"][:-8])
    assert module_look.look(path) is None
    older = next(content for content in hostile_files.golden_files() if b'\\"schema\\": 1' in content)
    path.write_bytes(older)
    assert module_look.look(path) is None


def test_numbers_within():
    def within(*values, most=10.0):
        return Numbers((len(values),), array("d", values)).within(most)

    assert within()
    assert within(-10.0, 3.0, 10.0)
    assert not within(1.0, -10.1)
    for odd in (math.nan, math.inf, -math.inf):
        for i in range(4):
            assert not within(*[1.0, -2.0, 3.0][:i], odd, *[1.0, -2.0, 3.0][i:], most=1e300)
    assert not within(math.inf, -math.inf, most=1e300)
    table = Numbers((3, 2), array("d", [1.0, 5.0, -2.0, 7.0, 0.5, 6.0]))
    assert table.ranges() == [(-2.0, 1.0), (5.0, 7.0)]
    assert list(table.column(1)) == [5.0, 7.0, 6.0]

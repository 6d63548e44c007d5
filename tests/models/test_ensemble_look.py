"""Ensembles that are only looked at, without torch: people are told the same of them, and nothing is let through."""

import math
import random
import warnings

import numpy as np
import pandas as pd
import pytest

import hostile_files
import recyclegp as rgp
from recyclegp.commands import fact_words, facts, inspecting
from recyclegp.merging.build import FORMS
from recyclegp.merging.owners import Owners
from recyclegp.merging.points import ALL, AUTO
from recyclegp.merging.trust import Trust
from recyclegp.models import ensemble_look, module_look

RNG = np.random.default_rng(7)
QUICK = {"learn": False, "inducing": 5}
ORDINARY = (
    *(
        "default",
        "points",
        "names",
        "given points",
        "own constants",
        "own functions",
        "kernel",
        "auto",
        "unit",
        "words",
    ),
    *("weights", "bernoulli", "poisson", "ordinal", "levels of x"),
)
RARE = ("outputs", "classes", "removed", "given kernel", "given noise", "many points", "names, exact")


def tables(count=5, differ=0.0, rows=24):
    inputs = [RNG.uniform(0, 6, (rows, 2)) for _ in range(count)]
    return [(X, np.sin(X).sum(1) + differ * k + 0.1 * RNG.normal(size=rows)) for k, X in enumerate(inputs)]


def modules(parts, change=lambda f: f, **options):
    usual = {"publish": 6, "learn": False}
    return [rgp.fit(X, change(f), name=f"ward-{i}", **(usual | options)) for i, (X, f) in enumerate(parts)]


def made():
    plain = modules(tables(), noise=0.02)
    apart = modules(tables(6, differ=3.0), noise=0.02)
    yield "default", rgp.merge(plain)
    yield "points", rgp.merge(plain, inducing=7)
    yield "names", rgp.merge(plain, keep="names", **QUICK)
    yield "names, exact", rgp.merge(plain, keep="names")
    yield "given points", rgp.merge(plain, learn=False, inducing=RNG.uniform(0, 6, (4, 2)))
    yield "own constants", rgp.merge(apart, owners="offset")
    yield "own functions", rgp.merge(apart, owners="smooth", inducing=8)
    yield "kernel", rgp.merge(plain, kernel="matern32", learn=False)
    yield "auto", rgp.merge(plain, kernel="auto", inducing=5)
    yield "unit", rgp.merge([*plain, modules(tables(1), lambda f: 100 * f, noise=200.0)[0].rename("strange")])
    yield "weights", rgp.merge(plain, weights={"ward-0": 0.0, "ward-2": 2.5}, **QUICK)
    counts = {"bernoulli": lambda f: (f > 0) * 1, "poisson": lambda f: RNG.poisson(np.exp(f))}
    for likelihood, change in (counts | {"ordinal": lambda f: (f > 0) * 1 + (f > 0.8) * 1}).items():
        yield likelihood, rgp.merge(modules(tables(3), change, likelihood=likelihood), learn=False)
    named = [(pd.DataFrame({"a": X[:, 0], "s": np.where(X[:, 1] > 3, "x", "y")}), f) for X, f in tables(3)]
    yield "levels of x", rgp.merge(modules(named), learn=False)
    yield "words", rgp.merge(modules(tables(2), target="heat", unit="K", privacy="things", owner="anna"), **QUICK)
    yield "outputs", rgp.merge(modules(tables(2), lambda f: np.c_[f, -f], target=["a", "b"]), learn=False)
    kinds = modules(tables(2), lambda f: np.where(f > 0, "ant", "bee"), likelihood="categorical")
    yield "classes", rgp.merge(kinds, learn=False)
    yield "removed", rgp.merge(plain, **QUICK).remove("ward-0", relearn=False)
    yield "given kernel", rgp.merge(plain, kernel=plain[0].kernel_spec, **QUICK)
    yield "given noise", rgp.merge(plain, noise=0.1, **QUICK)
    grid = np.stack(np.meshgrid(np.arange(0, 60, 2.0), np.arange(0, 60, 3.0)), -1).reshape(-1, 2)
    yield "many points", rgp.merge(plain, learn=False, inducing=grid)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Bytes of ensembles, by what they are."""
    folder, found = tmp_path_factory.mktemp("look"), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, ensemble in made():
            ensemble.save(folder / "e.safetensors")
            found[what] = (folder / "e.safetensors").read_bytes()
    return found


def told(found):
    """What people read of it, alone and among others."""
    return fact_words.in_words(found), vars(fact_words.table([found]))


def agrees(path):
    """Whether the file is said something of without torch; then the same is said of it with torch."""
    found = inspecting.of_file(str(path), for_machines=False)
    if found is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        full = facts.of_file(path)  # an error where the file is refused
    assert told(found) == told(full)
    differ = {key for key in found if found[key] != full[key]}
    assert differ <= {"evidence", "functions", "members", "removed"}, differ
    return True


@pytest.mark.parametrize("what", [*ORDINARY, *RARE])
def test_the_same_is_said_of_an_ensemble(files, what, tmp_path):
    path = tmp_path / "e.safetensors"
    path.write_bytes(files[what])
    assert agrees(path) == (what in ORDINARY)
    assert inspecting.of_file(str(path), for_machines=True) is None  # whose evidence takes torch


def test_names_of_choices_are_those_of_the_classes():
    assert tuple(o.value for o in Owners) == ensemble_look.OWNERS
    assert set(ensemble_look.TRUST) == {t.value for t in Trust}
    assert set(ensemble_look.CHOICES) == {AUTO, ALL, None}
    assert set(ensemble_look.FORMS) == {form.kind for form in FORMS}


# --- nothing is let through -------------------------------------------------------------------


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 5))])
def test_whatever_is_done_to_a_file(files, tmp_path, block):
    path, contents, looked = tmp_path / "e.safetensors", [files[what] for what in ORDINARY], 0
    for case in range(200 * block, 200 * (block + 1)):
        change = hostile_files.forged if case % 10 < 7 else hostile_files.mutated
        path.write_bytes(change(contents, "look at ensembles", case))
        looked += agrees(path)
    assert 20 < looked < 180


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 5))])
def test_what_is_taken_for_certain_is_certain(files, tmp_path, block):
    """Points that coincide, lie far apart or far away; parameters, precisions and jitter of all sizes."""
    path, contents, looked = tmp_path / "e.safetensors", [files[what] for what in ORDINARY], 0
    for case in range(80 * block, 80 * (block + 1)):
        rng = random.Random(case)
        path.write_bytes(extreme(rng.choice(contents), rng))
        looked += agrees(path)
    assert 10 < looked < 80


def extreme(content, rng):
    outer, header, body = hostile_files.taken_apart(content)
    body, most = bytearray(body), math.log(module_look.LARGEST_NUMBER)
    (group,) = header["groups"]
    for part in (group, rng.choice(group["members"])):
        size = rng.choice([1, 1, 5, math.log(module_look.LARGEST_RATIO), most])
        logs = part["kernel"]["log_parameters"]
        part["kernel"]["log_parameters"] = [rng.choice([v, v, v, rng.uniform(-size, size), size, -size]) for v in logs]
        part["jitter"] = rng.choice([0.0, 1e-300, 1e-9, 1.0, 1e9, part["jitter"]])
        part["mean"] = rng.choice([0.0, 1e9, part["mean"]])
    rng.choice(group["members"])["weight"] = rng.choice([0.0, 1.0, 1.0, 1e-6, 1e6])
    if "effects" in group:
        group["effects"]["offset"] = rng.choice([0.0, 1e-9, 1.0, 1e9])
    for name, place in outer.items():
        if name == "__metadata__" or (name.endswith("Z") and header.get("categories")) or rng.random() < 0.4:
            continue
        start, stop = place["data_offsets"]
        values = np.frombuffer(bytes(body[start:stop]), "<f8").copy()
        if name.endswith("Z") and len(values):
            values = hostile_files.changed_points(values.reshape(place["shape"]), rng).reshape(-1)
        elif not name.endswith("e"):
            values = np.clip(values * 10.0 ** rng.choice([0, 0, 3, 8, -9]), -1e9, 1e9)
        body[start:stop] = values.tobytes()
    return hostile_files.rebuilt(outer, header, bytes(body))


def test_what_is_left_to_torch(files, tmp_path):
    path = tmp_path / "e.safetensors"

    def left(change=lambda header: None, content=files["own constants"]):
        outer, header, body = hostile_files.taken_apart(content)
        change(header)
        path.write_bytes(hostile_files.rebuilt(outer, header, body))
        return ensemble_look.look(path) is None

    def group(header):
        return header["groups"][0]

    assert not left()
    assert left(lambda header: header.update(kind="module"))
    assert left(lambda header: header["how"].update(owners="nobody"))
    assert left(lambda header: group(header).update(mean=1e10))
    assert left(lambda header: group(header).update(own_share=1.5))
    assert left(lambda header: group(header)["effects"].update(offset=1e12))
    assert left(lambda header: group(header)["members"][0].update(name="new"))  # whom nobody could ask for
    assert left(lambda header: group(header)["members"][0].update(name="ward-1"))
    assert left(lambda header: group(header)["members"][0].update(function=1))
    assert left(lambda header: group(header)["members"][0].update(site=[5, 6]))
    assert left(lambda header: [m.update(weight=0.0) for m in group(header)["members"]])
    path.write_bytes(files["default"][:-8])
    assert ensemble_look.look(path) is None

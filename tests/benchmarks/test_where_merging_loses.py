"""The calibration report measures every case, and compares all of them with the same exact GP."""

from itertools import pairwise

import numpy as np
import pytest

from calibration_cases import Cut, Setting, divide, draw, merged
from calibration_page import cells, losing, values
from recyclegp import RecycleGPError
from where_merging_loses import QUICK, measure

CASE = (0.1, "random", 1, 5)


@pytest.mark.slow
def test_every_case_is_measured_and_compared_with_the_same_exact_gp():
    run = measure(QUICK, "auto", True, 1, "this one")
    assert len(run["merged"]) == len(QUICK.settings()) * len(QUICK.cuts())
    assert QUICK.skipped() == [50]  # it makes no sense
    assert len(run["references"]) == len(run["rounds"]) == len(QUICK.settings())
    assert all(r["rounds"] > 1 for r in run["rounds"])
    found = cells(run, run["references"])
    assert np.isfinite(found.astype(float)).all(axis=None)
    assert found.coverage.between(0, 1).all()
    # a run beside is measured by this one's reference: else one with a worse exact GP would seem to merge better
    worse = run | {"references": [r | {"nlpd": r["nlpd"] + 1} for r in run["references"]], "label": "another"}
    assert cells(worse, run["references"]).equals(found)
    head, _, *lines = (line.split(" | ") for line in values(run, [worse])["random, noise 0.1"].splitlines())
    assert head[10:] == ["another", "95% |"]
    assert all(line[2] == line[10] for line in lines)
    # cases that failed lose
    broken = run | {"merged": [r | {"nlpd": None, "failed": "no"} if r["rows"] == 5 else r for r in run["merged"]]}
    found = cells(broken, run["references"])
    assert found.failed[CASE] == 1
    assert CASE in losing(found).index
    assert "| failed |" in values(broken)["random, noise 0.1"]


def test_rows_depend_on_seed_and_dimension_alone():
    quiet, loud = (draw(Setting(2, noise, 3, 60)) for noise in (0.1, 0.5))
    np.testing.assert_array_equal(quiet.X, loud.X)
    np.testing.assert_array_equal(quiet.X_test, loud.X_test)
    assert not np.array_equal(quiet.X, draw(Setting(2, 0.1, 4, 60)).X)


@pytest.mark.parametrize("owners", ["random", "adjoining"])
def test_owners_share_all_rows(owners):
    drawn = draw(Setting(2, 0.1, 0, 60))
    parts = divide(drawn, Cut(20, owners))
    assert [len(y) for _, y in parts] == [20, 20, 20]
    np.testing.assert_array_equal(np.sort(np.concatenate([y for _, y in parts])), np.sort(drawn.y))
    apart = all(a[:, 0].max() <= b[:, 0].min() for (a, _), (b, _) in pairwise(parts))
    assert apart == (owners == "adjoining")


def test_a_failure_is_a_result(monkeypatch):
    def refuse(*_, **__):
        raise RecycleGPError("no")

    monkeypatch.setattr("recyclegp.merge", refuse)
    row = merged(Setting(1, 0.1, 0, 20), Cut(10, "random"), 4)
    assert (row.failed, row.nlpd) == ("no", None)

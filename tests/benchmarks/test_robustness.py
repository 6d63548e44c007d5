"""The robustness report measures all kinds of bad modules, and its tables are means over trials."""

import numpy as np
import pytest

from robustness import SHARES, measure, trials
from robustness_cases import HONEST, SPOILED, Outcome, Trial, modules, parts
from robustness_page import cells, excess, values


@pytest.mark.slow
def test_a_quick_run_finds_the_bad_ones():
    found = [Outcome(**row) for row in measure(trials(range(1), quick=True), 1)]
    assert [(o.kind, o.bad) for o in found] == [(HONEST, 0), ("scaled", 6), ("shifted", 6)]
    for o in found:
        assert (o.found, o.accused) == (o.bad, 0)
        assert o.screened - o.clean < 0.05
        assert not o.bad or o.trusting - o.clean > 0.1
    assert found[0].screened == found[0].trusting == found[0].clean


def test_everything_is_tried():
    found = trials(range(2), quick=False)
    assert len(found) == 2 * 2 * 2 * (1 + len(SHARES) * len(SPOILED))
    assert len(set(found)) == len(found)
    assert {t.bad for t in found if t.owners == 50} == {0, 5, 10, 15, 20}
    assert len(trials(range(1), quick=True)) == 3


def test_cells_are_means_over_trials():
    numbers = {"clean": -0.9, "trusting": 1.5, "screened": -0.88, "poe": 2.0, "gpoe": 0.5, "rbcm": 1.0, "accused": 0}
    usual = numbers | {"owners": 20, "reasons": ["opposite sign"]}
    made = [
        usual | {"kind": HONEST, "bad": 0, "found": 0, "screened": -0.9, "trusting": -0.9, "reasons": []},
        usual | {"kind": "shifted", "bad": 4, "found": 3, "screened": -0.7},
        usual | {"kind": "shifted", "bad": 4, "found": 4, "accused": 2},
        usual | {"kind": "sign-flipped", "bad": 8, "found": 8},
    ]
    c = cells(excess(made), "kind", "share")[1]
    assert (c["screened"], c["trusting"], c["worst"]) == pytest.approx(((0.2 + 0.02) / 2, 2.4, 0.2))
    assert (c["found"], c["accused"], c["trials"]) == (7 / 8, 2 / 32, 2)
    told = values(made)["robustness.md"]
    kinds = [line.split(" | ")[:2] for line in told["all"].splitlines()[2:]]
    assert kinds == [["| none", "0%"], ["| shifted", "20%"], ["| sign-flipped", "40%"]]
    assert "| 87.5% | 6.25% | 2 |" in told["summary"]
    assert "| shifted | opposite sign |" in told["reasons"]


def test_each_kind_changes_rows_as_it_says():
    trial = Trial(20, 1, "shifted", 3, 0)
    part = parts(20, 1, 0)[1]
    one, other = ({kind: np.asarray(spoil(part, trial, k)) for kind, spoil in SPOILED.items()} for k in (1, 2))
    y = part[1]
    np.testing.assert_allclose([one["shifted"], other["shifted"]], [y + 0.5, y - 0.5])
    np.testing.assert_allclose(one["other units"], 1.8 * y + 32)
    np.testing.assert_allclose(one["sign-flipped"], -y)
    assert np.abs(one["random"] - other["random"]).max() > 1
    assert 0 < np.abs(one["colluding"] - other["colluding"]).max() < 1  # the same function, another noise


def test_overconfident_modules_are_sure_of_the_same():
    trial = Trial(20, 1, "overconfident", 2, 0)
    found, usual = modules(trial), modules(trial._replace(bad=0))
    for one, other in zip(found[2:], usual[2:], strict=True):
        assert all((s == t).all() for s, t in zip(one.site, other.site, strict=True))
    a, b = found[0].latents[0].site, usual[0].latents[0].site
    for known, before in ((a.Rt, b.Rt), (a.rho, b.rho)):
        np.testing.assert_allclose(a.Rt.mT @ known, 100 * b.Rt.mT @ before, rtol=1e-9, atol=1e-9)

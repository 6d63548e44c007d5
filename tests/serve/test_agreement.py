"""The map of owners and the verdicts say the same, or the page says why they do not."""

import numpy as np
import pandas as pd
import pytest

import cases_serve as cases
import recyclegp as rgp
from recyclegp.merging.verdicts import TRUSTED, Standing, Verdict
from recyclegp.serve import agreement, state, views
from recyclegp.serve.agreement import Judged, judged, remarks, typical
from recyclegp.serve.choices import Choice, everybody
from recyclegp.serve.owner_map import OwnerMap, Pair, Place

FLAGGED = Verdict(Standing.FLAGGED, "scaled by about 10")
UNCHECKED = Verdict(Standing.UNCHECKED, "the others know 2% of what it says")


def owners(distances, names="abcdefgh"):
    """A map with these distances; None where there is none."""
    n = len(distances)
    known = np.array(distances, dtype=float)
    pairs = [Pair(a, b, None if np.isnan(known[a, b]) else known[a, b], 0.5) for a in range(n) for b in range(a)]
    return OwnerMap([Place(names[k], [k], 0.0, 0.0) for k in range(n)], pairs, 1.0)


def apart(n, far, by):
    """Everybody is 1 from everybody, but those who are `by` from all."""
    found = np.ones((n, n))
    found[far, :] = found[:, far] = by
    return found.tolist()


def test_an_owner_is_as_good_as_its_worst_module():
    verdicts = {0: TRUSTED, 1: FLAGGED, 2: UNCHECKED, 3: None}
    assert judged(verdicts, [0, 1, 2]) == Judged(Standing.FLAGGED, "scaled by about 10")
    assert judged(verdicts, [0, 2]).standing is Standing.UNCHECKED
    assert judged(verdicts, [0]) == Judged(Standing.TRUSTED)
    assert judged(verdicts, [3, 9]) == Judged()  # nobody looked, or it is switched off


def test_how_far_most_of_the_others_are():
    found = owners([[0, 1, 4, None], [1, 0, 2, 3], [4, 2, 0, 5], [None, 3, 5, 0]])
    assert typical(found, 0, [1, 2, 3]) == 2.5
    assert typical(found, 0, [2]) == 4
    assert typical(found, 0, [3]) is None


STANDINGS = [Judged(Standing.TRUSTED)] * 4


def test_nothing_is_said_where_both_agree():
    assert remarks(owners(apart(5, 4, 9.0)), [*STANDINGS, Judged(Standing.FLAGGED)]) == []
    assert remarks(owners(apart(5, 4, 9.0)), [*STANDINGS, Judged(Standing.UNCHECKED)]) == []
    assert remarks(owners(apart(5, 4, 9.0)), [*STANDINGS, Judged()]) == []


def test_who_is_near_and_flagged_is_explained():
    (said,) = remarks(owners(apart(5, 4, 1.7)), [*STANDINGS, Judged(Standing.FLAGGED)])
    assert said.startswith("e contradicts the others, although it is only 1.7 from most: a verdict compares all")


def test_who_has_no_distance_and_is_flagged_is_explained():
    (said,) = remarks(owners(apart(5, 4, None)), [*STANDINGS, Judged(Standing.FLAGGED)])
    assert said.startswith("e contradicts the others, but its place says nothing")


def test_who_is_far_and_trusted_is_explained():
    (said,) = remarks(owners(apart(5, 4, 2.6)), [*STANDINGS, Judged(Standing.TRUSTED)])
    assert said == "e is trusted, although it is 2.6 from most: it says too little to call that a contradiction."


def test_a_few_are_explained_and_the_others_counted():
    n = agreement.MOST_REMARKS + 3
    said = remarks(owners(np.full((n + 1, n + 1), 3.0).tolist(), "abcdefgh"), [Judged(Standing.TRUSTED)] * (n + 1))
    assert len(said) == agreement.MOST_REMARKS + 1
    assert said[-1] == "The same is true of 4 more."


# --- of merged models ---


def noisy(k, wrong=lambda x: 0.0, rows=60, sd=0.2):
    rng = np.random.default_rng(k)
    x = rng.uniform(0, 8, rows)
    y = 1.5 * np.sin(x / 2) + wrong(x) + sd * rng.standard_normal(rows)
    return rgp.fit(pd.DataFrame({"x": x}), pd.Series(y, name="level"), name=f"m{k}", publish=9)


@pytest.mark.slow
def test_owners_that_differ_by_a_constant_are_trusted_and_near():
    offsets = 2 * np.random.default_rng(3).standard_normal(8)
    serve_state = cases.serve_state([noisy(k, lambda x, k=k: offsets[k]) for k in range(8)])
    told = views.owners(serve_state, everybody(8))
    assert told["differ"]
    assert {p["standing"] for p in told["places"]} == {"trusted"}
    assert np.median([p["distance"] for p in told["pairs"]]) < 2
    assert told["remarks"] == []


def small_owners(strength):
    """Of eight rows each, three of which exaggerate."""
    return [noisy(k, rows=8, sd=0.5) for k in range(30)] + [
        noisy(70 + k, lambda x: strength * np.sin(x / 2), rows=8, sd=0.5) for k in range(3)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "explained"),
    [
        (lambda: small_owners(1.4), True),
        (
            lambda: [noisy(k, rows=8, sd=0.5) for k in range(15)] + [noisy(70, lambda x: 1.2 * np.sin(x / 2), 8, 0.5)],
            False,
        ),
        (
            lambda: [noisy(k) for k in range(8)] + [noisy(20, lambda x: 3 * np.cos(2 * x)), noisy(21, lambda x: 8.0)],
            False,
        ),
    ],
    ids=["many small", "one exaggerates", "each wrong in its own way"],
)
def test_place_and_verdict_say_the_same_or_the_page_says_why(make, explained):
    modules = make()
    alike = state.Settings(owners=None)
    told = views.owners(cases.serve_state(modules, settings=alike), everybody(len(modules)))
    trusted = [k for k, p in enumerate(told["places"]) if p["standing"] == "trusted"]
    for k, place in enumerate(told["places"]):
        known = {p["b"] if p["a"] == k else p["a"]: p["distance"] for p in told["pairs"] if k in (p["a"], p["b"])}
        far = np.median([known[other] for other in trusted if known.get(other) is not None]) > 2
        contradictory = place["standing"] in ("trusted", "flagged") and far != (place["standing"] == "flagged")
        assert contradictory == any(text.startswith(f"{place['owner']} ") for text in told["remarks"]), place
    assert bool(told["remarks"]) == explained


def test_the_map_knows_no_verdict_where_nothing_is_merged():
    serve_state = cases.serve_state(cases.modules())
    told = views.owners(serve_state, Choice(()))
    assert {p["standing"] for p in told["places"]} == {None}
    judged_now = views.owners(serve_state, everybody(4))["places"]
    assert [p["standing"] for p in judged_now] == ["trusted", "trusted", "trusted", "flagged"]
    assert judged_now[3]["reason"].startswith("scaled by about 10")


def test_what_is_said_is_computed_once(monkeypatch):
    serve_state = cases.serve_state(cases.modules()[:3])
    first = serve_state.said(everybody(3), "f")
    assert serve_state.said(Choice((0,)), "f") is first  # who counts does not matter

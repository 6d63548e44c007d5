"""From which points a plan chooses."""

import warnings

import numpy as np

import recyclegp as rgp


def module(name, seed, sign=1):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 8, 60)
    y = sign * (np.sin(x) + 4) + 0.2 * rng.standard_normal(60)
    return rgp.fit(x, y, name=name, publish=7, learn=False, noise=0.04)


def candidates(e):
    return set(np.ravel(e.plan(3)._facts.candidates))


def test_points_of_whoever_does_not_count_are_not_asked_about():
    honest = [module(f"ward-{i}", i) for i in range(3)]
    liar = module("liar", 9, sign=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        e = rgp.merge([*honest, liar])
    (weight,) = [row["weight"] for row in e.report() if row["name"] == "liar"]
    assert weight == 0
    theirs, own = candidates(rgp.merge(honest)), candidates(rgp.merge([liar]))
    assert (len(theirs), len(own), len(theirs & own)) == (21, 7, 0)
    assert candidates(e) == theirs
    assert set(np.ravel(e.plan(10).points)) <= theirs


def test_weights_of_ones_own_choice_change_no_points():
    e = rgp.merge([module(f"ward-{i}", i) for i in range(2)], weights={"ward-1": 0.5})
    assert len(candidates(e)) == 14

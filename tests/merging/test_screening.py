"""The trusted set is the one under which all that is said is most probable; checked by trying every set."""

import itertools
import math

import numpy as np
import pytest
import torch

from recyclegp.merging.consensus import Statements, consensus, fit
from recyclegp.merging.constants import SCREENING
from recyclegp.merging.screening import PriorMoments, screen

ABOUT = PriorMoments(0.4, 1.0)
M, R = 6, 14


def said(change=None, members=8, seed=0, H_of=None):
    """Statements about one v, those of some members changed: (v, H, ρ) of it → ρ; the last has fewer rows."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(M)
    H, rho, counts = np.zeros((members, R, M)), np.zeros((members, R)), np.full(members, float(R))
    counts[-1] = R - 2
    for k in range(members):
        n = int(counts[k])
        H[k, :n] = 3 * rng.standard_normal((n, M)) if H_of is None else H_of(k, rng)[:n]
        rho[k, :n] = H[k, :n] @ v + rng.standard_normal(n)
        if change and k in change:
            rho[k, :n] = change[k](v, H[k, :n], rho[k, :n])
    ones = np.where(np.abs(H).sum(-1) > 0, rng.uniform(0.5, 1.5, (members, R)), 0.0)
    numbers = (H, rho, ones, np.arange(members), counts, np.array(0.0))
    return [Statements.of(*map(torch.tensor, numbers))]


def other_function(seed):
    w = np.random.default_rng([9, seed]).standard_normal(M)
    return lambda v, H, rho: H @ w + (rho - H @ v)


BAD = {
    "another function": {1: other_function(1), 4: other_function(4)},
    "all of one other function": {1: other_function(1), 4: other_function(1), 6: other_function(1)},
    "opposite sign": {0: lambda v, H, rho: -rho, 7: lambda v, H, rho: -rho},
    "twice too large": {2: lambda v, H, rho: 2.5 * rho},
    "too sure": {3: lambda v, H, rho: H @ v + 12 * (rho - H @ v)},
}


def test_honest_ones_are_trusted():
    for seed in range(8):
        found = screen(said(seed=seed), 8, ABOUT)
        assert found.flagged == found.unchecked == []
        assert bool(found.agreed.trusted.all())
        assert found.value == found.agreed.evidence


@pytest.mark.parametrize("kind", BAD)
def test_bad_ones_are_left_out(kind):
    for seed in range(3):
        found = screen(said(BAD[kind], seed=seed), 8, ABOUT)
        assert found.flagged == sorted(BAD[kind])


def value(some, trusted):
    """Log-probability of everything with this trusted set, from its parts."""
    agreed = consensus(some, torch.tensor(trusted))
    found = fit(some, agreed, *ABOUT)
    ratio = (found.chi2 / found.counts).numpy()
    usual = min(3.0, max(1.0, float(np.sort(ratio[trusted])[(sum(trusted) - 1) // 2])))
    total = agreed.evidence
    for k in np.flatnonzero(~np.array(trusted)):
        together, z, n = (float(t[k]) for t in (found.together, found.chi2, found.counts))
        others = [float(found.alone[k]), float(found.affine[k])]
        if ratio[k] > SCREENING.too_sure * usual:  # log N with the covariance times z²/n
            others.append(together + 0.5 * z - 0.5 * n - 0.5 * n * math.log(z / n))
        total += max(others) - SCREENING.price
    return total


@pytest.mark.parametrize("kind", ["another function", "too sure", "all of one other function"])
def test_no_other_majority_makes_all_that_is_said_more_probable(kind):
    some = said(BAD[kind])
    found = screen(some, 8, ABOUT)
    assert found.value == pytest.approx(value(some, found.agreed.trusted.numpy()), rel=1e-9)
    sets = (np.isin(range(8), left) for size in range(4) for left in itertools.combinations(range(8), size))
    assert found.value == pytest.approx(max(value(some, ~left) for left in sets), rel=1e-9)


def test_those_of_whom_the_others_know_nothing_are_not_judged():
    """Member 5 speaks of directions of its own, and says something odd; what cannot be is judged all the same."""
    own = np.diag([0, 0, 0, 0, 0, 3.0])

    def directions(k, rng):
        H = 3 * rng.standard_normal((R, M))
        H[:, 5] = 0
        return H @ np.eye(M) if k != 5 else rng.standard_normal((R, M)) @ own

    found = screen(said({5: lambda v, H, rho: rho + 10}, H_of=directions), 8, ABOUT)
    assert found.flagged == []
    assert found.unchecked == [5]
    assert float(found.fit.share[5]) < SCREENING.checked
    assert screen(said({5: lambda v, H, rho: rho + 1e4}, H_of=directions), 8, ABOUT).flagged == [5]


def test_members_who_say_nothing_are_neither_flagged_nor_trusted():
    found = screen(said(BAD["opposite sign"]), 10, ABOUT)
    assert found.flagged == [0, 7]
    assert not bool(found.agreed.trusted[8:].any())


def test_the_order_of_members_does_not_matter():
    (one,) = said(BAD["another function"])
    turn = torch.tensor(np.random.default_rng(5).permutation(8))
    turned = Statements.of(*(t[turn] for t in one[:3]), torch.arange(8), one.counts[turn], one.e)
    assert {int(turn[i]) for i in screen([turned], 8, ABOUT).flagged} == {1, 4}


def test_whoever_is_doubted_and_contradicts_the_little_that_is_known_is_left_out():
    """Two rows of fourteen are of what the others know, which these contradict by six deviations."""

    def rows(k, rng):
        H = 3 * rng.standard_normal((R, M))
        H[:, 3:] *= k == 0  # where nobody else speaks
        H[:, :3] *= k > 0
        H[:2] = np.eye(M)[:2] if k == 0 else H[:2]
        return H

    def off(v, H, rho):
        return rho + 6 * (np.arange(R) < 2)

    lies, truth = said({0: off}, H_of=rows), said(H_of=rows)
    found = screen(lies, 8, ABOUT)
    assert (found.flagged, found.unchecked) == ([], [0])
    assert SCREENING.price < float(found.contradicted[0]) < SCREENING.certain
    assert screen(lies, 8, ABOUT, {0}).flagged == [0]
    assert screen(truth, 8, ABOUT, {0}).flagged == []


def test_who_cannot_be_checked_does_not_make_the_others_look_worse():
    """One says of a place of its own what is 20 deviations away: the others agree all the same.

    It is trusted, as nobody knows better. But with it they are worth less together than without, and that is no reason.
    """

    def rows(k, rng):
        H = 3 * rng.standard_normal((R, M))
        H[:, 3:] *= k == 0
        H[:, :3] *= k > 0
        return H

    def far(v, H, rho):
        return 20 * H.sum(-1)

    some = said({0: far}, H_of=rows)
    found = screen(some, 8, ABOUT)
    assert (found.flagged, found.unchecked) == ([], [0])
    others = torch.tensor([False] + 7 * [True])
    assert found.value > consensus(some, torch.ones(8, dtype=torch.bool)).evidence
    alone = float(fit(some, consensus(some, others), *ABOUT).alone[0])
    assert found.value == pytest.approx(consensus(some, others).evidence + alone - SCREENING.price)

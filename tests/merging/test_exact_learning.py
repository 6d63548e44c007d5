"""What is learned from some of the modules by their exact evidence."""

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.merging import exact_learning
from recyclegp.merging.exact_learning import decide_from_some
from recyclegp.merging.learning import starts
from recyclegp.merging.member import stored
from recyclegp.merging.noise import Readings
from recyclegp.merging.owners import Owners, owner_numbers
from recyclegp.merging.pooling import most_common_kernel


@pytest.fixture(scope="module")
def members():
    rng = np.random.default_rng(4)
    data = [(x, np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=30)) for x in rng.uniform(-1, 1, (5, 30, 1))]
    return rgp.merge([rgp.fit(*part, name=f"m{k}") for k, part in enumerate(data)], learn=False)._members


def test_what_is_known_already_is_not_learned_again(members, monkeypatch):
    """The same modules, prior and owners; anything else is another question."""
    start, numbers = most_common_kernel(members), owner_numbers(members)
    asked = []
    decide = exact_learning.decide
    monkeypatch.setattr(exact_learning, "decide", lambda *a, **k: (asked.append(a[1]), decide(*a, **k))[1])
    with stored(members, now=False) as store:
        readings = Readings.of(members, store)

        def learned(about, owners, known=None):
            return decide_from_some(store, numbers, readings, about, starts(about, members), owners, known=known)

        first = learned(start, Owners.OFFSET)
        again = learned(start, Owners.OFFSET, first)
        assert len(asked) == 1
        assert again.kernel == first.kernel
        assert again.value == first.value
        learned(start, Owners.NONE, first)
        learned(start.with_theta(start.theta + 0.1), Owners.OFFSET, first)
        assert len(asked) == 3


def test_a_model_of_owners_that_cannot_win_is_given_up(members, monkeypatch):
    """Owners who do not differ: each model beside the plain one takes fewer steps, and the same one is chosen."""
    start, numbers = most_common_kernel(members), owner_numbers(members)
    steps = {}
    learn = exact_learning._learn

    def counted(sites, space, begins, known=None, wanted=-np.inf):
        found = learn(sites, space, begins, known, wanted)
        steps[wanted > -np.inf] = steps.get(wanted > -np.inf, 0) + found.convergence.evaluations
        return found

    def chosen():
        with stored(members, now=False) as store:
            readings = Readings.of(members, store)
            return decide_from_some(store, numbers, readings, start, starts(start, members), Owners.AUTO)

    monkeypatch.setattr(exact_learning, "_learn", counted)
    found, given_up = chosen(), steps.pop(True)
    steps.clear()
    monkeypatch.setattr(exact_learning, "_learn", lambda *a: counted(*a[:4]))
    ever = chosen()
    assert found.effects == ever.effects
    assert found.kernel == ever.kernel
    assert given_up < steps[False] / 2

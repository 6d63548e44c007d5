"""Members of a merge, and what is read off all of them."""

import pickle

import numpy as np

import recyclegp as rgp
from recyclegp.merging.member import Members, RowsSaid, active
from recyclegp.merging.owners import owner_numbers


def members():
    rng = np.random.default_rng(3)
    parts = [(X := rng.uniform(-1, 1, (30 + 5 * k, 1)), X[:, 0] ** 2 + 0.1 * rng.normal(size=len(X))) for k in range(4)]
    modules = rgp.fit_many(parts, names=["a", "b", "c", "d"], owners=["x", "y", "x", "z"], progress=False)
    return rgp.merge(modules, weights=[1.0, 0.0, 2.0, 0.5], trust=None).groups[0].members


def test_what_is_read_off_all_members_is_that_of_each():
    every = members()
    some = Members.of(every)
    assert tuple(some) == tuple(every)
    assert Members.of(some) is some
    assert [m.name for m in some.counted] == [m.name for m in active(every)] == ["a", "c", "d"]
    numbers = {"x": 0, "y": 1, "z": 2}
    assert some.owner_numbers == owner_numbers(every) == [numbers[m.owner] for m in every]
    again = pickle.loads(pickle.dumps(some))
    assert (type(again), vars(again), len(again)) == (Members, {}, len(some))
    for found, alone in zip(some.said, RowsSaid.of(every), strict=True):
        np.testing.assert_array_equal(found, alone)


def test_what_rows_say_is_what_their_files_say():
    every = members()
    said = RowsSaid.of(every)
    assert said.known.tolist() == [True, False, True, True]  # who does not count is not asked
    assert said.weight.tolist() == [1.0, 0.0, 2.0, 0.5]
    for i in (0, 2, 3):
        evidence = every[i].latent.noise_evidence
        assert [float(t[i]) for t in (said.chi2, said.residual_variance, said.residual, said.dof)] == list(evidence)
        assert float(said.noise[i]) == every[i].likelihoods[0].values[0]
        assert float(said.rows[i]) == every[i].latent.effective_row_count

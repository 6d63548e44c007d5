"""Members of a merge, and what is read off all of them."""

import pickle

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.kernels import parse
from recyclegp.likelihoods import Gaussian
from recyclegp.merging.member import Members, RowsSaid, active, with_columns
from recyclegp.merging.owners import owner_numbers
from recyclegp.merging.pooling import pool_likelihoods


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


def test_members_that_have_changed_are_read_anew_where_they_may_differ():
    every = Members.of(members())
    read = every.said, every.side_by_side, every.families, every.means
    less = every.weighing({2: 0.0, 3: 0.25})
    assert less.weights == [1.0, 0.0, 0.0, 0.25]
    assert [m.name for m in less.counted] == ["a", "d"]
    assert less.weighted_rows == [30 * 1.0, 45 * 0.25]
    assert less.said_in_full is every.said_in_full
    assert (less.side_by_side, less.families, less.means) == (read[1], read[2], read[3])
    for found, alone in zip(less.said, RowsSaid.of(list(less)), strict=True):
        np.testing.assert_array_equal(found, alone)


def test_kernels_lie_side_by_side_where_all_are_of_one_structure():
    every = Members.of(members())
    np.testing.assert_array_equal(every.side_by_side.theta, np.array([m.kernel.theta.tolist() for m in every]))
    other = every[1]._replace(latent=every[1].latent._replace(kernel=parse("matern32", 1)))
    assert Members([every[0], other]).side_by_side is None
    assert Members([]).side_by_side is None


def test_columns_are_put_into_each_member():
    every = members()
    found = with_columns(every, "noise", [0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0])
    for k, (one, before) in enumerate(zip(found, every, strict=True)):
        assert one[5:7] == ([0.1, 0.2, 0.3, 0.4][k], k + 1.0)
        assert one._replace(noise=before.noise, left_open=before.left_open)[:4] == before[:4]
        assert type(one) is type(before)
    assert with_columns([], "noise", []) == []


def test_the_common_noise_is_the_mean_of_all_by_their_rows():
    every = Members(with_columns(members(), "noise", [0.1, 0.2, 0.3, 0.1]))
    rows = np.array([30 * 1.0, 40 * 2.0, 45 * 0.5])  # of those that count
    noise = np.array([0.1, 0.3, 0.1])
    (found,) = pool_likelihoods(every)
    assert type(found) is Gaussian
    assert found.noise == pytest.approx((noise * rows).sum() / rows.sum(), rel=1e-14)
    (one,) = pool_likelihoods([m._replace(noise=0.25) for m in every])
    assert one.noise == 0.25


def test_many_noises_are_made_as_one_by_one():
    values = [[0.1], [2.0], [1e-9]]
    assert Gaussian().each_with_values(values) == [Gaussian(*row) for row in values]
    with pytest.raises(ValueError, match="noise"):
        Gaussian().each_with_values([[0.1], [-1.0]])

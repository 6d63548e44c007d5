"""Equal rows as one, in an order that is that of their values."""

import numpy as np
import pytest
import torch

from recyclegp.local.folding import AS_THEY_ARE, fold, may_repeat


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_rows_that_differ_stay_as_they_are():
    X, y = tensor([1, 2], [0, 2], [1, 3]), tensor(5, 5, 5)
    assert fold([X, y], None) is AS_THEY_ARE
    assert fold([X, y], torch.ones(3)) is AS_THEY_ARE


def test_equal_rows_are_counted_whatever_their_order():
    X, y = tensor([1, 2], [0, 2], [1, 2], [1, 2]), tensor(5, 5, 5, 6)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        found = fold([X[order], y[order]], None)
        assert found.take(X[order]).tolist() == [[0, 2], [1, 2], [1, 2]]
        assert found.take(y[order]).tolist() == [5, 5, 6]
        assert found.counts.tolist() == found.each.tolist() == [1, 2, 1]


def test_what_is_missing_is_equal_to_what_is_missing():
    Y = tensor([1, np.nan], [1, np.nan], [1, 2], [np.nan, 2])
    found = fold([torch.zeros(4, 1, dtype=torch.float64), Y], None)
    assert sorted(found.counts.tolist()) == [1, 1, 2]


def test_weights_add_up():
    X, y = tensor([1], [1], [2]), tensor(5, 5, 5)
    found = fold([X, y], tensor(2, 3, 1))
    assert found.counts.tolist() == found.each.tolist() == [5, 1]
    found = fold([X, y], tensor(0.5, 2.5, 1))
    assert found.counts.tolist() == [3, 1]
    assert found.each.tolist() == [2, 1]  # rows, because these weights are no numbers of rows


@pytest.mark.parametrize("part", [0, 1, 2])
def test_one_difference_in_any_part_is_enough(part):
    parts = [torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, dtype=torch.float64), torch.ones(2, 2).double()]
    assert fold(parts, None).counts.tolist() == [2]
    parts[part] = parts[part].clone()
    parts[part][1] += 1
    assert fold(parts, None) is AS_THEY_ARE


def test_data_sets_side_by_side():
    X = torch.stack([tensor([1, 2], [1, 3]), tensor([1, 2], [1, 2]), tensor([1, 2], [3, 2])])
    y = torch.stack([tensor(1, 1), tensor(1, 1), tensor(1, 1)])
    assert may_repeat(X, y).tolist() == [True, True, False]

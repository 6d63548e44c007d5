"""Neighbours along a line are those that comparing all pairs finds."""

import pytest
import torch

from recyclegp.local import candidates


def case(seed):
    """Rows of a few models, some of which have fewer; picked rows, and which neighbour is asked for."""
    generator = torch.Generator().manual_seed(seed)
    B, n = 1 + seed % 4, 4 + 3 * seed
    sizes = torch.randint(3, n + 1, (B,), generator=generator)
    sizes[0] = n
    position = torch.arange(n)
    X = torch.randn(B, n, 1, dtype=torch.float64, generator=generator)
    places = torch.where(position < sizes[:, None], position, -1)
    picks = torch.stack([torch.randint(0, int(size), (17,), generator=generator) for size in sizes])
    return X, places, picks, torch.randint(0, 2, (B, 17, 1), generator=generator)


@pytest.mark.parametrize("seed", range(12))
def test_sorted_rows_have_the_same_neighbours(seed, monkeypatch):
    found = candidates._neighbours(*case(seed), 2)
    monkeypatch.setattr(candidates, "_along_a_line", lambda *_: None)
    assert torch.equal(found, candidates._neighbours(*case(seed), 2))


def test_where_two_are_equally_near_all_pairs_are_compared():
    values = torch.arange(6.0, dtype=torch.float64)[None]
    picks, which = torch.tensor([[2, 3]]), torch.zeros(1, 2, 1, dtype=torch.long)
    assert candidates._along_a_line(values, picks, which, 2) is None
    assert candidates._along_a_line(values.square(), picks, which, 2).tolist() == [[[1], [2]]]
    assert candidates._along_a_line(values.floor_divide(2), picks, which, 2) is None

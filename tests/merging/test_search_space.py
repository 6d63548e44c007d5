"""What one search knows of the curvature, another begins with: each entry at its own place."""

import pytest
import torch

from recyclegp.kernels import parse
from recyclegp.merging.owners import Owners
from recyclegp.merging.search_space import Curvature, SearchSpace

Z = torch.rand(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def spaces():
    found = [SearchSpace.of(parse("rbf", 3), Z, owners) for owners in (Owners.NONE, Owners.OFFSET, Owners.SMOOTH)]
    return [other for space in found for other in (space, space.pooling(0.3), space.at(space.about))]


@pytest.mark.parametrize("space", spaces())
def test_every_entry_has_a_label_of_its_own(space):
    assert len(set(space._labels)) == len(space._labels) == len(space.start(space.about))


@pytest.mark.parametrize("space", spaces())
@pytest.mark.parametrize("before", spaces())
def test_what_two_searches_share_is_carried_over_and_the_rest_is_as_uncertain_as_its_prior(space, before):
    n = len(before._labels)
    known = torch.rand(n, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = space.metric(Curvature(known, before, 20), 40)
    if not set(space._labels) & set(before._labels):
        assert found is None
        return
    variance = space._centre_and_sd[1].square()
    for i, row in enumerate(space._labels):
        for j, column in enumerate(space._labels):
            if row in before._labels and column in before._labels:
                at = known[before._labels.index(row), before._labels.index(column)]
                assert float(found[i, j]) == pytest.approx(float(at) * 20 / 40)  # twice as many rows say twice as much
            else:
                assert float(found[i, j]) == pytest.approx(float(variance[i]) if i == j else 0.0)
    assert space.metric(None, 40) is None
    other = SearchSpace.of(parse("matern32", 3), Z)
    assert space.metric(Curvature(known, other, 20), 40) is None

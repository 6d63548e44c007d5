"""Generators that are begun together are those that NumPy begins one by one."""

import numpy as np
import pytest

from recyclegp.local.random_numbers import generators

WORDS = np.random.default_rng(0).integers(0, 2**32, (5, 7), dtype=np.uint64)


@pytest.mark.parametrize("entropies", [
    WORDS.tolist(),
    WORDS[:, :5].tolist(),
    WORDS[:, :2].tolist(),  # fewer than are mixed
    [[0, *row] for row in WORDS[:, :4].tolist()],
    [[2**40, 1], [3, 4]],  # seeds that need two words
    [[1], [2, 3]],
    [],
])  # fmt: skip
def test_streams_are_those_of_default_rng(entropies):
    found = generators(entropies, 1)
    assert len(found) == len(entropies)
    for entropy, rng in zip(entropies, found, strict=True):
        expected = np.random.default_rng([*entropy, 1])
        assert rng.permutation(50).tolist() == expected.permutation(50).tolist()
        assert rng.normal(size=3).tolist() == expected.normal(size=3).tolist()


def test_another_stream_is_another():
    one, other = (generators([[1, 2, 3]], stream)[0].uniform(size=4) for stream in (1, 2))
    assert not np.intersect1d(one, other).size

"""Classifiers trained as GPyTorch's tutorials do merge as well as ours, or warn that they had not converged."""

import numpy as np
import pytest
import torch

import peers_banana
from data import shuffled

pytestmark = pytest.mark.slow  # every one of them trains or fits several models


@pytest.fixture(scope="module")
def split():
    """Two classes on either side of a wave, in four quadrants."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (900, 2))
    y = (X[:, 1] + 0.3 * rng.normal(size=900) > np.sin(2 * X[:, 0])).astype(float)
    return shuffled(X, y, test=0.33, seed=0)


@pytest.fixture(scope="module")
def ours(split):
    return peers_banana.own(split)


@pytest.mark.parametrize("start", ["SVGP", "non-Gaussian"])
def test_a_short_training_warns(split, ours, start):
    recipe = next(r for r in peers_banana.RECIPES if r.name.startswith(start))
    with torch.random.fork_rng():
        row = peers_banana.peers(split, recipe._replace(epochs=4), ours, seed=0)
    assert row.warned >= 3
    assert row.floored >= row.warned
    assert row.kept


def test_a_longer_one_is_as_good(split, ours):
    recipe = next(r for r in peers_banana.RECIPES if r.natural)  # the quickest to converge
    with torch.random.fork_rng():
        row = peers_banana.peers(split, recipe._replace(epochs=100), ours, seed=0)
    assert row.excess < peers_banana.ALLOWED
    assert row.excess == row.nlpd - ours

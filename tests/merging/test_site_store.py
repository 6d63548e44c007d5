"""Sites are gone through once each, however many threads share them."""

import operator

import numpy as np
import pytest
import torch

from recyclegp.core.sites import Site
from recyclegp.merging import site_store
from recyclegp.merging.site_store import SiteStore


@pytest.fixture
def store():
    """Sites of three sizes, each of which says its number."""
    store = SiteStore()
    for k in range(60):
        M = 2 + k % 3
        numbers = torch.full((M, 1), float(k)), torch.eye(M), torch.ones(M), torch.tensor(float(k))
        store.put(Site(*(t.double() for t in numbers)), 1.0, k)
    return store


def told(packs):
    return [(member, float(p.Z[i, 0, 0])) for p in packs for i, member in enumerate(p.members)]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_site_once(store, threads, monkeypatch):
    monkeypatch.setattr(site_store, "FEATURES", 8)  # each thread has enough to do
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        calls = []
        found = store.reduce(lambda packs: calls.append(1) or told(packs), operator.add, 5, "numbers")
    finally:
        torch.set_num_threads(before)
    assert len(calls) == threads
    assert sorted(found) == [(k, float(k)) for k in range(60)]


def test_shares_are_about_equally_large(store):
    for count in (1, 2, 3, 7):
        shares = site_store._shares(list(store.packs(5)), count)
        sizes = [sum(len(p.members) for p in share) for share in shares]
        assert sum(sizes) == 60
        assert np.ptp(sizes) <= count

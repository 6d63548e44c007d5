"""Circles among objects are looked for after very many have been made, and as before where that was wanted."""

import gc

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.garbage import looked_for_afterwards
from recyclegp.models.blocks import Block


def test_inside_nobody_looks_and_afterwards_as_before():
    def fails():
        with looked_for_afterwards():
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    seen = []
    with pytest.raises(ZeroDivisionError):
        fails()
    assert seen == [False]
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off():
    gc.disable()
    try:
        with looked_for_afterwards():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_modules_become_members_without(monkeypatch):
    seen, members = [], Block.members
    monkeypatch.setattr(Block, "members", lambda *a, **k: seen.append(gc.isenabled()) or members(*a, **k))
    X = np.linspace(0, 6, 60)[:, None]
    modules = rgp.fit_many([(X[i::3], np.sin(X[i::3, 0])) for i in range(3)], publish=6, progress=False)
    rgp.merge(modules, learn=False)
    assert seen == [False]
    assert gc.isenabled()

"""Workers keep the memory that they free, where Dask has told them not to, and nobody else does."""

import ctypes

import pytest

from recyclegp.engines import allocator


class Library:
    def __init__(self):
        self.calls = []

    def mallopt(self, option, value):
        self.calls.append((option, value))


@pytest.mark.parametrize(("given", "changed"), [(None, False), ("1000", False), (allocator.BY_DASK, True)])
def test_only_what_dask_has_set_is_undone(given, changed, monkeypatch):
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    if given is None:
        monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    else:
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", given)
    allocator.keep_freed_memory.__wrapped__()
    assert bool(library.calls) is changed


def test_other_allocators_have_no_such_option(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", allocator.BY_DASK)
    allocator.keep_freed_memory.__wrapped__()

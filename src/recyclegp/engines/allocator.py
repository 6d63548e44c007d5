"""Memory that workers free and need again a moment later.

Dask tells its workers to give memory back to the system at once (MALLOC_TRIM_THRESHOLD_). Matrices that are made and
forgotten thousands of times a second then cost more to get than to compute with. Here that is undone, in processes that
Dask has started so and in no others, up to a limit.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

BY_DASK = "65536"  # bytes, as Dask sets it
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as in malloc.h
KEPT = 2**27  # bytes that may stay free
LARGE = 2**25  # bytes from which on memory comes from the system, and goes back to it


@cache
def keep_freed_memory() -> None:
    """Once in each process; where the system's allocator is another one, nothing happens."""
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") != BY_DASK:
        return
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(TRIM_THRESHOLD, KEPT)
        libc.mallopt(MMAP_THRESHOLD, LARGE)
    except (OSError, AttributeError, TypeError):
        return

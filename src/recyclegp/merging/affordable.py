"""What a merge can afford: how many pseudo-observations at once, and how many points otherwise.

Measured on two cores of an ordinary server; docs/benchmarks.md has the figures.
"""

from __future__ import annotations

import math
import os

import torch

from ..devices import current_device

DIRECT = 512  # pseudo-observations that are always held all at once: it takes a second
FIRST = 512  # on which a first kernel is learned
DECIDED = 1500  # on which owners' effects are decided
LEARNED = 3000  # whose exact evidence is evaluated some tens of times: a minute or two
HELD = 17_000  # of which one factor is made, at a kernel that is known: a minute or two, if memory allows
GPU_LEARNED, GPU_HELD = 7, 3  # times as many on a GPU for large calculations
COPIES = 4  # matrices of that size that are held at the same time
SHARE = 0.5  # of the machine's memory that they may take
WORK = 5e10  # multiplications that points at a known kernel may cost: half a minute
LEAST_POINTS, MOST_POINTS = 512, 4096


def first(largest: int) -> int:
    """On how many pseudo-observations a first kernel is learned: of several modules, if they are not too large."""
    return min(LEARNED, max(FIRST, 2 * largest))


def decided(largest: int) -> int:
    """On how many owners' effects are decided."""
    return min(LEARNED, max(DECIDED, 4 * largest))


def held() -> int:
    """How many pseudo-observations may be held all at once, where they are to be."""
    by_memory = math.sqrt(SHARE * memory() / (8 * COPIES))
    return int(min(HELD * (GPU_HELD if current_device().type == "cuda" else 1), by_memory))


def learned() -> int:
    """Of how many the exact evidence may be evaluated some tens of times."""
    return min(held(), LEARNED * (GPU_LEARNED if current_device().type == "cuda" else 1))


def memory() -> float:
    """Bytes of the machine, or of the GPU that is used; where it does not say, what every machine has."""
    if current_device().type == "cuda":
        return float(torch.cuda.get_device_properties(current_device()).total_memory)
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on this system
        return 4e9


def points_for(rows: int) -> int:
    """How many points Z_* may have beside so many pseudo-observations: folding costs rows·points²."""
    return int(min(MOST_POINTS, max(LEAST_POINTS, (WORK / max(rows, 1)) ** 0.5)))

"""Random generators of very many models, begun together: each as `numpy.random.default_rng` begins it.

NumPy mixes the words of one seed at a time (`SeedSequence`, by M. E. O'Neill's seed_seq), which takes longer than all
numbers that a small model then draws. The same arithmetic modulo 2³² is done here on columns of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

Words = NDArray[np.uint32]

POOL = 4  # words that all others are mixed into
STATE = 4  # words of 64 bits with which PCG64 begins
INIT_A, MULT_A = 0x43B0D7E5, 0x931E8875
INIT_B, MULT_B = 0x8B51F9DD, 0x58F38DED
LEFT, RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
SHIFT = np.uint32(16)


class _Ready(ISeedSequence):
    """A seed whose state is known."""

    def __init__(self, state: NDArray[np.uint64]) -> None:
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:
        assert (n_words, np.dtype(dtype)) == (STATE, np.uint64)
        return self._state


def generators(entropies: Sequence[Sequence[int]], stream: int) -> list[np.random.Generator]:
    """`default_rng([*entropy, stream])` for each."""
    if not entropies or len({len(e) for e in entropies}) > 1 or max(map(max, entropies)) >= 2**32:
        return [np.random.default_rng([*e, stream]) for e in entropies]
    words = np.empty((len(entropies[0]) + 1, len(entropies)), dtype=np.uint32)
    words[:-1], words[-1] = np.array(entropies, dtype=np.uint32).T, stream
    # NumPy takes any ISeedSequence, which its annotations do not say
    return [np.random.Generator(np.random.PCG64(_Ready(state))) for state in _states(words)]  # type: ignore[arg-type]


def _states(words: Words) -> NDArray[np.uint64]:
    """(B, STATE) uint64, from words (W, B): what SeedSequence.generate_state says."""
    pool = _mixed(words)
    hashed, constant = [], INIT_B
    for i in range(2 * STATE):
        value = pool[i % POOL] ^ np.uint32(constant)
        constant = constant * MULT_B % 2**32
        value = value * np.uint32(constant)
        hashed.append(value ^ (value >> SHIFT))
    return np.ascontiguousarray(np.stack(hashed, -1).astype("<u4")).view("<u8").astype(np.uint64)


def _mixed(words: Words) -> list[Words]:
    """The pool (B,) four times, into which every word has been mixed, and every word of it into the others."""
    constant = INIT_A

    def hashed(value: Words) -> Words:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * MULT_A % 2**32
        value = value * np.uint32(constant)
        return value ^ (value >> SHIFT)

    def mixed(into: Words, value: Words) -> Words:
        result: Words = LEFT * into - RIGHT * value
        return result ^ (result >> SHIFT)

    nothing = np.zeros_like(words[0])
    pool = [hashed(words[i] if i < len(words) else nothing) for i in range(POOL)]
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in words[POOL:]:
        for target in range(POOL):
            pool[target] = mixed(pool[target], hashed(word))
    return pool

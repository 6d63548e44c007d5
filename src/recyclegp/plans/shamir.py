"""Shamir's secret sharing: a secret is f(0) of a random polynomial of degree t − 1, and person i has f(i).

Any t of them find it again by Lagrange's formula; fewer know nothing whatever of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from ..errors import RecycleGPError

PRIME = 2**521 - 1  # larger than any secret of 64 bytes
BYTES = 66  # of a share


def split(secret: bytes, threshold: int, people: int) -> list[bytes]:
    """Shares for persons 1 … people, any `threshold` of which are enough."""
    if not 1 <= threshold <= people or len(secret) > 64:
        raise RecycleGPError(f"threshold is {threshold}, and must be between 1 and the {people} who have shares")
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_at(coefficients, i).to_bytes(BYTES, "big") for i in range(1, people + 1)]


def _at(coefficients: list[int], x: int) -> int:
    value = 0
    for c in reversed(coefficients):  # Horner
        value = (value * x + c) % PRIME
    return value


def weights(people: tuple[int, ...]) -> dict[int, int]:
    """Lagrange's w_i with f(0) = Σ w_i f(i), for these persons: Π_{j≠i} j/(j − i)."""
    found = {}
    for i in people:
        above, below = 1, 1
        for j in people:
            if j != i:
                above, below = above * j % PRIME, below * (j - i) % PRIME
        found[i] = above * pow(below, -1, PRIME) % PRIME
    return found


def joined(shares: Mapping[int, bytes], by: Mapping[int, int], size: int) -> bytes:
    """The secret of `size` bytes from shares by person, with the weights of these persons."""
    found = sum(by[i] * int.from_bytes(share, "big") for i, share in shares.items()) % PRIME
    try:
        return found.to_bytes(size, "big")
    except OverflowError:
        raise RecycleGPError("shares of a secret do not fit together; one of the owners has sent a wrong one") from None

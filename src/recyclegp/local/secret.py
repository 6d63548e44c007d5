"""What random numbers of people follow from, beside rows and seed: nobody else can compute what was added.

Whoever knows all rows but one could otherwise fit them with and without that one, and see which of the two modules it
is. The secret is that of the process, so that the same call gives the same module in it, or the owner's, which is in
the environment and holds everywhere.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import secrets
import struct

from ..errors import RecycleGPError

VARIABLE = "RECYCLEGP_SECRET"
NONE = "none"  # numbers follow from rows and seed alone: of tests and documents
SHORTEST = 16  # characters of a secret
WORDS = struct.Struct("<8I")


def mixed(entropy: list[int]) -> list[int]:
    """Where random numbers begin that others shall not know."""
    chosen = os.environ.get(VARIABLE)
    if chosen == NONE:
        return entropy
    if chosen is not None and len(chosen) < SHORTEST:
        raise RecycleGPError(
            f"{VARIABLE} has {len(chosen)} characters and needs {SHORTEST}: noise for people follows from it; write "
            "there what nobody can guess, or take it out of the environment, and each process has a secret of its own"
        )
    key = _of_this_process() if chosen is None else chosen.encode()
    return list(WORDS.unpack(hmac.digest(key, ",".join(map(str, entropy)).encode(), hashlib.sha256)))


@functools.cache
def _of_this_process() -> bytes:
    return secrets.token_bytes(32)

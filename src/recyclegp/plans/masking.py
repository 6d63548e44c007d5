"""Numbers that add up and say nothing else: fixed point modulo 2⁶⁴, hidden by streams that cancel.

Of owners u and v both know a seed, from which ChaCha20 makes a stream m_uv; u adds it, v subtracts it. Everybody adds
a stream of its own, b_u, too. Σ_u (x_u + b_u + Σ_{v>u} m_uv − Σ_{v<u} m_uv) = Σ x_u + Σ b_u, exactly, modulo 2⁶⁴: as
(Bonawitz et al., 2017). Each hidden vector by itself is uniformly distributed, as far as ChaCha20 is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import RecycleGPError
from ..extras import install

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

SEED = 32  # bytes
BITS = 30  # of the unit of each number that are kept: 2⁻³⁰ of what one row can add
WORD = np.dtype("<u8")  # modulo 2⁶⁴


def library() -> Any:
    """cryptography, which does what must not be written by hand."""
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    except ImportError as missing:
        raise RecycleGPError(f"secure sums need cryptography; {install('private')}") from missing
    return x25519, ChaCha20Poly1305


# --- fixed point ----------------------------------------------------------------------------------


def largest(owners: int) -> int:
    """What one owner's numbers may be, in quanta: so many owners' sums, with their noise, stay within ±2⁶³."""
    return 2**62 // owners


def fixed(values: np.ndarray, quanta: np.ndarray, owners: int) -> np.ndarray:
    """Whole numbers of quanta, as int64; what is too large for its range is refused, here and at home."""
    scaled = values / quanta
    if not np.isfinite(scaled).all() or np.abs(scaled).max(initial=0.0) >= largest(owners):
        raise RecycleGPError(
            "a sum over these rows is outside the range that was agreed on, in which sums cannot overflow; nothing was "
            "sent. Are y and the plan in the same units? Otherwise divide the rows among several names"
        )
    return np.rint(scaled).astype(np.int64)


def floating(total: np.ndarray, quanta: np.ndarray) -> np.ndarray:
    """Sums of quanta, modulo 2⁶⁴, as numbers."""
    return total.view(np.int64) * quanta


# --- masks ----------------------------------------------------------------------------------------


def stream(seed: bytes, count: int) -> np.ndarray:
    """So many words of ChaCha20's stream; a seed is used once, for one vector."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    made = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(8 * count))
    return np.frombuffer(made, dtype=WORD)


def agreed(own: X25519PrivateKey, other: bytes, session: bytes, purpose: str, names: Iterable[str]) -> bytes:
    """The seed that two know: X25519, then HKDF bound to the session, to the purpose and to the two of them."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    x25519, _ = library()
    try:
        secret = own.exchange(x25519.X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise RecycleGPError("a public key in a message is none; ask for the message again") from None
    info = "\0".join(["recyclegp secure sum", purpose, *sorted(names)]).encode()
    return HKDF(SHA256(), SEED, session, info).derive(secret)


def masked(values: np.ndarray, own_seed: bytes, added: Iterable[bytes], subtracted: Iterable[bytes]) -> np.ndarray:
    """x + b + Σm − Σm, modulo 2⁶⁴; NumPy's words wrap around."""
    total = values.view(np.uint64) + stream(own_seed, len(values))
    for seed in added:
        total += stream(seed, len(values))
    for seed in subtracted:
        total -= stream(seed, len(values))
    return total

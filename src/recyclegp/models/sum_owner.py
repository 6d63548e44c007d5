"""An owner's side of a secure sum, as `secure_sum` describes it; it alone knows the owner's secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import RecycleGPError
from ..plans import masking, shamir
from ..plans.masking import SEED
from ..plans.shamir import BYTES
from . import sum_messages as messages
from .sum_messages import KEY, Message
from .sum_terms import (
    KEYS,
    MASKED,
    OPENED,
    OWN_KEY,
    SEALED,
    SHARES,
    STAGES,
    SURVIVORS,
    Keys,
    Terms,
    fingerprint,
    keys_of,
)


class SumOwner:
    """One owner's side of one secure sum; all its secrets, in memory.

    `numbers` is called once, when they are needed, and returns whole numbers (int64): what is spent for privacy is
    spent then.
    """

    def __init__(self, terms: Terms, name: str, numbers: Callable[[], np.ndarray]) -> None:
        if name not in terms.names:
            raise RecycleGPError(f"{name!r} is not among those who were invited to this sum; ask the coordinator")
        x25519, self._aead = masking.library()
        self.terms, self.name = terms, name
        self.fingerprint: str | None = None
        self._numbers: Callable[[], np.ndarray] | None = numbers
        self._seal_key, self._mask_key = (x25519.X25519PrivateKey.generate() for _ in range(2))
        self._own_seed = os.urandom(SEED)
        self._keys: dict[str, Keys] = {}
        self._with: tuple[str, ...] = ()  # owners whose shares came, with whom masks are made
        self._sealed: dict[str, bytes] = {}  # what others have sealed for this one
        self._stage = 0

    def __repr__(self) -> str:
        return f"SumOwner({self.name!r}, sum {self.terms.session.hex()[:8]} of {len(self.terms.names)} owners)"

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a SumOwner holds secrets, and is never written down")

    @property
    def done(self) -> bool:
        return self._stage == len(STAGES)

    def held(self) -> bytes:
        """All its secrets and where it stands, for an owner whose every message is answered by another process.

        They are for the memory of whatever starts these processes, never for a file.

        Raises:
            RecycleGPError: The sum is done, and its secrets are gone.
        """
        if self.done:
            raise RecycleGPError("this sum is done, and its secrets are gone; a new sum has new ones")
        said = {
            "session": self.terms.session.hex(),
            "stage": self._stage,
            "secrets": [
                secret.hex()
                for secret in (
                    self._seal_key.private_bytes_raw(),
                    self._mask_key.private_bytes_raw(),
                    self._own_seed,
                )
            ],
            "keys": {name: [own.seal.hex(), own.mask.hex()] for name, own in self._keys.items()},
            "sealed": {name: messages.sealed_to_text(sealed) for name, sealed in self._sealed.items()},
        }
        return json.dumps(said).encode()

    def go_on(self, held: bytes) -> None:
        """Be the owner who has said `held`, of the same sum, in place of one that has just been made.

        Raises:
            RecycleGPError: It is of another sum, or this owner has begun already.
        """
        x25519, _ = masking.library()
        said = json.loads(held)
        if said["session"] != self.terms.session.hex() or self._stage:
            raise RecycleGPError("what was held is of another secure sum, or this one has begun; make the owner anew")
        seal, mask, self._own_seed = (messages.bytes_of(secret, KEY) for secret in said["secrets"])
        self._seal_key, self._mask_key = (x25519.X25519PrivateKey.from_private_bytes(key) for key in (seal, mask))
        self._keys = messages.by_name(said["keys"], keys_of)
        self._sealed = messages.by_name(said["sealed"], messages.sealed_of)
        self._with, self._stage = tuple(sorted(self._sealed)), said["stage"]
        if self._keys:
            self.fingerprint = fingerprint(self.terms, self._keys)
        if self._stage > STAGES.index(MASKED):
            self._numbers = None

    @property
    def message(self) -> bytes:
        """The first: its public keys."""
        self._stage = max(self._stage, 1)
        public = [key.public_key().public_bytes_raw().hex() for key in (self._seal_key, self._mask_key)]
        return messages.packed(OWN_KEY, self.terms.session, self.name, {"keys": public})

    def reply(self, message: bytes) -> bytes:
        """The answer to a message of the coordinator; each kind is answered once."""
        got = messages.read(message)
        if got.session != self.terms.session or got.sender:
            raise RecycleGPError("this message is of another secure sum, or not of its coordinator; it is not answered")
        if self._stage == 0 and got.kind == KEYS:
            raise RecycleGPError("send the own key first; nobody can know it yet")
        expected = {1: KEYS, 2: SEALED, 3: SURVIVORS}.get(self._stage)
        if got.kind != expected:
            raise RecycleGPError(
                f"a message of kind {got.kind[:20]!r} has come, and {expected or 'none'} is expected: each is answered "
                "once, and in order"
            )
        answer = {KEYS: self._share, SEALED: self._mask, SURVIVORS: self._open}[got.kind]
        try:
            found = answer(got)
        except RecycleGPError:  # an answer that this owner does not give, as one that the ledger refuses
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            raise RecycleGPError(f"this message is malformed ({broken!r}); it is not answered") from None
        self._stage += 1
        return found

    def _share(self, got: Message) -> bytes:
        keys = messages.by_name(got.said["keys"], keys_of)
        known = tuple(sorted(keys))
        if not set(known) <= set(self.terms.names) or len(known) < self.terms.threshold:
            raise RecycleGPError("the keys are not those of owners who were invited, or too few; it is not answered")
        own = Keys(*(key.public_key().public_bytes_raw() for key in (self._seal_key, self._mask_key)))
        all_keys = [key for pair in keys.values() for key in pair]
        if keys.get(self.name) != own or len(set(all_keys)) < len(all_keys):
            raise RecycleGPError("the own key is not among the keys that came, or a key is there twice; not answered")
        self._keys, self.fingerprint = keys, fingerprint(self.terms, keys)
        t, K = self.terms.threshold, len(known)
        seeds = shamir.split(self._own_seed, t, K)
        mask_keys = shamir.split(self._mask_key.private_bytes_raw(), t, K)
        sealed = {}
        for other, seed, mask in zip(known, seeds, mask_keys, strict=True):
            nonce = os.urandom(12)
            pair = self._aead(self._between(other)).encrypt(nonce, seed + mask, self._about(self.name, other))
            sealed[other] = messages.sealed_to_text(nonce + pair)
        return messages.packed(SHARES, self.terms.session, self.name, {"sealed": sealed})

    def _between(self, other: str) -> bytes:
        """The key under which two seal shares for one another."""
        names = (self.name, other)
        return masking.agreed(self._seal_key, self._keys[other].seal, self.terms.session, "shares", names)

    def _about(self, sender: str, receiver: str) -> bytes:
        return self.terms.session + f"{sender}\0{receiver}".encode()

    def _mask(self, got: Message) -> bytes:
        sealed = messages.by_name(got.said["sealed"], messages.sealed_of)
        if not set(sealed) <= set(self._keys) or self.name not in sealed or len(sealed) < self.terms.threshold:
            raise RecycleGPError("shares are not of those whose keys are known, or too few; it is not answered")
        for sender in sealed:  # whoever has sealed something wrong is known now, and not at the end
            self._unsealed(sender, sealed[sender])
        assert self._numbers is not None
        numbers, self._numbers = self._numbers(), None
        if numbers.shape != (self.terms.length,) or numbers.dtype != np.int64:
            raise RecycleGPError(f"{self.terms.length} whole numbers were agreed on, and there are {numbers.shape}")
        self._sealed, self._with = sealed, tuple(sorted(sealed))
        seeds = {v: self._pair_seed(v) for v in self._with if v != self.name}
        total = masking.masked(
            numbers,
            self._own_seed,
            [s for v, s in seeds.items() if v > self.name],
            [s for v, s in seeds.items() if v < self.name],
        )
        return messages.packed(MASKED, self.terms.session, self.name, {}, total)

    def _pair_seed(self, other: str) -> bytes:
        names = (self.name, other)
        return masking.agreed(self._mask_key, self._keys[other].mask, self.terms.session, "mask", names)

    def _unsealed(self, sender: str, sealed: bytes) -> tuple[bytes, bytes]:
        from cryptography.exceptions import InvalidTag

        try:
            pair = self._aead(self._between(sender)).decrypt(sealed[:12], sealed[12:], self._about(sender, self.name))
        except InvalidTag:
            raise RecycleGPError(f"what {sender!r} has sealed for this owner cannot be opened; not answered") from None
        return pair[:BYTES], pair[BYTES:]

    def _open(self, got: Message) -> bytes:
        """Never both shares of anybody."""
        survivors = messages.names_of(got.said["survivors"])
        if not set(survivors) <= set(self._with) or len(survivors) < self.terms.threshold:
            raise RecycleGPError(
                f"only {len(survivors)} owners are left, and {self.terms.threshold} must be; nothing is opened"
            )
        if self.name not in survivors:
            raise RecycleGPError("the own numbers have been sent and are not counted; nothing is opened")
        said = {v: self._unsealed(v, self._sealed[v])[0 if v in survivors else 1].hex() for v in self._with}
        del self._seal_key, self._mask_key, self._own_seed, self._sealed
        return messages.packed(OPENED, self.terms.session, self.name, {"shares": said})

"""Secure sums: many owners' numbers are added up, and nobody sees anything but the sum.

The protocol is that of Bonawitz et al. (2017), for a coordinator that follows it but is curious. Every message goes
between one owner and the coordinator, as bytes:

    coordinator               owner
    invitation        →
                      ←       key       two public keys, made for this sum
    keys              →                 those of everybody
                      ←       shares    of its two secrets, each sealed for one other owner
    sealed            →                 what others have sealed for it
                      ←       masked    its numbers, hidden by masks that cancel, and by one of its own
    survivors         →                 whose numbers have come
                      ←       opened    for each survivor the share of its own mask; for others that of their key
    the sum

Any `threshold` owners who stay to the end are enough. Secrets live in a `SumOwner`, in memory; no message has them but
sealed, and a `SumOwner` serves one sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import RecycleGPError
from ..plans import masking, shamir
from ..plans.masking import SEED
from ..plans.shamir import BYTES
from . import sum_messages as messages
from .sum_messages import Message
from .sum_terms import KEYS, MASKED, OPENED, OWN_KEY, SEALED, SHARES, STAGES, SURVIVORS, Keys, Terms, keys_of


class SumCoordinator:
    """The coordinator's side of one secure sum: passes messages on, and adds up what it cannot read."""

    def __init__(self, terms: Terms) -> None:
        masking.library()
        self.terms = terms
        self._keys: dict[str, Keys] = {}
        self._shares: dict[str, dict[str, str]] = {}  # sender → receiver → sealed
        self._masked: dict[str, np.ndarray] = {}
        self._opened: dict[str, dict[str, bytes]] = {}  # sender → whose → share
        self._stage = 0

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Who may still answer at this stage."""
        return tuple(sorted(set(self._asked) - set(self._got)))

    @property
    def stage(self) -> str:
        """What owners are to send now; "done" at the end."""
        return STAGES[self._stage] if self._stage < len(STAGES) else "done"

    @property
    def _boxes(self) -> tuple[dict[str, Any], ...]:
        return (self._keys, self._shares, self._masked, self._opened)

    @property
    def _got(self) -> dict[str, Any]:
        return self._boxes[min(self._stage, len(STAGES) - 1)]

    @property
    def _asked(self) -> Sequence[str]:
        return self.terms.names if self._stage == 0 else list(self._boxes[self._stage - 1])

    def receive(self, message: bytes) -> str:
        """Take one owner's message; returns whose it was.

        Raises:
            RecycleGPError: It is none, of another sum or stage, or a second one. What came before stays as it is.

        Examples:
            >>> another = rgp.SecureSum(plan, ["north", "south"])
            >>> north = rgp.join_sum(plan, another.message("north"), x, np.sin(x), name="north")
            >>> another.receive(north.message)
            'north'
        """
        got = messages.read(message)
        if got.session != self.terms.session or got.kind != self.stage or got.sender not in self._asked:
            raise RecycleGPError(
                f"a message {got.kind[:20]!r} of {got.sender[:50]!r} has come, and {self.stage!r} of this sum is "
                "expected; it is left out"
            )
        if got.sender in self._got:
            raise RecycleGPError(f"a second message of {got.sender!r} has come; the first one counts")
        read: dict[str, Callable[[Message], Any]] = {
            OWN_KEY: lambda message: keys_of(message.said["keys"]),
            SHARES: self._sealed_of,
            MASKED: self._numbers_of,
            OPENED: self._opened_of,
        }
        try:
            self._got[got.sender] = read[got.kind](got)
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            raise RecycleGPError(f"the message of {got.sender!r} is malformed ({broken!r}); it is left out") from None
        return got.sender

    def _sealed_of(self, got: Message) -> dict[str, str]:
        found = messages.by_name(got.said["sealed"], messages.sealed_of)
        if set(found) != set(self._keys):
            raise ValueError("shares are not for those whose keys are known")
        return {name: messages.sealed_to_text(sealed) for name, sealed in found.items()}

    def _numbers_of(self, got: Message) -> np.ndarray:
        if got.numbers.shape != (self.terms.length,):
            raise ValueError(f"{len(got.numbers)} numbers, and {self.terms.length} were agreed on")
        return got.numbers

    def _opened_of(self, got: Message) -> dict[str, bytes]:
        found = messages.by_name(got.said["shares"], lambda share: messages.bytes_of(share, BYTES))
        if set(found) != set(self._shares):
            raise ValueError("shares are not of those whose shares are known")
        return found

    def advance(self) -> None:
        """Go on with those who have answered; whoever has not is left behind.

        Raises:
            RecycleGPError: They are fewer than the threshold: the sum cannot be made, and nothing can be read.

        Examples:
            >>> gathering.stage, gathering.waiting_for
            ('done', ())
        """
        if self._stage == len(STAGES):
            raise RecycleGPError("this secure sum is done")
        if len(self._got) < self.terms.threshold:
            raise RecycleGPError(
                f"only {len(self._got)} owners have answered, and {self.terms.threshold} are needed; wait, or "
                "begin anew"
            )
        self._stage += 1

    def message(self, name: str) -> bytes:
        """What an owner is to be sent at this stage; it is the same for everybody but for sealed shares.

        Raises:
            RecycleGPError: Nothing is asked of this one any more.

        Examples:
            >>> rgp.SecureSum(plan, ["north", "south"]).message("north")[:20]
            b'recyclegp secure sum'
        """
        if self._stage == 0:
            return self.terms.invitation()
        session = self.terms.session
        if name not in self._asked or self._stage == len(STAGES):
            raise RecycleGPError(f"nothing is asked of {name!r} any more")
        if self.stage == SHARES:
            said: dict[str, Any] = {"keys": {n: [k.seal.hex(), k.mask.hex()] for n, k in self._keys.items()}}
            return messages.packed(KEYS, session, "", said)
        if self.stage == MASKED:
            said = {"sealed": {sender: box[name] for sender, box in self._shares.items()}}
            return messages.packed(SEALED, session, "", said)
        return messages.packed(SURVIVORS, session, "", {"survivors": sorted(self._masked)})

    @property
    def survivors(self) -> tuple[str, ...]:
        """Whose numbers are in the sum."""
        return tuple(sorted(self._masked))

    def total(self) -> np.ndarray:
        """Σ of all survivors' numbers, (n,) words modulo 2⁶⁴, exact.

        Raises:
            RecycleGPError: Not all stages are behind it, or an owner has sent wrong shares.

        Examples:
            >>> len(gathering.total())
            56
        """
        if self._stage < len(STAGES):
            raise RecycleGPError(f"the sum is not known yet; {self.stage!r} is awaited")
        x25519, _ = masking.library()
        person = {name: i for i, name in enumerate(sorted(self._keys), 1)}
        opening = sorted(self._opened)[: self.terms.threshold]
        by = shamir.weights(tuple(person[name] for name in opening))

        def secret(whose: str) -> bytes:
            return shamir.joined({person[n]: self._opened[n][whose] for n in opening}, by, SEED)

        found = np.zeros(self.terms.length, np.uint64)
        for u in self._masked:
            found += self._masked[u]
            found -= masking.stream(secret(u), self.terms.length)
        for gone in set(self._shares) - set(self._masked):
            key = x25519.X25519PrivateKey.from_private_bytes(secret(gone))
            if key.public_key().public_bytes_raw() != self._keys[gone].mask:
                raise RecycleGPError(f"shares of {gone!r} do not open its key; one of the owners has sent a wrong one")
            for u in self._masked:  # what u has added for the one who is gone
                seed = masking.agreed(key, self._keys[u].mask, self.terms.session, "mask", (gone, u))
                mask = masking.stream(seed, self.terms.length)
                found = found - mask if gone > u else found + mask
        return found

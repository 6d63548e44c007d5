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

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import RecycleGPError
from ..plans import masking, shamir
from ..plans.masking import SEED
from ..plans.shamir import BYTES
from . import sum_messages as messages
from .sum_messages import KEY, SESSION, Message

INVITATION, KEYS, SEALED, SURVIVORS = "invitation", "keys", "sealed", "survivors"  # from the coordinator
OWN_KEY, SHARES, MASKED, OPENED = "key", "shares", "masked", "opened"  # from owners
STAGES = (OWN_KEY, SHARES, MASKED, OPENED)


class Terms(NamedTuple):
    """What is agreed on before: who, about what, and how many must stay."""

    session: bytes  # random, never used again
    subject: str  # what is added up: a plan's digest, and what stands beside it
    names: tuple[str, ...]
    threshold: int  # owners who must stay to the end; fewer cannot open anything
    length: int  # how many numbers

    @staticmethod
    def new(subject: str, names: Sequence[str], threshold: int | None, count: int) -> Terms:
        """Two thirds of all, unless the threshold is given."""
        several = tuple(names)
        if len(several) < 2 or len(set(several)) < len(several) or len(several) > messages.MOST_OWNERS:
            raise RecycleGPError(
                f"names has {len(several)} entries; a secure sum is of 2 to {messages.MOST_OWNERS} different owners"
            )
        chosen = -(-2 * len(several) // 3) if threshold is None else threshold
        found = Terms(secrets.token_bytes(SESSION), subject, several, chosen, count)
        found.check()
        return found

    def check(self) -> None:
        """More than half: otherwise two halves could be asked different things."""
        K, t = len(self.names), self.threshold
        if isinstance(t, bool) or not isinstance(t, int) or not K // 2 < t <= K or t < 2:
            raise RecycleGPError(
                f"threshold is {t!r}; of {K} owners it must be more than half, at least 2, and at most {K}"
            )

    def invitation(self) -> bytes:
        said = {"subject": self.subject, "names": list(self.names), "threshold": self.threshold, "count": self.length}
        return messages.packed(INVITATION, self.session, "", said)

    @staticmethod
    def of(invitation: bytes) -> Terms:
        """As they came."""
        got = messages.read(invitation)
        if got.kind != INVITATION or got.sender or set(got.said) != {"subject", "names", "threshold", "count"}:
            raise RecycleGPError("this message is no invitation to a secure sum; ask the coordinator for it")
        subject, count = got.said["subject"], got.said["count"]
        try:
            names = messages.names_of(got.said["names"])
        except (ValueError, TypeError) as broken:
            raise RecycleGPError(f"this invitation is malformed ({broken}); ask for it again") from None
        if not isinstance(subject, str) or isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise RecycleGPError("this invitation is malformed; ask for it again")
        found = Terms(got.session, subject, names, got.said["threshold"], count)
        found.check()
        return found


class _Keys(NamedTuple):
    seal: bytes  # public, for shares
    mask: bytes  # public, for masks


def _keys(found: Any) -> _Keys:
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError("two public keys are expected")
    return _Keys(*(messages.bytes_of(key, KEY) for key in found))


def fingerprint(terms: Terms, keys: dict[str, _Keys]) -> str:
    """The same at all owners, if everybody has been told the same keys: to be compared by another way."""
    found = hashlib.sha256(terms.invitation())
    for name in sorted(keys):
        found.update(name.encode() + b"\0" + keys[name].seal + keys[name].mask)
    return " ".join(found.hexdigest()[i : i + 4] for i in range(0, 24, 4))


# --- an owner -------------------------------------------------------------------------------------


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
        self._keys: dict[str, _Keys] = {}
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
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            raise RecycleGPError(f"this message is malformed ({broken!r}); it is not answered") from None
        self._stage += 1
        return found

    def _share(self, got: Message) -> bytes:
        keys = messages.by_name(got.said["keys"], _keys)
        known = tuple(sorted(keys))
        if not set(known) <= set(self.terms.names) or len(known) < self.terms.threshold:
            raise RecycleGPError("the keys are not those of owners who were invited, or too few; it is not answered")
        own = _Keys(*(key.public_key().public_bytes_raw() for key in (self._seal_key, self._mask_key)))
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


# --- the coordinator ------------------------------------------------------------------------------


class SumCoordinator:
    """The coordinator's side of one secure sum: passes messages on, and adds up what it cannot read."""

    def __init__(self, terms: Terms) -> None:
        masking.library()
        self.terms = terms
        self._keys: dict[str, _Keys] = {}
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
            OWN_KEY: lambda message: _keys(message.said["keys"]),
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

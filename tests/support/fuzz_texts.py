"""Small files that are not safetensors, changed: messages of secure sums, signatures, key rings, keys, dictionaries.

Each kind has what it begins with and `take`, which reads a changed one as the library does. Whatever is refused is
refused with one clear error; nothing else may be raised.
"""

import contextlib
import copy
import hashlib
import json
import os
import random
import shutil
import warnings
from pathlib import Path

import numpy as np

import cases_dictionary
import cases_plans
import hostile_files
import recyclegp as rgp
from recyclegp.models import sum_messages
from recyclegp.models.secure_answers import join_sum
from recyclegp.models.secure_sum import SumCoordinator
from recyclegp.models.sum_owner import SumOwner
from recyclegp.models.sum_terms import STAGES, Terms
from recyclegp.storage import key_ring, signing
from recyclegp.storage.key_ring import Claim, KeyRing

OWNERS = ("north", "south", "west")
HEADER = len(sum_messages.MAGIC) + 8


# --- changes --------------------------------------------------------------------------------------


def changed(content, seed, case, before=0):
    """Another content: bytes of it, or what its JSON says, which begins after so many bytes."""
    rng = random.Random(f"{seed}/{case}/text")
    try:
        said = json.loads(content[before:])
    except ValueError:
        said = None
    if said is not None and rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 2])):
            hostile_files.say_otherwise(said, rng)
        return content[:before] + json.dumps(said).encode()
    for _ in range(rng.choice([1, 1, 2, 4])):
        with contextlib.suppress(IndexError, ValueError):  # an earlier change has left nothing to change
            content = rng.choice(hostile_files.OF_TEXTS)(content, rng, [content])
    return content


def changed_message(content, seed, case):
    """A message whose header has another length, too, where it has changed."""
    rng = random.Random(f"{seed}/{case}/message")
    if rng.random() < 0.3:
        return changed(content, seed, case)
    length = int.from_bytes(content[HEADER - 8 : HEADER], "little")
    head, words = content[HEADER : HEADER + length], content[HEADER + length :]
    if rng.random() < 0.7 or not words:
        head = changed(head, seed, case)
    else:
        words = changed(words, seed, case)
    return content[: HEADER - 8] + len(head).to_bytes(8, "little") + head + words


def refused(read):
    """Whether it is; a message that is no clear one is an error."""
    try:
        read()
    except rgp.RecycleGPError as said:
        hostile_files.check_message(str(said))
        return True
    return False


# --- messages of secure sums ----------------------------------------------------------------------


class Sums:
    """One sum of three owners, and every message of it, with whoever is to take it as it was before."""

    def __init__(self, folder):
        self.plan = cases_plans.plan(4)
        self.rows = cases_plans.owners(len(OWNERS), 60)
        gathering = rgp.SecureSum(self.plan, OWNERS)
        self.terms = gathering.terms
        people = {name: self._joined(name) for name in OWNERS}
        invitation = gathering.message(OWNERS[0])
        self.begins = [(invitation, None)]
        for stage in range(len(STAGES)):
            said = {name: self._message(gathering, people[name], name, stage) for name in OWNERS}
            for name in OWNERS[:-1]:
                gathering.receive(said[name])
            self.begins.append((said[OWNERS[-1]], self._state(gathering)))
            gathering.receive(said[OWNERS[-1]])
            gathering.advance()

    def _joined(self, name):
        return SumOwner(self.terms, name, lambda: np.arange(self.terms.length))

    def _message(self, gathering, owner, name, stage):
        if stage == 0:
            return owner.message
        message = gathering.message(name)
        if name == OWNERS[0]:
            self.begins.append((message, owner.held()))
        return owner.reply(message)

    def _state(self, gathering):
        return {name: copy.deepcopy(value) for name, value in vars(gathering).items() if name.startswith("_")}

    def take(self, content, of):
        """An invitation, what an owner is sent, or what the coordinator gets: it is taken, and they go on."""
        if of is None:
            return not refused(lambda: self._invited(content))
        if isinstance(of, bytes):
            owner = self._joined(OWNERS[0])
            owner.go_on(of)
            return not refused(lambda: owner.reply(content))
        gathering = SumCoordinator(self.terms)
        vars(gathering).update(copy.deepcopy(of))
        if refused(lambda: gathering.receive(content)):
            return False
        gathering.advance()
        return not refused(gathering.total if gathering.stage == "done" else lambda: gathering.message(OWNERS[0]))

    def _invited(self, content):
        name = Terms.of(content).names[0]
        X = np.linspace(-2, 2, 24).reshape(12, 2)
        join_sum(self.plan, content, X, X[:, 0], name=name)

    def run(self, seed, case):
        content, of = self.begins[random.Random(f"{seed}/{case}/which").randrange(len(self.begins))]
        return self.take(changed_message(content, seed, case), of)


# --- signatures, key rings, keys ------------------------------------------------------------------


class Signatures:
    """A signed file, the key of whoever signed it, and a ring that knows it."""

    def __init__(self, folder):
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self.file = folder / "signed.safetensors"
        self.file.write_bytes(b"content")
        key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        signing.sign(self.file, signing.content_id(self.file), key, 7)
        self.public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
        self.key = signing.Trusted("north", key.public_key().public_bytes_raw())
        self.private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        self.ring = folder / "ring.json"
        known = KeyRing().with_file(self.file, self._claims, signing.signature_of(self.file))
        key_ring.save(self.ring, known)
        self.pem = folder / "key.pem"
        self.begins = [
            (self._sig, signing.beside(self.file).read_bytes()),
            (self._ring, self.ring.read_bytes()),
            (self._public, self.public),
            (self._private, self.private),
        ]

    _claims = (Claim("north", "spring"), Claim("north", "autumn"))

    def _sig(self, content):
        signing.beside(self.file).write_bytes(content)
        known = not refused(lambda: signing.verify(self.file, [self.key]))
        assert known <= (not refused(lambda: signing.signature_of(self.file)))
        return known

    def _ring(self, content):
        self.ring.write_bytes(content)
        read = []
        if refused(lambda: read.append(key_ring.load(self.ring))):
            return False
        refused(lambda: read[0].with_file(self.file, self._claims, signing.Signature("0" * 64, *self.key[1:], b"", 8)))
        key_ring.save(self.ring, read[0])
        assert key_ring.load(self.ring) == read[0]
        return True

    def _public(self, content):
        self.pem.write_bytes(content)
        return not refused(lambda: signing.public_bytes(self.pem))

    def _private(self, content):
        self.pem.write_bytes(content)
        os.chmod(self.pem, 0o600)
        return not refused(lambda: signing.private_key(self.pem))

    def run(self, seed, case):
        take, content = random.Random(f"{seed}/{case}/which").choice(self.begins)
        return take(changed(content, seed, case))


# --- dictionaries ---------------------------------------------------------------------------------


class Dictionaries:
    """A dictionary of three modules, one of which has gone, with one of its files changed."""

    def __init__(self, folder):
        self.root = Path(folder) / "dictionary"
        made = rgp.Dictionary(self.root)
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        for level, name in enumerate(OWNERS):
            made.add(cases_dictionary.module(name, float(level)), by="anna")
        made.replace(cases_dictionary.module(OWNERS[1], 5.0))
        made.remove(OWNERS[0], by="bert")
        made._index._saved = -1000
        made.list()
        self.files = {path: path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}
        self.kept = folder / "kept"
        shutil.copytree(self.root, self.kept)

    def take(self):
        """Whether nothing is found wrong with it."""
        found, problems = rgp.Dictionary(self.root), []

        def read():
            for entry in found.list(min_rows=1, owner="*"):
                if not refused(lambda name=entry.name: found.get(name)):
                    assert entry.rows >= 1
            problems.extend(found.verify())
            assert found.history() is not None

        return not refused(read) and not problems

    def run(self, seed, case):
        path, content = random.Random(f"{seed}/{case}/which").choice(list(self.files.items()))
        other = changed(content, seed, case)
        if path.suffix == ".sqlite" and case % 2:
            other = other[:-32] + hashlib.sha256(other[:-32]).digest()
        path.write_bytes(other)
        try:
            return self.take()
        finally:
            shutil.rmtree(self.root)
            shutil.copytree(self.kept, self.root)


class Texts:
    """All of them."""

    def __init__(self, folder):
        self.kinds = [made(folder) for made in (Sums, Signatures, Dictionaries)]

    def run(self, seed, case):
        return self.kinds[random.Random(f"{seed}/{case}/kind").choice([0, 0, 0, 1, 1, 1, 2])].run(seed, case)

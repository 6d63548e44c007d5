"""What a hub knows, in files and behind one lock: people, modules, the current model, what it owes.

Everything that changes it goes through here: `exchanges` and `leaving` are steps of a hub, and `hub` is what people and
the keeper may ask of it.
"""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

from ..models.dictionary import Dictionary
from ..storage.signing import public_key
from . import evaluations, receipts, rounds
from .audit import Audit
from .folder import Facts, Folder, read_json, write_json
from .limits import Buckets, Rate
from .nonces import Nonces
from .page_tokens import PageTokens
from .protocol import Signed, raw
from .registry import Person, Registry, Role, Standing
from .rounds import Run
from .settings import Settings
from .sums import Sums

NOTHING: Facts = {"model": None, "modules": {}, "counted": [], "flagged": {}, "kind": None, "round": None, "rows": 0}
LISTED = 5.0  # seconds for which a list of the modules is taken to be right


class HubRecords:
    """One folder, and whoever is registered in it."""

    def __init__(self, root: Path, settings: Settings, coordinator: Path | None = None) -> None:
        self.folder, self.settings = Folder(root), settings
        self.folder.make()
        self._held = self.folder.lock()
        self.key = self.folder.key("hub")
        self.public = raw(self.key)
        self.registry = Registry(root, settings.limits.most_owners)
        self.audit = Audit(self.folder.audit)
        self.nonces = Nonces(self.folder.nonces, time.time())
        self.dictionary = Dictionary(self.folder.modules)
        self.lock = threading.RLock()
        self.registering = threading.RLock()  # one key at a time
        self.sums = Sums()
        self._turns: dict[str, threading.RLock] = {}
        self.seen: dict[str, float] = {}  # id of a key → when it has asked last; not worth a file
        self.arrived = -math.inf  # when modules have changed last, by a clock that nobody sets
        self._listed: tuple[float, dict[str, str]] | None = None  # when, and what
        self.failed: str | None = None  # why the last merge failed
        self._told = Buckets(Rate(0.1, 20))  # refusals that are written down
        self.current: Facts = read_json(self.folder.current) or NOTHING
        self.page_tokens = PageTokens(self.folder.root / "page-token.json")
        self._register_coordinator(coordinator)
        self.audit.append("started", modules=len(self.modules()))
        self.tidy()
        self.sign_owed()  # of a hub that was stopped after a merge, before it had signed what follows from it

    def close(self) -> None:
        self.nonces.close()
        self.audit.close()
        self._held.close()

    def _register_coordinator(self, given: Path | None) -> None:
        key = raw(self.folder.key("coordinator")) if given is None else bytes(public_key(given).public_bytes_raw())
        if self.registry.get(key) is None:
            taken = {p.name for p in self.registry.all()}
            name = next(n for n in ("coordinator", *(f"coordinator {i}" for i in range(2, 99))) if n not in taken)
            self.registry.put(Person(key, name, Role.COORDINATOR, Standing.IN, time.time()))
            self.audit.append("coordinator", name=name, key=key.hex())

    def modules(self) -> dict[str, str]:
        """Name → content id. What the hub has not written itself is seen a little later."""
        with self.lock:
            if self._listed is None or time.monotonic() - self._listed[0] > LISTED:
                found = {entry.name: entry.digest for entry in self.dictionary.list()}
                self._listed = time.monotonic(), found
            return self._listed[1]

    def changed(self, name: str, digest: str | None) -> None:
        """A module has come, or gone."""
        rest = {known: own for known, own in self.modules().items() if known != name}
        self._listed = time.monotonic(), rest if digest is None else {**rest, name: digest}
        self.arrived = time.monotonic()

    def turn(self, person: Person) -> threading.RLock:
        """One change of a module of this owner at a time. It is taken before the lock of the hub, never after it."""
        return self._turns.setdefault(person.id, threading.RLock())

    def run(self) -> Run | None:
        """Rounds that go on, if so."""
        found = rounds.newest(self.folder.rounds)
        return None if found is None or found.closed else found

    def wanted_rounds(self) -> Facts:
        s = self.settings
        asked = read_json(self.folder.rounds / "wanted.json")
        return asked or {"rounds": s.rounds, "points": s.points, "deadline": s.deadline}

    def counted_owners(self) -> list[tuple[str, str]]:
        """Names and ids of those who count in the current model, and have not left."""
        people = [p for n in self.current["counted"] if (p := self.registry.named(n)) is not None]
        return [(p.name, p.id) for p in people if p.standing is Standing.IN]

    def merged(self, facts: Facts) -> None:
        """A job has come back: from now on this is the model."""
        with self.lock:
            self.set_current({**facts, "made": time.time()})
            said = {key: facts[key] for key in ("model", "kind", "round", "counted", "flagged")}
            self.log("merged", None, **said)
            self.tidy()  # first: a receipt says that they are gone
            self.sign_owed()

    def merged_nobody(self) -> None:
        """The last module has gone, and with it the model."""
        with self.lock:
            self.forget_model()
            self.sign_owed()

    def forget_model(self) -> None:
        self.set_current(NOTHING)
        self.log("merged", None, model=None)
        self.tidy()

    def tidy(self) -> None:
        """Models that nobody is asked about go; they may reflect somebody who has left."""
        needed = {self.current["model"]}
        needed |= {e.model for e in evaluations.every(self.folder.evaluations) if not e.closed}
        for path in self.folder.models.glob("*.safetensors"):
            if path.stem not in needed:
                path.unlink(missing_ok=True)

    def set_current(self, facts: Facts) -> None:
        write_json(self.folder.current, facts)
        self.current = facts

    def log(self, event: str, who: Person | None, **details: Any) -> str:
        by = {} if who is None else {"by": who.name, "key": who.key.hex()}
        return self.audit.append(event, **by, **details)

    def log_module(self, person: Person, digest: str, said: Signed) -> None:
        """That it is here, unless that was written down: a full disk or a crash may have come between the two."""
        known = self.audit.followed.modules.get(person.name)
        if known != digest:
            self.log("uploaded" if known is None else "replaced", person, module=digest, request=said.proof)

    def sign_owed(self) -> None:
        """Receipts of those without whom everything was merged by now."""
        here = self.modules()
        for path, facts in receipts.owed(self.folder.receipts):
            if facts["name"] in self.current["modules"] or self.current["modules"] != here:
                continue  # merged before it had left, or another merge follows
            facts |= {"model_after": self.current["model"], "counted_after": len(self.current["counted"])}
            facts |= {"issued": time.time()}
            receipts.sign(path, facts, self.key)
            self.audit.append("receipt", name=facts["name"], module=facts["module"], model=facts["model_after"])

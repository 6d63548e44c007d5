"""The hub itself: what people may ask of it, and what it does by itself. No HTTP here, and nothing that takes long.

Everything it knows is in files (`folder`). A lock makes each change whole; jobs that take time are the keeper's.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..models.dictionary import Dictionary
from ..storage.signing import public_key
from . import evaluations, receipts, rounds, worker
from .audit import Audit
from .evaluations import Evaluation, Score
from .folder import Facts, Folder, read_json, write_json
from .limits import Buckets, Rate
from .nonces import Nonces
from .protocol import RefusedError, Signed, raw
from .registry import Person, Registry, Role, Standing
from .rounds import Run
from .settings import Settings
from .sums import Sums

NOTHING: Facts = {"model": None, "modules": {}, "counted": [], "flagged": {}, "kind": None, "round": None, "rows": 0}
KEEP = 5  # evaluations that are closed
LISTED = 5.0  # seconds for which a list of the modules is taken to be right


class State(Enum):
    COLLECTING = "collecting"  # fewer owners than expected have a module here
    MERGING = "merging"
    ROUNDS = "rounds"
    READY = "ready"


class Task(NamedTuple):
    """What an owner is asked for."""

    kind: str  # "answer", "sum" or "score"
    id: str  # of the run or the evaluation
    digest: str  # of the plan or the model; of a secure sum with the stage behind it


class Hub:
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
        self.sums = Sums()
        self._turns: dict[str, threading.RLock] = {}
        self.seen: dict[str, float] = {}  # id of a key → when it has asked last; not worth a file
        self.arrived = 0.0  # when modules have changed last
        self._listed: tuple[float, dict[str, str]] | None = None  # when, and what
        self.failed: str | None = None  # why the last merge failed
        self._told = Buckets(Rate(0.1, 20))  # refusals that are written down
        self.current: Facts = read_json(self.folder.current) or NOTHING
        self.page_token = self._page_token()
        self._register_coordinator(coordinator)
        self.audit.append("started", modules=len(self.modules()))

    def close(self) -> None:
        self.nonces.close()
        self.audit.close()
        self._held.close()

    def _page_token(self) -> str:
        path = self.folder.root / "page-token.json"
        found = read_json(path)
        if found is None:
            found = {"token": secrets.token_urlsafe(24)}
            write_json(path, found)
            path.chmod(0o600)
        return str(found["token"])

    def _register_coordinator(self, given: Path | None) -> None:
        key = raw(self.folder.key("coordinator")) if given is None else bytes(public_key(given).public_bytes_raw())
        if self.registry.get(key) is None:
            taken = {p.name for p in self.registry.all()}
            name = next(n for n in ("coordinator", *(f"coordinator {i}" for i in range(2, 99))) if n not in taken)
            self.registry.put(Person(key, name, Role.COORDINATOR, Standing.IN, time.time()))
            self.audit.append("coordinator", name=name, key=key.hex())

    # --- what is here ---

    def modules(self) -> dict[str, str]:
        """Name → content id. What the hub has not written itself is seen a little later."""
        with self.lock:
            if self._listed is None or time.monotonic() - self._listed[0] > LISTED:
                found = {entry.name: entry.digest for entry in self.dictionary.list()}
                self._listed = time.monotonic(), found
            return self._listed[1]

    def _changed(self, name: str, digest: str | None) -> None:
        """A module has come, or gone."""
        rest = {known: own for known, own in self.modules().items() if known != name}
        self._listed = time.monotonic(), rest if digest is None else {**rest, name: digest}
        self.arrived = time.time()

    def _turn(self, person: Person) -> threading.RLock:
        """One change of a module of this owner at a time. It is taken before the lock of the hub, never after it."""
        return self._turns.setdefault(person.id, threading.RLock())

    def run(self) -> Run | None:
        """Rounds that go on, if so."""
        found = rounds.newest(self.folder.rounds)
        return None if found is None or found.closed else found

    def state(self) -> State:
        with self.lock:
            modules = self.modules()
            if self.run() is not None:
                return State.ROUNDS
            if self.current.get("given") and modules == self.current["modules"]:
                return State.READY
            if not self.enough():
                return State.COLLECTING
            if modules != self.current["modules"]:
                return State.MERGING
            if self.wants_rounds():
                return State.ROUNDS
            waits = self.settings.evaluate and self.current["model"] is not None and not self.current.get("scored")
            return State.MERGING if waits else State.READY

    def enough(self) -> bool:
        """Have as many owners been here as are expected? Who has left since is not waited for."""
        count, path = len(self.modules()), self.folder.root / "most.json"
        most = int((read_json(path) or {"owners": 0})["owners"])
        if count > most:
            write_json(path, {"owners": count})
        return max(count, most) >= self.settings.expect

    def wants_rounds(self) -> bool:
        """Have rounds been asked for that this model has not had?"""
        wanted = self.wanted_rounds()["rounds"] > 0
        return wanted and self.current["kind"] == "one shot" and not self.current.get("rounds_failed")

    def wanted_rounds(self) -> Facts:
        s = self.settings
        asked = read_json(self.folder.rounds / "wanted.json")
        return asked or {"rounds": s.rounds, "points": s.points, "deadline": s.deadline}

    def tasks(self, person: Person) -> list[Task]:
        found: list[Task] = []
        run = self.run()
        if run is not None and person.name in run.missing():
            digest = f"{run.plan}-{run.stage}" if run.secure else run.plan
            found.append(Task("sum" if run.secure else "answer", run.id, digest))
        for one in evaluations.every(self.folder.evaluations):
            if one.waits_for(person.id):
                found.append(Task("score", one.id, one.model))
        return found

    def status(self, person: Person) -> Facts:
        """What an owner that waits wants to know."""
        with self.lock:
            state = self.state()
            here = self.modules()
            return {
                "state": state.value,
                "owners": len(here),
                "expect": self.settings.expect,
                "module": here.get(person.name),
                "model": self.current["model"],
                "kind": self.current["kind"],
                "counted": person.name in self.current["counted"],
                "flagged": self.current["flagged"].get(person.name),
                "failed": self.failed,
                "tasks": [task._asdict() for task in self.tasks(person)],
            }

    # --- what owners do ---

    def register(self, said: Signed, invitation: str | None) -> Person:
        with self.lock:
            before = self.registry.get(said.key)
            person = self.registry.register(said.key, said.name, invitation, self.settings.admission, time.time())
            if person != before:
                self.log("registered", person, standing=person.standing.value, role=person.role.value)
            return person

    def put_module(self, person: Person, path: Path, said: Signed) -> str:
        """A module under the owner's name; durable when this returns. Gives its content id."""
        module = worker.checked_module(path)
        if module.name != person.name or module.owner != person.name:
            whose = module.name if module.name != person.name else module.owner
            raise RefusedError(f"this module is of {whose!r}, and you are {person.name!r}", 403)
        with self._turn(person):  # others need not wait while it is written
            now = self.registry.get(person.key)
            if now is None or now.standing is not Standing.IN:
                raise RefusedError(f"{person.name!r} is not in this hub any more", 403)
            known = self.modules().get(person.name)
            if known == said.digest:
                return known
            change = self.dictionary.add if known is None else self.dictionary.replace
            entry = change(path, by=person.id)
            self.log("uploaded" if known is None else "replaced", person, module=entry.digest, request=_request(said))
            with self.lock:
                self._end_rounds(f"{person.name} has sent another module", only_with=person.name)
                self._changed(person.name, str(entry.digest))
            return str(entry.digest)

    def withdraw(self, person: Person, request: Facts | None = None) -> str:
        """Gone at once from the dictionary and from rounds; the receipt follows the next merge. Gives its id."""
        with self._turn(person), self.lock:
            digest = self.modules().get(person.name)
            if digest is None:
                raise RefusedError(f"{person.name!r} has no module here", 404)
            self.dictionary.remove(person.name, by=person.id)
            self._end_rounds(f"{person.name} has left", only_with=person.name)
            for one in evaluations.every(self.folder.evaluations):
                one.without(person.name)
            head = self.log("withdrew", person, module=digest, request=request)
            facts = {"name": person.name, "key": person.key.hex(), "module": digest, "withdrawn": time.time()}
            facts |= {"model_before": self.current["model"], "audit": head}
            self._changed(person.name, None)
            return receipts.promise(self.folder.receipts, facts)

    def leave(self, person: Person, said: Signed) -> str:
        """Asking again, because the answer was lost, gives the same receipt."""
        with self._turn(person), self.lock:
            if person.name not in self.modules():
                known = receipts.last_of(self.folder.receipts, person.key.hex())
                if known is None and person.standing is Standing.OUT:
                    raise RefusedError(f"{person.name!r} is not in this hub any more", 404)
                if known is None or person.standing is Standing.IN:
                    known = self._nothing_to_withdraw(person, said)
                self.registry.change(person.name, Standing.OUT)
                return known
            found = self.withdraw(person, _request(said))
            self.registry.change(person.name, Standing.OUT)
            return found

    def _nothing_to_withdraw(self, person: Person, said: Signed) -> str:
        """Of somebody who has registered, and sent no module; a model of its answers goes with all of them."""
        self._forget_answers(person)
        head = self.log("left", person, request=_request(said))
        facts = {"name": person.name, "key": person.key.hex(), "module": None, "withdrawn": time.time()}
        found = receipts.promise(self.folder.receipts, facts | {"model_before": self.current["model"], "audit": head})
        self._owed()
        return found

    def _forget_answers(self, person: Person) -> None:
        self._end_rounds(f"{person.name} has left", only_with=person.name)
        if self.current.get("given") and person.name in self.current["counted"]:
            self._set_current(NOTHING)
            self.log("merged", None, model=None)
            self._tidy()

    def receipt(self, person: Person, name: str) -> Facts:
        """Signed, or not yet."""
        if not name.startswith(person.key.hex()[:16] + "-") or not name.replace("-", "").isalnum():
            raise RefusedError("there is no such receipt of yours", 404)
        found = read_json(self.folder.receipts / f"{name}.json")
        if found is None:
            raise RefusedError("there is no such receipt of yours", 404)
        return found

    def put_answer(self, person: Person, path: Path, said: Signed) -> None:
        answer = worker.checked_answer(path)
        if answer.name != person.name or answer.owner != person.name:
            raise RefusedError(f"this answer is of {answer.name!r}, and you are {person.name!r}", 403)
        with self.lock:
            run = self.run()
            if run is None or run.secure or person.name not in run.owners:
                raise RefusedError("you are asked for no answer now", 409)
            if answer.plan != run.plan:
                raise RefusedError(f"an answer to plan {answer.plan[:8]}, and {run.plan[:8]} is asked", 409)
            if person.name not in run.missing():
                raise RefusedError("you have answered this plan", 409)
            run.put(path, person.id)
            self.log("answered", person, run=run.id, round=run.round, answer=said.digest, request=_request(said))

    def put_score(self, person: Person, found: Any) -> None:
        score = Score.of(found)
        with self.lock:
            one = self._evaluation(found["evaluation"])
            one.add(person.name, person.id, score)
            self.log("scored", person, evaluation=one.id)

    def _evaluation(self, name: Any) -> Evaluation:
        path = self.folder.evaluations / f"{name}.json"
        if not isinstance(name, str) or not name.replace("-", "").isalnum() or not path.exists():
            raise RefusedError("there is no such evaluation", 404)
        return Evaluation(path)

    def model_file(self, digest: str | None) -> Path:
        """The current model, or the one that an evaluation is about."""
        wanted = digest or self.current["model"]
        if wanted is None:
            raise RefusedError("there is no merged model yet; wait for the owners", 404)
        path = self.folder.model(wanted)
        if not all(c in "0123456789abcdef" for c in wanted) or len(wanted) != 64 or not path.exists():
            raise RefusedError("there is no such model; it may have been replaced", 404)
        return path

    def plan_file(self, person: Person) -> Path:
        run = self.run()
        if run is None or person.name not in run.owners:
            raise RefusedError("you are asked for no answer now", 404)
        return run.plan_file

    # --- what the coordinator does ---

    def invite(self, by: Person, role: Role) -> str:
        token = self.registry.invite(role)
        self.log("invited", by, role=role.value)
        return token

    def decide(self, by: Person, name: str, standing: Standing) -> Person:
        """Approve somebody who waits, or expel somebody, whose module goes."""
        person = self.registry.named(name)
        if person is None:
            raise RefusedError(f"nobody here is called {name!r}", 404)
        if person.role is Role.COORDINATOR:
            raise RefusedError("coordinators are named when the hub is started", 403)
        with self._turn(person), self.lock:
            if standing is Standing.OUT and person.name in self.modules():
                self.withdraw(person)
            elif standing is Standing.OUT:
                self._forget_answers(person)
            changed = self.registry.change(name, standing)
            self.log("approved" if standing is Standing.IN else "expelled", by, whom=changed.name)
            return changed

    def want_rounds(self, by: Person, count: int, points: int, deadline: float) -> None:
        """They begin when the modules that are here are merged."""
        with self.lock:
            if self.run() is not None:
                raise RefusedError("rounds are going on; wait for their end", 409)
            write_json(self.folder.rounds / "wanted.json", {"rounds": count, "points": points, "deadline": deadline})
            if self.current["kind"] == "rounds":  # once more, from the merge
                self._set_current({**self.current, "modules": {}})
            elif self.current.get("rounds_failed"):
                self._set_current({**self.current, "rounds_failed": False})
            self.log("asked for rounds", by, rounds=count, points=points)

    def evaluate(self, by: Person | None) -> Evaluation:
        """Ask all owners who count to score the current model."""
        with self.lock:
            if self.current["model"] is None:
                raise RefusedError("there is no merged model yet", 409)
            people = [p for n in self.current["counted"] if (p := self.registry.named(n)) is not None]
            asked = [(p.name, p.id) for p in people if p.standing is Standing.IN]
            one = evaluations.ask(
                self.folder.evaluations, self.current["model"], asked, self.settings.deadline, time.time()
            )
            self.log("asked for scores", by, evaluation=one.id, model=one.model)
            return one

    # --- what it does by itself, called by the keeper ---

    def merged(self, facts: Facts) -> None:
        """A job has come back: from now on this is the model."""
        with self.lock:
            self._set_current({**facts, "made": time.time()})
            said = {key: facts[key] for key in ("model", "kind", "round", "counted", "flagged")}
            self.log("merged", None, **said)
            self._owed()
            self._tidy()

    def merged_nobody(self) -> None:
        """The last module has gone, and with it the model."""
        with self.lock:
            self._set_current(NOTHING)
            self.log("merged", None, model=None)
            self._owed()
            self._tidy()

    def begin_rounds(self, folder: Path, plan: str) -> Run:
        with self.lock:
            people = [p for n in self.current["counted"] if (p := self.registry.named(n)) is not None]
            asked = [(p.name, p.id) for p in people if p.standing is Standing.IN]
            wanted = self.wanted_rounds()
            before = rounds.newest(self.folder.rounds)
            known = {"modules": self.current["modules"]}
            run = rounds.begin(folder, asked, plan, wanted["rounds"], wanted["deadline"], time.time(), known)
            if before is not None:
                before.remove()
            self.log("rounds began", None, run=run.id, plan=plan, owners=[name for name, _ in asked])
            return run

    def join_rounds(self, run: Run, here: dict[str, str], facts: Facts) -> None:
        """Of those who have come since rounds began: whoever counts in a merge of all is asked, too."""
        with self.lock:
            now = self.run()
            if now is None or now.id != run.id:
                return
            known = now.facts["modules"]
            new = {name: digest for name, digest in here.items() if name not in known}
            counts = [n for n in new if n in facts["counted"] and n not in facts["flagged"] and n in self.modules()]
            people = [p for n in counts if (p := self.registry.named(n)) is not None and p.standing is Standing.IN]
            now.save(modules={**known, **new}, owners={**now.owners, **{p.name: p.id for p in people}})
            for person in people:
                self.log("joined rounds", person, run=now.id)

    def combined(self, run: Run, facts: Facts) -> None:
        """An exchange has come back; it counts only if the run still goes on, and is where it was."""
        with self.lock:
            now = self.run()
            if now is None or now.id != run.id or now.round != run.round:
                return
            history = facts.pop("history")
            following = facts.pop("next")
            # the model first: a hub that is stopped in between combines once more, and gets the same
            now.facts["history"] = history
            told = {"given": True, "scored": True, "counted": now.took_part()} if now.given else {}
            modules = {**self.current["modules"], **self._joined(now)}
            self.merged({**facts, **told, "modules": modules, "flagged": self.current["flagged"]})
            if following is None:
                now.save(history=history, closed="done")
                self.log("rounds ended", None, run=run.id, rounds=len(history))
            else:
                now.save(history=history, round=now.round + 1, plan=following, asked=time.time())

    def advance_sum(self, run: Run) -> None:
        """Everybody has answered at this stage of a secure sum, or time has run out."""
        with self.lock:
            now = self.run()
            if now is None or (now.id, now.stage) != (run.id, run.stage):
                return
            left = now.missing()
            try:
                self.sums.advance(now)
            except RecycleGPError as too_few:
                self.rounds_failed(str(too_few))
                return
            if left:
                self.log("went on without", None, run=now.id, names=left)

    def _joined(self, run: Run) -> dict[str, str]:
        """Modules of those who have come since, and whose rows are in the model of rounds already."""
        if run.given:
            return {}
        known, here = run.facts.get("modules", {}), self.modules()
        return {name: known[name] for name in run.took_part() if known.get(name) == here.get(name, "")}

    def rounds_failed(self, why: str) -> None:
        """The one-shot merge stays the model."""
        with self.lock:
            self._end_rounds(why)
            self._set_current({**self.current, "rounds_failed": True})

    def close_evaluations(self, now: float) -> None:
        with self.lock:
            every = evaluations.every(self.folder.evaluations)
            for one in every:
                if one.due(now):
                    one.close(now)
                    self.log("scores are in", None, **one.shown(self.settings.fewest))
            for one in [e for e in every if e.closed][:-KEEP]:
                one.path.unlink(missing_ok=True)
            if self._to_be_scored():
                self.evaluate(None)
                self._set_current({**self.current, "scored": True})

    def _to_be_scored(self) -> bool:
        """Is the model complete, and has nobody been asked about it?"""
        complete = self.enough() and self.modules() == self.current["modules"]
        asked = self.current.get("scored") or self.current["model"] is None or not self.settings.evaluate
        return complete and not asked and self.run() is None and not self.wants_rounds()

    def _end_rounds(self, why: str, only_with: str | None = None) -> None:
        """Answers go with the run: sums of somebody who has left are in every plan that followed."""
        found = rounds.newest(self.folder.rounds)
        if found is None or (only_with is not None and only_with not in found.owners):
            return
        found.remove()
        self.log("rounds ended", None, run=found.id, why=why)

    def _owed(self) -> None:
        here = self.modules()
        for path, facts in receipts.owed(self.folder.receipts):
            if facts["name"] in self.current["modules"] or self.current["modules"] != here:
                continue  # merged before it had left, or another merge follows
            facts |= {"model_after": self.current["model"], "counted_after": len(self.current["counted"])}
            facts |= {"issued": time.time()}
            receipts.sign(path, facts, self.key)
            self.audit.append("receipt", name=facts["name"], module=facts["module"], model=facts["model_after"])

    def _tidy(self) -> None:
        """Models that nobody is asked about go; they may reflect somebody who has left."""
        needed = {self.current["model"]}
        needed |= {e.model for e in evaluations.every(self.folder.evaluations) if not e.closed}
        for path in [*self.folder.models.glob("*.safetensors"), *self.folder.models.glob("*.html")]:
            if path.stem not in needed:
                path.unlink(missing_ok=True)

    def _set_current(self, facts: Facts) -> None:
        write_json(self.folder.current, facts)
        self.current = facts

    def log(self, event: str, who: Person | None, **details: Any) -> str:
        by = {} if who is None else {"by": who.name, "key": who.key.hex()}
        return self.audit.append(event, **by, **details)

    def refused(self, person: Person, words: str) -> None:
        """Of people who are known; what strangers try is not written down, or they could fill the disk."""
        if self._told.take(person.key, time.monotonic()):  # nor may those who are known
            with suppress(OSError, RecycleGPError):
                self.log("refused", person, why=words[:300])


def _request(said: Signed) -> Facts:
    """Enough to verify later that the owner has asked for it: the log has the key and the name beside it."""
    fields = ("method", "path", "time", "nonce", "digest", "signature")
    return {name: getattr(said, name) for name in fields}

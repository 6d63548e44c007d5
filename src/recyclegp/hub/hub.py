"""The hub itself: what people may ask of it, and what it does by itself. No HTTP here, and nothing that takes long.

Everything it knows is in files (`folder`). A lock makes each change whole; jobs that take time are the keeper's.
"""

from __future__ import annotations

import time
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from . import evaluations, exchanges, leaving, worker
from .evaluations import Evaluation, Score
from .folder import Facts, read_json, write_json
from .protocol import RefusedError, Signed
from .records import HubRecords
from .registry import Person, Role, Standing

KEEP = 5  # evaluations that are closed


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


class Hub(HubRecords):
    """What people may ask of it, and what the keeper does."""

    # --- what is here ---

    def state(self) -> State:
        with self.lock:
            modules = self.modules()
            if self.run() is not None:
                return State.ROUNDS
            if self.current.get("given") and modules == self.current["modules"]:
                return State.READY
            if not self.enough():
                return State.COLLECTING
            if modules != self.current["modules"] or self.must_learn():
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

    def must_learn(self) -> bool:
        """Is the model one that some were only added to, although all who are expected are there, or rounds follow?"""
        complete = len(self.modules()) == self.settings.expect or self.wants_rounds()
        return complete and bool(self.current.get("learned_without"))

    def may_learn(self, now: float) -> bool:
        """Is it such a model, and has nobody come for a while? At rest a model does not depend on who came first."""
        return bool(self.current.get("learned_without")) and now - self.arrived > self.settings.settle

    def wants_rounds(self) -> bool:
        """Have rounds been asked for that this model has not had?"""
        wanted = self.wanted_rounds()["rounds"] > 0
        return wanted and self.current["kind"] == "one shot" and not self.current.get("rounds_failed")

    def rounds_failed(self) -> str | None:
        """Why rounds have come to nothing, unless others go on, or have made a model since."""
        why = self.current.get("rounds_failed")
        return str(why) if why and self.run() is None else None

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
                "rounds_failed": self.rounds_failed(),
                "tasks": [task._asdict() for task in self.tasks(person)],
            }

    # --- what owners do ---

    def register(self, said: Signed, invitation: str | None) -> Person:
        with self.registering:  # and not the lock of all, behind which small questions would wait for the disk
            before = self.registry.get(said.key)
            person = self.registry.register(said.key, said.name, invitation, self.settings.admission, time.time())
            if person != before:
                self.log("registered", person, standing=person.standing.value, role=person.role.value)
            return person

    def put_module(self, person: Person, path: Path, said: Signed) -> str:
        """A module under the owner's name; durable when this returns. Gives its content id."""
        module = worker.checked_module(path, self.settings.limits.most_points)
        if module.name != person.name or module.owner != person.name:
            whose = module.name if module.name != person.name else module.owner
            raise RefusedError(f"this module is of {whose!r}, and you are {person.name!r}", 403)
        with self.turn(person):  # others need not wait while it is written
            now = self.registry.get(person.key)
            if now is None or now.standing is not Standing.IN:
                raise RefusedError(f"{person.name!r} is not in this hub any more", 403)
            known = self.modules().get(person.name)
            if known == said.digest:
                self.log_module(person, known, said)
                return known
            change = self.dictionary.add if known is None else self.dictionary.replace
            entry = change(path, by=person.id)
            self.log_module(person, entry.digest, said)
            with self.lock:
                exchanges.end(self, f"{person.name} has sent another module", only_with=person.name)
                self.changed(person.name, str(entry.digest))
            return str(entry.digest)

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
            known = answer.facts.guaranteed
            private = {} if known is None else {"private": {"epsilon": known.epsilon, "delta": known.delta}}
            more: Facts = {"answer": said.digest, "request": said.proof, **private}
            self.log("answered", person, run=run.id, round=run.round, **more)

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
        with self.turn(person), self.lock:
            if standing is Standing.OUT and person.name in self.modules():
                leaving.withdraw(self, person)
            elif standing is Standing.OUT:
                leaving.forget_answers(self, person)
            changed = self.registry.change(name, standing)
            self.log("approved" if standing is Standing.IN else "expelled", by, whom=changed.name)
            return changed

    def evaluate(self, by: Person | None) -> Evaluation:
        """Ask all owners who count to score the current model."""
        with self.lock:
            if self.current["model"] is None:
                raise RefusedError("there is no merged model yet", 409)
            one = evaluations.ask(
                self.folder.evaluations,
                self.current["model"],
                self.counted_owners(),
                self.settings.deadline,
                time.time(),
            )
            self.log("asked for scores", by, evaluation=one.id, model=one.model)
            return one

    # --- what it does by itself, called by the keeper ---

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
                self.set_current({**self.current, "scored": True})

    def _to_be_scored(self) -> bool:
        """Is the model complete, and has nobody been asked about it?"""
        complete = self.enough() and self.modules() == self.current["modules"] and not self.must_learn()
        asked = self.current.get("scored") or self.current["model"] is None or not self.settings.evaluate
        return complete and not asked and self.run() is None and not self.wants_rounds()

    def refused(self, person: Person, words: str) -> None:
        """Of people who are known; what strangers try is not written down, or they could fill the disk."""
        if self._told.take(person.key, time.monotonic()):  # nor may those who are known
            with suppress(OSError, RecycleGPError):
                self.log("refused", person, why=words[:300])

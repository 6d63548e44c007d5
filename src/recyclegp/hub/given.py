"""Rounds from a plan that the coordinator gives, also of owners who send no module: each who is registered is asked."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import rounds, sums, worker
from .folder import Facts, moved
from .hub import Hub
from .protocol import RefusedError
from .registry import Person, Role, Standing
from .rounds import Run

MOST_ROUNDS = 1000
FIELDS = {"rounds", "deadline", "secure", "epsilon", "delta", "bound"}


class Given(NamedTuple):
    """What is asked beside the plan."""

    rounds: int
    deadline: float  # seconds that owners have for an answer, or for each message of a secure sum
    secure: bool  # only the sum of all answers is to be seen
    privacy: Facts | None  # ε, δ and bound that owners of a secure sum agree on

    @staticmethod
    def of(query: Mapping[str, str]) -> Given:
        """As it came from elsewhere."""
        try:
            if not set(query) <= FIELDS:
                raise ValueError("other fields")
            count, deadline = int(query["rounds"]), float(query["deadline"])
            own = {name: float(query[name]) for name in ("epsilon", "delta", "bound") if name in query}
            secure = {"0": False, "1": True}[query.get("secure", "0")]
        except (ValueError, KeyError):
            raise RefusedError("rounds, deadline, secure, and epsilon, delta, bound are numbers", 422) from None
        if not 1 <= count <= MOST_ROUNDS or not 0 < deadline < 1e9 or len(own) not in (0, 3):
            raise RefusedError(f"1 to {MOST_ROUNDS} rounds, some seconds, and epsilon, delta, bound together", 422)
        if own and not secure:
            raise RefusedError("epsilon is agreed on for secure sums; in other rounds each owner has its own", 422)
        if secure and count > 1:
            raise RefusedError("a secure sum is one round; ask for rounds 1", 422)
        return Given(count, deadline, secure, own or None)


def begin(hub: Hub, by: Person, path: Path, asked: Given) -> Run:
    """From a plan that nobody has answered."""
    plan = worker.checked_plan(path)
    if plan.round:
        raise RefusedError(f"this plan comes after {plan.round} exchanges; begin with one without answers", 422)
    with hub.lock:
        if hub.run() is not None:
            raise RefusedError("rounds are going on; wait for their end", 409)
        owners = [(p.name, p.id) for p in hub.registry.all() if may_answer(hub, p)]
        if not owners:
            raise RefusedError("nobody is registered who could answer; wait for the owners", 409)
        before = rounds.newest(hub.folder.rounds)
        folder = rounds.new_folder(hub.folder.rounds, time.time())
        try:
            if asked.secure:
                sums.begin(folder, plan, [name for name, _ in owners], asked.privacy)
            moved(path, rounds.plan_file(folder, 0))
            more = {"given": True, "secure": asked.secure, "privacy": asked.privacy, "stage": 0}
            run = rounds.begin(folder, owners, plan.digest, asked.rounds, asked.deadline, time.time(), more)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if before is not None:
            before.remove()
        said: dict[str, Any] = {"secure": asked.secure, "privacy": asked.privacy}
        hub.log("rounds began", by, run=run.id, plan=run.plan, owners=[name for name, _ in owners], **said)
        return run


def may_answer(hub: Hub, person: Person) -> bool:
    """Whoever is in, and was not found to contradict the others."""
    here = person.role is Role.OWNER and person.standing is Standing.IN
    return here and person.name not in hub.current["flagged"]


def join(hub: Hub, run: Run, person: Person) -> None:
    """Somebody who comes while rounds go on is asked, too; a secure sum is of those with whom it began."""
    if run.given and not run.secure and person.name not in run.owners and may_answer(hub, person):
        run.save(owners={**run.owners, person.name: person.id})
        hub.log("joined rounds", person, run=run.id)

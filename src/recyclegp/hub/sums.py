"""Secure sums over a hub: it passes messages on, keeps them as files, and adds up what it cannot read.

What a sum is now follows from the invitation and the messages that have come; a hub that is stopped reads them again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RecycleGPError
from ..models import sum_messages
from ..models.load import load
from ..models.privacy import Privacy
from ..models.secure_answers import SecureSum
from ..models.sum_terms import Terms
from ..storage.atomic import write_atomically
from .folder import Facts
from .protocol import RefusedError
from .rounds import SUMMED, Run

if TYPE_CHECKING:
    from .registry import Person


def begin(folder: Path, plan: Any, names: Sequence[str], privacy: Facts | None) -> None:
    """The invitation, which names one sum for ever."""
    found = SecureSum(plan, names, privacy=_agreed(privacy))
    write_atomically(folder / "invitation.bin", found.terms.invitation())


def opened(run: Run) -> SecureSum:
    """The sum as it is, from its files."""
    terms = Terms.of(run.invitation_file.read_bytes())
    plan = load(run.plan_file)
    found = SecureSum(plan, terms.names, threshold=terms.threshold, privacy=_agreed(run.facts["privacy"]))
    if found.terms.subject != terms.subject:
        raise RecycleGPError("this secure sum was begun by another version; begin anew")
    found.terms = terms
    for stage in range(min(run.stage + 1, SUMMED)):
        for name in run.asked_at(stage):
            if run.has_sent(stage, name):
                found.receive(run.message_file(stage, run.owners[name]).read_bytes())
        if stage < run.stage:
            found.advance()
    return found


class Sums:
    """The sum that goes on, in memory, so that its files are read once. All calls are under the hub's lock."""

    def __init__(self) -> None:
        self._kept: tuple[str, int, SecureSum] | None = None  # run, stage

    def message(self, run: Run, person: Person) -> bytes:
        """What this owner is to be sent now."""
        if person.name not in run.missing():
            raise RefusedError("you are asked for nothing in this sum now", 409)
        return self._of(run).message(person.name)

    def put(self, run: Run, person: Person, content: bytes) -> None:
        """One message of an owner; it is durable when this returns."""
        said = sum_messages.read(content)
        if said.sender != person.name:
            raise RefusedError(f"this message is of {said.sender!r}, and you are {person.name!r}", 403)
        if person.name not in run.missing():
            raise RefusedError("you are asked for nothing in this sum now", 409)
        self._of(run).receive(content)
        try:
            write_atomically(run.message_file(run.stage, person.id), content)
        except BaseException:
            self._kept = None  # it has not come
            raise

    def advance(self, run: Run) -> None:
        """Go on with those who have answered at this stage.

        Raises:
            RecycleGPError: They are too few.
        """
        found = self._of(run)
        found.advance()
        self._kept = None
        run.save(stage=run.stage + 1, asked=time.time())
        self._kept = run.id, run.stage, found

    def _of(self, run: Run) -> SecureSum:
        if self._kept is None or self._kept[:2] != (run.id, run.stage):
            self._kept = run.id, run.stage, opened(run)
        return self._kept[2]


def _agreed(facts: Facts | None) -> Privacy | None:
    """The privacy of all owners together."""
    return None if facts is None else Privacy(facts["epsilon"], facts["delta"], facts["bound"])

"""Rounds of a hub, from their beginning to their end. `rounds` has their files, `given` begins those of a plan."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ..errors import RecycleGPError
from . import rounds
from .folder import Facts, write_json
from .protocol import RefusedError
from .records import HubRecords
from .registry import Person, Standing
from .rounds import Run


def want(hub: HubRecords, by: Person, count: int, points: int, deadline: float) -> None:
    """The coordinator asks for rounds, which begin when the modules that are here are merged."""
    with hub.lock:
        if hub.run() is not None:
            raise RefusedError("rounds are going on; wait for their end", 409)
        write_json(hub.folder.rounds / "wanted.json", {"rounds": count, "points": points, "deadline": deadline})
        if hub.current["kind"] == "rounds":  # once more, from the merge
            hub.set_current({**hub.current, "modules": {}})
        elif hub.current.get("rounds_failed"):
            hub.set_current({**hub.current, "rounds_failed": False})
        hub.log("asked for rounds", by, rounds=count, points=points)


def begin(hub: HubRecords, folder: Path, plan: str, here: Mapping[str, str]) -> Run | None:
    """From a plan that the merge of these modules has proposed; None where others are here by now."""
    with hub.lock:
        if hub.modules() != here or hub.run() is not None:
            return None
        asked = hub.counted_owners()
        wanted = hub.wanted_rounds()
        before = rounds.newest(hub.folder.rounds)
        known = {"modules": hub.current["modules"]}
        run = rounds.begin(folder, asked, plan, wanted["rounds"], wanted["deadline"], time.time(), known)
        if before is not None:
            before.remove()
        hub.log("rounds began", None, run=run.id, plan=plan, owners=[name for name, _ in asked])
        return run


def join(hub: HubRecords, run: Run, here: Mapping[str, str], facts: Facts) -> None:
    """Of those who have come since rounds began: whoever counts in a merge of all, and may answer, is asked, too.

    `here` are the modules that have been judged, with their content ids.
    """
    with hub.lock:
        now = hub.run()
        if now is None or now.id != run.id:
            return
        known = now.facts["modules"]
        new = {name: digest for name, digest in here.items() if name not in known}
        silent = {*facts["flagged"], *facts.get("people", ())}
        counts = [n for n in new if n in facts["counted"] and n not in silent and n in hub.modules()]
        people = [p for n in counts if (p := hub.registry.named(n)) is not None and p.standing is Standing.IN]
        now.save(modules={**known, **new}, owners={**now.owners, **{p.name: p.id for p in people}})
        for person in people:
            hub.log("joined rounds", person, run=now.id)


def combined(hub: HubRecords, run: Run, facts: Facts) -> None:
    """An exchange has come back; it counts only if the run still goes on, and is where it was."""
    with hub.lock:
        now = hub.run()
        if now is None or now.id != run.id or now.round != run.round:
            return
        history = facts.pop("history")
        following = facts.pop("next")
        # the model first: a hub that is stopped in between combines once more, and gets the same
        now.facts["history"] = history
        told = {"given": True, "scored": True, "counted": now.took_part()} if now.given else {}
        modules = {**hub.current["modules"], **_joined(hub, now)}
        hub.merged({**facts, **told, "modules": modules, "flagged": hub.current["flagged"]})
        if following is None:
            now.save(history=history, closed="done")
            hub.log("rounds ended", None, run=run.id, rounds=len(history))
        else:
            now.save(history=history, round=now.round + 1, plan=following, asked=time.time())


def _joined(hub: HubRecords, run: Run) -> dict[str, str]:
    """Modules of those who have come since, and whose rows are in the model of rounds already."""
    if run.given:
        return {}
    known, here = run.facts.get("modules", {}), hub.modules()
    return {name: known[name] for name in run.took_part() if known.get(name) == here.get(name, "")}


def advance_sum(hub: HubRecords, run: Run) -> None:
    """Everybody has answered at this stage of a secure sum, or time has run out."""
    with hub.lock:
        now = hub.run()
        if now is None or (now.id, now.stage) != (run.id, run.stage):
            return
        left = now.missing()
        try:
            hub.sums.advance(now)
        except RecycleGPError as too_few:
            fail(hub, str(too_few))
            return
        if left:
            hub.log("went on without", None, run=now.id, names=left)


def fail(hub: HubRecords, why: str) -> None:
    """The one-shot merge stays the model."""
    with hub.lock:
        if rounds.newest(hub.folder.rounds) is None:
            hub.log("no rounds", None, why=why)
        end(hub, why)
        hub.set_current({**hub.current, "rounds_failed": why})


def end(hub: HubRecords, why: str, only_with: str | None = None) -> None:
    """Answers go with the run: sums of somebody who has left are in every plan that followed."""
    found = rounds.newest(hub.folder.rounds)
    if found is None or (only_with is not None and only_with not in found.owners):
        return
    found.remove()
    hub.log("rounds ended", None, run=found.id, why=why)

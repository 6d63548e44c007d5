"""Rounds over a hub: the plan that is asked, and the answers that have come. All of it is files.

rounds/RUN/run.json says who takes part and which plan is asked; plan-0000.safetensors and answer-0000-KEY.safetensors
are beside it, and of a secure sum invitation.bin and message-STAGE-KEY.bin. A hub that is stopped goes on where it was.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from .folder import SUFFIX, Facts, moved, read_json, write_json

RUN = "run.json"
SUMMED = 4  # stages of a secure sum: keys, shares, masked numbers, openings
MASKED = 2  # that in which numbers come


class Run:
    """One search, exchange after exchange."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: Facts = read_json(folder / RUN) or {}

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def owners(self) -> dict[str, str]:
        """Name → id of the key, of those who are asked."""
        return dict(self.facts["owners"])

    @property
    def round(self) -> int:
        return int(self.facts["round"])

    @property
    def plan(self) -> str:
        """The digest of the plan that is asked."""
        return str(self.facts["plan"])

    @property
    def closed(self) -> bool:
        return self.facts["closed"] is not None

    @property
    def plan_file(self) -> Path:
        return plan_file(self.folder, self.round)

    @property
    def given(self) -> bool:
        """The coordinator has given the plan: everybody is asked who is registered, also without a module."""
        return bool(self.facts.get("given"))

    @property
    def secure(self) -> bool:
        """The answers are added up under masks."""
        return bool(self.facts.get("secure"))

    @property
    def stage(self) -> int:
        """Of a secure sum."""
        return int(self.facts.get("stage", 0))

    @property
    def invitation_file(self) -> Path:
        return self.folder / "invitation.bin"

    def message_file(self, stage: int, owner: str) -> Path:
        return self.folder / f"message-{stage}-{owner}.bin"

    def answer_file(self, owner: str) -> Path:
        """`owner` is the id of a key."""
        return self.folder / f"answer-{self.round:04d}-{owner}{SUFFIX}"

    def missing(self) -> list[str]:
        """Names of those who have not answered this plan, or what a secure sum asks at this stage."""
        if self.secure:
            return [name for name in self.asked_at(self.stage) if not self.has_sent(self.stage, name)]
        return [name for name, owner in self.owners.items() if not self.answer_file(owner).exists()]

    def has_sent(self, stage: int, name: str) -> bool:
        return self.message_file(stage, self.owners[name]).exists()

    def asked_at(self, stage: int) -> list[str]:
        """Of a secure sum: whoever has not answered once is left behind."""
        if stage >= SUMMED:
            return []
        return [name for name in self.owners if stage == 0 or self.has_sent(stage - 1, name)]

    def took_part(self) -> list[str]:
        """Names of those whose rows are in the model that has come of it."""
        if self.secure:
            return [name for name in self.owners if self.has_sent(MASKED, name)]
        history = self.facts["history"]
        left_out = set(history[-1]["left_out"]) if history else set[str]()
        said = {n for n, owner in self.owners.items() if any(self.folder.glob(f"answer-*-{owner}{SUFFIX}"))}
        return [name for name in self.owners if name in said - left_out]

    def due(self, now: float) -> bool:
        """Has everybody answered, or has time run out?"""
        return not self.missing() or now > self.late_after

    @property
    def late_after(self) -> float:
        return float(self.facts["asked"]) + float(self.facts["deadline"])

    def put(self, source: Path, owner: str) -> None:
        moved(source, self.answer_file(owner))

    def save(self, **changed: object) -> None:
        self.facts = {**self.facts, **changed}
        write_json(self.folder / RUN, self.facts)

    def remove(self) -> None:
        """With all answers: of an owner that has left nothing stays here."""
        shutil.rmtree(self.folder, ignore_errors=True)


def plan_file(folder: Path, number: int) -> Path:
    return folder / f"plan-{number:04d}{SUFFIX}"


def newest(folder: Path) -> Run | None:
    """The run that goes on, or the last one."""
    found = sorted((p.parent for p in folder.glob(f"*/{RUN}")), key=lambda p: p.name)
    return Run(found[-1]) if found else None


def new_folder(folder: Path, now: float) -> Path:
    """For a run; its name sorts by time. It is no run before it has its run.json."""
    made = folder / f"{int(now * 1000):015d}-{secrets.token_hex(3)}"
    made.mkdir(mode=0o700)
    return made


def begin(
    folder: Path,
    owners: Sequence[tuple[str, str]],
    plan: str,
    rounds: int,
    deadline: float,
    now: float,
    more: Facts | None = None,
) -> Run:
    """The first plan is there already. `more` is what only runs have whose plan was given."""
    facts: Facts = {
        "owners": dict(owners),
        "rounds": rounds,
        "deadline": deadline,
        "started": now,
        "asked": now,
        "round": 0,
        "plan": plan,
        "history": [],
        "closed": None,
        **(more or {}),
    }
    write_json(folder / RUN, facts)
    return Run(folder)

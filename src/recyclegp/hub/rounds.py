"""Rounds over a hub: the plan that is asked, and the answers that have come. All of it is files.

rounds/RUN/run.json says who takes part and which plan is asked; plan-0000.safetensors and answer-0000-KEY.safetensors
are beside it. A hub that is stopped goes on where it was.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from .folder import SUFFIX, Facts, moved, read_json, write_json

RUN = "run.json"


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

    def answer_file(self, owner: str) -> Path:
        """`owner` is the id of a key."""
        return self.folder / f"answer-{self.round:04d}-{owner}{SUFFIX}"

    def missing(self) -> list[str]:
        """Names of those who have not answered this plan."""
        return [name for name, owner in self.owners.items() if not self.answer_file(owner).exists()]

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


def begin(folder: Path, owners: Sequence[tuple[str, str]], plan: str, rounds: int, deadline: float, now: float) -> Run:
    """The first plan is there already."""
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
    }
    write_json(folder / RUN, facts)
    return Run(folder)

"""Secure sums over files: in a folder that both sides see, or in two between which somebody carries them, by e-mail.

The coordinator writes STAGE-to-NAME.sum and awaits STAGE-from-NAME.sum; an owner does the opposite, and both stay there
meanwhile: no file has a secret, so that who stops cannot go on. Stages are 1 to 4.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..arrays import Array
from ..errors import RecycleGPError, warn_user
from ..storage.atomic import write_atomically
from .answer import Answer
from .plan import Plan
from .privacy import Privacy
from .secure_answers import SecureSum, join_sum
from .sum_terms import STAGES

POLL = 0.2  # seconds between two looks into a folder
LARGEST = 2**30  # bytes of a message


def _file(folder: Path, stage: int, direction: str, name: str) -> Path:
    return folder / f"{stage}-{direction}-{quote(name, safe='')}.sum"


def _read(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise RecycleGPError(f"{path}: larger than any message of a secure sum")
    return path.read_bytes()


def gather(
    gathering: SecureSum, folder: str | PathLike[str], timeout: float, tell: Callable[[str], Any] = lambda said: None
) -> Answer:
    """The coordinator's side: at every stage so many seconds are waited for whoever has not answered.

    Raises:
        RecycleGPError: There are messages of another sum in the folder, or too few have answered.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    if any(place.glob("*.sum")):
        raise RecycleGPError(f"{place}: there are messages of a secure sum; each needs a folder of its own")
    while gathering.stage != "done":
        stage = STAGES.index(gathering.stage) + 1
        asked = gathering.waiting_for
        for name in asked:
            write_atomically(_file(place, stage, "to", name), gathering.message(name))
        tell(f"stage {stage} of {len(STAGES)}: {len(asked)} owners are asked")
        _await(gathering, place, stage, timeout)
        gathering.advance()
    return gathering.answer()


def _await(gathering: SecureSum, place: Path, stage: int, timeout: float) -> None:
    end, refused = clock.monotonic() + timeout, set[str]()
    while True:
        for name in gathering.waiting_for:
            path = _file(place, stage, "from", name)
            if name in refused or not path.exists():
                continue
            try:
                gathering.receive(_read(path))
            except RecycleGPError as wrong:
                refused.add(name)
                warn_user(f"{path}: {wrong}")
        if not set(gathering.waiting_for) - refused or clock.monotonic() > end:
            return
        clock.sleep(POLL)


def take_part(
    plan: Plan,
    folder: str | PathLike[str],
    X: Array,
    y: Array,
    *,
    name: str,
    timeout: float,
    privacy: Privacy | None = None,
    persons: Array = None,
    tell: Callable[[str], Any] = lambda said: None,
) -> str:
    """An owner's side, from the invitation to the end; returns the fingerprint of all keys, which owners may compare.

    Raises:
        RecycleGPError: No message has come in time, or one cannot be answered.
    """
    place = Path(folder)
    owner = join_sum(plan, _next(place, 1, name, timeout), X, y, name=name, privacy=privacy, persons=persons)
    write_atomically(_file(place, 1, "from", name), owner.message)
    for stage in range(2, len(STAGES) + 1):
        reply = owner.reply(_next(place, stage, name, timeout))
        write_atomically(_file(place, stage, "from", name), reply)
        if stage == 2:
            tell(f"keys of all owners: {owner.fingerprint}")
    return str(owner.fingerprint)


def _next(place: Path, stage: int, name: str, timeout: float) -> bytes:
    path, end = _file(place, stage, "to", name), clock.monotonic() + timeout
    while not path.exists():
        if clock.monotonic() > end:
            raise RecycleGPError(f"{path}: no message has come within {timeout:g} seconds")
        clock.sleep(POLL)
    return _read(path)

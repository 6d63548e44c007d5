"""Where answers come from: memory, files or folders; one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import RecycleGPError
from ..storage import container
from ..storage.container import SCHEMA
from ..storage.making import ANSWER, made_from
from . import plan_file
from .answer import Answer
from .inbox import Letter
from .plan_facts import AnswerFacts
from .sources import PATTERN

AnswerSource = Answer | str | PathLike[str] | Iterable[Answer | str | PathLike[str]]


def read(source: AnswerSource, unreadable: dict[str, str]) -> Iterator[Letter]:
    """Each answer; of a file that cannot be read the name and the reason go into `unreadable`."""
    several: Iterable[Any] = [source] if isinstance(source, (Answer, str, PathLike)) else source
    for item in several:
        if isinstance(item, Answer):
            yield Letter.of(item.facts)
        elif isinstance(item, (str, PathLike)):
            for path in _files(Path(item)):
                try:
                    letter = _letter(path)
                except RecycleGPError as broken:
                    unreadable[str(path)] = str(broken)
                else:
                    yield letter
        else:
            raise TypeError(f"answers must hold Answer objects or paths, not {type(item).__name__}")


def _letter(path: Path) -> Letter:
    found, content = _read(path)

    def again() -> AnswerFacts:
        facts, now = _read(path)
        if now != content:
            raise RecycleGPError(f"{path}: it has changed while answers were combined; combine them once more")
        return facts

    return Letter.of(found, again)


def _read(path: Path) -> tuple[AnswerFacts, str]:
    """What a file says, and the digest of its bytes."""
    document = container.read(path, identify=True)
    return made_from(path, document, {(SCHEMA, ANSWER): plan_file.answer_from_fields}), document.content_id


def _files(path: Path) -> list[Path]:
    """A folder may also hold plans and models, which are nobody's answers."""
    if not path.is_dir():
        return [path]
    return [p for p in sorted(path.glob(PATTERN)) if may_be_answer(p)]


def may_be_answer(path: Path) -> bool:
    """Does it say so? What cannot be read may have been one, and is named where it is read."""
    try:
        return container.header(path).get("kind") == ANSWER
    except (OSError, RecycleGPError):
        return True

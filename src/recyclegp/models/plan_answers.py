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
from .plan_facts import AnswerFacts
from .sources import PATTERN

AnswerSource = Answer | str | PathLike[str] | Iterable[Answer | str | PathLike[str]]


def read(source: AnswerSource, unreadable: dict[str, str]) -> Iterator[AnswerFacts]:
    """Each answer; of a file that cannot be read the name and the reason go into `unreadable`."""
    several: Iterable[Any] = [source] if isinstance(source, (Answer, str, PathLike)) else source
    for item in several:
        if isinstance(item, Answer):
            yield item.facts
        elif isinstance(item, (str, PathLike)):
            for path in _files(Path(item)):
                try:
                    yield made_from(path, container.read(path), {(SCHEMA, ANSWER): plan_file.answer_from_fields})
                except RecycleGPError as broken:
                    unreadable[str(path)] = str(broken)
        else:
            raise TypeError(f"answers must hold Answer objects or paths, not {type(item).__name__}")


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

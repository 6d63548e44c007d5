"""Who runs the tasks: what an engine has to be able to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, Protocol, TypeVar

CHILDREN = 8  # results that one join takes: nobody ever holds more of them

Done = tuple[int, Any]  # the position of one of many tasks, and its result
T = TypeVar("T")


class Executor(Protocol):
    """Functions and results travel by pickle."""

    def map(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], name: str) -> Iterator[Done]:
        """function(*item) for each item, as they are finished. `name` is for those who watch."""
        ...

    def tree(self, function: Callable[[Any], T], items: Sequence[Any], join: Callable[[T, T], T], name: str) -> T:
        """All function(item), joined in a tree whose shape depends on the number of items alone."""
        ...


class Tree:
    """The same tree for results that come in one after the other: whatever can be joined is, and forgotten."""

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join = join
        self._levels: list[list[Any]] = []

    def put(self, result: Any, level: int = 0) -> None:
        """The next result, from left to right."""
        if level == len(self._levels):
            self._levels.append([])
        waiting = self._levels[level]
        waiting.append(result)
        if len(waiting) == CHILDREN:
            self._levels[level] = []
            self.put(reduce(self._join, waiting), level + 1)

    def root(self) -> Any:
        """All of them as one."""
        if not self._levels:
            raise ValueError("a tree without leaves has no root")
        level = 0
        while len(self._levels[level]) != 1 or any(self._levels[level + 1 :]):
            waiting, self._levels[level] = self._levels[level], []
            if waiting:
                self.put(reduce(self._join, waiting), level + 1)
            level += 1
        return self._levels[level][0]

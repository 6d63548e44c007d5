"""Tables that somebody shows to the page: rows to score on, and rows to predict at.

How a table is read and how predictions are written is what the commands `score` and `predict` do. This page is told by
whoever starts it, so that it need not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.ensemble import Ensemble
    from ..models.module import Module


class Test(NamedTuple):
    """Rows whose target is known."""

    X: Any
    y: Any
    likelihood: str | None
    label: str


@dataclass(frozen=True)
class Table:
    """As it was read for these modules."""

    label: str
    rows: int
    columns: tuple[str, ...]
    parts: Any  # of its rows, as `predictions` takes them
    test: Test | None = None  # where a column has the target
    left_out: int = 0  # rows that are not scored, because something is missing there
    target: str | None = None  # its column, or columns
    targets: tuple[str, ...] = ()  # columns that may be it, where nobody says which
    unscored: str = ""  # why its rows cannot be scored, although the target is there


class TableReader(Protocol):
    """What this page asks of whoever knows how tables are read. It travels to other processes."""

    def read(self, path: Path, label: str, modules: Sequence[Module], target: str | None) -> Table:
        """`target` is the column that somebody has named on the page; errors call the file by its label."""
        ...

    def predictions(self, model: Ensemble, table: Table) -> bytes:
        """A file of the table with what the model says of each row."""
        ...

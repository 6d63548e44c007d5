"""The rows of a large table divided into partitions: in one pass, and in files from which each can be read alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..categories import Categories, Levels
from ..engines.partitions import StoredRows
from ..errors import RecycleGPError
from .rows import Part, Rows, as_text
from .screen import Screen
from .tables import Table

FILES = 64  # that are written side by side, each with the rows of some partitions
MOST = 100_000  # partitions


class Division(NamedTuple):
    """Partitions that have rows, and what they are called."""

    sources: list[StoredRows]
    names: list[str]


@dataclass
class ByColumn:
    """Rows with the same value in a column are a partition, called by that value."""

    column: str
    drop_missing: bool
    codes: dict[str, int] = field(default_factory=dict)  # value → number of its partition, as they appear

    def look(self, table: Table, screen: Screen) -> list[str]:
        """Find all values, and so the names of the partitions."""
        missing = 0
        with screen.bar(f"Looking at {self.column}", table.size) as advance:
            for frame in table.frames([], advance, only=[self.column]):
                labels = as_text(frame[self.column])
                missing += int(labels.isna().sum())
                for value in labels.dropna().unique():
                    self.codes.setdefault(value, len(self.codes))
                if len(self.codes) > MOST:
                    raise RecycleGPError(
                        f"--partition-by {self.column}: more than {MOST:,} different values; it must say which rows "
                        "belong together. --partitions N takes them in their order"
                    )
        if missing and not self.drop_missing:
            raise RecycleGPError(
                f"--partition-by {self.column}: {missing} rows have no value there; fill them, or leave those rows out "
                "with --drop-missing"
            )
        if not self.codes:
            raise RecycleGPError(f"--partition-by {self.column}: there are no rows with a value")
        return list(self.codes)

    def of(self, part: Part) -> np.ndarray:
        """Which partition each row is of; −1 for none."""
        return as_text(part.kept[self.column]).map(self.codes).fillna(-1).to_numpy(dtype=np.int64)


@dataclass
class ByOrder:
    """So many partitions of rows that follow each other."""

    count: int
    rows: int = 0

    def look(self, table: Table, screen: Screen) -> list[str]:
        if table.delimiter is None:
            self.rows = int(table.size)
        else:
            with screen.bar("Counting rows", table.size) as advance:
                self.rows = sum(len(frame) for frame in table.frames([], advance))
        if self.rows < self.count:
            raise RecycleGPError(f"--partitions {self.count}: there are {self.rows} rows; ask for fewer partitions")
        width = len(str(self.count - 1))
        return [f"part-{i:0{width}d}" for i in range(self.count)]

    def of(self, part: Part) -> np.ndarray:
        return part.positions * self.count // self.rows


def divided(rows: Rows, how: ByColumn | ByOrder, folder: Path, screen: Screen) -> Division:
    """One pass over the table writes every row to the file of its partition, and then each file is put in order.

    Only some rows are in memory at a time, and then those of one file.
    """
    names = how.look(rows.table, screen)
    files = min(FILES, len(names))
    of_file = np.arange(len(names)) * files // len(names)
    paths = [folder / f"rows-{i}" for i in range(files)]

    def written() -> Categories:
        levels = _Levels()
        with ExitStack() as stack:
            streams = [stack.enter_context(open(path, "wb")) for path in paths]
            for part in rows.parts(screen):
                assert part.y is not None
                code = how.of(part)
                table = np.column_stack([code, levels.coded(part.X, rows.categories), part.y])
                order = np.argsort(code, kind="stable")
                table, file = table[order], np.where(code < 0, -1, of_file[code])[order]
                for i in np.unique(file[file >= 0]):
                    streams[i].write(table[file == i].tobytes())
        return levels.found(rows.inputs)

    categories = rows.settled(written)
    inputs = tuple(rows.inputs)
    found = [entry for path in paths for entry in _in_order(path, inputs, categories)]
    empty = len(names) - len(found)
    if empty:
        screen.note(f"{empty} of {len(names)} partitions have no complete rows, and are left out")
    return Division([source for _, source in found], [names[code] for code, _ in found])


class _Levels:
    """The levels of categories, which have codes as they appear."""

    def __init__(self) -> None:
        self.codes: dict[str, dict[str, int]] = {}

    def coded(self, X: pd.DataFrame, categories: Collection[str]) -> np.ndarray:
        """The inputs as numbers."""
        if not categories:
            return X.to_numpy()
        columns = []
        for name in X.columns:
            if name in categories:
                known = self.codes.setdefault(name, {})
                for level in X[name].unique():
                    known.setdefault(level, len(known))
                columns.append(X[name].map(known).to_numpy(dtype=np.float64))
            else:
                columns.append(X[name].to_numpy())
        return np.column_stack(columns)

    def found(self, inputs: Sequence[str]) -> Categories:
        return Categories(tuple(Levels(j, tuple(self.codes[c])) for j, c in enumerate(inputs) if c in self.codes))


def _in_order(path: Path, inputs: tuple[str, ...], categories: Categories) -> Iterator[tuple[int, StoredRows]]:
    """The partitions in a file, whose rows are sorted for it."""
    table = np.fromfile(path).reshape(-1, len(inputs) + 2)
    path.unlink()
    table = table[np.argsort(table[:, 0], kind="stable")]
    sorted_path = path.with_suffix(".npy")
    np.save(sorted_path, table[:, 1:])
    codes, starts = np.unique(table[:, 0].astype(np.int64), return_index=True)
    for code, start, stop in zip(codes.tolist(), starts.tolist(), [*starts[1:].tolist(), len(table)], strict=True):
        yield code, StoredRows(str(sorted_path), start, stop, inputs, categories)

"""The rows of a large table divided into partitions: in one pass, and in files from which each can be read alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..anonymity import OTHER
from ..categories import Categories, Levels
from ..engines.partitions import StoredRows
from ..errors import RecycleGPError
from .cells import as_text
from .rows import Part, Rows
from .screen import Screen
from .tables import Table

FILES = 64  # that are written side by side, each with the rows of some partitions
MOST = 100_000  # partitions


Way = Callable[[Part], np.ndarray]  # which partition each row is of; −1 for none


def by_column(column: str, drop_missing: bool, table: Table, screen: Screen) -> tuple[list[str], Way]:
    """Rows with the same value in a column are a partition, called by that value."""
    codes: dict[str, int] = {}  # value → number of its partition, as they appear
    missing = 0
    looking = screen.bar(f"Looking at {column}", table.size)
    with looking as advance, closing(table.frames([], advance, only=[column])) as frames:
        for frame in frames:
            labels = as_text(frame[column])
            missing += int(labels.isna().sum())
            for value in labels.dropna().unique():
                codes.setdefault(value, len(codes))
            if len(codes) > MOST:
                raise RecycleGPError(
                    f"--partition-by {column}: more than {MOST:,} different values; it must say which rows "
                    "belong together. --partitions N takes them in their order"
                )
    if missing and not drop_missing:
        have = "rows have" if missing > 1 else "row has"
        raise RecycleGPError(
            f"--partition-by {column}: {missing} {have} no value there; fill it in, or leave such rows out "
            "with --drop-missing"
        )
    if not codes:
        raise RecycleGPError(f"--partition-by {column}: there are no rows with a value")
    return list(codes), lambda part: as_text(part.kept[column]).map(codes).fillna(-1).to_numpy(dtype=np.int64)


def by_order(count: int, table: Table, screen: Screen) -> tuple[list[str], Way]:
    """So many partitions of rows that follow each other."""
    if table.reader.counts_rows:
        rows = int(table.size)
    else:
        with screen.bar("Counting rows", table.size) as advance:
            rows = sum(len(frame) for frame in table.frames([], advance))
    if rows < count:
        raise RecycleGPError(f"--partitions {count}: there are {rows} rows; ask for fewer partitions")
    width = len(str(count - 1))
    return [f"part-{i:0{width}d}" for i in range(count)], lambda part: part.positions * count // rows


def divided(rows: Rows, names: Sequence[str], way: Way, folder: Path, screen: Screen) -> dict[str, StoredRows]:
    """One pass over the table writes every row to the file of its partition, and then each file is put in order.

    Only some rows are in memory at a time, and then those of one file. Partitions without rows are left out.
    """
    files = min(FILES, len(names))
    of_file = np.arange(len(names)) * files // len(names)
    paths = [folder / f"rows-{i}" for i in range(files)]

    def written() -> StoredRows:
        codes, labels, outputs = dict[str, dict[str, int]](), dict[str, int](), 1
        with ExitStack() as stack:
            streams = [stack.enter_context(open(path, "wb")) for path in paths]
            for part in stack.enter_context(closing(rows.parts(screen))):
                code, y = way(part), np.asarray(part.y)
                y = _codes(y, labels) if y.dtype == object else y
                outputs = y.shape[1] if y.ndim > 1 else 1
                for name in rows.categories:
                    part.X[name] = _codes(part.X[name].to_numpy(), codes.setdefault(name, {}))
                table = np.column_stack([code, part.X.to_numpy(dtype=np.float64), y])
                order = np.argsort(code, kind="stable")
                table, file = table[order], np.where(code < 0, -1, of_file[code])[order]
                for i in np.unique(file[file >= 0]):
                    streams[i].write(table[file == i].tobytes())
        levels = tuple(Levels(j, tuple(codes[c])) for j, c in enumerate(rows.inputs) if c in codes)
        return StoredRows("", 0, 0, tuple(rows.inputs), Categories(levels), outputs, tuple(labels))

    common = rows.settled(written)
    told = {levels.column: _told(rows, levels) for levels in common.categories.levels}
    pooled = Categories(tuple(Levels(column, tuple(dict.fromkeys(names))) for column, names in told.items()))
    common = replace(common, categories=pooled)
    found = [entry for path in paths for entry in _in_order(path, common, told)]
    empty = len(names) - len(found)
    if empty:
        screen.note(f"{empty} of {len(names)} partitions have no complete rows, and are left out")
    return {names[code]: source for code, source in found}


def _told(rows: Rows, levels: Levels) -> list[str]:
    """What the levels of a column are called in the file: those of too few rows of the whole table are one."""
    column = rows.inputs[levels.column]
    pool = rows.pooled(column)
    if rows.guard is not None:
        rows.guard.warn(pool, rows.level_counts[column], f"column {column!r}")
    return [OTHER if name in pool else name for name in levels.names]


def _codes(texts: np.ndarray, known: dict[str, int]) -> np.ndarray:
    """The number of each text, in the order in which they appear."""
    for text in pd.unique(texts):
        known.setdefault(text, len(known))
    return pd.Series(texts).map(known).to_numpy(dtype=np.float64)


def _in_order(path: Path, common: StoredRows, told: Mapping[int, list[str]]) -> Iterator[tuple[int, StoredRows]]:
    """The partitions in a file, whose rows are sorted for it; `common` is what all of them share.

    A code was the place of a level among all; it becomes that of what the level is `told` as.
    """
    table = np.fromfile(path).reshape(-1, 1 + len(common.names or ()) + common.outputs)
    path.unlink()
    for column, names in told.items():
        place = common.categories.names(column).index
        table[:, 1 + column] = np.array([place(name) for name in names])[table[:, 1 + column].astype(np.int64)]
    table = table[np.argsort(table[:, 0], kind="stable")]
    sorted_path = path.with_suffix(".npy")
    np.save(sorted_path, table[:, 1:])
    codes, starts = np.unique(table[:, 0].astype(np.int64), return_index=True)
    for code, start, stop in zip(codes.tolist(), starts.tolist(), [*starts[1:].tolist(), len(table)], strict=True):
        yield code, replace(common, path=str(sorted_path), start=start, stop=stop)

"""Rows of a table as numbers and levels of categories: what a model is fitted to, asked at, or scored on."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from ..anonymity import LevelGuard, check_are_words, is_number
from ..categories import MOST_LEVELS
from ..errors import RecycleGPError, RecycleGPWarning
from . import cells
from .screen import Screen
from .tables import MISSING, Table
from .targets import Reading, Targets

CLASSES_SHOWN = 6  # in an error

T = TypeVar("T")


class HoldsCategoriesError(Exception):
    """A column that was read as numbers turns out to hold text."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class NoiseColumn(NamedTuple):
    """A column with the measurement error of each row."""

    name: str
    option: str  # that named it
    squared: bool  # are they variances?

    @staticmethod
    def given(noise: float | None, variances: str | None, deviations: str | None) -> NoiseColumn | None:
        """From the options, of which at most one may be given."""
        options = {"--noise": noise, "--noise-column": variances, "--noise-sd-column": deviations}
        used = [option for option, value in options.items() if value is not None]
        if len(used) > 1:
            raise RecycleGPError(f"{' and '.join(used)}: both say what the noise is; give one of them")
        if variances is not None:
            return NoiseColumn(variances, "--noise-column", squared=True)
        return None if deviations is None else NoiseColumn(deviations, "--noise-sd-column", squared=False)


class Part(NamedTuple):
    """Some rows, complete as far as they must be."""

    X: pd.DataFrame  # by the names of the inputs: float64, and text where they hold categories
    y: Any  # as the library takes it: an array, or a table of several outputs; None without targets
    noise: np.ndarray | None  # variances, where a column has them
    kept: pd.DataFrame  # columns carried along, as they were
    positions: np.ndarray  # of these rows in the table


@dataclass
class Rows:
    """The rows of a table that are to be numbers; reading them counts what is missing."""

    table: Table
    inputs: Sequence[str]
    targets: Targets | None = None
    drop_missing: bool = False
    keep: Sequence[str] = ()
    categories: set[str] = field(default_factory=set)  # inputs that hold categories, as far as is known
    guard: LevelGuard | None = None  # of a fit: other inputs are categories, too, if they hold text that may be told
    dates: bool = False  # are dates read as days since 1970-01-01?
    every: bool = False  # are rows that lack inputs kept, with NaN in their place?
    noise: NoiseColumn | None = None
    read: int = 0
    incomplete: int = 0  # rows that lack what they must have
    unseen: int = 0  # rows without any target, where cells may be missing
    filled: int = 0  # rows that lack an input and are kept
    _gaps: Counter[str] = field(default_factory=Counter)
    _labels: dict[str, set[str]] = field(default_factory=dict)  # classes of each target
    level_counts: dict[str, Counter[str]] = field(default_factory=dict)  # of inputs, in complete rows: how many of each

    def __post_init__(self) -> None:
        absent = set(self.categories) - set(self.inputs)
        if absent:
            raise RecycleGPError(f"--categories {min(absent)}: it is none of the inputs, {', '.join(self.inputs)}")
        used = [*self.inputs, *self._target_names]
        if self.noise is not None:
            if self.noise.name in used:
                said = "among the inputs" if self.noise.name in self.inputs else "the target"
                raise RecycleGPError(f"{self.noise.option} {self.noise.name}: it is {said}; name another column")
            used.append(self.noise.name)
        censored = None if self.targets is None else self.targets.censored
        if censored is not None:
            if censored in used:
                raise RecycleGPError(f"--censored {censored}: it is the target or an input; name another column")
            used.append(censored)
        self.table.require([*used, *self.keep])
        if not self.inputs:
            raise RecycleGPError(
                f"{self.table.path}: no column is left for the inputs; it needs at least one beside the target"
            )
        if len(set(self.inputs)) < len(self.inputs):
            named = ", ".join(self.inputs)
            raise RecycleGPError(f"{self.table.path}: --inputs names a column twice ({named}); name each once")
        clash = [name for name in self._target_names if name in self.inputs]
        if clash:
            raise RecycleGPError(f"--target {clash[0]}: it is among the inputs; leave it out of --inputs")
        if "" in used:
            raise RecycleGPError(
                f"{self.table.path}: a column has no name (a row index?); say which to use with --inputs"
            )
        filled = self.targets is not None and self.targets.filled
        if self.drop_missing and (self._gaps_allowed or filled):
            way = "impute or marginalise" if filled else "allow"
            raise RecycleGPError(f"--missing {way} and --drop-missing: missing cells are used or left out; give one")

    @property
    def left_out(self) -> int:
        """Rows that were not used."""
        return self.incomplete + self.unseen

    @property
    def where(self) -> str:
        """How many cells are missing in which column."""
        return ", ".join(f"{name}: {count}" for name, count in self._gaps.items())

    @property
    def class_labels(self) -> tuple[str | None, str] | None:
        """Of classes 0 and 1, where the table has words for them; class 0 has none if it is several."""
        if self.targets is None or self.targets.positive is None:
            return None
        rest = self._labels.get(self.targets.names[0], set()) - {self.targets.positive}
        return (next(iter(rest)) if len(rest) == 1 else None, self.targets.positive)

    @property
    def _target_names(self) -> tuple[str, ...]:
        return () if self.targets is None else self.targets.names

    @property
    def _gaps_allowed(self) -> bool:
        return self.targets is not None and self.targets.gaps

    def parts(self, screen: Screen) -> Generator[Part]:
        """Some rows at a time, to be closed. Where incomplete rows are not allowed, all are read, to count them."""
        numbers = [c for c in self.inputs if c not in self.categories]
        if self.targets is not None and self.targets.positive is None:
            numbers += [name for name, how in self.targets.readings.items() if how is not Reading.LABELS]
        if self.noise is not None:
            numbers.append(self.noise.name)
        reading = screen.bar(f"Reading {self.table.path.name}", self.table.size)
        with reading as advance, closing(self.table.frames(numbers, advance)) as frames:
            for frame in frames:
                part = self._part(frame)
                self.read += len(frame)
                if len(part.X) and (self.drop_missing or not self.incomplete):
                    yield part
        self._check()
        for count, why in ((self.incomplete, "missing values"), (self.unseen, "no target")):
            if count:
                screen.note(f"{count} of {self.read} rows left out: {why}")

    def settled(self, work: Callable[[], T]) -> T:
        """Some work on all rows; begun again whenever a column turns out to hold categories."""
        while True:
            try:
                return work()
            except HoldsCategoriesError as found:
                self.categories.add(found.column)
                self.read = self.incomplete = self.unseen = self.filled = 0
                for counted in (self._gaps, self._labels, self.level_counts):
                    counted.clear()

    def whole(self, screen: Screen) -> Part:
        """All rows."""
        parts = self.settled(lambda: list(self.parts(screen)))
        several = self.targets is not None and self.targets.outputs
        y = pd.concat([p.y for p in parts], ignore_index=True) if several else np.concatenate([p.y for p in parts])
        noise = None if self.noise is None else np.concatenate([p.noise for p in parts if p.noise is not None])
        if self.categories:
            X = pd.concat([p.X for p in parts], ignore_index=True)
        else:
            matrix = np.concatenate([p.X.to_numpy() for p in parts])
            X = pd.DataFrame(matrix, columns=list(self.inputs), copy=False)
        return Part(X, y, noise, pd.concat([p.kept for p in parts]), np.concatenate([p.positions for p in parts]))

    def _part(self, frame: pd.DataFrame) -> Part:
        found: dict[str, np.ndarray] = {
            c: self._texts(frame[c]) if c in self.categories else self._numbers(frame[c]) for c in self.inputs
        }
        if self.noise is not None:
            found[self.noise.name] = self._variances(frame[self.noise.name], self.noise)
        y = {name: self._target(frame[name]) for name in self._target_names}
        if self.targets is not None and self.targets.censored is not None:
            y = {name: self._censored(own, frame[self.targets.censored]) for name, own in y.items()}
        gaps = {c: _missing(values) for c, values in (found | y).items()}
        self._gaps.update({c: int(there.sum()) for c, there in gaps.items() if there.any()})
        complete = self._kept(gaps, len(frame))
        if self._keeps_gaps:
            found |= {c: np.where(gaps[c], np.nan, found[c]) for c in self.inputs if c not in self.categories}
        if self.categories:
            X = pd.DataFrame({c: found[c][complete] for c in self.inputs})
            for c in self.categories:
                self._count_levels(c, found[c][complete])
        else:
            matrix = np.stack([found[c][complete] for c in self.inputs], axis=1)
            X = pd.DataFrame(matrix, columns=list(self.inputs), copy=False)
        return Part(
            X,
            None if self.targets is None else self.targets.y({c: values[complete] for c, values in y.items()}),
            None if self.noise is None else found[self.noise.name][complete],
            frame.loc[complete, list(self.keep)],
            self.read + np.flatnonzero(complete),
        )

    def _kept(self, gaps: dict[str, np.ndarray], rows: int) -> np.ndarray:
        """(n,) bool  rows that have what they must have; the others are counted."""
        none = np.zeros(rows, dtype=bool)
        no_input = np.logical_or.reduce([gaps[c] for c in self.inputs])
        no_noise = none if self.noise is None else gaps[self.noise.name]
        of_targets = [gaps[c] for c in self._target_names]
        incomplete, unseen = no_input | no_noise, none
        if self._keeps_gaps:
            self.filled += int(no_input.sum())
            incomplete = no_noise
        if self._gaps_allowed:
            unseen = np.logical_and.reduce(of_targets)
        elif of_targets and self._keeps_gaps:
            unseen = np.logical_or.reduce(of_targets)
        elif of_targets:
            incomplete = incomplete | np.logical_or.reduce(of_targets)
        self.incomplete += int(incomplete.sum())
        self.unseen += int((unseen & ~incomplete).sum())
        return ~(incomplete | unseen)

    @property
    def _keeps_gaps(self) -> bool:
        """Are rows that lack inputs among the parts?"""
        return not self.drop_missing and (self.every or (self.targets is not None and self.targets.filled))

    def _check(self) -> None:
        path = self.table.path
        if not self.read:
            raise RecycleGPError(f"{path}: there are no rows below the header")
        where = self.where
        if self.incomplete and not self.drop_missing:
            unseen = self.targets is not None and self.targets.outputs and any(map(self._gaps.get, self._target_names))
            remedy = "use --missing allow where an output was not seen, " if unseen and not self._gaps_allowed else ""
            inputs_too = self.guard is not None and any(map(self._gaps.get, self.inputs))
            more = ", or take them all the same with --missing impute" if inputs_too else ""
            raise RecycleGPError(
                f"{path}: {self.incomplete} of {self.read} rows {'has' if self.incomplete == 1 else 'have'} missing or "
                f"infinite values ({where}); {remedy}fill them, or leave such rows out with --drop-missing{more}"
            )
        if self.incomplete == self.read:
            raise RecycleGPError(f"{path}: every row has missing or infinite values, and none would be left")
        if self.left_out == self.read:
            raise RecycleGPError(f"{path}: no row has a target ({where}), and none would be left")
        if self.targets is not None and self.targets.positive is not None:
            name, wanted = self.targets.names[0], self.targets.positive
            if wanted not in self._labels[name]:
                raise RecycleGPError(
                    f"--positive {wanted}: column {name!r} holds no such class, but {self._classes(name)}"
                )
        for column in self.level_counts:
            self.pooled(column)
        self._warn_of_codes()

    def _warn_of_codes(self) -> None:
        """Of inputs of a fit that somebody may have meant as text."""
        for column, what in self.table.codes.items():
            if self.guard is not None and column in self.inputs and column not in self.categories:
                warnings.warn(
                    f"{self.table.path}: column {column!r} holds {what}; they were read as numbers. If they are ids or "
                    f"codes, leave the column out with --inputs, or take it for categories with --categories {column}",
                    RecycleGPWarning,
                    stacklevel=2,
                )

    def pooled(self, column: str) -> frozenset[str]:
        """The levels of an input that become one, because they are of too few rows."""
        if self.guard is None or column in self.guard.named or self.level_counts[column].keys() <= {"True", "False"}:
            return frozenset()
        levels = self.level_counts[column]
        texts = [level for level in levels if not is_number(level)]
        if 2 * sum(levels[level] for level in texts) <= levels.total():
            remedy = "leave cells empty where it means missing" if any(map(cells.may_be_gap, texts)) else "correct it"
            said = f"text among numbers ({', '.join(texts)[:40]!r}); {remedy}, or take the column for categories with"
            raise self._error(column, f"{said} --categories {column}")
        what = f"{self.table.path}: column {column!r}"
        check_are_words(levels, column, what)
        return self.guard.pool(levels, column, what)

    def _error(self, column: Any, what: str) -> RecycleGPError:
        return RecycleGPError(f"{self.table.path}: column {column!r} holds {what}")

    # --- columns ---

    def _texts(self, column: pd.Series) -> np.ndarray:
        """Levels by name, as they are written; NA where there is none."""
        texts = cells.as_text(column)
        return texts.where(~texts.isin(MISSING), pd.NA).to_numpy(dtype=object)

    def _count_levels(self, column: str, texts: np.ndarray) -> None:
        known = self.level_counts.setdefault(column, Counter())
        known.update(pd.Series(texts).value_counts().to_dict())
        if len(known) > MOST_LEVELS:
            raise RecycleGPError(
                f"{self.table.path}: column {column!r} has more than {MOST_LEVELS:,} levels; leave it out with --inputs"
            )

    def _numbers(self, column: pd.Series) -> np.ndarray:
        may_be_levels = self.guard is not None and column.name in self.inputs
        if may_be_levels and cells.holds_truths(column):
            raise HoldsCategoriesError(str(column.name))
        values, text = cells.floats(column)
        if text is None:
            return values
        days, said, row = cells.days(column), str(column.iloc[text])[:40], self.read + text + 1
        if days is not None and self.dates:
            return days
        if days is not None:
            remedy = "read them as days since 1970-01-01 with --dates days, or leave the column out with --inputs"
            raise self._error(column.name, f"dates ({said!r} in row {row}); {remedy}")
        written = str(column.iloc[text])
        if may_be_levels and not any(re.fullmatch(as_number, written) for as_number in (cells.COMMA, cells.GROUPED)):
            raise HoldsCategoriesError(str(column.name))
        remedy = self._remedy(str(column.name), written)
        if cells.may_be_gap(said):
            remedy = f"if it means missing, leave the cell empty; else {remedy}"
        raise self._error(column.name, f"text ({said!r} in row {row}); {remedy}")

    def _remedy(self, column: str, written: str) -> str:
        """For text where numbers should be."""
        comma, grouped = (re.fullmatch(as_number, written) for as_number in (cells.COMMA, cells.GROUPED))
        if comma and grouped:
            return "if commas group thousands, take them out; if they are decimal commas, say so with --decimal ,"
        if comma:
            return "numbers need a decimal point, not a comma; or say so with --decimal ,"
        if grouped:
            either = f", or take the column for categories with --categories {column}" if column in self.inputs else ""
            return f"take out what groups thousands ({grouped[1]!r}){either}"
        if self.noise is not None and column == self.noise.name:
            return "correct it; measurement errors are numbers"
        if column not in self._target_names:
            return "the model has numbers there"
        return (
            "correct it; two classes are for --likelihood bernoulli, classes that are words for --likelihood "
            "categorical"
        )

    def _variances(self, column: pd.Series, noise: NoiseColumn) -> np.ndarray:
        values = self._numbers(column)
        bad = np.flatnonzero(values <= 0)
        if len(bad):
            what = "variance" if noise.squared else "standard deviation"
            remedy = f"a {what} of {noise.option} must be positive: correct it, or leave the row out"
            raise self._error(noise.name, f"{values[bad[0]]:g} in row {self.read + bad[0] + 1}; {remedy}")
        return values if noise.squared else values**2

    def _censored(self, times: np.ndarray, column: pd.Series) -> np.ndarray:
        """As the library has them: −t where nothing had happened by the time t."""
        waited, strange = cells.truths(column)
        if strange is not None:
            said = f"{str(column.iloc[strange])[:40]!r} in row {self.read + strange + 1}"
            raise self._error(
                column.name, f"{said}; --censored takes 1 or yes where nothing had happened, else 0 or no"
            )
        below = np.flatnonzero(times < 0)
        if len(below):
            said = f"{times[below[0]]:g} in row {self.read + below[0] + 1}"
            raise self._error(self._target_names[0], f"{said}; with --censored times are positive")
        return np.where(waited == 1, -times, np.where(waited == 0, times, np.nan))

    def _target(self, column: pd.Series) -> np.ndarray:
        assert self.targets is not None
        reading = self.targets.readings[str(column.name)]
        if reading is Reading.NUMBERS:
            return self._numbers(column)
        return cells.labels(column) if reading is Reading.LABELS else self._two_classes(column, self.targets.positive)

    def _two_classes(self, column: pd.Series, positive: str | None) -> np.ndarray:
        """0 and 1, or −1 and 1; or words, one of which is class 1."""
        name = str(column.name)
        known = self._labels.setdefault(name, set())
        if positive is not None:
            labels = column.astype(str).str.strip()
            absent = column.isna() | labels.isin(MISSING)
            known |= set(labels[~absent].unique())
            return np.where(absent, np.nan, labels == positive)
        values, text = cells.floats(column)
        if text is None:
            known |= {f"{v:g}" for v in np.unique(values[~np.isnan(values)])}
        else:
            known |= set(column.dropna().astype(str).unique())
        if not (known <= {"0", "1"} or known <= {"-1", "1"}):
            remedy = f"say which of them is 1, as --positive {max(known)}"
            if len(known) > 2:
                remedy = f"they must be two; set one against the rest, as --positive {max(known)}"
            if len(self._target_names) > 1:
                remedy = "write the classes of each output as 0 and 1"
            raise self._error(name, f"the classes {self._classes(name)}; {remedy}")
        return values

    def _classes(self, target: str) -> str:
        known = sorted(self._labels[target])
        return ", ".join(known[:CLASSES_SHOWN]) + (", …" if len(known) > CLASSES_SHOWN else "")


def _missing(values: np.ndarray) -> np.ndarray:
    return pd.isna(values) if values.dtype == object else ~np.isfinite(values)

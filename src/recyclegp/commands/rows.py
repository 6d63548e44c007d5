"""Rows of a table as numbers and levels of categories: what a model is fitted to, asked at, or scored on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from ..categories import MOST_LEVELS
from ..errors import RecycleGPError
from .screen import Screen
from .tables import DAY_FIRST, DAY_FIRST_FORMAT, MISSING, Table

CLASSES_SHOWN = 6  # in an error
COMMA = r"\s*[-+]?\d*,\d+\s*"  # a number as others write it


ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
GAPS = r"[-\u2013\u2014.?*/]+|n[./]?\s?[adk]\.?|k\.\s?a\.|missing|unknown|none"  # may stand for a missing value
FEW_LEVELS = 10  # a column with more of them than this, and than half the rows, is taken for an id

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
    """Some rows, all of them complete."""

    X: pd.DataFrame  # by the names of the inputs: float64, and text where they hold categories
    y: np.ndarray | None
    noise: np.ndarray | None  # variances, where a column has them
    kept: pd.DataFrame  # columns carried along, as they were
    positions: np.ndarray  # of these rows in the table


class Whole(NamedTuple):
    """All complete rows of a table."""

    X: pd.DataFrame
    y: np.ndarray
    noise: np.ndarray | None


@dataclass
class Rows:
    """The rows of a table that are to be numbers; reading them counts what is missing."""

    table: Table
    inputs: Sequence[str]
    target: str | None = None
    classes: bool = False  # is the target one of two classes?
    positive: str | None = None  # the label of class 1, where it is not the number 1
    drop_missing: bool = False
    keep: Sequence[str] = ()
    categories: set[str] = field(default_factory=set)  # inputs that hold categories, as far as is known
    may_hold_more: bool = False  # are other inputs categories, too, if they hold text?
    dates: bool = False  # are dates read as days since 1970-01-01?
    noise: NoiseColumn | None = None
    read: int = 0
    incomplete: int = 0
    _gaps: Counter[str] = field(default_factory=Counter)
    _labels: set[str] = field(default_factory=set)
    _levels: dict[str, Counter[str]] = field(default_factory=dict)  # and how often each has been seen
    _named: frozenset[str] = frozenset()  # categories that somebody has named as such

    def __post_init__(self) -> None:
        self._named = frozenset(self.categories)
        absent = self._named - set(self.inputs)
        if absent:
            raise RecycleGPError(f"--categories {min(absent)}: it is none of the inputs, {', '.join(self.inputs)}")
        used = [*self.inputs] if self.target is None else [*self.inputs, self.target]
        if self.noise is not None:
            if self.noise.name in used:
                said = "the target" if self.noise.name == self.target else "among the inputs"
                raise RecycleGPError(f"{self.noise.option} {self.noise.name}: it is {said}; name another column")
            used.append(self.noise.name)
        self.table.require([*used, *self.keep])
        if not self.inputs or len(set(self.inputs)) < len(self.inputs):
            said = f"names a column twice ({', '.join(self.inputs)})" if self.inputs else "would be no column at all"
            raise RecycleGPError(f"{self.table.path}: --inputs {said}; name at least one, each once")
        if self.target in self.inputs:
            raise RecycleGPError(f"--target {self.target}: it is among the inputs; leave it out of --inputs")
        if "" in used:
            raise RecycleGPError(
                f"{self.table.path}: a column has no name (a row index?); say which to use with --inputs"
            )
        if self.positive is not None and not self.classes:
            raise RecycleGPError(f"--positive {self.positive}: it is for classes; use --likelihood bernoulli")

    def parts(self, screen: Screen) -> Iterator[Part]:
        """Some rows at a time. Where incomplete rows are not allowed, all are read all the same, to count them."""
        numbers = [c for c in self.inputs if c not in self.categories]
        if self.target is not None and self.positive is None:
            numbers.append(self.target)
        if self.noise is not None:
            numbers.append(self.noise.name)
        with screen.bar(f"Reading {self.table.path.name}", self.table.size) as advance:
            for frame in self.table.frames(numbers, advance):
                part = self._part(frame)
                self.read += len(frame)
                if len(part.X) and (self.drop_missing or not self.incomplete):
                    yield part
        self._check()
        if self.incomplete:
            screen.note(f"{self.incomplete} of {self.read} rows left out: missing values")

    @property
    def class_labels(self) -> tuple[str | None, str] | None:
        """Of classes 0 and 1, where the table has words for them; class 0 has none if it is several."""
        if self.positive is None:
            return None
        rest = self._labels - {self.positive}
        return (next(iter(rest)) if len(rest) == 1 else None, self.positive)

    def settled(self, work: Callable[[], T]) -> T:
        """Some work on all rows; begun again whenever a column turns out to hold categories."""
        while True:
            try:
                return work()
            except HoldsCategoriesError as found:
                self.categories.add(found.column)
                self.read = self.incomplete = 0
                for counted in (self._gaps, self._labels, self._levels):
                    counted.clear()

    def whole(self, screen: Screen) -> Whole:
        """All rows."""
        return self.settled(lambda: self._whole(screen))

    def _whole(self, screen: Screen) -> Whole:
        parts = list(self.parts(screen))
        y = np.concatenate([p.y for p in parts if p.y is not None])
        noise = None if self.noise is None else np.concatenate([p.noise for p in parts if p.noise is not None])
        if self.categories:
            return Whole(pd.concat([p.X for p in parts], ignore_index=True), y, noise)
        X = np.concatenate([p.X.to_numpy() for p in parts])
        return Whole(pd.DataFrame(X, columns=list(self.inputs), copy=False), y, noise)

    def _part(self, frame: pd.DataFrame) -> Part:
        levels = {c: self._texts(frame[c]) for c in self.inputs if c in self.categories}
        columns = {c: self._numbers(frame[c]) for c in self.inputs if c not in levels}
        if self.target is not None:
            columns[self.target] = self._target(frame[self.target])
        if self.noise is not None:
            columns[self.noise.name] = self._variances(frame[self.noise.name], self.noise)
        gaps = {c: ~np.isfinite(values) for c, values in columns.items()}
        gaps |= {c: texts.isna().to_numpy() for c, texts in levels.items()}
        self._gaps.update({c: int(there.sum()) for c, there in gaps.items() if there.any()})
        complete = ~np.logical_or.reduce(list(gaps.values()))
        self.incomplete += int((~complete).sum())
        y = None if self.target is None else columns[self.target][complete]
        noise = None if self.noise is None else columns[self.noise.name][complete]
        kept, positions = frame.loc[complete, list(self.keep)], self.read + np.flatnonzero(complete)
        if levels:
            both = columns | {c: texts.to_numpy(dtype=object) for c, texts in levels.items()}
            return Part(pd.DataFrame({c: both[c][complete] for c in self.inputs}), y, noise, kept, positions)
        X = np.stack([columns[c][complete] for c in self.inputs], axis=1)
        return Part(pd.DataFrame(X, columns=list(self.inputs), copy=False), y, noise, kept, positions)

    def _check(self) -> None:
        path = self.table.path
        if not self.read:
            raise RecycleGPError(f"{path}: there are no rows below the header")
        if self.incomplete and not self.drop_missing:
            where = ", ".join(f"{name}: {count}" for name, count in self._gaps.items())
            raise RecycleGPError(
                f"{path}: {self.incomplete} of {self.read} rows have missing or infinite values ({where}); fill them, "
                "or leave those rows out with --drop-missing"
            )
        if self.incomplete == self.read:
            raise RecycleGPError(f"{path}: every row has missing or infinite values, and none would be left")
        if self.positive is not None and self.positive not in self._labels:
            raise RecycleGPError(
                f"--positive {self.positive}: column {self.target!r} holds no such class, but {self._classes()}"
            )

        for column, levels in self._levels.items() if self.may_hold_more else ():
            if column in self._named:
                continue
            texts = [level for level in levels if not _is_number(level)]
            if 2 * sum(levels[level] for level in texts) <= levels.total():
                remedy = "leave cells empty where it means missing" if any(map(_may_be_gap, texts)) else "correct it"
                raise RecycleGPError(
                    f"{path}: column {column!r} holds text among numbers ({', '.join(texts)[:40]!r}); {remedy}, or "
                    f"take the column for categories with --categories {column}"
                )
            if len(levels) > max(FEW_LEVELS, self.read / 2):
                raise RecycleGPError(
                    f"{path}: column {column!r} holds {len(levels):,} different texts in {self.read:,} rows, as an id "
                    f"would; leave it out with --inputs, or take it for categories with --categories {column}"
                )

    # --- columns ---

    def _texts(self, column: pd.Series) -> pd.Series:
        """Levels by name, as they are written; NA where there is none."""
        texts = as_text(column)
        texts = texts.where(~texts.isin(MISSING), pd.NA)
        known = self._levels.setdefault(str(column.name), Counter())
        known.update(texts.dropna().value_counts().to_dict())
        if len(known) > MOST_LEVELS:
            raise RecycleGPError(
                f"{self.table.path}: column {column.name!r} has more than {MOST_LEVELS:,} levels; leave it out with "
                "--inputs"
            )
        return texts

    def _numbers(self, column: pd.Series) -> np.ndarray:
        if self.may_hold_more and column.name in self.inputs and _holds_truths(column):
            raise HoldsCategoriesError(str(column.name))
        values, text = floats(column)
        if text is not None:
            days = _days(column)
            if days is not None and self.dates:
                return days
            if days is not None:
                raise RecycleGPError(
                    f"{self.table.path}: column {column.name!r} holds dates ({str(column.iloc[text])[:40]!r} in row "
                    f"{self.read + text + 1}); read them as days since 1970-01-01 with --dates days, or leave the "
                    "column out with --inputs"
                )
            comma = re.fullmatch(COMMA, str(column.iloc[text]))
            if self.may_hold_more and column.name in self.inputs and comma is None:
                raise HoldsCategoriesError(str(column.name))
            said = str(column.iloc[text])[:40]
            remedy = (
                "correct it; two classes are for --likelihood bernoulli, classes that are words for --likelihood "
                "categorical"
            )
            if comma is not None:
                remedy = "numbers need a decimal point, not a comma; or say so with --decimal ,"
            elif self.noise is not None and column.name == self.noise.name:
                remedy = "correct it; measurement errors are numbers"
            elif column.name != self.target:
                remedy = "the model has numbers there"
            if _may_be_gap(said):
                remedy = f"if it means missing, leave the cell empty; else {remedy}"
            row = self.read + text + 1
            raise RecycleGPError(
                f"{self.table.path}: column {column.name!r} holds text ({said!r} in row {row}); {remedy}"
            )
        return values

    def _variances(self, column: pd.Series, noise: NoiseColumn) -> np.ndarray:
        values = self._numbers(column)
        bad = np.flatnonzero(values <= 0)
        if len(bad):
            what = "variance" if noise.squared else "standard deviation"
            raise RecycleGPError(
                f"{self.table.path}: column {noise.name!r} holds {values[bad[0]]:g} in row {self.read + bad[0] + 1}; a "
                f"{what} of {noise.option} must be positive: correct it, or leave the row out"
            )
        return values if noise.squared else values**2

    def _target(self, column: pd.Series) -> np.ndarray:
        if not self.classes:
            return self._numbers(column)
        if self.positive is not None:
            labels = column.astype(str).str.strip()
            absent = column.isna() | labels.isin(MISSING)
            self._labels |= set(labels[~absent].unique())
            return np.where(absent, np.nan, labels == self.positive)
        values, text = floats(column)
        if text is None:
            self._labels |= {f"{v:g}" for v in np.unique(values[~np.isnan(values)])}
        else:
            self._labels |= set(column.dropna().astype(str).unique())
        if not (self._labels <= {"0", "1"} or self._labels <= {"-1", "1"}):
            count = len(self._labels)
            remedy = "say which of them is 1" if count <= 2 else "they must be two; set one against the rest"
            raise RecycleGPError(
                f"{self.table.path}: column {self.target!r} holds the classes {self._classes()}; {remedy}, as "
                f"--positive {max(self._labels)}"
            )
        return values

    def _classes(self) -> str:
        more = ", …" if len(self._labels) > CLASSES_SHOWN else ""
        return ", ".join(sorted(self._labels)[:CLASSES_SHOWN]) + more


def as_text(column: pd.Series) -> pd.Series:
    """Values as text; a whole number is the same whether or not others of the column are missing."""
    if pd.api.types.is_float_dtype(column.dtype):
        whole = column.dropna()
        if bool((whole == whole.round()).all()):
            column = column.astype("Int64")
    text = column.astype("string").str.strip()
    return text.where(text != "", pd.NA)


def _holds_truths(column: pd.Series) -> bool:
    if column.dtype == object:
        return any(type(cell) is bool for cell in column)
    return bool(pd.api.types.is_bool_dtype(column.dtype))


def _may_be_gap(text: str) -> bool:
    """Is it how some write that there is no value?"""
    return re.fullmatch(GAPS, text.strip(), flags=re.IGNORECASE) is not None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _days(column: pd.Series) -> np.ndarray | None:
    """Dates as days since 1970-01-01; None if that is not what the column holds."""
    layout = None
    if column.dtype.kind != "M":
        cells = column.dropna().astype(str).str.strip()
        layouts = ((ISO_DATE, "ISO8601"), (DAY_FIRST, DAY_FIRST_FORMAT))
        layout = next((way for date, way in layouts if len(cells) and bool(cells.str.fullmatch(date).all())), None)
        if layout is None:
            return None
        column = column.where(column.isna(), column.astype(str).str.strip())
    moments = pd.to_datetime(column, utc=True, errors="coerce", format=layout)
    if layout == DAY_FIRST_FORMAT and bool((moments.isna() & column.notna()).any()):
        return None  # some month is above 12: these may be versions, or months written first
    days: np.ndarray = ((moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)
    return days


def floats(column: pd.Series) -> tuple[np.ndarray, int | None]:
    """The column as float64, and where its first text is, if any."""
    if pd.api.types.is_numeric_dtype(column.dtype):  # booleans are, too
        return column.to_numpy(dtype=np.float64, na_value=np.nan), None
    if column.dtype.kind in "Mm":  # dates would become nanoseconds
        numbers = np.full(len(column), np.nan)
    else:
        numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    text = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    return numbers, int(text[0]) if len(text) else None

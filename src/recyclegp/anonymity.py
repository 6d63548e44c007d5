"""Which texts of a table may become words in a file: those of many rows, and those that somebody has asked for by name.

A model knows the levels of its categories by name, so that each of them can be read in its file. A name, a record
number or a date of birth must not get there by accident. Without `categories=` naming the column, the rule is
k-anonymity: every level in the file is of at least k rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import Argument, Either, IdentifierWarning, Message, Part, RecycleGPError, warn_user

ROWS_PER_LEVEL = 5  # k. Statistical offices ask for 3 to 10 people in a cell of a table; by hand
MOST_LEVELS_UNASKED = 12  # of a column that nobody has named: enough for months, not for most lists of people; by hand
FEWEST_NUMBERED = 20  # rows, below which numbers are often all different by chance
OTHER = "other"  # what rare levels are called together
ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
WRITTEN_DATE = r"\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})|\d{4}[./]\d{1,2}[./]\d{1,2}"
MONTH, DAY = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?", r"\d{1,2}(st|nd|rd|th)?"
DATE_IN_WORDS = rf"{DAY}[ ./-]*{MONTH}[ ,./-]*(\d{{4}}|\d{{2}})|{MONTH} *{DAY},? *\d{{4}}"


@dataclass(frozen=True)
class LevelGuard:
    """Looks at columns of text before their levels become part of a model."""

    named: frozenset[Any] = frozenset()  # columns, by name or position, all of whose levels may be published
    rows: int = ROWS_PER_LEVEL  # that a level has at least
    known: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # levels that the model has already, by column

    @staticmethod
    def given(categories: Any, **more: Any) -> LevelGuard:
        """As the argument `categories` says it."""
        several = isinstance(categories, Iterable) and not isinstance(categories, (str, Mapping))
        if categories is not None and not (several and all(isinstance(c, (str, int, np.integer)) for c in categories)):
            raise RecycleGPError(Argument("categories", categories), "; pass a list of columns, by name or position")
        return LevelGuard(frozenset(categories or ()), **more)

    def checked(self, texts: np.ndarray, column: int, name: str, what: str, *, may_be_numbers: bool) -> np.ndarray:
        """The levels of a column, those of too few rows under one name; refused if it looks like an id."""
        levels, counts = np.unique(texts, return_counts=True)
        if self.named & {column, name} or set(levels) <= {"True", "False"}:
            return texts
        rows, known = dict(zip(levels.tolist(), counts.tolist(), strict=True)), self.known.get(column, ())
        if not (known or may_be_numbers):
            check_are_words(rows, name, what)
        pool = self.pool(rows, name, what, known)
        self.warn(pool, rows, what, "new levels need as many" if known else None)
        return np.where(np.isin(texts, list(pool)), OTHER, texts) if pool else texts

    def pool(self, counts: Mapping[str, int], name: str, what: str, known: Iterable[str] = ()) -> frozenset[str]:
        """The levels that must not be told apart, of a column with so many rows of each.

        Those of fewer than k rows; and where these are fewer than k rows together, the next rarest with them. Beside
        levels that a model knows already, only those of too few rows.
        """
        new = {level: n for level, n in counts.items() if level not in set(known)}
        rare = {level for level, n in new.items() if n < self.rows and level != OTHER}
        if known:
            return frozenset(rare)
        if 2 * sum(new[level] for level in rare) > sum(new.values()):
            raise _refused(new, name, what, f"as an id would: most rows have one that fewer than {self.rows} rows have")
        found, size = set[str](), new.get(OTHER, 0)
        for level in sorted(new.keys() - {OTHER}, key=lambda level: (new[level], level)) if rare else ():
            if level in rare or size < self.rows:
                found.add(level)
                size += new[level]
        left = len(new.keys() - found - {OTHER})
        if left > MOST_LEVELS_UNASKED:
            raise _refused(new, name, what, f"as an id would: more than {MOST_LEVELS_UNASKED}")
        if found and not left:
            raise _refused(new, name, what, f"and no two groups of them have {self.rows} rows each")
        return frozenset(found)

    def warn(self, pool: frozenset[str], counts: Mapping[str, int], what: str, remedy: str | None = None) -> None:
        """How many, but not which: what is said may be kept somewhere."""
        if pool:
            rare = sum(counts[level] < self.rows for level in pool)
            more = f", together with the next rarest (so that {OTHER!r} has as many)," if len(pool) > rare else ""
            warn_user(
                f"{what}: {rare} of {len(counts)} levels {'has' if rare == 1 else 'have'} fewer than {self.rows} rows, "
                f"and{more} will be called {OTHER!r}; ",
                remedy or Message("to tell all levels apart, name the column: ", Argument("categories")),
                category=IdentifierWarning,
            )


def _refused(counts: Mapping[str, int], name: str, what: str, why: str) -> RecycleGPError:
    texts, rows = f"{len(counts):,} different text{'s' * (len(counts) != 1)}", f"{sum(counts.values()):,} rows"
    return RecycleGPError(
        f"{what} holds {texts} in {rows}, {why}. The file would hold them all: leave the column out",
        Either("", " with --inputs"),
        ", or pass ",
        Argument("categories", [name]),
        " if everybody may read them",
    )


def check_are_words(counts: Mapping[str, int], name: str, what: str) -> None:
    """Numbers and dates that are stored as text would be levels, each with a word of its own."""
    named: tuple[Part, ...] = (", or ", Argument("categories", [name]), " if these are names of levels")
    days = f"pass days, as (pd.to_datetime(X[{name!r}]) - pd.Timestamp(0)) / pd.Timedelta(days=1)"
    comma = ".str.replace(',', '.')" if any("," in text for text in counts) else ""
    numbers = f"pass numbers, as pd.to_numeric(X[{name!r}]{comma})"
    for kind, are, remedies in (
        ("dates", is_date, (days, "write them as 2026-03-01 and add --dates days")),
        ("numbers", is_number, (numbers, "write them as numbers")),
    ):
        if 2 * sum(n for text, n in counts.items() if are(text)) >= sum(counts.values()):
            raise RecycleGPError(f"{what} holds {kind} as text; ", Either(*remedies), *named)


def is_number(text: str) -> bool:
    """Also with a decimal comma."""
    try:
        float(text.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    return re.fullmatch(f"{ISO_DATE}|{WRITTEN_DATE}|{DATE_IN_WORDS}", text.strip(), re.IGNORECASE) is not None


def warn_of_record_numbers(X: Any, columns: Iterable[str] | None, skipped: Iterable[int] = ()) -> None:
    """Of columns of a table, among others, in which every row has another whole number."""
    if (
        columns is None
        or getattr(X, "is_cuda", False)
        or X.shape[1] - len(set(skipped)) < 2
        or len(X) < FEWEST_NUMBERED
    ):
        return
    for j, name in enumerate(columns):
        if j in skipped:
            continue
        values = np.asarray(X[:, j])
        if bool((values == np.round(values)).all()) and len(np.unique(values)) == len(values):
            warn_user(
                f"column {name!r} looks like a record number: every row has another whole number; leave it out",
                Either("", " with --inputs"),
                ", unless it is a quantity",
                category=IdentifierWarning,
            )


def check_classes(labels: Iterable[str], k: int = ROWS_PER_LEVEL) -> None:
    """Class labels are words, too: refuse them where most rows have one that few have, else warn of rare ones."""
    texts, counts = np.unique(np.array(list(labels), dtype=str), return_counts=True)
    words = ~np.array([is_number(text) for text in texts], dtype=bool)
    rare = words & (counts < k)
    if not rare.any():
        return
    said = f"y has {int(rare.sum())} of {len(texts)} classes with fewer than {k} rows; their labels go into the file"
    remedy: tuple[Part, ...] = ("pass ", Argument("classes"), " with all labels, if everybody may read them")
    if 2 * counts[rare].sum() > counts.sum():
        raise RecycleGPError(f"{said}, as ids would; ", *remedy)
    warn_user(f"{said}; leave those rows out, or ", *remedy, category=IdentifierWarning)

"""Scores of the rows of a table: gathered as rows come, as values for machines, and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from .. import metrics
from ..errors import RecycleGPError
from ..magnitudes import in_digits
from ..metrics import Evaluated, OutputRows, Score
from ..models.calibration import Calibrated
from .lines import Table
from .screen import plain_table, say, show
from .tables import MISSING

ALONE = ""  # the name of what a model says, where that is one thing

# what is said of classes and of numbers: a heading, and the field of the facts
OF_CLASSES = {"log-loss": "log_loss", "Brier": "brier", "AUROC": "auroc", "ECE": "ece", "error rate": "error_rate"}
OF_NUMBERS = {"NLPD": "nlpd", "CRPS": "crps", "RMSE": "rmse", "MAE": "mae"}
MOST_GROUPS, QUARTERS = 20, 4  # values of a column that are groups of their own, and else as many groups
COVERAGES = {"50%": "coverage_50", "80%": "coverage_80", "95%": "coverage"}

Facts = dict[str, Any]


@dataclass
class Gathered:
    """What rows say, some at a time: of each output, or of the one thing that a model is about."""

    by: str | None = None  # the column of groups
    tuned: Calibrated | None = None
    _rows: dict[str, list[Evaluated]] = field(default_factory=dict)
    _values: dict[str, list[pd.Series]] = field(default_factory=dict)  # of that column
    _held: list[list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=list)

    def add(self, found: Mapping[str, OutputRows] | Evaluated, kept: pd.DataFrame) -> None:
        """Some rows, with the columns that are carried along beside them."""
        each = {ALONE: OutputRows(np.arange(len(kept)), found)} if isinstance(found, Evaluated) else found
        for name, (at, rows) in each.items():
            self._rows.setdefault(name, []).append(rows)
            if self.by is not None:
                self._values.setdefault(name, []).append(kept[self.by].iloc[at])

    def compare(self, X: pd.DataFrame, y: Any) -> None:
        """Some rows with their calibrated intervals or sets, where there are any."""
        if self.tuned is None:
            return
        output = self.tuned.calibration.output
        if output is not None:  # in the rows in which it was seen
            own = np.asarray(y[output] if hasattr(y, "columns") else y, dtype=float)
            own = own if own.ndim == 1 else own[:, self.tuned.model.outputs.index(output)]
            X, y = X[np.isfinite(own)], own[np.isfinite(own)]
        self._held.append(_held(self.tuned, X, y))

    @property
    def rows(self) -> dict[str, Evaluated]:
        """All of them."""
        return {name: metrics.concatenate(parts) for name, parts in self._rows.items()}

    @property
    def facts(self) -> dict[str, Facts]:
        """Of each output, with its groups where there are any."""
        return {name: self._facts(name, rows) for name, rows in self.rows.items()}

    def _facts(self, name: str, rows: Evaluated) -> Facts:
        facts: Facts = {"rows": len(rows.y), **_of(metrics.summary(rows))}
        if self.tuned is not None and name in (ALONE, self.tuned.calibration.output):
            facts["calibrated"] = _calibrated(self.tuned, self._held)
        if self.by is not None:
            split = groups(pd.concat(self._values[name], ignore_index=True), self.by)
            each = ({"group": g, "rows": len(at), **_of(metrics.summary(rows.only(at)))} for g, at in split)
            facts |= {"by": self.by, "groups": list(each)}
        return facts


def _of(found: Score) -> Facts:
    """By name; what cannot be said of so few rows is null."""
    facts: Facts = {"nlpd": found.nlpd, "rmse": found.rmse, "mae": found.mae, "of": found.on}
    if math.isnan(found.error):
        facts |= {"crps": found.crps, "coverage": found.coverage}
        facts |= {"coverage_50": found.coverage_50, "coverage_80": found.coverage_80}
    else:
        facts |= {"log_loss": found.nlpd, "brier": found.brier, "auroc": found.auroc, "ece": found.ece}
        facts["error_rate"] = found.error
        facts |= {} if math.isnan(found.crps) else {"crps": found.crps}  # of levels in an order
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}


def _held(tuned: Calibrated, X: pd.DataFrame, y: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each level that is calibrated, which rows hold y, and how wide their intervals, or large their sets, are."""
    found = []
    for level in tuned.calibration.levels:
        if tuned.is_of_classes:
            size = np.asarray(tuned.predict_set(X, level)).sum(1)
        else:
            low, high = tuned.predict_interval(X, level)
            size = np.asarray(high) - np.asarray(low)
        found.append((tuned.covers(X, y, level), size))
    return found


def _calibrated(tuned: Calibrated, held: list[list[tuple[np.ndarray, np.ndarray]]]) -> list[Facts]:
    name = "mean_classes" if tuned.is_of_classes else "mean_width"
    return [
        {
            "level": level,
            "coverage": float(np.concatenate([part[i][0] for part in held]).mean()),
            name: float(np.concatenate([part[i][1] for part in held]).mean()),
        }
        for i, level in enumerate(tuned.calibration.levels)
    ]


def groups(values: pd.Series, column: str) -> list[tuple[str, np.ndarray]]:
    """Names and positions of rows: a group for each value of a column, or four for a column of many numbers.

    They are in the order of numbers, or of letters; rows without a value come last.
    """
    text = values.astype(object).where(values.notna(), "").map(str).str.strip()
    absent = (values.isna() | text.isin(MISSING)).to_numpy()
    numbers = pd.to_numeric(text.where(~absent), errors="coerce")
    numeric = bool((numbers.notna() | absent).all())
    keys = numbers if numeric else text
    known = sorted(keys[~absent].unique())
    if len(known) <= MOST_GROUPS:
        found = [(f"{v:g}" if numeric else str(v), np.flatnonzero((keys == v) & ~absent)) for v in known]
    elif numeric:
        found = _quarters(numbers.to_numpy(dtype=float), absent)
    else:
        raise RecycleGPError(
            f"--by {column}: it holds {len(known)} different texts, as {known[0]!r}; name a column with at most "
            f"{MOST_GROUPS}"
        )
    return [*found, *([("(missing)", np.flatnonzero(absent))] if absent.any() else [])]


def _quarters(numbers: np.ndarray, absent: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """As many rows in each, as far as equal numbers stay together."""
    edges = np.unique(np.quantile(numbers[~absent], np.linspace(0, 1, QUARTERS + 1)))
    at = np.clip(np.searchsorted(edges, numbers, side="left"), 1, len(edges) - 1)
    ends = range(1, len(edges))
    return [(f"{edges[k - 1]:.4g} to {edges[k]:.4g}", np.flatnonzero((at == k) & ~absent)) for k in ends]


def draw(path: Path, found: Mapping[str, Evaluated], title: str, positive: str = "class 1") -> None:
    """A panel for each output: a PIT histogram, or for classes a reliability curve, of two that of `positive`."""
    from ..plot import pit, reliability, scores

    def panel(rows: Evaluated) -> Any:
        if rows.proba is None:
            shares = metrics.pit_histogram(rows.below, rows.up_to)
            return lambda ax: pit(shares, len(rows.y), ax)
        curve = metrics.reliability(rows.proba, rows.y)
        of = positive if rows.proba.shape[1] == 2 else "the most probable class"
        return lambda ax: reliability(curve, ax, of=of)

    scores.save(path, {name: panel(rows) for name, rows in found.items()}, title)


# --- in words ---------------------------------------------------------------------------------


def say_one(facts: Facts) -> None:
    """Of a model that is about one thing."""
    classes = "error_rate" in facts
    words = {"rows": f"{facts['rows']:,}"}
    words |= {name: _number(facts[key]) for name, key in (OF_CLASSES if classes else OF_NUMBERS).items()}
    if classes and "crps" in facts:
        words["CRPS"] = _number(facts["crps"])
    if not classes:
        said = [f"{_number(facts[key])} of {level}" for level, key in COVERAGES.items()]
        words["coverage"] = f"{', '.join(said)} bands"
    for row in facts.get("calibrated", []):
        size = f"{row['mean_classes']:.4g} classes" if classes else f"{row['mean_width']:.4g} wide"
        words[f"calibrated {100 * row['level']:g}%"] = f"{_number(row['coverage'])}, {size} in the mean"
    if "plot" in facts:
        words["figure"] = facts["plot"]
    say(words)
    if "by" in facts:
        typer.echo()
        rows = [{"name": row["group"], **row} for row in (*facts["groups"], {"group": "all", **facts})]
        show(_table(facts["by"], rows, classes))


def say_each(facts: Facts) -> None:
    """Of several outputs: those of numbers in one table, those of classes in another, then the groups of each."""
    found = facts["scores"]
    for classes in (False, True):
        alike = [row for row in found if ("error_rate" in row) is classes]
        if alike:
            show(_table("output", alike, classes))
    for row in found:
        if "groups" in row:
            typer.echo()
            several = [{"name": group["group"], **group} for group in row["groups"]]
            show(_table(f"{row['name']}, by {row['by']}", several, "error_rate" in row))
    if "plot" in facts:
        say({"figure": facts["plot"]})


def _table(first: str, rows: list[Facts], classes: bool) -> Table:
    columns = OF_CLASSES if classes else {**OF_NUMBERS, **COVERAGES}
    table = plain_table(first, "rows", *columns, folded=1)
    for row in rows:
        table.add_row(row["name"], f"{row['rows']:,}", *(_number(row[key]) for key in columns.values()))
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else in_digits(value)

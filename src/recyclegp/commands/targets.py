"""The target columns of a table, and how they are read: as the likelihood of a model takes y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..errors import RecycleGPError
from .tables import Table, listed

if TYPE_CHECKING:
    from ..likelihoods import Likelihood

ONE = "one function"  # the meaning of likelihoods that take a number, or two classes
# what becomes of cells that are missing: of several targets (allow), of inputs (the last two)
REFUSE, ALLOW, IMPUTE, MARGINALISE = "refuse", "allow", "impute", "marginalise"
FILL = (IMPUTE, MARGINALISE)


class Reading(Enum):
    NUMBERS = "numbers"
    TWO_CLASSES = "two classes"  # 0 and 1, or words of which one is 1
    LABELS = "labels"  # of any number of classes, as they are written


@dataclass(frozen=True)
class Targets:
    """The column of y, or those of several outputs."""

    readings: Mapping[str, Reading]  # by column
    outputs: tuple[str, ...] = ()  # that y has a column for, also where the table has none; none of a single target
    positive: str | None = None  # the label of class 1, where it is not the number 1
    gaps: bool = False  # may cells be missing?
    filled: bool = False  # may inputs be missing, which are filled in before the fit?
    censored: str | None = None  # the column that says in which rows a time is all that was waited

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.readings)

    def y(self, cells: Mapping[str, np.ndarray]) -> Any:
        """As the library takes it: one column, or a table of all outputs, NaN where one was not seen."""
        if not self.outputs:
            return cells[self.names[0]]
        unseen = np.full(len(cells[self.names[0]]), np.nan)
        return pd.DataFrame({name: cells.get(name, unseen) for name in self.outputs})


def target_names(given: Sequence[str], table: Table) -> list[str]:
    """The target columns: named one by one, or separated by commas."""
    found = [name for text in given for name in listed(text, table.names)]
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise RecycleGPError(f"--target: {', '.join(twice)} is named twice; name each column once")
    if not found:
        raise RecycleGPError("--target: it names no column; name at least one")
    return found


def to_fit(
    names: Sequence[str],
    likelihood: Likelihood,
    missing: str,
    positive: str | None,
    classes: str | None,
    censored: str | None = None,
) -> Targets:
    """Several columns are as many outputs, each of this likelihood, unless that has several functions itself."""
    if classes is not None and _reading(likelihood) is not Reading.LABELS:
        raise RecycleGPError(f"--classes {classes}: they are for --likelihood categorical and ordinal")
    if likelihood.meaning != ONE or likelihood.names_classes:
        _check_one(names, f"--likelihood {likelihood.name}")
    several = tuple(names) if len(names) > 1 else ()
    found = _targets({name: likelihood for name in names}, several, missing, positive, (REFUSE, ALLOW, *FILL))
    return _with_censored(found, likelihood, censored)


def of_model(
    names: Sequence[str], likelihood: Likelihood, missing: str, positive: str | None, censored: str | None = None
) -> Targets:
    """Columns that are checked against the functions of a model, whose likelihood this is."""
    outputs = outputs_of(likelihood)
    if not outputs:
        _check_one(names, f"a model of {likelihood.meaning}")
        return _with_censored(_targets({names[0]: likelihood}, (), missing, positive), likelihood, censored)
    parts = dict(zip(outputs, likelihood.parts, strict=True))
    strange = [name for name in names if name not in parts]
    if strange:
        raise RecycleGPError(f"--target {','.join(strange)}: the model has no such output; it has {', '.join(outputs)}")
    absent = [name for name in outputs if name not in names]
    if absent and missing == REFUSE:
        raise RecycleGPError(
            f"--target: {len(names)} of the model's {len(outputs)} outputs; name also {', '.join(absent)}, or add "
            "--missing allow, where they were not seen"
        )
    found = _targets({name: parts[name] for name in names}, outputs, missing, positive)
    return _with_censored(found, likelihood, censored)


def outputs_of(likelihood: Likelihood) -> tuple[str, ...]:
    """The names of outputs, where a model has several columns of y."""
    return likelihood.functions if likelihood.predicts_all and not likelihood.classifies else ()


def _targets(
    parts: Mapping[str, Likelihood],
    outputs: tuple[str, ...],
    missing: str,
    positive: str | None,
    ways: tuple[str, ...] = (REFUSE, ALLOW),
) -> Targets:
    readings = {name: _reading(part) for name, part in parts.items()}
    if missing not in ways:
        more = " (this is for fit)" if missing in FILL else ""
        raise RecycleGPError(f"--missing {missing}: use {', '.join(ways[:-1])} or {ways[-1]}{more}")
    if missing == ALLOW and not outputs:
        raise RecycleGPError("--missing allow: it is for several outputs; of a single target use --drop-missing")
    if positive is not None and outputs:
        raise RecycleGPError(f"--positive {positive}: it is for a single target; write the classes of each as 0 and 1")
    if positive is not None and Reading.LABELS in readings.values():
        raise RecycleGPError(
            f"--positive {positive}: it is for --likelihood bernoulli; categorical and ordinal take labels as they are"
        )
    if positive is not None and Reading.TWO_CLASSES not in readings.values():
        raise RecycleGPError(f"--positive {positive}: it is for classes; use --likelihood bernoulli")
    filled = missing in FILL
    return Targets(readings, outputs, positive, missing == ALLOW or (filled and bool(outputs)), filled)


def _with_censored(found: Targets, likelihood: Likelihood, censored: str | None) -> Targets:
    if censored is None:
        return found
    if not likelihood.censors or found.outputs:
        raise RecycleGPError(f"--censored {censored}: it is for one target, of --likelihood survival")
    return replace(found, censored=censored)


def _reading(likelihood: Likelihood) -> Reading:
    if not likelihood.classifies:
        return Reading.NUMBERS
    return Reading.LABELS if likelihood.names_classes else Reading.TWO_CLASSES


def _check_one(names: Sequence[str], what: str) -> None:
    if len(names) > 1:
        raise RecycleGPError(f"--target {','.join(names)}: {what} has one target; name one column")

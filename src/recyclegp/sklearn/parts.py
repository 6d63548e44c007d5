"""Rows, checked and divided into the parts that become modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import _check_sample_weight, validate_data

from ..anonymity import warn_of_record_numbers
from ..arrays import CodedInputs, holds_categories, inputs
from ..errors import RecycleGPError
from ..local.options import COMPLETED, OPTIONS, FitOptions
from ..models.fit import fit, fit_many
from ..models.module import Module
from ..models.naming import name_or_new
from ..target import target_name


class Rows(NamedTuple):
    """Rows that are fitted together, checked."""

    X: np.ndarray | CodedInputs
    y: np.ndarray
    weights: np.ndarray | None  # how often each counts; None: once
    owner: np.ndarray | str | None  # whose they are: one for each row, or for all

    def take(self, chosen: np.ndarray) -> Rows:
        weights = None if self.weights is None else self.weights[chosen]
        owner = self.owner[chosen] if isinstance(self.owner, np.ndarray) else self.owner
        return Rows(self.X[chosen], self.y[chosen], weights, owner)


def checked(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    owner: Any = None,
    *,
    numeric: bool = False,
    reset: bool = True,
) -> Rows:
    """What is to be fitted, as scikit-learn checks it; rows of weight zero are left out."""
    X, y = _inputs_and_targets(estimator, X, y, numeric, reset)
    y = _numbers(y) if numeric else column_or_1d(y, warn=True)
    if owner is not None and not isinstance(owner, str):
        owner = column_or_1d(owner).astype(str)
        check_consistent_length(X, owner)
    rows = Rows(X, y, None, owner)
    if sample_weight is None:
        return rows
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    counts = weights > 0
    if not counts.any():
        raise RecycleGPError("sample_weight is zero for all rows; some must count")
    if not counts.all():
        rows, weights = rows.take(counts), weights[counts]
    return rows if (weights == 1).all() else rows._replace(weights=weights)


def _inputs_and_targets(estimator: Any, X: Any, y: Any, numeric: bool, reset: bool) -> tuple[Any, Any]:
    """Where X has categories, its numbers and their codes."""
    guard = FitOptions.of(categories=estimator.categories, privacy=estimator.privacy).level_guard
    if not holds_categories(X) and not guard.named:
        how = {"dtype": np.float64, "y_numeric": numeric, "multi_output": numeric, "reset": reset}
        if estimator.missing in COMPLETED:
            how["ensure_all_finite"] = "allow-nan"
            if numeric and np.asarray(y).dtype.kind == "f" and np.isnan(y).any():
                raise RecycleGPError("y holds missing values; drop those rows first")
        numbers, y = validate_data(estimator, X, y, **how)
        warn_of_record_numbers(numbers, getattr(X, "columns", None))
        return numbers, y
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if numeric:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(X, y)
    if not reset:
        guard = replace(guard, known=dict(estimator.ensemble_.categories.levels))
    found = inputs(X, guard=guard)
    return CodedInputs(found.X.numpy(), found.columns, found.categories), y


def _numbers(y: Any) -> np.ndarray:
    """(n,), or (n, C) of several outputs."""
    if hasattr(y, "toarray"):
        raise RecycleGPError("y is sparse; pass a dense array of numbers")
    y = np.asarray(y, dtype=np.float64)
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def target_names(y: Any) -> str | list[str] | None:
    """What y is called; of a DataFrame with several columns what they are."""
    columns = [str(c) for c in getattr(y, "columns", [])]
    return columns if len(columns) > 1 else target_name(y)


def fitted_modules(
    estimator: Any, rows: Rows, likelihood: str, old: Sequence[Module] = (), **options: Any
) -> list[Module]:
    """A module for each region of each owner's rows."""
    own = {name: value for name, value in estimator.get_params(deep=False).items() if name in OPTIONS}
    options = own | options | {"likelihood": likelihood, "seed": seed_of(estimator.random_state)}
    parts = _parts(estimator, rows, old)
    workers = min(effective_n_jobs(estimator.n_jobs), len(parts))
    shares = np.array_split(np.arange(len(parts)), workers)  # each worker's parts are fitted side by side
    groups = Parallel(n_jobs=workers)(delayed(_fitted)([parts[i] for i in share], options) for share in shares)
    found = [m for group in groups for m in group]
    columns = getattr(estimator, "feature_names_in_", None)
    return found if columns is None else [m.with_columns([str(c) for c in columns]) for m in found]


class Part(NamedTuple):
    rows: Rows
    name: str
    owner: str | None  # None: the module's name


def _parts(estimator: Any, rows: Rows, old: Sequence[Module]) -> list[Part]:
    if rows.owner is None:
        own = [rows.take(some) for some in regions(_free_columns(rows.X), estimator.n_partitions)]
        names = [_name(estimator.name, len(old) + i) for i in range(len(own))]
        whose = names[0] if len(own) > 1 else None  # parts of one data set have one owner
        return [Part(some, name, whose) for some, name in zip(own, names, strict=True)]
    each = np.full(len(rows.X), rows.owner) if isinstance(rows.owner, str) else rows.owner
    sent = Counter(m.owner for m in old)
    parts = []
    for owner in dict.fromkeys(each.tolist()):
        theirs = rows.take(each == owner)
        stem = owner if estimator.name is None else f"{estimator.name}-{owner}"
        for some in regions(_free_columns(theirs.X), estimator.n_partitions):
            parts.append(Part(theirs.take(some), _name(stem, sent[owner]), owner))
            sent[owner] += 1
    return parts


def _fitted(parts: Sequence[Part], options: dict[str, Any]) -> list[Module]:
    if all(part.rows.weights is None for part in parts):
        data, names = [(part.rows.X, part.rows.y) for part in parts], [part.name for part in parts]
        found = list(fit_many(data, names=names, progress=False, allow_small=True, **options))
    else:
        found = [fit(r.X, r.y, weights=r.weights, name=name, allow_small=True, **options) for r, name, _ in parts]
    return [m if part.owner is None else m.owned_by(part.owner) for m, part in zip(found, parts, strict=True)]


def _free_columns(X: np.ndarray | CodedInputs) -> np.ndarray:
    """The columns by which rows are divided into regions: those of numbers, where there are some."""
    if not isinstance(X, CodedInputs):
        return X
    free = [j for j in range(X.X.shape[1]) if j not in X.categories.columns]
    whole: np.ndarray = X.X
    return whole[:, free] if free else whole


def regions(X: np.ndarray, count: int) -> list[np.ndarray]:
    """Rows in `count` regions of equal size: halved across the widest column (in standard deviations), and again."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= len(X):
        raise RecycleGPError(f"n_partitions={count!r} for {len(X)} rows; pass a whole number from 1 to {len(X)}")
    if count > 1 and np.isnan(X).any():
        raise RecycleGPError(f"n_partitions={count!r}: rows that lack an input lie in no region; use 1, or fill them")
    sd = X.std(0)
    scaled = X / np.where(sd > 0, sd, 1.0)

    def halved(rows: np.ndarray, count: int) -> list[np.ndarray]:
        if count == 1:
            return [rows]
        widest = int(np.ptp(scaled[rows], axis=0).argmax())
        rows = rows[np.argsort(scaled[rows, widest], kind="stable")]
        left = count // 2
        cut = len(rows) * left // count
        return [*halved(rows[:cut], left), *halved(rows[cut:], count - left)]

    return halved(np.arange(len(X)), int(count))


def _name(stem: str | None, position: int) -> str:
    return name_or_new(stem if stem is None or position == 0 else f"{stem}-{position + 1}")


def seed_of(random_state: Any) -> int:
    """An integer is the seed itself; from anything else one is drawn, as scikit-learn does."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))

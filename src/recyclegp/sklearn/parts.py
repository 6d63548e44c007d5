"""What both estimators do: fit the regions of their rows, keep modules, and check what is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arrays import CodedInputs, holds_categories, inputs
from ..errors import RecycleGPError
from ..models.ensemble import Ensemble
from ..models.fit import fit_many
from ..models.merge import merge
from ..models.module import Module
from ..models.naming import name_or_new
from ..target import LONGEST


def fitted_modules(
    estimator: Any, X: np.ndarray | CodedInputs, y: np.ndarray, likelihood: str, taken: int = 0, **options: Any
) -> list[Module]:
    """A module for each region of the rows."""
    parts = regions(_numbers(X), estimator.n_partitions)
    names = [_name(estimator.name, taken + i) for i in range(len(parts))]
    options |= {k: getattr(estimator, k) for k in ("kernel", "inducing", "publish", "rows_per_point", "learn")}
    options |= {"likelihood": likelihood, "seed": seed_of(estimator.random_state)}
    options |= {"progress": False, "allow_small": True}
    if hasattr(estimator, "method"):
        options["method"] = estimator.method
    workers = min(effective_n_jobs(estimator.n_jobs), len(parts))
    shares = np.array_split(np.arange(len(parts)), workers)  # each worker's parts are fitted side by side
    groups = Parallel(n_jobs=workers)(
        delayed(fit_many)([(X[parts[i]], y[parts[i]]) for i in share], names=[names[i] for i in share], **options)
        for share in shares
    )
    columns = getattr(estimator, "feature_names_in_", None)
    found = [module for group in groups for module in group]
    if len(found) > 1:  # parts of one data set have one owner
        found = [m.owned_by(names[0]) for m in found]
    return found if columns is None else [replace(m, columns=tuple(map(str, columns))) for m in found]


def checked(
    estimator: Any, X: Any, y: Any, *, y_numeric: bool = False, reset: bool = True
) -> tuple[np.ndarray | CodedInputs, np.ndarray]:
    """X and y as scikit-learn checks them; where X has categories, its numbers and their codes."""
    if not holds_categories(X):
        X, y = validate_data(estimator, X, y, dtype=np.float64, y_numeric=y_numeric, reset=reset)
        return X, column_or_1d(y, warn=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    y = column_or_1d(y, warn=True)
    if y_numeric:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(X, y)
    found = inputs(X)
    return CodedInputs(found.X.numpy(), found.columns, found.categories), y


def _numbers(X: np.ndarray | CodedInputs) -> np.ndarray:
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


def take(estimator: Any, old: Sequence[Module], new: Sequence[Module]) -> Any:
    """The estimator with these modules and their ensemble."""
    modules = [*old, *new]
    estimator.ensemble_ = _ensemble(estimator, modules)
    estimator.modules_ = modules
    estimator.n_features_in_ = estimator.ensemble_.dimension
    if estimator.ensemble_.columns is not None:
        estimator.feature_names_in_ = np.array(estimator.ensemble_.columns, dtype=object)
    return estimator


def _ensemble(estimator: Any, modules: Sequence[Module]) -> Ensemble:
    points, learn = estimator.ensemble_inducing, estimator.learn
    if len(modules) == 1:  # the ensemble is the module itself, with its own kernel and points
        points, learn = CodedInputs(modules[0].inducing), False
    return merge(modules, inducing=points, learn=learn, owners=estimator.owners, trust=estimator.trust)


def asked(estimator: Any, X: Any) -> Any:
    """Where to predict, checked; levels are matched by name where the model knows some."""
    check_is_fitted(estimator)
    if estimator.ensemble_.categories:
        return validate_data(estimator, X, reset=False, skip_check_array=True)
    return validate_data(estimator, X, reset=False, dtype=np.float64)


def unfitted(estimator: Any) -> Any:
    check_is_fitted(estimator)
    return clone(estimator)


def modules_of(others: Any, estimator: Any) -> list[Module]:
    kind = type(estimator)
    if isinstance(others, (Module, kind)) or not isinstance(others, Iterable):
        others = [others]
    found: list[Module] = []
    for other in others:
        if isinstance(other, Module):
            found.append(other)
        elif isinstance(other, kind):
            check_is_fitted(other)
            labels = getattr(other, "classes_", None)
            if labels is not None and not np.array_equal(labels, estimator.classes_):
                raise RecycleGPError(
                    f"merge: labels {labels.tolist()} against {estimator.classes_.tolist()}; name classes alike first"
                )
            found += other.modules_
        else:
            raise TypeError(f"merge takes {kind.__name__} or Module objects, not {type(other).__name__}")
    return found


def _name(stem: str | None, position: int) -> str:
    return name_or_new(stem if stem is None or position == 0 else f"{stem}-{position + 1}")


def seed_of(random_state: Any) -> int:
    """An integer is the seed itself; from anything else one is drawn, as scikit-learn does."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def two_classes(y: Any) -> np.ndarray:
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind != "binary":
        # These are the words that scikit-learn's own checks expect.
        raise RecycleGPError(
            f"Only binary classification is supported. The type of the target is {kind}; use OneVsRestClassifier"
        )
    classes: np.ndarray = np.unique(column_or_1d(y))
    if len(classes) != 2:
        raise RecycleGPError(f"y holds one class, {classes[0]!r}; two are needed (partial_fit takes classes=)")
    return classes


def words_of(classes: np.ndarray) -> tuple[str, str] | None:
    """Labels as files hold them, where they can."""
    words = tuple(str(label) for label in classes)
    fits = all(0 < len(word) <= LONGEST and word.isprintable() for word in words) and words[0] != words[1]
    return (words[0], words[1]) if fits else None


def encoded(y: Any, classes: np.ndarray) -> np.ndarray:
    """Labels → 0 and 1."""
    y = column_or_1d(y, warn=True)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise RecycleGPError(f"y holds {unknown[:5].tolist()}, but the labels are {classes.tolist()}")
    return (y == classes[1]).astype(np.float64)

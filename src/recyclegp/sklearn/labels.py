"""Labels of classes: as users have them, in `classes_`, and as modules hold them, which is text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ..errors import RecycleGPError
from ..likelihoods import Bernoulli, BernoulliProbit, DirichletCategorical, Ordinal, SoftmaxCategorical, check_names
from ..likelihoods.labels import label, ordered_categories
from ..target import LONGEST

AUTO = "auto"
OF_TWO = (Bernoulli.name, BernoulliProbit.name)
OF_ANY = (DirichletCategorical.name, SoftmaxCategorical.name)
OF_LEVELS = Ordinal.name


def classes_of(y: Any) -> np.ndarray:
    """Which labels there are, in order: at least two."""
    check_classification_targets(y)
    classes: np.ndarray = np.unique(column_or_1d(y, warn=True))
    if len(classes) < 2:
        raise RecycleGPError(f"y holds one class, {classes[0]!r}; two are needed (partial_fit takes classes=)")
    return classes


def likelihood_for(wanted: Any, classes: np.ndarray) -> str:
    """That of two classes, or of any number."""
    if wanted == AUTO:
        return OF_TWO[0] if len(classes) == 2 else OF_ANY[0]
    known = (*OF_TWO, *OF_ANY, OF_LEVELS)
    if wanted not in known:
        raise RecycleGPError(f"likelihood={wanted!r}; use {AUTO}, {', '.join(known)}")
    if wanted in OF_TWO and len(classes) > 2:
        # These are the words that scikit-learn's own checks expect.
        raise RecycleGPError(
            f"Only binary classification is supported by likelihood {wanted!r}, and there are {len(classes)} classes; "
            f"use {' or '.join(OF_ANY)}"
        )
    return str(wanted)


def in_order(levels: Any, y: Any, likelihood: Any) -> list[Any] | None:
    """All labels from the lowest to the highest, where somebody says so: `levels`, or a column of pandas."""
    if likelihood != OF_LEVELS:
        if levels is not None:
            raise RecycleGPError(f"levels={levels!r}: they are for likelihood={OF_LEVELS!r}; leave them out")
        return None
    return ordered_categories(y) if levels is None else list(levels)


def words_in_order(classes: np.ndarray, levels: Sequence[Any] | None) -> list[str]:
    """Labels as modules of levels hold them, from the lowest to the highest; numbers sort themselves."""
    if levels is not None:
        return [label(each) or "" for each in levels]
    if classes.dtype.kind not in "iufb":
        raise RecycleGPError(
            f"y holds the labels {classes.tolist()[:6]}, whose order nobody has said; pass levels= with all of them, "
            "from the lowest to the highest"
        )
    return words_of(classes)


def check_known(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels (n,), all of which are among the classes."""
    y = column_or_1d(y, warn=True)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise RecycleGPError(f"y holds {unknown[:5].tolist()}, but the labels are {classes.tolist()}")
    return y


def words_of_two(classes: np.ndarray) -> tuple[str, str] | None:
    """Two labels as files hold them, where they can: modules of two classes do without."""
    words = tuple(str(each) for each in classes)
    fits = all(0 < len(word) <= LONGEST and word.isprintable() for word in words) and words[0] != words[1]
    return (words[0], words[1]) if fits else None


def words_of(classes: np.ndarray) -> list[str]:
    """Labels as modules of classes hold them, by which these are matched."""
    words = [label(each) or "" for each in classes.tolist()]
    if len(set(words)) < len(words):
        raise RecycleGPError(f"labels {classes.tolist()} are not different as text; give classes other names")
    check_names(words, "a class")
    return words


def named_like(words: Sequence[str], classes: np.ndarray) -> np.ndarray:
    """Labels of these texts, of the kind that the classes are."""
    known = dict(zip(words_of(classes), classes.tolist(), strict=True))
    makers: dict[str, Callable[[str], Any]] = {"i": int, "u": int, "f": float, "b": known.__getitem__}
    make = makers.get(classes.dtype.kind, str)
    try:
        return np.array([known[word] if word in known else make(word) for word in words])
    except (ValueError, KeyError):
        raise RecycleGPError(
            f"merge: classes {list(words)} against labels {classes.tolist()}; name classes alike first"
        ) from None


def all_classes(estimator: Any, items: Sequence[Any]) -> np.ndarray:
    """The labels of a classifier and of those it is merged with: other classifiers, and modules."""
    ours: np.ndarray = estimator.classes_
    of_two = estimator.likelihood_ in OF_TWO
    for item in items:
        theirs = getattr(item, "classes_", None)
        if (item.likelihood_ in OF_TWO if theirs is not None else not item.likelihoods[0].names_classes) != of_two:
            raise RecycleGPError(
                "merge: some have two classes, 0 and 1, and others have classes by name; fit all of them with "
                f"likelihood={OF_ANY[0]!r}"
            )
        if not of_two:
            ours = united(ours, named_like(item.classes, ours) if theirs is None else theirs)
        elif theirs is not None and not np.array_equal(theirs, ours):
            raise RecycleGPError(
                f"merge: labels {theirs.tolist()} against {ours.tolist()}; name classes alike first, or fit with "
                f"likelihood={OF_ANY[0]!r}, which has any number of them"
            )
    return ours


def united(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The labels of both, in order, where they are of one kind."""
    text = [classes.dtype.kind in "OUT" for classes in (ours, theirs)]
    truth = [classes.dtype.kind == "b" for classes in (ours, theirs)]
    if text[0] != text[1] or truth[0] != truth[1]:
        raise RecycleGPError(f"merge: labels {theirs.tolist()} against {ours.tolist()}; name classes alike first")
    return np.union1d(ours, theirs)

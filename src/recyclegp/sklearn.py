"""scikit-learn estimators: fit, partial_fit and merge Gaussian processes where pipelines and searches expect them.

    from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor

An estimator is its modules, and one ensemble of them that predicts: `modules_` may be saved, sent and merged
elsewhere; none of them holds a data row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from .errors import RecycleGPError
from .models.ensemble import Ensemble
from .models.fit import fit_many
from .models.merge import merge
from .models.module import Module
from .models.naming import name_or_new
from .target import LONGEST, target_name


class RecyclableGPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian process regression whose fitted parts can be shared and merged.

    Parameters
    ----------
    kernel : a name ("rbf", "matern52 + linear", …) or a GPyTorch kernel in your units.
    noise : noise variance, kept fixed; None learns it.
    method : "auto", "exact", "collapsed" or "dual".
    inducing : number of inducing points of each local fit, or the points; None for the method's default.
    publish : number of points at which each local posterior is published ("auto": 64), or the points. More are
        more accurate and slower.
    learn : False takes a kernel object as it is.
    ensemble_inducing : "auto", number or points of the ensemble, where there are several modules.
    n_partitions : `fit` divides the rows into so many regions, fits them separately, and merges. Regions are better
        than random parts because each of them spends its published points on less of the function
        (`benchmarks/partitions.py` compares them).
    n_jobs : processes in which partitions are fitted (joblib); None is one.
    name : of the first module, the others are numbered; None makes up unique ones.
    random_state : decides where points are placed. An integer (the default is 0) always gives the same answer.

    Attributes
    ----------
    modules_ : list of Module, one for each partition and each call of `partial_fit`.
    ensemble_ : Ensemble, their merge; it answers every question. `ensemble_.noise` is the noise variance.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Standard deviations, covariances and samples are of the function f, as those of scikit-learn's
    GaussianProcessRegressor with `alpha`. Those of a new y (as with its WhiteKernel) add `ensemble_.noise`.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        noise: float | None = None,
        method: str = "auto",
        inducing: Any = None,
        publish: Any = "auto",
        learn: bool = True,
        ensemble_inducing: Any = "auto",
        n_partitions: int = 1,
        n_jobs: int | None = None,
        name: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.method = method
        self.inducing = inducing
        self.publish = publish
        self.learn = learn
        self.ensemble_inducing = ensemble_inducing
        self.n_partitions = n_partitions
        self.n_jobs = n_jobs
        self.name = name
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> RecyclableGPRegressor:
        """Fit (n, D) inputs and n targets, forgetting what was fitted before."""
        name = target_name(y)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = column_or_1d(y, warn=True)
        return _take(self, [], _fitted(self, X, y, "gaussian", noise=self.noise, target=name))

    def partial_fit(self, X: Any, y: Any) -> RecyclableGPRegressor:
        """Fit these rows as a further module, and merge it with those there are.

        The ensemble's kernel and points are chosen anew, as `fit` would: new rows may lie where no point of the
        ensemble is, which `ensemble_.update` could not express. What that costs grows with the number of modules,
        not with the rows behind them.
        """
        old, name = getattr(self, "modules_", []), target_name(y)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=not old)
        y = column_or_1d(y, warn=True)
        return _take(self, old, _fitted(self, X, y, "gaussian", len(old), noise=self.noise, target=name))

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean at each row of X; with it the standard deviation (n,) or the covariance (n, n) of f."""
        if return_std and return_cov:
            raise RecycleGPError("return_std and return_cov: at most one of them can be requested")
        X = _asked(self, X)
        mean, variance = self.ensemble_.predict(X)
        if return_std:
            return mean, np.sqrt(variance)
        if return_cov:
            return mean, self.ensemble_.posterior.joint(torch.tensor(X)).covariance.numpy()
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """(n, n_samples): joint draws of f at the rows of X."""
        X = _asked(self, X)
        draws: np.ndarray = self.ensemble_.sample(X, n_samples, seed=_seed(random_state))
        return draws.T

    def merge(self, others: Any) -> RecyclableGPRegressor:
        """A new estimator with the modules of this one and of others, which stay as they are.

        others : one or several fitted RecyclableGPRegressor or Module (from `rgp.load`, `rgp.from_sklearn`, …).
        """
        return _take(_unfitted(self), self.modules_, _modules_of(others, self))


class RecyclableGPClassifier(ClassifierMixin, BaseEstimator):
    """Gaussian process classification (two classes, logistic) whose fitted parts can be shared and merged.

    Parameters and attributes are those of `RecyclableGPRegressor`, without `noise`, and `classes_`: the two labels,
    of which the second is class 1 of the modules.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        inducing: Any = None,
        publish: Any = "auto",
        learn: bool = True,
        ensemble_inducing: Any = "auto",
        n_partitions: int = 1,
        n_jobs: int | None = None,
        name: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.inducing = inducing
        self.publish = publish
        self.learn = learn
        self.ensemble_inducing = ensemble_inducing
        self.n_partitions = n_partitions
        self.n_jobs = n_jobs
        self.name = name
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> RecyclableGPClassifier:
        """Fit (n, D) inputs and n labels of two kinds, forgetting what was fitted before."""
        name = target_name(y)
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_ = _two_classes(y)
        new = _fitted(self, X, _encoded(y, self.classes_), "bernoulli", target=name, labels=_words(self.classes_))
        return _take(self, [], new)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> RecyclableGPClassifier:
        """Fit these rows as a further module, and merge it with those there are, as the regressor does.

        classes : both labels, needed in the first call where its y holds only one of them.
        """
        old, name = getattr(self, "modules_", []), target_name(y)
        X, y = validate_data(self, X, y, dtype=np.float64, reset=not old)
        if classes is not None:
            classes = _two_classes(classes)
        if not old:
            self.classes_ = _two_classes(y) if classes is None else classes
        elif classes is not None and not np.array_equal(classes, self.classes_):
            raise RecycleGPError(f"classes={classes.tolist()}, but the first call had {self.classes_.tolist()}")
        y, words = _encoded(y, self.classes_), _words(self.classes_)
        return _take(self, old, _fitted(self, X, y, "bernoulli", len(old), target=name, labels=words))

    def predict(self, X: Any) -> np.ndarray:
        """The more probable label for each row of X."""
        more_probable = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[more_probable.astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, 2): probabilities of `classes_`."""
        X = _asked(self, X)
        probabilities: np.ndarray = self.ensemble_.predict_proba(X, likelihood="bernoulli")
        return probabilities

    def merge(self, others: Any) -> RecyclableGPClassifier:
        """A new estimator with the modules of this one and of others, which stay as they are.

        others : one or several fitted RecyclableGPClassifier with the same labels, or Module, whose classes 0 and 1
            are taken to be `classes_`.
        """
        new = _unfitted(self)
        new.classes_ = self.classes_
        return _take(new, self.modules_, _modules_of(others, self))


# --- what both do -----------------------------------------------------------------------------


def _fitted(
    estimator: Any, X: np.ndarray, y: np.ndarray, likelihood: str, taken: int = 0, **options: Any
) -> list[Module]:
    """A module for each region of the rows."""
    parts = regions(X, estimator.n_partitions)
    names = [_name(estimator.name, taken + i) for i in range(len(parts))]
    options |= {k: getattr(estimator, k) for k in ("kernel", "inducing", "publish", "learn")}
    options |= {"likelihood": likelihood, "seed": _seed(estimator.random_state), "progress": False}
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
    return found if columns is None else [replace(m, columns=tuple(map(str, columns))) for m in found]


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


def _take(estimator: Any, old: Sequence[Module], new: Sequence[Module]) -> Any:
    """The estimator with these modules and their ensemble."""
    modules = [*old, *new]
    estimator.ensemble_ = _ensemble(estimator, modules)
    estimator.modules_ = modules
    estimator.n_features_in_ = estimator.ensemble_.dimension
    if estimator.ensemble_.columns is not None:
        estimator.feature_names_in_ = np.array(estimator.ensemble_.columns, dtype=object)
    return estimator


def _ensemble(estimator: Any, modules: Sequence[Module]) -> Ensemble:
    if len(modules) == 1:  # the ensemble is the module itself, with its own kernel and points
        return merge(modules, inducing=modules[0].inducing, learn=False)
    return merge(modules, inducing=estimator.ensemble_inducing, learn=estimator.learn)


def _asked(estimator: Any, X: Any) -> np.ndarray:
    check_is_fitted(estimator)
    checked: np.ndarray = validate_data(estimator, X, reset=False, dtype=np.float64)
    return checked


def _unfitted(estimator: Any) -> Any:
    check_is_fitted(estimator)
    return clone(estimator)


def _modules_of(others: Any, estimator: Any) -> list[Module]:
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


def _seed(random_state: Any) -> int:
    """An integer is the seed itself; from anything else one is drawn, as scikit-learn does."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _two_classes(y: Any) -> np.ndarray:
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


def _words(classes: np.ndarray) -> tuple[str, str] | None:
    """Labels as files hold them, where they can."""
    words = tuple(str(label) for label in classes)
    fits = all(0 < len(word) <= LONGEST and word.isprintable() for word in words) and words[0] != words[1]
    return (words[0], words[1]) if fits else None


def _encoded(y: Any, classes: np.ndarray) -> np.ndarray:
    """Labels → 0 and 1."""
    y = column_or_1d(y, warn=True)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise RecycleGPError(f"y holds {unknown[:5].tolist()}, but the labels are {classes.tolist()}")
    return (y == classes[1]).astype(np.float64)

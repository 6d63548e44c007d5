"""What both estimators are: the modules of their rows, an ensemble of them, and the questions it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arrays import Array, CodedInputs, CountOrPoints
from ..kernels import DEFAULT_KERNEL
from ..local.options import REFUSE, KernelLike, PrivacyLike, PublishLike
from ..models.ensemble import Ensemble
from ..models.merge import merge
from ..models.module import Module

OwnerOfRows: TypeAlias = Any  # a name for all rows, an array with one for each, or None
RandomState: TypeAlias = Any  # as everywhere in scikit-learn: an int, a RandomState, or None
Mergeable: TypeAlias = Any  # a fitted estimator of the same kind, a Module, or several of them


@dataclass(eq=False, repr=False, kw_only=True)
class RecyclableGP(BaseEstimator, ABC):
    """Abstract; the regressor and the classifier are final. Fields are parameters, as scikit-learn knows them."""

    kernel: KernelLike = field(default=DEFAULT_KERNEL, kw_only=False)
    inducing: CountOrPoints = None
    publish: PublishLike = "auto"
    rows_per_point: int | None = None
    privacy: PrivacyLike = None
    learn: bool = True
    hold_back: float | None = None
    missing: str = REFUSE
    categories: Sequence[str | int] | None = None
    ensemble_inducing: CountOrPoints = "auto"
    owners: str | None = None
    trust: str | None = None
    n_partitions: int = 1
    n_jobs: int | None = None
    name: str | None = None
    random_state: RandomState = 0
    likelihood_: str = field(init=False)

    def fit(self, X: Array, y: Array, sample_weight: Array = None, owner: OwnerOfRows = None) -> Self:
        """Fit, forgetting what was fitted before.

        Parameters
        ----------
        X : array or DataFrame of shape (n, D)
            Inputs; columns of text, categoricals and truth values are categories.
        y : array of shape (n,) or (n, C)
            Of a regressor targets; C columns are as many outputs, called like the columns of a DataFrame, else y1,
            y2, … Of a classifier (n,) labels: text, numbers or truth values.
        sample_weight : array of shape (n,) or None
            How often each row counts: a row of weight two is a row that is there twice. Of Gaussian rows f sees the
            noise variance σ²/w, where σ² is that of a single row. Rows of weight zero are left out.
        owner : array of shape (n,), str or None
            Whose rows they are, by name: each owner has modules of its own.

        Returns
        -------
        RecyclableGPRegressor or RecyclableGPClassifier
            This estimator.
        """
        return self._fit(X, y, sample_weight, owner, [])

    def merge(self, others: Mergeable) -> Self:
        """A new estimator with the modules of this one and of others, which stay as they are.

        Parameters
        ----------
        others : estimator of the same kind, Module, or several of them
            Fitted; a Module may come from `rgp.load`, `rgp.from_sklearn` and so on. Classifiers with "categorical" may
            know other classes, which are matched by name. Other classifiers must have the same two labels; classes 0
            and 1 of a Module are taken to be `classes_`.

        Returns
        -------
        RecyclableGPRegressor or RecyclableGPClassifier
            A new estimator.
        """
        check_is_fitted(self)
        kind = type(self)
        items = [others] if isinstance(others, (Module, kind)) or not isinstance(others, Iterable) else list(others)
        for other in items:
            if isinstance(other, kind):
                check_is_fitted(other)
            elif not isinstance(other, Module):
                raise TypeError(f"merge takes {kind.__name__} or Module objects, not {type(other).__name__}")
        new: Self = clone(self)
        new._learn_from(self, items)
        return new._take(self.modules_, [m for item in items for m in (getattr(item, "modules_", None) or [item])])

    @abstractmethod
    def _fit(self, X: Array, y: Array, sample_weight: Array, owner: OwnerOfRows, old: list[Module]) -> Self:
        """Fit these rows beside modules that there are."""

    def _learn_from(self, fitted: Self, items: Sequence[Any]) -> None:
        """What a merged estimator knows besides its modules; `items` are merged with the fitted one."""
        self.likelihood_ = fitted.likelihood_

    def _take(self, old: Sequence[Module], new: Sequence[Module]) -> Self:
        """The estimator with these modules and their ensemble."""
        modules = [*old, *new]
        self.ensemble_ = self._ensemble(modules)
        self.modules_ = modules
        self.n_features_in_ = self.ensemble_.dimension
        if self.ensemble_.columns is not None:
            self.feature_names_in_ = np.array(self.ensemble_.columns, dtype=object)
        return self

    def _ensemble(self, modules: Sequence[Module]) -> Ensemble:
        options: dict[str, Any] = {"owners": self.owners, "trust": self.trust}
        if len(modules) > 1:
            return merge(modules, inducing=self.ensemble_inducing, learn=self.learn, **options)
        # The ensemble is the module itself, with its own kernel and points: those of all functions, where they differ.
        Z = modules[0].inducing
        points = np.unique(np.concatenate(Z), axis=0) if isinstance(Z, tuple) else Z
        return merge(modules, inducing=CodedInputs(points), learn=False, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != REFUSE
        return tags

    def _asked(self, X: Array, *, gaps: bool = False) -> Any:
        """Where to predict, checked; levels are matched by name where the model knows some."""
        check_is_fitted(self)
        if self.ensemble_.categories:
            return validate_data(self, X, reset=False, skip_check_array=True)
        finite = "allow-nan" if gaps and self.missing != REFUSE else True
        return validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=finite)

    def _of_complete_rows(self, X: Array, ask: Callable[[Any], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """What is answered for the rows of X; NaN for those that lack an input."""
        X = self._asked(X, gaps=True)
        complete = np.ones(len(X), dtype=bool) if self.ensemble_.categories else ~np.isnan(X).any(1)
        if complete.all():
            return ask(X)
        found = []
        for answer in ask(X[complete] if complete.any() else np.zeros((1, X.shape[1]))):
            every = np.full((len(X), *answer.shape[1:]), np.nan)
            every[complete] = answer[: complete.sum()]
            found.append(every)
        return tuple(found)

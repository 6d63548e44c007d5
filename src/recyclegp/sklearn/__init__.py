"""scikit-learn estimators: fit, partial_fit and merge Gaussian processes where pipelines and searches expect them.

    from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor

An estimator is its modules, and one ensemble of them that predicts: `modules_` may be saved, sent and merged
elsewhere; none of them holds a data row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..anonymity import check_classes
from ..arrays import Array
from ..errors import RecycleGPError
from ..likelihoods import CHOICES, FAMILIES, Gaussian, Heteroscedastic, Lognormal, StudentT, Survival
from ..models.module import Module
from ..target import target_name
from .estimator import OwnerOfRows, RandomState, RecyclableGP
from .labels import (
    AUTO,
    OF_LEVELS,
    OF_TWO,
    all_classes,
    check_known,
    classes_of,
    in_order,
    likelihood_for,
    words_in_order,
    words_of,
    words_of_two,
)
from .parts import checked, fitted_modules, regions, seed_of, target_names

__all__ = ["RecyclableGPClassifier", "RecyclableGPRegressor", "regions"]

OF_COUNTS = (*(p.name for p in FAMILIES.values() if p.counts), *CHOICES)
OF_LOGARITHMS = (Lognormal.name, Survival.name)
EXPONENTIAL = (*OF_COUNTS, *OF_LOGARITHMS)  # whose mean is a multiple of eᶠ
REGRESSIONS = (Gaussian.name, Lognormal.name, StudentT.name, *OF_COUNTS, Heteroscedastic.name, Survival.name)


@dataclass(eq=False, repr=False, kw_only=True)
class RecyclableGPRegressor(RegressorMixin, RecyclableGP):
    """Gaussian process regression whose fitted parts can be shared and merged.

    Parameters
    ----------
    kernel : str or gpytorch.kernels.Kernel
        A name ("matern52", "rbf + linear", …) or a GPyTorch kernel in your units.
    likelihood : {"gaussian", "lognormal", "student-t", "poisson", "negative-binomial", "counts", "heteroscedastic", \
            "survival"}
        How y follows from f: with Gaussian noise, positive with Gaussian noise of log y, with outliers, as counts of
        mean eᶠ (Poisson's, more varied ones, or one of the two as the data say), with Gaussian noise whose size is a
        function of X as well, or as times of which some are censored: these are −t.
    noise : float or None
        Noise variance, kept fixed; None learns it.
    method : {"auto", "exact", "collapsed", "dual"}
        Of the local fits.
    inducing : int, array or None
        Number of inducing points of each local fit, or the points; None for the method's default.
    publish : int, array or "auto"
        Number of points at which each local posterior is published ("auto": as many as keep 95% of what the rows
        say, at most 512 and at most half the rows), the share to keep, or the points. More are more
        accurate and slower.
    rows_per_point : int or None
        Rows that share each published point, at least: never more points than rows // this number.
    privacy : {"people", "things"} or None
        What the rows are about, which decides what is published of them, as for `rgp.fit`.
    learn : bool
        False takes a kernel object as it is.
    hold_back : float or None
        The share of rows that `fit` keeps out, as 0.1, for `ensemble_.gain`, as for `rgp.fit`.
    missing : {"refuse", "drop", "impute", "marginalise"}
        What becomes of rows with NaN among their numbers, as for `rgp.fit`. But for "refuse" every row is answered by
        `predict`, `predict_interval` and `predict_proba`: with NaN where an input is missing.
    categories : list of columns, or None
        Columns of text, by name or position, all of whose levels may be named in a file, as for `rgp.fit`.
    ensemble_inducing : int, array, "all" or "auto"
        Points of the ensemble, where there are several modules.
    owners : {"auto", "offset", "smooth"} or None
        How the modules' owners may differ, as for `rgp.merge`: None for not at all. The partitions of one fit have one
        owner; each call of `partial_fit` and each estimator that is merged has another, unless `owner` names them.
    trust : {"learn", "report"} or None
        What becomes of modules that contradict the others, as for `rgp.merge`: None for nothing.
    n_partitions : int
        `fit` divides the rows into so many regions, fits them separately, and merges. Regions are better than random
        parts because each of them spends its published points on less of the function.
    n_jobs : int or None
        Processes in which partitions are fitted (joblib); None is one.
    name : str or None
        Of the first module, the others are numbered; None makes up unique ones.
    random_state : int, RandomState or None
        Decides where points are placed. An integer always gives the same answer.

    Attributes
    ----------
    modules_ : list of Module
        One for each partition and each call of `partial_fit`.
    ensemble_ : Ensemble
        Their merge; it answers every question. `ensemble_.noise` is the noise variance; `ensemble_.outputs` are the
        names of several outputs, in the order of the columns of `predict`.
    likelihood_ : str
        That of the modules.
    n_features_in_ : int
        As everywhere in scikit-learn.
    feature_names_in_ : array of str
        As everywhere in scikit-learn: there only if X had names.

    Notes
    -----
    Standard deviations, covariances and samples are of the function f, as those of scikit-learn's
    GaussianProcessRegressor with `alpha`; for counts of their rate eᶠ. Those of a new y (as with its WhiteKernel) add
    `ensemble_.noise`; `predict_interval` is about a new y.
    """

    likelihood: str = "gaussian"
    noise: float | None = None
    method: str = "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.likelihood != Heteroscedastic.name
        tags.target_tags.positive_only = self.likelihood in EXPONENTIAL and self.likelihood != Survival.name
        return tags

    def partial_fit(self, X: Array, y: Array, sample_weight: Array = None, owner: OwnerOfRows = None) -> Self:
        """Fit these rows as a further module, and merge it with those there are.

        The ensemble's kernel and points are chosen anew, as `fit` would: new rows may lie where no point of the
        ensemble is, which `ensemble_.update` could not express. What that costs grows with the number of modules,
        not with the rows behind them.

        Parameters
        ----------
        X, y, sample_weight, owner
            As for `fit`.

        Returns
        -------
        RecyclableGPRegressor
            This estimator.
        """
        return self._fit(X, y, sample_weight, owner, getattr(self, "modules_", []))

    def _fit(self, X: Array, y: Array, sample_weight: Array, owner: OwnerOfRows, old: list[Module]) -> Self:
        names = target_names(y)
        rows = checked(self, X, y, sample_weight, owner, numeric=True, reset=not old)
        if self.likelihood not in REGRESSIONS:
            raise RecycleGPError(f"likelihood={self.likelihood!r}; use one of {', '.join(REGRESSIONS)}")
        new = fitted_modules(self, rows, self.likelihood, old, noise=self.noise, target=names)
        self.likelihood_ = new[0].likelihoods[0].parts[0].name if self.likelihood in CHOICES else self.likelihood
        return self._take(old, new)

    def predict(self, X: Array, return_std: bool = False, return_cov: bool = False, *, owner: str | None = None) -> Any:
        """Mean at each row of X, and how sure it is of f there; for counts and positive y, of their mean given f.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        return_std : bool
            Return the standard deviation of f as well, (n,) or (n, C).
        return_cov : bool
            Return the covariance of f as well, (n, n) or (n, n, C).
        owner : str or None
            Whose function, by name, or "new" for somebody nobody has met; None for the shared one.

        Returns
        -------
        array of shape (n,) or (n, C), or a pair
            The mean; with it what was asked for.
        """
        if return_std and return_cov:
            raise RecycleGPError("return_std and return_cov: at most one of them can be requested")
        check_is_fitted(self)
        exponential = self.likelihood_ in EXPONENTIAL

        def moments(X: Any) -> tuple[np.ndarray, ...]:
            m, v = self.ensemble_.predict(X, owner)
            m = m + self._log_factor if exponential else m
            mean = np.exp(m + 0.5 * v) if exponential else m  # E[eᶠ] = exp(m + v/2)
            sd = np.sqrt(mean**2 * np.expm1(v) if exponential else v)  # var[eᶠ] = E[eᶠ]²(eᵛ − 1)
            return mean, sd, m

        if not return_cov:
            mean, sd, _ = self._of_complete_rows(X, moments)
            return (mean, sd) if return_std else mean
        X = self._asked(X)
        mean, _, m = moments(X)
        K = np.asarray(self.ensemble_.predict_joint(X, owner)[1])
        K = np.moveaxis(K, 0, -1) if K.ndim == 3 else K  # (n, n, C)
        if not exponential:
            return mean, K
        rate = np.exp(m + 0.5 * np.diagonal(K).T)  # cov[eᶠ, eᵍ] = E[eᶠ]E[eᵍ](e^cov − 1)
        return mean, rate[:, None] * rate[None] * np.expm1(K)

    def predict_interval(
        self, X: Array, level: float = 0.95, *, owner: str | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of a new y at each row of X.

        Parameters
        ----------
        X, owner
            As for `predict`; without an owner it is the observation of somebody new.
        level : float
            The probability that it holds y, if the model is right.

        Returns
        -------
        pair of arrays of shape (n,) or (n, C)
            Its lower and its upper ends.
        """
        check_is_fitted(self)
        likelihood = self.likelihood_ if len(self.ensemble_.likelihoods) > 1 else None
        low, high = self._of_complete_rows(X, lambda X: self.ensemble_.predict_interval(X, level, likelihood, owner))
        return low, high

    def sample_y(
        self, X: Array, n_samples: int = 1, random_state: RandomState = 0, *, owner: str | None = None
    ) -> np.ndarray:
        """Joint draws of f, for counts and positive y of their mean given f, at the rows of X.

        Parameters
        ----------
        X, owner
            As for `predict`.
        n_samples : int
            Number of draws.
        random_state : int, RandomState or None
            Of the draws.

        Returns
        -------
        array of shape (n, n_samples) or (n, C, n_samples)
            One draw in each column.
        """
        X = self._asked(X)
        drawn = np.asarray(self.ensemble_.sample(X, n_samples, seed_of(random_state), owner))
        if drawn.ndim == 3 and not self.ensemble_.likelihoods[0].predicts_all:  # f, and not its noise
            drawn = drawn[..., 0]
        drawn = np.moveaxis(drawn, 0, -1)
        if self.likelihood_ not in EXPONENTIAL:
            return drawn
        factor = np.asarray(self._log_factor)
        return np.exp(drawn + (factor[:, None] if factor.ndim else factor))

    @property
    def _log_factor(self) -> Any:
        """log E[y|f] − f, of each output: a positive y has the mean exp(f + σ²/2), a count eᶠ."""
        return 0.5 * np.asarray(self.ensemble_.noise) if self.likelihood_ in OF_LOGARITHMS else 0.0


@dataclass(eq=False, repr=False, kw_only=True)
class RecyclableGPClassifier(ClassifierMixin, RecyclableGP):
    """Gaussian process classification whose fitted parts can be shared and merged.

    Parameters
    ----------
    kernel : str or gpytorch.kernels.Kernel
        A name ("matern52", "rbf + linear", …) or a GPyTorch kernel in your units.
    likelihood : {"auto", "bernoulli", "bernoulli-probit", "categorical", "categorical-softmax", "ordinal"}
        "auto" is "bernoulli" (logistic) for two classes and "categorical" (a regression for each) for more.
        "categorical-softmax" fits their softmax, which is much slower. These two match classes by name when they
        are merged, so that estimators may know different ones. "ordinal" is for levels in an order.
    inducing, publish, rows_per_point, privacy, learn, hold_back, missing, categories, ensemble_inducing, owners, trust
        As for `RecyclableGPRegressor`, which explains them.
    n_partitions, n_jobs, name, random_state
        As for `RecyclableGPRegressor`, which explains them.
    levels : list or None
        Of "ordinal" all labels, from the lowest to the highest. None for numbers, which sort themselves, and for a y
        whose order pandas knows.

    Attributes
    ----------
    classes_ : array of shape (C,)
        The labels, in order: numbers by size, words by the alphabet, also those of "ordinal". Of two, the second is
        class 1 of modules of two classes.
    modules_, ensemble_, likelihood_, n_features_in_, feature_names_in_
        As for `RecyclableGPRegressor`.
    """

    likelihood: str = AUTO
    levels: Sequence[Any] | None = None
    classes_: np.ndarray = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.likelihood not in OF_TWO
        return tags

    def partial_fit(
        self, X: Array, y: Array, classes: Array = None, sample_weight: Array = None, owner: OwnerOfRows = None
    ) -> Self:
        """Fit these rows as a further module, and merge it with those there are, as the regressor does.

        Parameters
        ----------
        X, y, sample_weight, owner
            As for `fit`.
        classes : array of shape (C,), or None
            All labels, needed in the first call where its y does not hold them.

        Returns
        -------
        RecyclableGPClassifier
            This estimator.
        """
        return self._fit(X, y, sample_weight, owner, getattr(self, "modules_", []), classes)

    def _fit(
        self, X: Array, y: Array, sample_weight: Array, owner: OwnerOfRows, old: list[Module], given: Array = None
    ) -> Self:
        options: dict[str, Any] = {"target": target_name(y)}
        rows = checked(self, X, y, sample_weight, owner, reset=not old)
        order = in_order(self.levels, y, self.likelihood)
        given = order if given is None else given
        known = None if given is None else classes_of(given)
        if old and known is not None and not np.array_equal(known, self.classes_):
            raise RecycleGPError(f"classes={known.tolist()}, but the first call had {self.classes_.tolist()}")
        classes = self.classes_ if old else classes_of(rows.y) if known is None else known
        self.likelihood_ = likelihood_for(self.likelihood, classes)
        self.classes_ = classes
        labels = check_known(rows.y, classes)
        if self.likelihood_ in OF_TWO:
            labels = (labels == classes[1]).astype(np.float64)
            options["labels"] = words_of_two(classes)
        else:
            words = words_of(classes)
            told = words
            if self.likelihood_ == OF_LEVELS:
                told = list(old[0].classes) if old else words_in_order(classes, order)
            if known is None and not old:
                check_classes(map(str, labels.tolist()))
            labels = np.array(words, dtype=object)[np.searchsorted(classes, labels)]
            options["classes"] = told
        return self._take(old, fitted_modules(self, rows._replace(y=labels), self.likelihood_, old, **options))

    def _learn_from(self, fitted: Self, items: Sequence[Any]) -> None:
        super()._learn_from(fitted, items)
        self.classes_ = all_classes(fitted, items)

    def predict(self, X: Array, *, owner: str | None = None) -> np.ndarray:
        """The most probable label for each row of X.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        owner : str or None
            Whose label, by name; None for that of somebody new.

        Returns
        -------
        array of shape (n,)
            Labels.
        """
        p = self.predict_proba(X, owner=owner)
        absent = int(np.isnan(p).any(1).sum())
        if absent:
            raise RecycleGPError(
                f"X: {absent} rows lack an input, and have no most probable label; leave them out, or use predict_proba"
            )
        most_probable = p.argmax(1)
        return self.classes_[most_probable]

    def predict_proba(self, X: Array, *, owner: str | None = None) -> np.ndarray:
        """Probabilities of the labels for each row of X.

        Parameters
        ----------
        X, owner
            As for `predict`.

        Returns
        -------
        array of shape (n, C)
            In the order of `classes_`.
        """

        def probabilities(X: Any) -> tuple[np.ndarray, ...]:
            return (self.ensemble_.predict_proba(X, likelihood=self.likelihood_, owner=owner),)

        (found,) = self._of_complete_rows(X, probabilities)
        if self.likelihood_ in OF_TWO:
            return found
        return found[:, [self.ensemble_.classes.index(word) for word in words_of(self.classes_)]]

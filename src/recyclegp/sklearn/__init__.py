"""scikit-learn estimators: fit, partial_fit and merge Gaussian processes where pipelines and searches expect them.

    from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor

An estimator is its modules, and one ensemble of them that predicts: `modules_` may be saved, sent and merged
elsewhere; none of them holds a data row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ..errors import RecycleGPError
from ..target import target_name
from .parts import (
    asked,
    checked,
    encoded,
    fitted_modules,
    modules_of,
    regions,
    seed_of,
    take,
    two_classes,
    unfitted,
    words_of,
)

__all__ = ["RecyclableGPClassifier", "RecyclableGPRegressor", "regions"]


class RecyclableGPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian process regression whose fitted parts can be shared and merged.

    Parameters
    ----------
    kernel : str or gpytorch.kernels.Kernel
        A name ("rbf", "matern52 + linear", …) or a GPyTorch kernel in your units.
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
    learn : bool
        False takes a kernel object as it is.
    ensemble_inducing : int, array, "all" or "auto"
        Points of the ensemble, where there are several modules.
    owners : {"auto", "offset", "smooth"} or None
        How the modules' owners may differ, as for `rgp.merge`: None for not at all. The partitions of one fit have one
        owner; each call of `partial_fit` and each estimator that is merged has another.
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
        Their merge; it answers every question. `ensemble_.noise` is the noise variance.
    n_features_in_ : int
        As everywhere in scikit-learn.
    feature_names_in_ : array of str
        As everywhere in scikit-learn: there only if X had names.

    Notes
    -----
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
        rows_per_point: int | None = None,
        learn: bool = True,
        ensemble_inducing: Any = "auto",
        owners: str | None = None,
        trust: str | None = None,
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
        self.rows_per_point = rows_per_point
        self.learn = learn
        self.ensemble_inducing = ensemble_inducing
        self.owners = owners
        self.trust = trust
        self.n_partitions = n_partitions
        self.n_jobs = n_jobs
        self.name = name
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> RecyclableGPRegressor:
        """Fit, forgetting what was fitted before.

        Parameters
        ----------
        X : array or DataFrame of shape (n, D)
            Inputs; columns of text, categoricals and truth values are categories.
        y : array of shape (n,)
            Targets.

        Returns
        -------
        RecyclableGPRegressor
            This estimator.
        """
        name = target_name(y)
        X, y = checked(self, X, y, y_numeric=True)
        return take(self, [], fitted_modules(self, X, y, "gaussian", noise=self.noise, target=name))

    def partial_fit(self, X: Any, y: Any) -> RecyclableGPRegressor:
        """Fit these rows as a further module, and merge it with those there are.

        The ensemble's kernel and points are chosen anew, as `fit` would: new rows may lie where no point of the
        ensemble is, which `ensemble_.update` could not express. What that costs grows with the number of modules,
        not with the rows behind them.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        y : array of shape (n,)
            Targets.

        Returns
        -------
        RecyclableGPRegressor
            This estimator.
        """
        old, name = getattr(self, "modules_", []), target_name(y)
        X, y = checked(self, X, y, y_numeric=True, reset=not old)
        return take(self, old, fitted_modules(self, X, y, "gaussian", len(old), noise=self.noise, target=name))

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, *, owner: str | None = None) -> Any:
        """Mean at each row of X, and how sure it is of f there.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        return_std : bool
            Return the standard deviation of f as well, (n,).
        return_cov : bool
            Return the covariance of f as well, (n, n).
        owner : str or None
            Whose function, by name, or "new" for somebody nobody has met; None for the shared one.

        Returns
        -------
        array of shape (n,), or a pair
            The mean; with it what was asked for.
        """
        if return_std and return_cov:
            raise RecycleGPError("return_std and return_cov: at most one of them can be requested")
        X = asked(self, X)
        mean, variance = self.ensemble_.predict(X, owner)
        if return_std:
            return mean, np.sqrt(variance)
        if return_cov:
            points = self.ensemble_._inputs(X)
            return mean, self.ensemble_._answers(owner, of_y=False).joint(points).covariance.numpy()
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, owner: str | None = None) -> np.ndarray:
        """Joint draws of f at the rows of X.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        n_samples : int
            Number of draws.
        random_state : int, RandomState or None
            Of the draws.
        owner : str or None
            As for `predict`.

        Returns
        -------
        array of shape (n, n_samples)
            One draw in each column.
        """
        X = asked(self, X)
        draws: np.ndarray = self.ensemble_.sample(X, n_samples, seed=seed_of(random_state), owner=owner)
        return draws.T

    def merge(self, others: Any) -> RecyclableGPRegressor:
        """A new estimator with the modules of this one and of others, which stay as they are.

        Parameters
        ----------
        others : RecyclableGPRegressor, Module, or several of them
            Fitted; a Module may come from `rgp.load`, `rgp.from_sklearn` and so on.

        Returns
        -------
        RecyclableGPRegressor
            A new estimator.
        """
        return take(unfitted(self), self.modules_, modules_of(others, self))


class RecyclableGPClassifier(ClassifierMixin, BaseEstimator):
    """Gaussian process classification (two classes, logistic) whose fitted parts can be shared and merged.

    Parameters
    ----------
    kernel : str or gpytorch.kernels.Kernel
        A name ("rbf", "matern52 + linear", …) or a GPyTorch kernel in your units.
    inducing : int, array or None
        Number of inducing points of each local fit, or the points; None for the method's default.
    publish : int, array or "auto"
        Number of points at which each local posterior is published ("auto": as many as keep 95% of what the rows
        say, at most 512 and at most half the rows), the share to keep, or the points. More are more
        accurate and slower.
    rows_per_point : int or None
        Rows that share each published point, at least: never more points than rows // this number.
    learn : bool
        False takes a kernel object as it is.
    ensemble_inducing : int, array, "all" or "auto"
        Points of the ensemble, where there are several modules.
    owners : {"auto", "offset", "smooth"} or None
        How the modules' owners may differ, as for `rgp.merge`: None for not at all. The partitions of one fit have one
        owner; each call of `partial_fit` and each estimator that is merged has another.
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
        Their merge; it answers every question.
    classes_ : array of shape (2,)
        The two labels, of which the second is class 1 of the modules.
    n_features_in_ : int
        As everywhere in scikit-learn.
    feature_names_in_ : array of str
        As everywhere in scikit-learn: there only if X had names.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        inducing: Any = None,
        publish: Any = "auto",
        rows_per_point: int | None = None,
        learn: bool = True,
        ensemble_inducing: Any = "auto",
        owners: str | None = None,
        trust: str | None = None,
        n_partitions: int = 1,
        n_jobs: int | None = None,
        name: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.inducing = inducing
        self.publish = publish
        self.rows_per_point = rows_per_point
        self.learn = learn
        self.ensemble_inducing = ensemble_inducing
        self.owners = owners
        self.trust = trust
        self.n_partitions = n_partitions
        self.n_jobs = n_jobs
        self.name = name
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> RecyclableGPClassifier:
        """Fit, forgetting what was fitted before.

        Parameters
        ----------
        X : array or DataFrame of shape (n, D)
            Inputs; columns of text, categoricals and truth values are categories.
        y : array of shape (n,)
            Labels, of two kinds.

        Returns
        -------
        RecyclableGPClassifier
            This estimator.
        """
        name = target_name(y)
        X, y = checked(self, X, y)
        self.classes_ = two_classes(y)
        y, words = encoded(y, self.classes_), words_of(self.classes_)
        return take(self, [], fitted_modules(self, X, y, "bernoulli", target=name, labels=words))

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> RecyclableGPClassifier:
        """Fit these rows as a further module, and merge it with those there are, as the regressor does.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        y : array of shape (n,)
            Labels.
        classes : array of shape (2,), or None
            Both labels, needed in the first call where its y holds only one of them.

        Returns
        -------
        RecyclableGPClassifier
            This estimator.
        """
        old, name = getattr(self, "modules_", []), target_name(y)
        X, y = checked(self, X, y, reset=not old)
        if classes is not None:
            classes = two_classes(classes)
        if not old:
            self.classes_ = two_classes(y) if classes is None else classes
        elif classes is not None and not np.array_equal(classes, self.classes_):
            raise RecycleGPError(f"classes={classes.tolist()}, but the first call had {self.classes_.tolist()}")
        y, words = encoded(y, self.classes_), words_of(self.classes_)
        return take(self, old, fitted_modules(self, X, y, "bernoulli", len(old), target=name, labels=words))

    def predict(self, X: Any, *, owner: str | None = None) -> np.ndarray:
        """The more probable label for each row of X.

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
        more_probable = self.predict_proba(X, owner=owner)[:, 1] > 0.5
        return self.classes_[more_probable.astype(int)]

    def predict_proba(self, X: Any, *, owner: str | None = None) -> np.ndarray:
        """Probabilities of both labels for each row of X.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        owner : str or None
            As for `predict`.

        Returns
        -------
        array of shape (n, 2)
            In the order of `classes_`.
        """
        X = asked(self, X)
        probabilities: np.ndarray = self.ensemble_.predict_proba(X, likelihood="bernoulli", owner=owner)
        return probabilities

    def merge(self, others: Any) -> RecyclableGPClassifier:
        """A new estimator with the modules of this one and of others, which stay as they are.

        Parameters
        ----------
        others : RecyclableGPClassifier, Module, or several of them
            Fitted, with the same labels; classes 0 and 1 of a Module are taken to be `classes_`.

        Returns
        -------
        RecyclableGPClassifier
            A new estimator.
        """
        new = unfitted(self)
        new.classes_ = self.classes_
        return take(new, self.modules_, modules_of(others, self))

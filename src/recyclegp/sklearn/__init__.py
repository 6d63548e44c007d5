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
from ..likelihoods import Gaussian, Heteroscedastic, Poisson, StudentT
from ..models.joint.ensemble import JointEnsemble
from ..target import target_name
from .answers import OwnerPredictor
from .labels import AUTO, OF_TWO, all_classes, check_known, classes_of, likelihood_for, words_of, words_of_two
from .parts import (
    AnyModule,
    Rows,
    asked,
    checked,
    fitted_modules,
    items_of,
    modules_of,
    regions,
    seed_of,
    take,
    target_names,
    unfitted,
)

__all__ = ["RecyclableGPClassifier", "RecyclableGPRegressor", "regions"]

REGRESSIONS = (Gaussian.name, StudentT.name, Poisson.name, Heteroscedastic.name)


class RecyclableGPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian process regression whose fitted parts can be shared and merged.

    Parameters
    ----------
    kernel : str or gpytorch.kernels.Kernel
        A name ("rbf", "matern52 + linear", …) or a GPyTorch kernel in your units.
    likelihood : {"gaussian", "student-t", "poisson", "heteroscedastic"}
        How y follows from f: with Gaussian noise, with outliers, as counts of rate eᶠ, or with Gaussian noise whose
        size is a function of X as well.
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
    modules_ : list of Module or JointModule
        One for each partition and each call of `partial_fit`; of several outputs and of varying noise joint ones.
    ensemble_ : Ensemble or JointEnsemble
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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        likelihood: str = "gaussian",
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
        self.likelihood = likelihood
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.likelihood != Heteroscedastic.name
        tags.target_tags.positive_only = self.likelihood == Poisson.name
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, owner: Any = None) -> RecyclableGPRegressor:
        """Fit, forgetting what was fitted before.

        Parameters
        ----------
        X : array or DataFrame of shape (n, D)
            Inputs; columns of text, categoricals and truth values are categories.
        y : array of shape (n,) or (n, C)
            Targets; C columns are as many outputs, called like the columns of a DataFrame, else y1, y2, …
        sample_weight : array of shape (n,) or None
            What rows count, relative to each other: a row of weight w has the noise variance σ²/w, where σ² is that of
            a row of average weight; if noise is not Gaussian, it counts w times. Rows of weight zero are left out.
        owner : array of shape (n,), str or None
            Whose rows they are, by name: each owner has modules of its own.

        Returns
        -------
        RecyclableGPRegressor
            This estimator.
        """
        return self._fit(X, y, sample_weight, owner, [])

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, owner: Any = None) -> RecyclableGPRegressor:
        """Fit these rows as a further module, and merge it with those there are.

        The ensemble's kernel and points are chosen anew, as `fit` would: new rows may lie where no point of the
        ensemble is, which `ensemble_.update` could not express. What that costs grows with the number of modules,
        not with the rows behind them.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        y : array of shape (n,) or (n, C)
            Targets, as for `fit`.
        sample_weight : array of shape (n,) or None
            As for `fit`, relative to each other.
        owner : array of shape (n,), str or None
            As for `fit`.

        Returns
        -------
        RecyclableGPRegressor
            This estimator.
        """
        return self._fit(X, y, sample_weight, owner, getattr(self, "modules_", []))

    def _fit(self, X: Any, y: Any, sample_weight: Any, owner: Any, old: list[AnyModule]) -> RecyclableGPRegressor:
        names = target_names(y)
        rows = checked(self, X, y, sample_weight, owner, numeric=True, reset=not old)
        if self.likelihood not in REGRESSIONS:
            raise RecycleGPError(f"likelihood={self.likelihood!r}; use one of {', '.join(REGRESSIONS)}")
        self.likelihood_ = self.likelihood
        return take(self, old, fitted_modules(self, rows, self.likelihood_, old, noise=self.noise, target=names))

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, *, owner: str | None = None) -> Any:
        """Mean at each row of X, and how sure it is of f there; for counts, of their rate eᶠ.

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
        X, answers = asked(self, X), OwnerPredictor(self.ensemble_, self.likelihood_, owner)
        mean, variance = answers.moments(X)
        if return_std:
            return mean, np.sqrt(variance)
        if return_cov:
            return mean, answers.covariance(X)
        return mean

    def predict_interval(self, X: Any, level: float = 0.95, *, owner: str | None = None) -> tuple[Any, Any]:
        """The central interval of a new y at each row of X.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        level : float
            The probability that it holds y, if the model is right.
        owner : str or None
            Whose observation, by name; None for that of somebody new.

        Returns
        -------
        pair of arrays of shape (n,) or (n, C)
            Its lower and its upper ends.
        """
        X = asked(self, X)
        return OwnerPredictor(self.ensemble_, self.likelihood_, owner).interval(X, level)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, owner: str | None = None) -> np.ndarray:
        """Joint draws of f, for counts of their rate eᶠ, at the rows of X.

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
        array of shape (n, n_samples) or (n, C, n_samples)
            One draw in each column.
        """
        X = asked(self, X)
        return OwnerPredictor(self.ensemble_, self.likelihood_, owner).draws(X, n_samples, seed_of(random_state))

    def merge(self, others: Any) -> RecyclableGPRegressor:
        """A new estimator with the modules of this one and of others, which stay as they are.

        Parameters
        ----------
        others : RecyclableGPRegressor, Module, JointModule, or several of them
            Fitted; a Module may come from `rgp.load`, `rgp.from_sklearn` and so on.

        Returns
        -------
        RecyclableGPRegressor
            A new estimator.
        """
        new = unfitted(self)
        new.likelihood_ = self.likelihood_
        return take(new, self.modules_, modules_of(items_of(others, self)))


class RecyclableGPClassifier(ClassifierMixin, BaseEstimator):
    """Gaussian process classification whose fitted parts can be shared and merged.

    Parameters
    ----------
    kernel : str or gpytorch.kernels.Kernel
        A name ("rbf", "matern52 + linear", …) or a GPyTorch kernel in your units.
    likelihood : {"auto", "bernoulli", "bernoulli-probit", "categorical", "categorical-softmax"}
        "auto" is "bernoulli" (logistic) for two classes and "categorical" (a regression for each) for more.
        "categorical-softmax" fits their softmax, which is much slower. The last two match classes by name when they
        are merged, so that estimators may know different ones.
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
    modules_ : list of Module or JointModule
        One for each partition and each call of `partial_fit`; those of "categorical" are joint ones.
    ensemble_ : Ensemble or JointEnsemble
        Their merge; it answers every question.
    classes_ : array of shape (C,)
        The labels, in order. Of two, the second is class 1 of modules that are not joint.
    likelihood_ : str
        That of the modules.
    n_features_in_ : int
        As everywhere in scikit-learn.
    feature_names_in_ : array of str
        As everywhere in scikit-learn: there only if X had names.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        likelihood: str = AUTO,
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
        self.likelihood = likelihood
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
        tags.classifier_tags.multi_class = self.likelihood not in OF_TWO
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, owner: Any = None) -> RecyclableGPClassifier:
        """Fit, forgetting what was fitted before.

        Parameters
        ----------
        X : array or DataFrame of shape (n, D)
            Inputs; columns of text, categoricals and truth values are categories.
        y : array of shape (n,)
            Labels: text, numbers or truth values.
        sample_weight : array of shape (n,) or None
            What rows count, relative to each other: one of weight w counts w times, where the average is one. Rows of
            weight zero are left out.
        owner : array of shape (n,), str or None
            Whose rows they are, by name: each owner has modules of its own.

        Returns
        -------
        RecyclableGPClassifier
            This estimator.
        """
        name = target_name(y)
        rows = checked(self, X, y, sample_weight, owner)
        return self._fit(rows, classes_of(rows.y), name, [])

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, owner: Any = None
    ) -> RecyclableGPClassifier:
        """Fit these rows as a further module, and merge it with those there are, as the regressor does.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        y : array of shape (n,)
            Labels.
        classes : array of shape (C,), or None
            All labels, needed in the first call where its y does not hold them.
        sample_weight : array of shape (n,) or None
            As for `fit`, relative to each other.
        owner : array of shape (n,), str or None
            As for `fit`.

        Returns
        -------
        RecyclableGPClassifier
            This estimator.
        """
        old, name = getattr(self, "modules_", []), target_name(y)
        rows = checked(self, X, y, sample_weight, owner, reset=not old)
        given = None if classes is None else classes_of(classes)
        if old and given is not None and not np.array_equal(given, self.classes_):
            raise RecycleGPError(f"classes={given.tolist()}, but the first call had {self.classes_.tolist()}")
        known = self.classes_ if old else classes_of(rows.y) if given is None else given
        return self._fit(rows, known, name, old)

    def _fit(self, rows: Rows, classes: np.ndarray, name: str | None, old: list[AnyModule]) -> RecyclableGPClassifier:
        self.likelihood_ = likelihood_for(self.likelihood, classes)
        self.classes_ = classes
        y = check_known(rows.y, classes)
        options: dict[str, Any] = {"target": name}
        if self.likelihood_ in OF_TWO:
            y = (y == classes[1]).astype(np.float64)
            options["labels"] = words_of_two(classes)
        else:
            words = words_of(classes)
            y = np.array(words, dtype=object)[np.searchsorted(classes, y)]
            options["classes"] = words
        return take(self, old, fitted_modules(self, rows._replace(y=y), self.likelihood_, old, **options))

    def predict(self, X: Any, *, owner: str | None = None) -> np.ndarray:
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
        most_probable = self.predict_proba(X, owner=owner).argmax(1)
        return self.classes_[most_probable]

    def predict_proba(self, X: Any, *, owner: str | None = None) -> np.ndarray:
        """Probabilities of the labels for each row of X.

        Parameters
        ----------
        X : array of shape (n, D)
            Inputs.
        owner : str or None
            As for `predict`.

        Returns
        -------
        array of shape (n, C)
            In the order of `classes_`.
        """
        X, gp = asked(self, X), self.ensemble_
        if not isinstance(gp, JointEnsemble):
            of_two: np.ndarray = gp.predict_proba(X, likelihood=self.likelihood_, owner=owner)
            return of_two
        found: np.ndarray = gp.predict_proba(X, owner=owner)
        return found[:, [gp.classes.index(word) for word in words_of(self.classes_)]]

    def merge(self, others: Any) -> RecyclableGPClassifier:
        """A new estimator with the modules of this one and of others, which stay as they are.

        Parameters
        ----------
        others : RecyclableGPClassifier, Module, JointModule, or several of them
            Fitted. With "categorical" they may know other classes, which are matched by name. Otherwise they must
            have the same two labels; classes 0 and 1 of a Module are taken to be `classes_`.

        Returns
        -------
        RecyclableGPClassifier
            A new estimator.
        """
        new = unfitted(self)
        items = items_of(others, self)
        new.likelihood_, new.classes_ = self.likelihood_, all_classes(self, items)
        return take(new, self.modules_, modules_of(items))

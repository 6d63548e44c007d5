"""What joint modules and joint ensembles have in common: several Gaussian processes that are asked together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import arrays
from ...core.posterior import Predicted
from ...errors import RecycleGPError
from ...likelihoods import Likelihood
from ..predictive import Predictive, levels_of
from .links import Classes, Link, Outputs, VaryingNoise


class JointPredictive(ABC):
    """Predictions from the moments of all functions; the two final classes JointModule and JointEnsemble give these."""

    link: Link
    parts: tuple[Predictive, ...]  # one for each function

    @abstractmethod
    def _moments(self, X: Any, owner: str | None, *, of_y: bool) -> Predicted:
        """Mean and variance of each function at each row: (n, C) both."""

    @abstractmethod
    def _covariances(self, X: Any, owner: str | None) -> Tensor:
        """(C, n, n): of each function, between all rows."""

    @abstractmethod
    def _check_owner(self, owner: str | None) -> None:
        """Is there somebody of this name?"""

    @property
    @abstractmethod
    def likelihoods(self) -> tuple[Likelihood, ...]:
        """Of each function's own observations; the joint one, where they have none."""

    @abstractmethod
    def sample(self, X: Any, n: int = 1, seed: int = 0, owner: str | None = None) -> Any:
        """Joint draws of the functions."""

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of its functions: outputs, classes, or f and the logarithm of its noise."""
        return self.link.names

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of its classes, in the order of `predict_proba`."""
        return self._classes("classes").names

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs, in the order of the columns of `predict`."""
        if not isinstance(self.link, Outputs):
            raise RecycleGPError(f"outputs: this model has {self.link.kind}; see its functions")
        return self.link.names

    def predict(self, X: Any, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and variance of every latent function at each row of X; of f alone, where the others are its noise.

        Args:
            X: (n, D) inputs: array, tensor or DataFrame.
            owner: whose functions, by name, or "new" for somebody nobody has met; the shared ones unless given.

        Returns:
            Both (n, C), or (n,) for varying noise, in the kind of array that X is.
        """
        mean, variance = self.link.latent(*self._moments(X, owner, of_y=False))
        return arrays.like(X, mean), arrays.like(X, variance)

    def predict_y(self, X: Any, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and variance of a new observation at each row of X.

        Args:
            X: (n, D) inputs.
            owner: whose observation; a new owner's unless given.

        Returns:
            Both (n, C), or (n,) for varying noise, in the kind of array that X is. Of classes: their probabilities p,
            and p(1 − p).
        """
        mean, variance = self._moments(X, owner, of_y=True)
        found = self.link.observed(mean, variance, self.likelihoods)
        return arrays.like(X, found.mean), arrays.like(X, found.variance)

    def predict_noise(self, X: Any, owner: str | None = None) -> Any:
        """The noise variance e^g at each row of X, at the middle of what is known of g.

        Args:
            X: (n, D) inputs.
            owner: whose noise; the shared one unless given.

        Returns:
            n numbers.
        """
        if self.link.kind != "varying noise":
            raise RecycleGPError(f"predict_noise: this model has {self.link.kind}; use noise")
        return arrays.like(X, self._moments(X, owner, of_y=False).mean[:, 1].exp())

    def predict_proba(self, X: Any, owner: str | None = None) -> Any:
        """Probabilities of the classes at each row of X.

        Args:
            X: (n, D) inputs.
            owner: whose observation; a new owner's unless given.

        Returns:
            (n, C) numbers, in the order of `classes`; each row adds up to one.
        """
        link = self._classes("predict_proba")
        return arrays.like(X, link.probabilities(*self._moments(X, owner, of_y=True)))

    def predict_class(self, X: Any, owner: str | None = None) -> np.ndarray:
        """The most probable class at each row of X.

        Args:
            X: (n, D) inputs.
            owner: whose observation; a new owner's unless given.

        Returns:
            n labels, as text.
        """
        link = self._classes("predict_class")
        best = link.probabilities(*self._moments(X, owner, of_y=True)).argmax(-1)
        return np.array(link.names, dtype=object)[best.cpu().numpy()]

    def predict_interval(self, X: Any, level: float = 0.95, owner: str | None = None) -> tuple[Any, Any]:
        """The central interval that holds a new y with a probability, at each row of X.

        Args:
            X: (n, D) inputs.
            level: that probability, between 0 and 1.
            owner: whose observation; a new owner's unless given.

        Returns:
            Its lower and upper end, each as `predict_y`'s mean.
        """
        level = arrays.share(level, "level")
        mean, variance = self._moments(X, owner, of_y=True)
        low, high = self.link.interval(mean, variance, self.likelihoods, level)
        return arrays.like(X, low), arrays.like(X, high)

    def predict_quantiles(self, X: Any, q: Any, owner: str | None = None) -> Any:
        """Quantiles of a new y at each row of X: the smallest y with P(Y ≤ y) ≥ q. Classes have none.

        Args:
            X: (n, D) inputs.
            q: one number between 0 and 1, or several.
            owner: whose observation; a new owner's unless given.

        Returns:
            As `predict_y`'s mean; for several q with one more axis, the last: (n, C, len(q)), or (n, len(q)) where
            noise varies.
        """
        levels = levels_of(q)
        mean, variance = self._moments(X, owner, of_y=True)
        found = torch.stack([self.link.quantile(p, mean, variance, self.likelihoods) for p in levels], -1)
        return arrays.like(X, found if np.ndim(q) else found[..., 0])

    def predict_joint(self, X: Any, owner: str | None = None) -> tuple[Any, Any]:
        """Mean and covariance of every latent function at all rows of X together; of f alone, where noise varies.

        Args:
            X: (n, D) inputs.
            owner: whose functions, by name, or "new"; the shared ones unless given.

        Returns:
            Means as of `predict`, and covariances (C, n, n), a matrix for each function; (n, n) where noise varies. How
            correlated outputs vary together is in the draws of `sample`.
        """
        mean, covariance = self.predict(X, owner)[0], self._covariances(X, owner)
        return mean, arrays.like(X, covariance[0] if isinstance(self.link, VaryingNoise) else covariance)

    def outside(self, X: Any) -> np.ndarray:
        """Which rows of X lie outside every module's region, whichever of the functions it has.

        Args:
            X: (n, D) inputs.

        Returns:
            n booleans; a module's region is as for a model of one function.
        """
        found: np.ndarray = np.logical_and.reduce([part.outside(X) for part in self.parts])
        return found

    def log_density(self, X: Any, y: Any, owner: str | None = None) -> Any:
        """log p(y) of each observation.

        Args:
            X: (n, D) inputs.
            y: classes (n,), numbers (n,) for varying noise, or outputs (n, C), NaN where one was not seen.
            owner: whose observations; a new owner's unless given.

        Returns:
            n numbers; of outputs (n, C), NaN where one was not seen.
        """
        mean, variance = self._moments(X, owner, of_y=True)
        checked = self.link.check(y, len(mean), mean.device)
        return arrays.like(X, self.link.log_density(checked, mean, variance, self.likelihoods))

    def _classes(self, what: str) -> Classes:
        if not isinstance(self.link, Classes):
            raise RecycleGPError(f"{what}: this model has {self.link.kind}; use predict_y")
        return self.link


def side_by_side(answers: list[Predicted]) -> Predicted:
    """Moments of one function after the other (n,) as (n, C)."""
    return Predicted(*(torch.stack(part, -1) for part in zip(*answers, strict=True)))


def covariances_of(parts: Sequence[Predictive], X: Any, owners: Sequence[str | None]) -> Tensor:
    """(C, n, n) of functions that are independent of each other, each of its owner's."""
    found = (part.predict_joint(X, who)[1] for part, who in zip(parts, owners, strict=True))
    return torch.stack([torch.as_tensor(K) for K in found])


def draws_of(parts: list[Any], X: Any, n: int, seed: int, owners: Sequence[str | None]) -> Any:
    """(n, len(X), C) draws of functions that are independent of each other, each of its owner's."""
    seeds = np.random.default_rng(arrays.seed(seed)).integers(0, 2**31, len(parts))
    drawn = [part.sample(X, n, int(own), who) for part, own, who in zip(parts, seeds, owners, strict=True)]
    return torch.stack(drawn, -1) if isinstance(X, Tensor) else np.stack(drawn, -1)

"""What regressors answer: mean, covariance and draws of the function that the mean of y is.

That is f itself, or for counts the rate eᶠ; of several outputs one function each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..likelihoods import Poisson
from ..models.ensemble import Ensemble
from ..models.joint.ensemble import JointEnsemble
from ..models.joint.links import Outputs

AnyEnsemble = Ensemble | JointEnsemble


class OwnerPredictor(NamedTuple):
    """An ensemble, asked about one owner's function with one likelihood."""

    ensemble: AnyEnsemble
    likelihood: str
    owner: str | None

    def moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance at each row, (n,) or (n, C)."""
        mean, variance = self.ensemble.predict(X, self.owner)
        return _of_rate(mean, variance) if self._counts else (mean, variance)

    def covariance(self, X: Any) -> np.ndarray:
        """Between all rows, (n, n) or (n, n, C)."""
        gp = self.ensemble
        each = np.asarray(gp.predict_joint(X, self.owner)[1])
        found = list(each) if each.ndim == 3 else [each]
        if self._counts:
            mean = np.asarray(gp.predict(X, self.owner)[0]).reshape(-1, len(found))
            found = [_of_rates(mean[:, c], K) for c, K in enumerate(found)]
        return np.stack(found, -1) if len(found) > 1 else found[0]

    def draws(self, X: Any, n: int, seed: int) -> np.ndarray:
        """(n rows, draws), or (n rows, C, draws)."""
        gp = self.ensemble
        if isinstance(gp, JointEnsemble) and not isinstance(gp.link, Outputs):
            gp = gp.parts[0]
        drawn = np.moveaxis(np.asarray(gp.sample(X, n, seed, self.owner)), 0, -1)
        return np.exp(drawn) if self._counts else drawn

    def interval(self, X: Any, level: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of a new y."""
        if isinstance(self.ensemble, JointEnsemble):
            return self.ensemble.predict_interval(X, level, self.owner)
        return self.ensemble.predict_interval(X, level, self.likelihood, self.owner)

    @property
    def _counts(self) -> bool:
        return self.likelihood == Poisson.name


def _of_rate(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[eᶠ] = exp(m + v/2), var[eᶠ] = E[eᶠ]²(eᵛ − 1)."""
    rate = np.exp(mean + 0.5 * variance)
    return rate, rate**2 * np.expm1(variance)


def _of_rates(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """cov[eᶠ, eᵍ] = E[eᶠ]E[eᵍ](e^cov − 1)."""
    rate = np.exp(mean + 0.5 * np.diag(covariance))
    return np.outer(rate, rate) * np.expm1(covariance)

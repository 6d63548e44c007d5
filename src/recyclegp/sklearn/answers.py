"""What regressors answer: mean, covariance and draws of the function that the mean of y is.

That is f itself, or for counts the rate eᶠ; of several outputs one function each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import arrays, likelihoods
from ..errors import RecycleGPError
from ..likelihoods import Poisson
from ..models.ensemble import Ensemble
from ..models.joint.ensemble import JointEnsemble
from ..models.joint.links import Outputs

AnyEnsemble = Ensemble | JointEnsemble


class Answers(NamedTuple):
    """An ensemble, asked about one owner's function with one likelihood."""

    ensemble: AnyEnsemble
    likelihood: str
    owner: str | None

    @property
    def _several(self) -> bool:
        return isinstance(self.ensemble, JointEnsemble) and isinstance(self.ensemble.link, Outputs)

    @property
    def _parts(self) -> list[tuple[Ensemble, str | None]]:
        """Its functions, and whose they are."""
        joint = self.ensemble
        if not isinstance(joint, JointEnsemble):
            return [(joint, self.owner)]
        parts = joint.parts if self._several else joint.parts[:1]  # behind f stands its noise
        return [(part, joint._whose(part, self.owner)) for part in parts]

    def moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance at each row, (n,) or (n, C)."""
        found = [part.predict(X, who) for part, who in self._parts]
        return self._together([_of_rate(*each) for each in found] if self._counts else found)

    def covariance(self, X: Any) -> np.ndarray:
        """Between all rows, (n, n) or (n, n, C)."""
        found = []
        for part, who in self._parts:
            mean, covariance = (t.numpy() for t in part._answers(who, of_y=False).joint(part._inputs(X)))
            found.append((_of_rates(mean, covariance),) if self._counts else (covariance,))
        return self._together(found)[0]

    def draws(self, X: Any, n: int, seed: int) -> np.ndarray:
        """(n rows, draws), or (n rows, C, draws)."""
        seeds = [seed] if len(self._parts) == 1 else np.random.default_rng(seed).integers(0, 2**31, len(self._parts))
        drawn = [part.sample(X, n, int(own), who).T for (part, who), own in zip(self._parts, seeds, strict=True)]
        found = np.stack(drawn, 1) if self._several else drawn[0]
        return np.exp(found) if self._counts else found

    def interval(self, X: Any, level: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of a new y."""
        if isinstance(self.ensemble, JointEnsemble):
            return self.ensemble.predict_interval(X, level, self.owner)
        if not 0 < arrays.number(level, "level") < 1:
            raise RecycleGPError(f"level={level!r}; pass a probability between 0 and 1")
        gp = self.ensemble
        chosen = likelihoods.choose(gp.likelihoods, self.likelihood)
        low, high = chosen.interval(*gp._latent(gp._inputs(X), gp._answers(self.owner, of_y=True)), float(level))
        return low.numpy(), high.numpy()

    @property
    def _counts(self) -> bool:
        return self.likelihood == Poisson.name

    def _together(self, found: list[Any]) -> Any:
        """One answer for each function as one of all."""
        return tuple(np.stack(each, -1) for each in zip(*found, strict=True)) if self._several else found[0]


def _of_rate(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[eᶠ] = exp(m + v/2), var[eᶠ] = E[eᶠ]²(eᵛ − 1)."""
    rate = np.exp(mean + 0.5 * variance)
    return rate, rate**2 * np.expm1(variance)


def _of_rates(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """cov[eᶠ, eᵍ] = E[eᶠ]E[eᵍ](e^cov − 1)."""
    rate = np.exp(mean + 0.5 * np.diag(covariance))
    return np.outer(rate, rate) * np.expm1(covariance)

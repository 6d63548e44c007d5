"""Where a model expects a new y: of one function by its likelihood, of several by what they mean together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..errors import RecycleGPError
from ..likelihoods import Likelihood
from .joint.links import Classes, Outputs
from .joint.predictive import JointPredictive
from .predictive import Predictive

ONE_SD = 0.6826894921370859  # the level of a Gaussian's interval whose half-width is its standard deviation

AnyModel = Predictive | JointPredictive


class Spread(NamedTuple):
    """Where y is expected, and by how much it may differ."""

    centre: Tensor
    scale: Tensor


class Latent(NamedTuple):
    """Moments of f (n,), or of all functions (n, C)."""

    mean: Tensor
    variance: Tensor


class NewObservations(ABC):
    """Abstract; the two classes below are final."""

    likelihood: Likelihood

    @abstractmethod
    def check_owner(self, owner: str | None) -> None:
        """Is there somebody of this name?"""

    @abstractmethod
    def latent(self, X: Any, owner: str | None) -> Latent:
        """As whoever observes y has it."""

    @abstractmethod
    def check(self, y: Any, at: Latent) -> Tensor:
        """y as it is meant; of classes their numbers."""

    @abstractmethod
    def probabilities(self, at: Latent) -> Tensor:
        """(n, C) of the classes."""

    @abstractmethod
    def spread(self, at: Latent) -> Spread:
        """Mean and standard deviation of y; where outliers leave none, what would be it of a Gaussian."""


@dataclass(frozen=True)
class OfOneFunction(NewObservations):
    """Of a module or an ensemble."""

    model: Predictive
    likelihood: Likelihood

    def check_owner(self, owner: str | None) -> None:
        self.model._answers(owner, of_y=True)

    def latent(self, X: Any, owner: str | None) -> Latent:
        return Latent(*self.model._latent(self.model._inputs(X), self.model._answers(owner, of_y=True)))

    def check(self, y: Any, at: Latent) -> Tensor:
        return self.likelihood.check(arrays.targets(y, len(at.mean), device=at.mean.device))

    def probabilities(self, at: Latent) -> Tensor:
        p = self.likelihood.moments(*at).mean
        return torch.stack([1 - p, p], -1)

    def spread(self, at: Latent) -> Spread:
        if not self.likelihood.has_units:
            expected, squared = self.likelihood.moments(*at)
            return Spread(expected, squared.sqrt())
        return _within(*self.likelihood.interval(*at, ONE_SD))


@dataclass(frozen=True)
class OfSeveralFunctions(NewObservations):
    """Of classes, or of a function whose noise varies."""

    model: JointPredictive
    likelihood: Likelihood

    def check_owner(self, owner: str | None) -> None:
        self.model._check_owner(owner)

    def latent(self, X: Any, owner: str | None) -> Latent:
        return Latent(*self.model._moments(X, owner, of_y=True))

    def check(self, y: Any, at: Latent) -> Tensor:
        return self.model.link.check(y, len(at.mean), at.mean.device)

    def probabilities(self, at: Latent) -> Tensor:
        assert isinstance(self.model.link, Classes)
        return self.model.link.probabilities(*at)

    def spread(self, at: Latent) -> Spread:
        return _within(*self.model.link.interval(*at, self.model.likelihoods, ONE_SD))


def new_observations(model: AnyModel, likelihood: str | None) -> NewObservations:
    """Of this likelihood, which may be left out where a model has one."""
    if isinstance(model, Predictive):
        return OfOneFunction(model, likelihoods.choose(model.likelihoods, likelihood))
    if not isinstance(model, JointPredictive):
        raise TypeError(f"pass a module or an ensemble, not {type(model).__name__}")
    if isinstance(model.link, Outputs):
        raise RecycleGPError(
            f"this model has {len(model.functions)} outputs; calibrate each by itself, as "
            f"calibrate(model.part({model.functions[0]!r}), X, y)"
        )
    return OfSeveralFunctions(model, likelihoods.choose(model.likelihoods[:1], likelihood))


def _within(low: Tensor, high: Tensor) -> Spread:
    return Spread(0.5 * (low + high), 0.5 * (high - low))

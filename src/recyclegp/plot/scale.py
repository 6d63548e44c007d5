"""What the vertical axis measures: f itself, the probability of a class, or the rate of counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import arrays
from ..ensemble import Ensemble
from ..errors import RecycleGPError
from ..likelihoods import Likelihood, family
from ..module import Module
from .style import HALF

Array = NDArray[np.float64]
Model = Module | Ensemble

# How a likelihood reads f. Where it is not listed, y is f and noise.
LINKS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "bernoulli": ("P(y = 1)", torch.sigmoid),
    "bernoulli-probit": ("P(y = 1)", torch.special.ndtr),
    "poisson": ("rate of y", torch.exp),
}


class Reading(NamedTuple):
    """What a model says at some places, on the scale of a figure."""

    centre: Array  # the mean of f, the probability, the mean rate
    low: Array  # central 95% of the same quantity, as far as f is uncertain
    high: Array


class Scale(NamedTuple):
    """One for a whole figure, so that everything in it can be compared."""

    likelihood: str | None  # None: f, because there are several

    @property
    def label(self) -> str:
        return LINKS[self.likelihood][0] if self.likelihood in LINKS else "f"

    @property
    def is_probability(self) -> bool:
        return self.label == LINKS["bernoulli"][0]

    @property
    def is_rate(self) -> bool:
        return self.label == LINKS["poisson"][0]

    def read(self, mean: Array, variance: Array) -> Reading:
        """From the moments of f."""
        half = HALF * np.sqrt(variance)
        if self.likelihood not in LINKS:
            return Reading(mean, mean - half, mean + half)
        m, v = torch.as_tensor(mean), torch.as_tensor(variance)
        # what predict_y gives: E[link(f)], not link(E[f])
        centre, _ = family(self.likelihood).moments(m, v, Likelihood(self.likelihood).log_parameters(m))
        _, link = LINKS[self.likelihood]
        found = (centre, *(link(torch.as_tensor(limit)) for limit in (mean - half, mean + half)))
        if self.is_rate:  # of a model that knows nothing they overflow, or vanish from a logarithmic axis
            found = tuple(t.clamp(1 / arrays.LARGEST, arrays.LARGEST) for t in found)
        return Reading(*(t.numpy() for t in found))

    def noise(self, model: Model) -> float | None:
        """The variance by which a new gaussian y spreads more than f, where the figure shows y and it is known."""
        if self.likelihood != "gaussian":
            return None
        known = [p.parameters[0] for p in model.likelihoods if p.name == "gaussian" and p.parameters]
        return known[0] if known else None


def choose(models: Sequence[Model], likelihood: str | None) -> Scale:
    """The one asked for, the only one there is, or else f."""
    names = list(dict.fromkeys(p.name for m in models for p in m.likelihoods))
    if likelihood is not None and family(likelihood).name not in names:
        raise RecycleGPError(f"likelihood={likelihood!r}: what is to be drawn has {', '.join(names)}")
    return Scale(likelihood or (names[0] if len(names) == 1 else None))

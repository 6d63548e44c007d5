"""What the vertical axis measures: f itself, the probability of a class, or the rate of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import arrays, likelihoods
from ..errors import Argument, RecycleGPError
from ..likelihoods import Gaussian, Likelihood, Poisson
from ..models.ensemble import Ensemble
from ..models.module import Module
from .style import BAND_LEVEL, BAND_SDS

Array = NDArray[np.float64]
Model = Module | Ensemble


class Reading(NamedTuple):
    """What a model says at some places, on the scale of a figure."""

    centre: Array  # the mean of f, the probability, the mean rate
    low: Array  # central 95% of the same quantity, as far as f is uncertain
    high: Array


class Band(NamedTuple):
    low: Array
    high: Array


class Scale(NamedTuple):
    """One for a whole figure, so that everything in it can be compared.

    Models in one figure may differ in the parameters of their likelihoods: only the family is common to them.
    """

    likelihood: Likelihood | None  # None where there are several: then f is shown, which they share
    name: str | None = None  # of the function, where the figure has others
    target: str | None = None  # what y is called, with its unit, where the models say so
    positive: str = "1"  # the class whose probability is shown

    @property
    def label(self) -> str:
        y = self.name or self.target or "y"
        return f"P({y} = {self.positive})" if self.is_probability else f"rate of {y}" if self.is_rate else self.function

    @property
    def function(self) -> str:
        """What f is called: measurements are f and noise, while classes and counts only depend on it."""
        measured = self.likelihood is not None and not (self.likelihood.classifies or self.is_rate)
        return self.name or (self.target if measured else None) or ("y" if self.is_logarithm else "f")

    @property
    def band_label(self) -> str:
        """What a band is of, in a legend."""
        if self.is_logarithm:
            return "its median"
        return "the rate" if self.is_rate else "P(y = 1)" if self.is_probability else "f"

    @property
    def is_probability(self) -> bool:
        return self.likelihood is not None and self.likelihood.classifies and not self.likelihood.ordered

    @property
    def is_rate(self) -> bool:
        return self.likelihood is not None and self.likelihood.counts

    @property
    def is_logarithm(self) -> bool:
        """Is f the logarithm of y? Then y is shown."""
        return self.likelihood is not None and self.likelihood.of_seen is not self.likelihood

    @property
    def classes(self) -> tuple[str, ...]:
        """Of functions that are classes: all of them, by name."""
        whole = self.likelihood
        return whole.classes if whole is not None and whole.classifies and whole.predicts_all else ()

    @property
    def varies(self) -> bool:
        """Has y a noise that is a function itself?"""
        whole = self.likelihood
        return whole is not None and len(whole.functions) > 1 and not whole.predicts_all

    def read(self, mean: Array, variance: Array) -> Reading:
        """From the moments of f."""
        half = BAND_SDS * np.sqrt(variance)
        low, high = mean - half, mean + half
        found: list[Tensor]
        if self.likelihood is not None and self.is_logarithm:
            # quantiles pass through: the median of y is that of log y, and so is its band
            found = [self.likelihood.from_seen(torch.as_tensor(t)) for t in (mean, low, high)]
            return Reading(*(t.numpy() for t in found))
        if self.likelihood is None or not (self.is_probability or self.is_rate):
            return Reading(mean, low, high)
        m, v = torch.as_tensor(mean), torch.as_tensor(variance)
        # The centre is what predict_y gives, which averages over f; the limits are what a certain f would give.
        certain = torch.zeros_like(v)
        of_y = Poisson() if self.is_rate else self.likelihood  # all counts have the mean exp f, whatever their spread
        found = [of_y.moments(m, v).mean]
        found += [of_y.moments(torch.as_tensor(limit), certain).mean for limit in (low, high)]
        if self.is_rate:
            # Rates of a model that knows nothing overflow, or vanish from a logarithmic axis.
            found = [rate.clamp(1 / arrays.LARGEST, arrays.LARGEST) for rate in found]
        return Reading(*(t.numpy() for t in found))

    def band_of_y(self, own: Sequence[Likelihood], mean: Array, variance: Array) -> Band | None:
        """Where a new measurement lies, if the figure shows measurements and a model's likelihood knows their noise."""
        known = [p for p in own if isinstance(p, Gaussian) and p.known]
        if not known or not isinstance(self.likelihood, Gaussian):
            return None
        low, high = known[0].interval(torch.as_tensor(mean), torch.as_tensor(variance), BAND_LEVEL)
        return Band(low.numpy(), high.numpy())


def choose(whole: Likelihood, function: str, own: Sequence[Likelihood], wanted: str | None) -> Scale:
    """The scale of a function among `whole`: that of the likelihood asked for, of the only one of `own`, or of f."""
    if whole.predicts_all and whole.classifies:
        return Scale(whole, positive=function)
    if not whole.predicts_all and len(whole.functions) > 1:
        return Scale(whole if function == whole.functions[0] else None)
    names = list(dict.fromkeys(p.name for p in own))
    if wanted is not None and likelihoods.named(wanted).name not in names:
        raise RecycleGPError(Argument("likelihood", wanted), f": what is to be drawn has {', '.join(names)}")
    name = wanted or (names[0] if len(names) == 1 else None)
    return Scale(None if name is None else likelihoods.named(name))

"""Predictions as columns of a table."""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..likelihoods import Interval, Likelihood, normal_quantile
from ..models.predictive import Predictive
from .rows import Part

LEVEL = 0.95  # the probability that every band holds
OF_F = ("mean", "sd", "lower", "upper")


def likelihood_of(gp: Predictive, name: str | None) -> Likelihood | None:
    """The likelihood of an observation; None where there are several, or its noise is not known.

    Then only f is predicted.
    """
    if name is not None:
        return likelihoods.choose(gp.likelihoods, name)
    only = gp.likelihoods[0]
    return only if len(gp.likelihoods) == 1 and only.known else None


def columns(chosen: Likelihood | None) -> tuple[str, ...]:
    return OF_F if chosen is None else (*OF_F, *_columns_of_y(chosen))


def _columns_of_y(chosen: Likelihood) -> tuple[str, str, str]:
    if chosen.has_units:
        return "y_sd", "y_lower", "y_upper"
    expected = "probability" if chosen.classifies else "rate"
    return expected, f"{expected}_lower", f"{expected}_upper"


@torch.no_grad()
def frame(gp: Predictive, part: Part, chosen: Likelihood | None) -> pd.DataFrame:
    """The columns that are kept, and the predictions beside them."""
    mean, variance = (arrays.as_tensor(t, "prediction", "cpu") for t in gp.predict(part.X))
    sd = variance.sqrt()
    half = normal_quantile(0.5 * (1 + LEVEL)) * sd
    band = Interval(mean - half, mean + half)
    values = [mean, sd, *band]
    if chosen is not None:
        values += _of_y(chosen, mean, variance, band)
    made = {name: value.numpy() for name, value in zip(columns(chosen), values, strict=True)}
    return pd.DataFrame({**{c: part.kept[c].array for c in part.kept}, **made})


def _of_y(chosen: Likelihood, mean: Tensor, variance: Tensor, band: Interval) -> list[Tensor]:
    expected, spread = chosen.moments(mean, variance)
    if chosen.has_units:
        return [spread.sqrt(), *chosen.interval(mean, variance, LEVEL)]
    # The band is that of the probability or rate itself: what f at either end of its own band gives, if it is certain.
    certain = torch.zeros_like(variance)
    return [expected, *(chosen.moments(f, certain).mean for f in band)]

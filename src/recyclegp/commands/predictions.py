"""Predictions as columns of a table."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from .. import arrays
from ..gp import GP, pick
from ..intervals import central, reach
from ..likelihoods import Likelihood, family
from .rows import Part

OF_F = ("mean", "sd", "lower", "upper")
OF_Y = {
    "gaussian": ("y_sd", "y_lower", "y_upper"),
    "student-t": ("y_sd", "y_lower", "y_upper"),
    "bernoulli": ("probability", "probability_lower", "probability_upper"),
    "bernoulli-probit": ("probability", "probability_lower", "probability_upper"),
    "poisson": ("rate", "rate_lower", "rate_upper"),
}


def likelihood_of(gp: GP, name: str | None) -> Likelihood | None:
    """Of an observation; None where nobody has said which, or its noise is not known: then only f is predicted."""
    if name is not None:
        return pick(gp.likelihoods, name)
    only = gp.likelihoods[0]
    known = len(gp.likelihoods) == 1 and len(only.parameters) == len(family(only.name).parameters)
    return only if known else None


def columns(chosen: Likelihood | None) -> tuple[str, ...]:
    return OF_F if chosen is None else (*OF_F, *OF_Y[chosen.name])


@torch.no_grad()
def frame(gp: GP, part: Part, chosen: Likelihood | None) -> pd.DataFrame:
    """The columns kept, and the predictions beside them."""
    mean, variance = (arrays.as_tensor(t, "prediction", "cpu") for t in gp.predict(part.X))
    sd = variance.sqrt()
    f_band = mean - reach() * sd, mean + reach() * sd
    values = [mean, sd, *f_band]
    if chosen is not None:
        values += _of_y(chosen, mean, variance, f_band)
    made = {name: value.numpy() for name, value in zip(columns(chosen), values, strict=True)}
    return pd.DataFrame({**{c: part.kept[c].array for c in part.kept}, **made})


def _of_y(chosen: Likelihood, m: torch.Tensor, v: torch.Tensor, f_band: Any) -> list[torch.Tensor]:
    log_p = chosen.log_parameters(m)
    expected, variance = family(chosen.name).moments(m, v, log_p)
    if family(chosen.name).has_noise:
        return [variance.sqrt(), *central(chosen.name, m, v, log_p)]
    # the band of f through the link, which is what a certain f would give
    zero = torch.zeros_like(v)
    return [expected, *(family(chosen.name).moments(f, zero, log_p)[0] for f in f_band)]

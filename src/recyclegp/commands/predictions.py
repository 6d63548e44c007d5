"""Predictions as columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..arrays import CodedInputs
from ..likelihoods import Interval, Likelihood, Moments, normal_quantile
from ..models.calibration import Calibrated
from ..models.ensemble import Ensemble
from ..models.module import Module
from ..models.naming import NEW
from ..models.predictive import AsSeenBy, Predictive
from .rows import Part

LEVEL = 0.95  # the probability that every band holds
OF_F = ("mean", "sd", "lower", "upper")
BAND_OF_Y = ("y_lower", "y_upper")
SETS = "classes"  # that y may be
OUTSIDE = "outside"


class Asked(NamedTuple):
    """Whose function predictions of f are of, and whose those of y."""

    of_f: AsSeenBy
    of_y: AsSeenBy


def asked(gp: Predictive, owner: str | None) -> Asked:
    """As the library takes it: without an owner f is the shared one, and y a new owner's."""
    gp.predict(CodedInputs(gp.inducing[:1]), owner)  # an owner who is not there is said before any row is read
    differ = isinstance(gp, Ensemble) and gp._owners_differ
    return Asked(AsSeenBy(gp, owner), AsSeenBy(gp, NEW if owner is None and differ else owner))


def likelihood_of(gp: Predictive, name: str | None) -> Likelihood | None:
    """The likelihood of an observation; None where there are several, or its noise is not known.

    Then only f is predicted.
    """
    if name is not None:
        return likelihoods.choose(gp.likelihoods, name)
    only = gp.likelihoods[0]
    return only if len(gp.likelihoods) == 1 and only.known else None


def columns(chosen: Likelihood | None, tuned: Calibrated | None = None) -> tuple[str, ...]:
    if chosen is None:
        return (*OF_F, OUTSIDE)
    more = () if tuned is None or chosen.has_units else (SETS,) if chosen.classifies else BAND_OF_Y
    return (*OF_F, *_columns_of_y(chosen), *more, OUTSIDE)


def _columns_of_y(chosen: Likelihood) -> tuple[str, str, str]:
    if chosen.has_units:
        return "y_sd", *BAND_OF_Y
    expected = "probability" if chosen.classifies else "rate"
    return expected, f"{expected}_lower", f"{expected}_upper"


@dataclass
class Away:
    """How many rows were outside every module's region."""

    rows: int = 0

    def counted(self, frame: pd.DataFrame) -> pd.DataFrame:
        self.rows += int(frame[OUTSIDE].sum())
        return frame


@torch.no_grad()
def frame(asked: Asked, part: Part, chosen: Likelihood | None, tuned: Calibrated | None = None) -> pd.DataFrame:
    """The columns that are kept, and the predictions beside them."""
    of_f = _moments(asked.of_f, part)
    same = chosen is None or asked.of_y.owner == asked.of_f.owner
    made: dict[str, Any] = values(chosen, of_f, of_f if same else _moments(asked.of_y, part))
    if chosen is not None and tuned is not None:
        made |= _calibrated(tuned, part, chosen)
    made[OUTSIDE] = asked.of_f.gp.outside(part.X).astype(int)
    return pd.DataFrame({**{c: part.kept[c].array for c in part.kept}, **made})


def _calibrated(tuned: Calibrated, part: Part, chosen: Likelihood) -> dict[str, Any]:
    if chosen.classifies:
        labels = tuned.model.target.labels if isinstance(tuned.model, (Module, Ensemble)) else None
        names = [str(c) if labels is None else labels[c] or str(c) for c in (0, 1)]
        return {SETS: sets(tuned, part.X, names)}
    return dict(zip(BAND_OF_Y, tuned.predict_interval(part.X, LEVEL), strict=True))


def sets(tuned: Calibrated, X: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The classes that each row may be, as well|ill."""
    among = np.asarray(tuned.predict_set(X, LEVEL))
    return ["|".join(n for n, there in zip(names, row, strict=True) if there) for row in among]


def values(chosen: Likelihood | None, of_f: Moments, of_y: Moments) -> dict[str, Any]:
    """Columns of one function, from the moments of f and from those of f as whoever observes y has it."""
    mean, variance = of_f
    found = [mean, variance.sqrt(), *_band(mean, variance)]
    found += [] if chosen is None else _of_y(chosen, *of_y)
    return {name: value.numpy() for name, value in zip(of_function(chosen), found, strict=True)}


def of_function(chosen: Likelihood | None) -> tuple[str, ...]:
    """The names of these columns."""
    return OF_F if chosen is None else (*OF_F, *_columns_of_y(chosen))


def _moments(asked: AsSeenBy, part: Part) -> Moments:
    return Moments(*(arrays.as_tensor(t, "prediction", "cpu") for t in asked.predict(part.X)))


def _band(mean: Tensor, variance: Tensor) -> Interval:
    half = normal_quantile(0.5 * (1 + LEVEL)) * variance.sqrt()
    return Interval(mean - half, mean + half)


def _of_y(chosen: Likelihood, mean: Tensor, variance: Tensor) -> list[Tensor]:
    expected, spread = chosen.moments(mean, variance)
    if chosen.has_units:
        return [spread.sqrt(), *chosen.interval(mean, variance, LEVEL)]
    # The band is that of the probability or rate itself: what f at either end of its own band gives, if it is certain.
    certain = torch.zeros_like(variance)
    return [expected, *(chosen.moments(f, certain).mean for f in _band(mean, variance))]

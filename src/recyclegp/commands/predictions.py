"""Predictions as columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from .. import likelihoods
from ..likelihoods import Likelihood, Moments, Observed, normal_quantile
from ..models.calibration import Calibrated
from ..models.load import Model
from . import models
from .rows import Part
from .targets import outputs_of

LEVEL = 0.95  # the probability that every band holds
OF_F = ("mean", "sd", "lower", "upper")
BAND_OF_Y = ("y_lower", "y_upper")
CLASS = "class"  # the likeliest
SETS = "classes"  # that y may be
OUTSIDE = "outside"


class Quantity(NamedTuple):
    """One thing that is predicted: y, or one of several outputs."""

    before: str  # the names of its columns
    likelihood: Likelihood | None  # of its observations; None where that is not known, and only f is predicted
    functions: slice  # that it depends on, the first of which is f

    @property
    def columns(self) -> tuple[str, ...]:
        of_y = () if self.likelihood is None else _columns_of_y(self.likelihood)
        return tuple(f"{self.before}{column}" for column in (*OF_F, *of_y))

    def values(self, of_f: Moments, of_y: Observed | None) -> dict[str, np.ndarray]:
        """From the moments of all functions (n, C), and from what is known of y."""
        mean, variance = (t[:, self.functions][:, 0] for t in of_f)
        found = [mean, variance.sqrt(), *_band(mean, variance)]
        found += [] if self.likelihood is None or of_y is None else _of_y(of_y)
        return {name: value.numpy() for name, value in zip(self.columns, found, strict=True)}


@dataclass
class Predictions:
    """What a model says of rows: `frame` after `frame`, which counts those outside every module's region."""

    gp: Model
    owner: str | None
    chosen: Likelihood | None
    tuned: Calibrated | None = None
    outside: int = 0

    def __post_init__(self) -> None:
        models.check_owner(self.gp, self.owner)
        whole = self.gp.likelihoods[0]
        if outputs_of(whole):
            known = [p if p.known else None for p in whole.parts]
            each = enumerate(zip(whole.functions, known, strict=True))
            self.quantities = [Quantity(f"{name}_", part, slice(c, c + 1)) for c, (name, part) in each]
        elif whole.predicts_all or (self.chosen is not None and self.chosen.names_classes):
            self.quantities = []  # classes have probabilities, and no function by itself says anything
        else:
            self.quantities = [Quantity("", self.chosen, slice(0, len(whole.functions)))]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of those that are made."""
        made = [column for quantity in self.quantities for column in quantity.columns]
        if not self.quantities:
            made = [*(f"p_{label}" for label in self.classes), CLASS]
        return (*dict.fromkeys([*made, *self._calibrated_columns]), OUTSIDE)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of those that y may be, as people call them."""
        labels, known = self.gp.targets[0].labels, () if self.chosen is None else self.chosen.classes
        return known if labels is None else tuple(own or c for own, c in zip(labels, known, strict=True))

    @torch.no_grad()
    def frame(self, part: Part) -> pd.DataFrame:
        """The columns that are kept, and the predictions beside them: empty where a row lacks an input."""
        complete = part.X.notna().all(axis=1).to_numpy()
        kept = pd.DataFrame({c: part.kept[c].array for c in part.kept})
        if not complete.any():
            return kept.reindex(columns=[*kept, *self.columns])
        made = self._made(part.X[complete])
        if not complete.all():
            made[OUTSIDE] = made[OUTSIDE].astype("Int64")
            made = made.set_index(np.flatnonzero(complete)).reindex(range(len(complete)))
        return kept.join(made) if len(kept.columns) else made

    def _made(self, X: pd.DataFrame) -> pd.DataFrame:
        """The predictions of rows that are complete."""
        made: dict[str, Any] = {}
        if self.quantities:
            of_f = Moments(*(t.cpu() for t in self.gp._moments(X, self.owner, of_y=False)))
            for quantity, of_y in zip(self.quantities, self._observed(X), strict=True):
                made |= quantity.values(of_f, of_y)
        else:
            p = np.asarray(self.gp.predict_proba(X, self._name, self.owner))
            likeliest = np.array(self.classes, dtype=object)[p.argmax(-1)]
            made |= {**{f"p_{label}": own for label, own in zip(self.classes, p.T, strict=True)}, CLASS: likeliest}
        made |= self._calibrated(X)
        made[OUTSIDE] = self.gp.extrapolates(X).astype(int)
        self.outside += int(made[OUTSIDE].sum())
        return pd.DataFrame(made)

    def _observed(self, X: pd.DataFrame) -> list[Observed | None]:
        """y of each quantity, where its likelihood is known; without an owner it is a new owner's."""
        if all(q.likelihood is None for q in self.quantities):
            return [None] * len(self.quantities)
        observed = self.gp._observed(X, self.owner, self._name).map(torch.Tensor.cpu)
        return [*observed.outputs()] if outputs_of(self.gp.likelihoods[0]) else [observed]

    @property
    def _name(self) -> str | None:
        """Of the likelihood, where there are several."""
        return self.chosen.name if self.chosen is not None and len(self.gp.likelihoods) > 1 else None

    @property
    def _calibrated_columns(self) -> tuple[str, ...]:
        if self.tuned is None:
            return ()
        before = "" if self.tuned.calibration.output is None else f"{self.tuned.calibration.output}_"
        return tuple(f"{before}{column}" for column in ((SETS,) if self.tuned.is_of_classes else BAND_OF_Y))

    def _calibrated(self, X: pd.DataFrame) -> dict[str, Any]:
        if self.tuned is None:
            return {}
        if self.tuned.is_of_classes:
            among = np.asarray(self.tuned.predict_set(X, LEVEL))
            classes = self.classes if self.tuned.calibration.output is None else self.tuned.classes
            sets = ["|".join(n for n, there in zip(classes, row, strict=True) if there) for row in among]
            return dict.fromkeys(self._calibrated_columns, sets)
        return dict(zip(self._calibrated_columns, self.tuned.predict_interval(X, LEVEL), strict=True))


def likelihood_of(gp: Model, name: str | None) -> Likelihood | None:
    """The likelihood of an observation; None where there are several, or its noise is not known.

    Then only f is predicted.
    """
    if name is not None:
        return likelihoods.choose(gp.likelihoods, name)
    only = gp.likelihoods[0]
    return only if len(gp.likelihoods) == 1 and only.known else None


def _columns_of_y(chosen: Likelihood) -> tuple[str, ...]:
    if chosen.of_seen is not chosen:  # f is not in the units of y
        return "y_mean", "y_sd", *BAND_OF_Y
    if not chosen.classifies and not chosen.counts:
        return "y_sd", *BAND_OF_Y
    expected = "probability" if chosen.classifies else "rate"
    return expected, f"{expected}_lower", f"{expected}_upper"


def _of_y(observed: Observed) -> list[torch.Tensor]:
    chosen, at = observed.likelihood, observed.at
    expected, spread = observed.moments()
    if chosen.of_seen is not chosen:
        return [expected, spread.sqrt(), *observed.interval(LEVEL)]
    if not chosen.classifies and not chosen.counts:
        return [spread.sqrt(), *observed.interval(LEVEL)]
    # The band is that of the probability or rate itself: what f at either end of its own band gives, if it is certain.
    certain = torch.zeros_like(at.variance)
    return [expected, *(chosen.observed(Moments(f, certain)).mean for f in _band(*at))]


def _band(mean: torch.Tensor, variance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    half = normal_quantile(0.5 * (1 + LEVEL)) * variance.sqrt()
    return mean - half, mean + half

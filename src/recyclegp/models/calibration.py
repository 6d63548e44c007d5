"""Split-conformal calibration: intervals that hold as often as they say, whatever is wrong with the model.

A few rows that no module has seen are compared with what the model says of them; how far off it was there, in its own
standard deviations, decides how wide its intervals are from then on. With n calibration rows, an interval whose factor
is the ⌈(n+1)·level⌉-th smallest of their scores holds a new row of the same kind with at least that probability (Vovk;
Papadopoulos et al. 2002; Lei et al. 2018). Nothing is assumed of kernel, noise or likelihood; only that new rows come
from where the calibration rows came from.

MAPIE has the same and much more, for estimators of scikit-learn. It is not used: this package does not depend on
scikit-learn, and what would be used of it is a sorted list and one rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..errors import RecycleGPError
from ..storage.calibration import Calibration, rank, rows_needed
from .new_observations import AnyModel, Latent, NewObservations, new_observations

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)  # calibrated unless others are asked for, as far as there are rows enough
ROUNDING = 1e-9  # relative: counts at the very end of an interval are in it


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A model whose intervals, or sets of classes, are calibrated. Made by `calibrate`."""

    model: AnyModel
    calibration: Calibration

    def __post_init__(self) -> None:
        self._new.check_owner(self.calibration.owner)  # who is not there is said at once

    @property
    def is_of_classes(self) -> bool:
        """Whether it has sets of classes instead of intervals."""
        return self._new.likelihood.classifies

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Any, Any]:
        """The interval of a new observation y at each row of X.

        Args:
            X: (n, D) inputs.
            level: the share of new rows that intervals hold; one of those that were calibrated.

        Returns:
            Its lower and its upper ends, n numbers each, in the kind of array that X is. Counts are from the first to
            the last that is within.
        """
        chosen = self._new.likelihood
        if chosen.classifies:
            raise RecycleGPError(f"an interval for y is not defined for likelihood {chosen.name!r}; use predict_set")
        q = self.calibration.quantile(arrays.share(level, "level"))
        centre, scale = self._new.spread(self._latent(X))
        low, high = centre - q * scale, centre + q * scale
        if chosen.counts:
            edge = ROUNDING * (1 + centre + q * scale)
            low, high = (low - edge).ceil().clamp_min(0), (high + edge).floor()
        return arrays.like(X, low), arrays.like(X, high)

    def predict_set(self, X: Any, level: float = 0.95) -> Any:
        """The classes that y may be, at each row of X; the most probable one is always among them.

        Args:
            X: (n, D) inputs.
            level: the share of new rows whose class is in its set; one of those that were calibrated.

        Returns:
            (n, C) booleans, a column for each class, in the order of `predict_proba`.
        """
        chosen = self._new.likelihood
        if not chosen.classifies:
            raise RecycleGPError(f"likelihood {chosen.name!r} has no classes; use predict_interval")
        q = self.calibration.quantile(arrays.share(level, "level"))
        p = self._new.probabilities(self._latent(X))
        among = (1 - p <= q) | (p == p.amax(-1, keepdim=True))
        return among.to(X.device) if isinstance(X, Tensor) else among.cpu().numpy()

    def covers(self, X: Any, y: Any, level: float = 0.95) -> np.ndarray:
        """Whether the interval, or the set, holds each y.

        Args:
            X: (n, D) inputs.
            y: n targets, or classes.
            level: one of those that were calibrated.

        Returns:
            n booleans.
        """
        true = self._new.check(y, self._latent(X)).cpu().numpy()
        if self.is_of_classes:
            among = np.asarray(self.predict_set(X, level))
            return among[np.arange(len(true)), true.astype(int)]
        low, high = (np.asarray(end.detach().cpu() if isinstance(end, Tensor) else end)
                     for end in self.predict_interval(X, level))  # fmt: skip
        return (low <= true) & (true <= high)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the calibration, without the model, to a small JSON file, all or nothing."""
        self.calibration.save(path)

    @property
    def _new(self) -> NewObservations:
        return new_observations(self.model, self.calibration.likelihood)

    def _latent(self, X: Any) -> Latent:
        return self._new.latent(X, self.calibration.owner)


def calibrate(
    model: AnyModel,
    X: Any,
    y: Any,
    *,
    levels: Iterable[float] | None = None,
    likelihood: str | None = None,
    owner: str | None = None,
) -> Calibrated:
    """Make intervals that hold as often as they say, from a few rows that no module has seen.

    Args:
        model: a module or an ensemble, also a joint one of classes or of varying noise. Of several outputs each is
            calibrated by itself: `calibrate(model.part(name), X, y)`.
        X: (n, D) inputs of the calibration rows; they must be like those that will be predicted.
        y: their n targets, or classes.
        levels: of the intervals; 0.5, 0.8, 0.9, 0.95 and 0.99 unless given, as far as n suffices: 95% needs 19 rows.
        likelihood: which one, by name; may be left out where the model has one.
        owner: whose rows they are; a new owner's unless given.

    Returns:
        The model with its calibration, whose `save` writes a small file: a few numbers, no rows.
    """
    new = new_observations(model, likelihood)
    with torch.no_grad():
        at = new.latent(X, owner)
        true = new.check(y, at)
    n = len(true)
    if n == 0:
        raise RecycleGPError("calibrate: X has no rows; pass some that no module has seen")
    wanted = sorted({arrays.share(level, "levels") for level in (LEVELS if levels is None else levels)})
    if levels is None:
        wanted = [level for level in wanted if rank(level, n) <= n]
    elif not wanted or rank(wanted[-1], n) > n:
        needed = rows_needed(wanted[-1]) if wanted else 0
        raise RecycleGPError(
            f"levels={wanted}: there are {n} calibration rows, and {needed} are needed; pass more rows or lower levels"
        )
    with torch.no_grad():
        found = scores(new, true, at).sort().values.tolist()
    quantiles = tuple(found[rank(level, n) - 1] for level in wanted)
    return Calibrated(model, Calibration(new.likelihood.name, owner, n, tuple(wanted), quantiles))


def scores(of: NewObservations, y: Tensor, at: Latent) -> Tensor:
    """How far off each y is: in standard deviations, or for classes by how much its probability is less than one."""
    if of.likelihood.classifies:
        return 1 - of.probabilities(at).gather(1, y.long()[:, None])[:, 0]
    centre, scale = of.spread(at)
    return (y - centre).abs() / scale

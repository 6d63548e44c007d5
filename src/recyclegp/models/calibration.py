"""Split-conformal calibration: intervals that hold as often as they say, whatever is wrong with the model.

How far off the model was on a few rows that no module has seen, in its own standard deviations, decides how wide its
intervals are. With n such rows, the ⌈(n+1)·level⌉-th smallest score as the factor holds a new row from where these came
from with at least that probability (Vovk; Papadopoulos et al. 2002; Lei et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..arrays import Array
from ..errors import Argument, FewCalibrationRowsWarning, RecycleGPError, warn_user
from ..likelihoods import Likelihood, Moments, Outputs
from ..storage.calibration import Calibration, rank, rows_needed
from .predictive import Predictive

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)  # calibrated unless others are asked for, as far as there are rows enough
FEW_ROWS = 50  # below which somebody should know how much chance has to do with it; by hand
BAD_LUCK = 0.05  # one time in 20
ONE_SD = 0.6826894921370859  # the level of a Gaussian's interval whose half-width is its standard deviation
ROUNDING = 1e-9  # relative: counts at the very end of an interval are in it


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A model whose intervals, or sets of classes, are calibrated. Made by `calibrate`.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> m = rgp.fit(X[::2], np.sin(X[::2, 0]), noise=0.01)
        >>> c = rgp.calibrate(m, X[1::2], np.sin(X[1::2, 0]))
    """

    model: Predictive
    calibration: Calibration

    def __post_init__(self) -> None:
        self.model._processes(self.calibration.owner, of_y=True)  # who is not there is said at once

    @property
    def is_of_classes(self) -> bool:
        """Whether it has sets of classes instead of intervals."""
        return self._likelihood.classifies

    @property
    def classes(self) -> tuple[str, ...]:
        """Those that y may be; () where it is a number."""
        return self._likelihood.classes

    def predict_interval(self, X: Array, level: float = 0.95) -> tuple[Any, Any]:
        """The interval of a new observation y at each row of X.

        Args:
            X: (n, D) inputs.
            level: the share of new rows that intervals hold; one of those that were calibrated.

        Returns:
            Its lower and its upper ends, n numbers each, in the kind of array that X is. Counts are from the first to
            the last that is within.

        Raises:
            RecycleGPError: y is a class, or the level was not calibrated.

        Examples:
            >>> low, high = c.predict_interval(X, 0.9)
            >>> bool((low <= high).all())
            True
        """
        chosen = self._likelihood
        if chosen.classifies:
            raise RecycleGPError(f"an interval for y is not defined for likelihood {chosen.name!r}; use predict_set")
        q = self.calibration.quantile(arrays.share(level, "level"))
        centre, scale = spread(chosen, self._moments(X))
        # no narrower by rounding: the row that decided how wide it is stays inside
        half = q * scale + 4 * torch.finfo(scale.dtype).eps * (centre.abs() + q * scale)
        low, high = (chosen.from_seen(centre + side * half) for side in (-1, 1))
        if chosen.counts:
            edge = ROUNDING * (1 + centre + q * scale)
            low, high = (low - edge).ceil().clamp_min(0), (high + edge).floor()
        return arrays.like(X, low), arrays.like(X, high)

    def predict_set(self, X: Array, level: float = 0.95) -> Any:
        """The classes that y may be, at each row of X; the most probable one is always among them.

        Args:
            X: (n, D) inputs.
            level: the share of new rows whose class is in its set; one of those that were calibrated.

        Returns:
            (n, C) booleans, a column for each class, in the order of `predict_proba`.

        Raises:
            RecycleGPError: y is not a class, or the level was not calibrated.

        Examples:
            >>> n = rgp.fit(X[::2], X[::2, 0] > 3, likelihood="bernoulli")
            >>> rgp.calibrate(n, X[1::2], X[1::2, 0] > 3).predict_set(X).shape
            (60, 2)
        """
        chosen = self._likelihood
        if not chosen.classifies:
            raise RecycleGPError(f"likelihood {chosen.name!r} has no classes; use predict_interval")
        q = self.calibration.quantile(arrays.share(level, "level"))
        p = chosen.probabilities(self._moments(X))
        among = (1 - p <= q) | (p == p.amax(-1, keepdim=True))
        return among.to(X.device) if isinstance(X, Tensor) else among.cpu().numpy()

    def covers(self, X: Array, y: Array, level: float = 0.95) -> np.ndarray:
        """Whether the interval, or the set, holds each y.

        Args:
            X: (n, D) inputs.
            y: n targets, or classes.
            level: one of those that were calibrated.

        Returns:
            n booleans.

        Raises:
            RecycleGPError: y does not fit X or the likelihood, or the level was not calibrated.

        Examples:
            >>> bool(c.covers(X[1::2], np.sin(X[1::2, 0]), 0.9).mean() >= 0.9)
            True
        """
        true = self._likelihood.targets(self.model._as_numbers(y), len(X), None).cpu().numpy()
        if self.is_of_classes:
            among = np.asarray(self.predict_set(X, level))
            return among[np.arange(len(true)), true.astype(int)]
        low, high = (np.asarray(end.detach().cpu() if isinstance(end, Tensor) else end)
                     for end in self.predict_interval(X, level))  # fmt: skip
        return (low <= true) & (true <= high)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the calibration, without the model, to a small JSON file, all or nothing.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> c.save("c.json")
        """
        self.calibration.save(path)

    @property
    def _likelihood(self) -> Likelihood:
        return _observed(self.model, self.calibration.likelihood, self.calibration.output).likelihood

    def _moments(self, X: Array) -> Moments:
        found = _observed(self.model, self.calibration.likelihood, self.calibration.output)
        return found.of(self.model._moments(X, self.calibration.owner, of_y=True))


def calibrate(
    model: Predictive,
    X: Array,
    y: Array,
    *,
    levels: Iterable[float] | None = None,
    likelihood: str | None = None,
    owner: str | None = None,
    output: str | None = None,
) -> Calibrated:
    """Make intervals that hold as often as they say, from a few rows that no module has seen.

    Args:
        model: a module or an ensemble.
        X: (n, D) inputs of the calibration rows; they must be like those that will be predicted.
        y: their n targets, or classes.
        levels: of the intervals; 0.5, 0.8, 0.9, 0.95 and 0.99 unless given, as far as n suffices: 95% needs 19 rows.
        likelihood: which one, by name; may be left out where the model has one.
        owner: whose rows they are; a new owner's unless given.
        output: of a model of several outputs the one that y is; each is calibrated by itself.

    Returns:
        The model with its calibration, whose `save` writes a small file: a few numbers, no rows.

    Raises:
        RecycleGPError: There are no rows, too few of them for a level, or the model has several outputs and none is
            named.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 120)[:, None]
        >>> m = rgp.fit(X[::2], np.sin(X[::2, 0]), noise=0.01)
        >>> rgp.calibrate(m, X[1::2], np.sin(X[1::2, 0])).calibration.rows
        60
    """
    if not isinstance(model, Predictive):
        raise TypeError(f"pass a module or an ensemble, not {type(model).__name__}")
    seen = _observed(model, likelihood, output)
    chosen = seen.likelihood
    with torch.no_grad():
        at = seen.of(model._moments(X, owner, of_y=True))
        true = chosen.targets(model._as_numbers(y), len(at.mean), at.mean.device)
    if chosen.censors:
        raise RecycleGPError(
            f"calibrate: of a time that is censored, as those of likelihood {chosen.name!r} may be, nobody knows "
            "whether an interval holds it; use predict_interval as it is"
        )
    n = len(true)
    if n == 0:
        raise RecycleGPError("calibrate: X has no rows; pass some that no module has seen")
    wanted = sorted({arrays.share(level, "levels") for level in (LEVELS if levels is None else levels)})
    if levels is None:
        wanted = [level for level in wanted if rank(level, n) <= n]
    elif not wanted or rank(wanted[-1], n) > n:
        needed = rows_needed(wanted[-1]) if wanted else 0
        raise RecycleGPError(
            Argument("levels", wanted),
            f": there are {n} calibration rows, and {needed} are needed; pass more rows or lower levels",
        )
    with torch.no_grad():
        found = scores(chosen, true, at).sort().values.tolist()
    quantiles = tuple(found[rank(level, n) - 1] for level in wanted)
    _warn_of_few_rows(n, wanted[-1])
    return Calibrated(model, Calibration(chosen.name, owner, n, tuple(wanted), quantiles, output=output))


def _warn_of_few_rows(n: int, level: float) -> None:
    """With how much less these very intervals may hold than they say: which rows there are is chance."""
    if n < FEW_ROWS:
        warn_user(
            f"calibrated on {n} row{'s' * (n != 1)}: one time in 20, intervals of {100 * level:g}% "
            f"from so few hold {100 * coverage_by_bad_luck(n, level):.0f}% of new rows or less; a hundred are better",
            category=FewCalibrationRowsWarning,
        )


def coverage_by_bad_luck(n: int, level: float) -> float:
    """The share of new rows that intervals hold in one of twenty calibrations with n rows, or less.

    Of continuous scores the share that the k-th smallest of n holds is Beta(k, n + 1 − k); P(Beta ≤ p) is the
    probability that at least k of n are below the p-quantile.
    """
    k = rank(level, n)

    def probability(p: float) -> float:
        return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) < BAD_LUCK else (low, middle)
    return low


class Observed(NamedTuple):
    """What is calibrated: y of a model, or one of its outputs."""

    likelihood: Likelihood
    function: int | None  # None: of all functions together

    def of(self, at: Moments) -> Moments:
        return at if self.function is None else Moments(*(t[:, self.function, None] for t in at))


def _observed(model: Predictive, likelihood: str | None, output: str | None) -> Observed:
    whole = model.likelihoods[0]
    if not isinstance(whole, Outputs):
        if output is not None:
            raise RecycleGPError(Argument("output", output), f": this model has {whole.meaning}; leave it out")
        return Observed(model._likelihood(likelihood), None)
    if output not in whole.names:
        raise RecycleGPError(
            Argument("output", output), f": this model has {whole.words}; name the one that y is, one at a time"
        )
    c = whole.names.index(str(output))
    return Observed(likelihoods.choose(whole.parts[c : c + 1], likelihood), c)


class Spread(NamedTuple):
    """Where y, as f sees it, is expected, and by how much it may differ."""

    centre: Tensor
    scale: Tensor


def spread(likelihood: Likelihood, at: Moments) -> Spread:
    """Mean and standard deviation of y; where outliers leave none, what would be it of a Gaussian."""
    if likelihood.counts:
        expected, squared = likelihood.observed(at)
        return Spread(expected, squared.sqrt())
    low, high = likelihood.of_seen.interval_at(at, ONE_SD)
    return Spread(0.5 * (low + high), 0.5 * (high - low))


def scores(likelihood: Likelihood, y: Tensor, at: Moments) -> Tensor:
    """How far off each y is: in standard deviations, or for classes by how much its probability is less than one."""
    if likelihood.classifies:
        return 1 - likelihood.probabilities(at).gather(1, y.long()[:, None])[:, 0]
    centre, scale = spread(likelihood, at)
    return (likelihood.seen(y) - centre).abs() / scale

"""How far axes and colours reach: one range for all panels of a figure, so that they can be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from .numbers import Panel
from .scale import Array, Scale

PROBABILITY_CONTOURS = (0.2, 0.5, 0.8)
LOGARITHMIC_FROM = 30.0  # rates that differ by more than this factor are shown on a logarithmic scale
BAND_CUT = 3.0  # bands of rates are cut off at this factor from the rates, as they grow exponentially with the sd of f


class Range(NamedTuple):
    low: float
    high: float
    log: bool = False

    def lowered(self, share: float) -> float:
        """The low end of a longer range, of which the additional part is this share."""
        more = share / (1 - share)
        if self.log:
            return self.low * (self.low / self.high) ** more
        return self.low - more * (self.high - self.low)

    def round_values(self, count: int) -> list[float]:
        """Some round numbers strictly inside."""
        if not self.log:
            return [float(v) for v in MaxNLocator(count).tick_values(self.low, self.high) if self.low < v < self.high]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = [m * 10.0**k for k in decades for m in (1, 2, 5)]
        found = [v for v in found if self.low < v < self.high]
        return found if len(found) <= 2 * count else [v for v in found if f"{v:e}"[0] == "1"]


def height(panels: Sequence[Panel], scale: Scale) -> Range:
    """The range of the vertical axis."""
    curves = [c for p in panels for c in p.curves]
    if scale.is_probability or not curves:
        return Range(0.0, 1.0)
    widest = [c.noisy or ((c.low, c.high) if c.banded else (c.centre, c.centre)) for c in curves]
    owners = [centre for c in curves for _, centre in c.owners]
    widest += [(centre, centre) for centre in owners]
    low, high = min(float(np.min(low)) for low, _ in widest), max(float(np.max(high)) for _, high in widest)
    if not scale.is_rate:
        room = 0.04 * (high - low) or 1.0
        return Range(low - room, high + room)
    least, most = _extremes([*(c.centre for c in curves), *owners])
    if most < LOGARITHMIC_FROM * least:
        return Range(0.0, min(1.05 * high, BAND_CUT * most))
    return Range(max(low, least / BAND_CUT**2), min(high, most * BAND_CUT**2), log=True)


def spread(maps: Sequence[Array], scale: Scale | None) -> Range:
    """The range of the colours; a scale of None is that of standard deviations."""
    if scale is not None and scale.is_probability:
        return Range(0.0, 1.0)
    low, high = _extremes(maps)
    if not low < high:
        return Range(low - 0.5, low + 0.5)
    return Range(low, high, log=scale is not None and scale.is_rate and high >= LOGARITHMIC_FROM * low)


def contours(maps: Sequence[Array], scale: Scale | None) -> list[float]:
    """The values at which contours are drawn."""
    if scale is not None and scale.is_probability:
        return list(PROBABILITY_CONTOURS)
    return spread(maps, scale).round_values(6)


def within(levels: Sequence[float], values: Array) -> list[float]:
    """Those of the levels that a map crosses; an empty map crosses none."""
    known = values[np.isfinite(values)]
    return [v for v in levels if known.size and known.min() < v < known.max()]


def _extremes(values: Sequence[Array]) -> tuple[float, float]:
    known = np.concatenate([v[np.isfinite(v)] for v in values])
    return float(known.min()), float(known.max())

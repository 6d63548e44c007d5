"""Two groups of modules that speak of one function in different units: u → s·u + b for one of them, by the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..models.ensemble import Ensemble
from ..models.module import Module

RANGE = (-4.0, 4.0)  # of log|s|, about one standard deviation against another
COARSE, FINE = 17, 12  # trials on a grid, then by golden section


class Units(NamedTuple):
    scale: float
    shift: float
    evidence: float  # of everybody's data as they were measured

    def of(self, modules: Sequence[Module]) -> list[Module]:
        return [m.transform(output_scale=self.scale, output_shift=self.shift) for m in modules]


class Aligned(NamedTuple):
    best: Units
    other: Units  # the best with the opposite sign of s
    nothing: float  # evidence where |s| is so large that the group, whose noise grows with it, says next to nothing


def align(fixed: Ensemble, modules: Sequence[Module], unit: float) -> Aligned:
    """s and b that maximise the block-marginal evidence of `fixed` with the modules added, at its kernel and points.

    A module's evidence is that of its data in its units, p(s·y + b) = p(y)/|s|ⁿ. It is the same data y that must be
    explained at every s, so that n·log|s| is given back; without it the smallest scale would always win.

    Args:
        fixed: the ensemble whose units stay.
        modules: those whose units are looked for.
        unit: a typical size of s: the deviation of f in the fixed units over that in the modules'.

    Returns:
        The best of either sign, and what silence would be worth.
    """
    found = sorted((_signed(fixed, modules, sign, unit) for sign in (1.0, -1.0)), key=lambda u: -u.evidence)
    nothing = profiled(fixed, modules, math.copysign(unit, found[0].scale) * math.exp(RANGE[1])).evidence
    return Aligned(found[0], found[1], nothing)


def profiled(fixed: Ensemble, modules: Sequence[Module], scale: float) -> Units:
    """The best shift at one scale. The evidence is quadratic in b: three trials know it all."""

    jacobian = sum(m.rows for m in modules) * math.log(abs(scale))

    def evidence(shift: float) -> float:
        moved = [m.transform(output_scale=scale, output_shift=shift) for m in modules]
        return fixed.add(moved).evidence + jacobian

    # about the shift that puts the modules' prior means on the ensemble's
    centre = fixed.mean - scale * float(np.mean([m.mean for m in modules]))
    width = abs(scale) * float(np.mean([math.sqrt(float(m.kernel_spec.theta[0].exp())) for m in modules])) + 1.0
    low, middle, high = (evidence(centre + t * width) for t in (-1.0, 0.0, 1.0))
    bend = low - 2 * middle + high
    step = 0.5 * (low - high) / bend if bend < 0 else 0.0
    shift = centre + step * width
    return Units(float(scale), float(shift), evidence(shift))


def _signed(fixed: Ensemble, modules: Sequence[Module], sign: float, unit: float) -> Units:
    """Along log|s|: a grid, and a golden section about its best."""

    def at(log_scale: float) -> Units:
        return profiled(fixed, modules, sign * unit * math.exp(log_scale))

    grid = np.linspace(*RANGE, COARSE)
    tried = [at(t) for t in grid]
    k = int(np.argmax([u.evidence for u in tried]))
    a, b = float(grid[max(k - 1, 0)]), float(grid[min(k + 1, COARSE - 1)])
    ratio = (math.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = at(c), at(d)
    for _ in range(FINE):
        if at_c.evidence > at_d.evidence:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = at(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = at(d)
    return max(at_c, at_d, tried[k], key=lambda u: u.evidence)

"""Why a module contradicts the others, in words a person understands: whatever explains best what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from .consensus import LOG_2PI, Prediction
from .constants import EXPLAINING
from .unit_table import KNOWN, KnownChange
from .verdicts import InputFactor, Units

FACTORS = torch.logspace(0, EXPLAINING.decades, EXPLAINING.steps, dtype=torch.float64)  # of the variance
ROUNDING = 1e-9  # of a constant: what varies less does not vary


class Explanation(NamedTuple):
    reason: str
    value: float  # log-probability of what the module says, less the price of the numbers it needs
    units: Units | None = None  # where a change of the units of y explains it
    inputs: tuple[InputFactor, ...] = ()  # changes of inputs that would undo it, where these explain it
    too_sure: float = 1.0  # times: its standard deviations are that much too small, where that explains it
    remedy: Units | None = None  # what would make the module agree, where that is known well enough to be proposed

    @property
    def is_nameless(self) -> bool:
        """Is it only unlike the others, in no way that has a name?"""
        return self.units is None and not self.inputs and self.too_sure == 1


def explained(p: Prediction, alone: float, usual: float, known: Sequence[KnownChange] = KNOWN) -> Explanation:
    """The best explanation of a module; `alone` is its log-probability as a function of its own.

    `known` are the changes of f that people's changes of units make.
    """
    count = len(p.error)
    price = EXPLAINING.price + 0.5 * math.log(max(count, 2))
    shift = _units(p, usual, free=(False, True))
    scale = _units(p, usual, free=(True, False))
    both = _units(p, usual, free=(True, True))
    factor, sure = _too_sure(p)
    found = [
        Explanation("unlike everybody else", alone),
        Explanation(f"overconfident by a factor of {factor**0.5:.2g}", sure - price, too_sure=factor**0.5),
        Explanation("opposite sign", _fits(p, Units(-1.0), usual), Units(-1.0)),
        Explanation(f"shifted by {shift.shift:.2g}", _fits(p, shift, usual) - price, shift),
        Explanation(f"scaled by about {scale.scale:.2g}", _fits(p, scale, usual) - price, scale),
        Explanation(_in_words(both), _fits(p, both, usual) - 2 * price, both),
    ]
    # a scale near zero says that the module knows nothing of f, and cannot be turned back
    best = max(
        (e for e in found if e.units is None or abs(e.units.scale) > EXPLAINING.least_scale), key=lambda e: e.value
    )
    settled = None if best.units is None else _settled(p, best.units, usual, known)
    return best if settled is None else best._replace(remedy=settled.back)


def _settled(p: Prediction, units: Units, usual: float, known: Sequence[KnownChange]) -> Units | None:
    """The one known change of units that explains it as well; where there is none, these, if both numbers are clear."""
    fits = [(_fits(p, Units(*change), usual), Units(*change)) for change in known]
    near = [fit for fit in fits if fit[0] > _fits(p, units, usual) - EXPLAINING.near_known]
    best, likely = max(near, default=(0.0, units)), [fit for fit, _ in near]
    if near:
        return best[1] if sum(fit > best[0] - EXPLAINING.as_likely for fit in likely) == 1 else None
    return units if units == Units(-1.0) or _are_clear(p, units, usual) else None


def _are_clear(p: Prediction, units: Units, usual: float) -> bool:
    """Are a and b known to a tenth, of itself and of what f varies by? Their covariance is (XᵀX)⁻¹ = L⁻ᵀL⁻¹."""
    constant = float(p.predicted @ p.ones / p.ones.square().sum())
    varies = float((p.predicted - constant * p.ones).norm() / p.ones.norm())
    if not varies > ROUNDING * abs(constant):
        return False  # at one point, or of a constant, nobody can tell a from b
    root = (usual * (1 + units.scale**2 * p.variance)).rsqrt()
    X = root[:, None] * torch.stack([p.predicted, p.ones], 1)
    L = linalg.cholesky(X.mT @ X).L
    scale_sd, shift_sd = linalg.solve_lower(L, torch.eye(2, dtype=X.dtype)).square().sum(0).sqrt().tolist()
    return max(scale_sd, shift_sd / varies) < EXPLAINING.clear * abs(units.scale)


def _in_words(units: Units) -> str:
    sign = "−" if units.shift < 0 else "+"
    return f"in other units: about {units.scale:.2g}·y {sign} {abs(units.shift):.2g}"


def _fits(p: Prediction, units: Units, usual: float) -> float:
    """log N(ρ; a·predicted + b·ones, c(I + a² diag(predicted variance)))."""
    rho = p.predicted + p.error
    variance = usual * (1 + units.scale**2 * p.variance)
    return _log_normal(rho - units.scale * p.predicted - units.shift * p.ones, variance)


def _units(p: Prediction, usual: float, free: tuple[bool, bool]) -> Units:
    """The a and b that fit best, weighted by what is known: Σ(ρ − a·predicted − b·ones)²/variance(a)."""
    columns = torch.stack([p.predicted, p.ones], 1)
    rho, now = p.predicted + p.error, [1.0, 0.0]
    some = [i for i in (0, 1) if free[i]]
    for _ in range(EXPLAINING.rounds):
        root = (usual * (1 + now[0] ** 2 * p.variance)).rsqrt()[:, None]
        rest = rho - sum(now[i] * columns[:, i] for i in (0, 1) if not free[i])
        best = torch.linalg.lstsq(root * columns[:, some], root * rest[:, None]).solution[:, 0]
        for i, value in zip(some, best.tolist(), strict=True):
            now[i] = value
    return Units(now[0], now[1])


def _too_sure(p: Prediction) -> tuple[float, float]:
    """The factor of its own variance that explains its distance from the others best, and how well it does."""
    values = [_log_normal(p.error, factor + p.variance) for factor in FACTORS]
    best = max(range(len(values)), key=values.__getitem__)
    return float(FACTORS[best]), values[best]


def _log_normal(error: Tensor, variance: Tensor) -> float:
    return -0.5 * float((error.square() / variance + variance.log() + LOG_2PI).sum())

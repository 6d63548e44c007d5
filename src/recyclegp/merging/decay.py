"""Old knowledge that counts less and less: all of it to a power below one.

    t_k(f) → t_k(f)^γ        √γ R_k, √γ ρ_k, γ e_k

This is the power prior of Ibrahim and Chen (2000) and the exponential forgetting of adaptive filters: what n rows said
counts as γn rows would, so that f becomes less certain where nothing new comes in, and follows what does. With γ at
every step it counts γ^age; by age, with a half-life h, it counts 2^(−age/h).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import arrays, times
from ..errors import Argument, RecycleGPError
from .member import Member, active
from .site_source import SiteSource


def check_decay(decay: Any, argument: str = "decay") -> float:
    """The argument, if it is a share."""
    share = arrays.number(decay, argument)
    if not 0 < share <= 1:
        raise RecycleGPError(Argument(argument, share), "; pass what old knowledge still counts, in (0, 1], as 0.98")
    return share


def decayed_members(members: Sequence[Member], share: float) -> tuple[Member, ...]:
    """Members that count as much less; what a form knows of them fades with it (`Form.faded`)."""
    return tuple(_less(m, share) for m in members)


def _less(m: Member, share: float) -> Member:
    """A member that counts less, also if it is trusted again some day."""
    verdict = m.verdict
    if verdict is not None and verdict.weight is not None:
        verdict = verdict._replace(weight=verdict.weight * share)
    return m._replace(weight=m.weight * share, verdict=verdict)


def check_half_life(half_life: Any, now: Any) -> None:
    """Said before any module is read."""
    if half_life is not None:
        arrays.number(half_life, "half_life", positive=True)
    elif now is not None:
        raise RecycleGPError(
            Argument("now"),
            " is the time from which ages are counted for ",
            Argument("half_life"),
            "; pass both, or none",
        )
    if now is not None:
        times.when(now, "now")


Aged = tuple[tuple[Member, ...], SiteSource]


def aged(members: tuple[Member, ...], sites: SiteSource, half_life: float | None, now: Any) -> Aged:
    """Members with their smaller weights w_k 2^(−age_k/h), and their sites to as much smaller powers."""
    if half_life is None:
        return members, sites
    ages = times.ages({m.name: m.time for m in members}, None if now is None else times.when(now, "now"))
    factors = [times.weight(ages[m.name], float(half_life)) for m in members]
    less = tuple(m._replace(weight=m.weight * factor) for m, factor in zip(members, factors, strict=True))
    if not active(less):
        raise RecycleGPError(
            Argument("half_life", half_life), ": all modules are so old that they count nothing; pass more"
        )
    return less, sites.weighted(torch.tensor(factors, dtype=torch.float64))

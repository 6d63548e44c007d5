"""Old knowledge that counts less and less: all of it to a power below one.

    t_k(f) → t_k(f)^γ        √γ R_k, √γ ρ_k, γ e_k

This is the power prior of Ibrahim and Chen (2000) and the exponential forgetting of adaptive filters: what n rows said
counts as γn rows would, so that f becomes less certain where nothing new comes in, and follows what does. With γ at
every step it counts γ^age; by age, with a half-life h, it counts 2^(−age/h).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from .. import arrays, times
from ..core.least_squares import CentredRows
from ..errors import RecycleGPError
from .build import Form
from .exact_form import ExactForm
from .member import Member, active, stored
from .owners import owner_numbers
from .site_source import SiteSource


class Faded(NamedTuple):
    form: Form
    members: tuple[Member, ...]


def check_share(forget: Any) -> float:
    """The argument `forget`, if it is a share."""
    share = arrays.number(forget, "forget")
    if not 0 < share <= 1:
        raise RecycleGPError(f"forget={share:g}; pass what old knowledge still counts, in (0, 1], as 0.98")
    return share


def check_half_life(half_life: Any, now: Any) -> None:
    """Said before any module is read."""
    if half_life is not None:
        arrays.number(half_life, "half_life", positive=True)
    elif now is not None:
        raise RecycleGPError("now= is the time from which ages are counted for half_life=; pass both, or none")
    if now is not None:
        times.when(now, "now")


class Aged(NamedTuple):
    members: tuple[Member, ...]
    sites: SiteSource


def aged(members: tuple[Member, ...], sites: SiteSource, half_life: float | None, now: Any) -> Aged:
    """Members that count less the older they are, and their sites: w_k ← w_k 2^(−age_k/h)."""
    if half_life is None:
        return Aged(members, sites)
    ages = times.ages({m.name: m.time for m in members}, None if now is None else times.when(now, "now"))
    factors = [times.weight(ages[m.name], float(half_life)) for m in members]
    less = tuple(m._replace(weight=m.weight * factor) for m, factor in zip(members, factors, strict=True))
    if not active(less):
        raise RecycleGPError(f"half_life={half_life:g}: all modules are so old that they count nothing; pass more")
    return Aged(less, sites.weighted(torch.tensor(factors, dtype=torch.float64)))


@torch.no_grad()
def faded(form: Form, members: Sequence[Member], share: float) -> Faded:
    """All that is known to the power γ = `share`, at the same prior and points.

    The rows of a form at points are linear in their sites, so they are multiplied as the sites would be. That is not so
    where an owner's own function is integrated out of them, nor for the rows of the evidence, out of which what the
    points leave open is integrated: these are computed anew from the sites.
    """
    less = tuple(_less(m, share) for m in members)
    return Faded(_faded_form(form, less, share), less)


def _less(m: Member, share: float) -> Member:
    """A member that counts less, also if it is trusted again some day."""
    verdict = m.verdict
    if verdict is not None and verdict.weight is not None:
        verdict = verdict._replace(weight=verdict.weight * share)
    return m._replace(weight=m.weight * share, verdict=verdict)


def _faded_form(form: Form, less: Sequence[Member], share: float) -> Form:
    if isinstance(form, ExactForm):
        return _faded_exact(form, share)
    kept = all(m.site is not None for m in less)
    if form.effects.present:
        if not kept:
            raise RecycleGPError(
                "forget: an ensemble at points whose owners differ needs the modules' sites, and this one keeps only "
                "names; merge with keep='sites', or with owners=None"
            )
        with stored(less) as sites:
            return form.only(form.grouped(sites, owner_numbers(less)))
    marginal = None if kept or form.marginal is None else rows_to_the_power(form.marginal, share)
    return replace(form, bound_rows=rows_to_the_power(form.bound_rows, share), marginal=marginal)


def rows_to_the_power(rows: CentredRows, share: float) -> CentredRows:
    """√γ H, √γ ρ̃, γ e, γ slack.

    Of the rows of the evidence, for an ensemble that keeps names only: there it is the modules' marginal likelihood at
    the points that is taken to a power, which is the same as far as the points express the modules.
    """
    root = share**0.5
    return CentredRows(root * rows.H, root * rows.rho, share * rows.e, share * rows.slack)


def _faded_exact(form: ExactForm, share: float) -> ExactForm:
    s, root = form.stacked, share**0.5
    blocks = tuple(b._replace(Rt=root * b.Rt) for b in s.blocks)
    less = s._replace(blocks=blocks, rho=root * s.rho, ones=root * s.ones, e=share * s.e)
    return replace(form, stacked=less, factor=None)

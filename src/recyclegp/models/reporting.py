"""What an ensemble says about its modules and their owners."""

from __future__ import annotations

from typing import Any

from ..core.effects import Offset
from ..core.owner_posterior import FunctionPosterior, OwnerPosterior
from ..merging.agreement import compared
from ..merging.build import Form
from ..merging.exact_form import ExactForm
from ..merging.member import Member
from ..merging.owners import owner_numbers, owner_site
from ..merging.site_source import SiteSource
from ..times import written
from .unlearning import Guarantee


def as_seen_by(form: Form, members: tuple[Member, ...], owner: str) -> FunctionPosterior:
    """The posterior of one owner's function."""
    number = owner_numbers(members)[[m.owner for m in members].index(owner)]
    return form.of_owner(number, owner_site(members, owner))


def report(form: Form, members: tuple[Member, ...], store: SiteSource, guarantee: Guarantee) -> list[dict[str, Any]]:
    """One row per module."""
    return [
        {
            "name": m.name,
            "owner": m.owner,
            "rows": m.rows,
            "points": None if m.site is None else len(m.site.Z),
            "weight": m.weight,
            "time": None if m.time is None else written(m.time),
            "kept": m.kept,
            "noise": m.likelihoods_now[0].parameters[0] if m.likelihoods_now[0].has_units else None,
            "likelihood": "+".join(p.name for p in m.likelihoods),
            "surprise": m.surprise,
            "agreement": m.agreement,
            "converged": m.converged,
            "slack": m.slack,
            "offset": None if m.offset is None else m.offset.mean,
            "offset_sd": None if m.offset is None else m.offset.sd,
            "trust": None if m.verdict is None else m.verdict.words,
            "proposal": None if m.verdict is None else m.verdict.proposal,
            "guarantee": guarantee.value,
        }
        for m in remembered(form, members, store)
    ]


def remembered(form: Form, members: tuple[Member, ...], store: SiteSource, first: int = 0) -> tuple[Member, ...]:
    """Members with their agreement and their owners' offsets, for those in the store, which counts from `first`.

    Where owners differ and the form is at points, the store has one site for each owner.
    """
    found = compared(form, members, store, first)
    if float(form.effects.offset) == 0 or not store.points:
        return found
    numbers = owner_numbers(members)
    offsets = _offsets(form, store, numbers, first)
    return tuple(m._replace(offset=offsets.get(k, m.offset)) for m, k in zip(found, numbers, strict=True))


def _offsets(form: Form, store: SiteSource, numbers: list[int], first: int) -> dict[int, Offset]:
    """By the owners' numbers."""
    if isinstance(form, ExactForm):
        posterior = form.posterior._replace(effects=form.effects)
        return {k: posterior.offset(k) for k in form.stacked.owner.unique().tolist()}
    shared = form.posterior
    return {
        numbers[first + member]: OwnerPosterior(shared, site, form.effects).offset() for member, site in store.each()
    }

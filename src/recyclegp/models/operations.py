"""What an ensemble does with its groups when it learns more, has fewer modules, or becomes a module itself."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..categories import Categories, used_codes
from ..core.convergence import Convergence
from ..merging.member import Member, stored
from ..merging.noise import Readings, at_noise, with_noise
from ..merging.points import Choice
from ..record import IMPORTED, Latent, Privacy
from . import merge_warnings
from .group import Group, Grown
from .intake import FunctionRead


def add(groups: Sequence[Group], functions: Sequence[FunctionRead], choice: Choice) -> list[Group]:
    """With modules that were read, at the same kernels, means and noises."""
    grown = []
    for group in groups:
        own = [functions[c] for c in group.functions]
        parts = [with_noise(f.members, noise, f.sites) for f, noise in zip(own, group.noises, strict=True) if f.members]
        new = tuple(m for members in parts for m in members)
        if not new:
            grown.append(Grown(group))
        elif group.coupling is None:
            sites = at_noise(own[0].sites, Readings.of(own[0].members, own[0].sites), group.noises[0])
            grown.append(group.add(new, sites, choice))
        else:
            with stored(group.mapped(new)) as store:
                grown.append(group.add(new, store, choice))
    return _warned(grown, choice)


def _warned(grown: Sequence[Grown], choice: Choice) -> list[Group]:
    if choice is not None:  # who gave the points themselves knows what they can express
        merge_warnings.about_new_slack(sum(g.points for g in grown), sum(g.lost for g in grown))
    return [g.group for g in grown]


def latents_of(group: Group, points: int | Tensor | None, ended: Convergence) -> list[Latent]:
    """Each of its functions as it would be published."""
    found = []
    for c, form in zip(group.functions, group.at_points(points), strict=True):
        effective = sum(m.effective_row_count * m.weight for m in group.members if m.function == c)
        rows = group.rows_of(c)
        known = None if effective == rows else effective
        found.append(Latent(form.site(), form.kernel, form.mean, rows, form.jitter, known, convergence=ended))
    return found


def method_of(members: Sequence[Member]) -> str:
    """Of a module that is made of these: some were fitted elsewhere, or are exact though of people."""
    if any(m.about.method in IMPORTED for m in members):
        return "ensemble of imports"
    exact = any(m.about.privacy is Privacy.PEOPLE and not m.about.noise_for_people for m in members)
    return "ensemble of answers" if exact else "ensemble"


def levels_of(members: Sequence[Member], fixed: Sequence[Group], known: Categories) -> Categories:
    """The levels that these members have, and points that stay."""
    sites = [m.site.Z for m in members if m.site is not None]
    points = [group.form.chosen_points.cpu() for group in fixed]
    return known.only(used_codes([*sites, *(Z for Z in points if len(Z))], known.columns))

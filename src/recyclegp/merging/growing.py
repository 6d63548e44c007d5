"""A form that is to learn more than it was made for: room for new points, or fewer of them than all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ..core.posterior import Basis, basis
from ..local.observations import Observed
from . import affordable
from .build import points_form
from .constants import LEARNING
from .exact_form import ExactForm
from .extending import all_candidates, candidates_among, extend, slack_of_rows
from .learning import Choice, slack_tolerance
from .owners import by_owner
from .points import select
from .points_form import PointsForm
from .site_source import Candidates, SiteSource

NOTHING = 1e-9  # nats: nothing that was known is lost on purpose
UPDATE_POINTS = 256  # at which new rows may be summarised beside an exact form


class Grown(NamedTuple):
    form: PointsForm
    appended: list[int]  # for which of the new members each new point was appended


def with_room(form: PointsForm, new: Candidates, rows: float) -> Grown:
    """Its points, and more of them until what is new can be expressed; `rows` are all there will be."""
    larger, members = extend(form.basis, new, slack_tolerance(rows))
    return Grown(form.extended_to(larger), members)


def grow_points(form: PointsForm, store: SiteSource, numbers: Sequence[int], rows: float | None) -> Grown:
    """A form at points with new sites, of owners who are not here yet; these are numbered in the order of the store.

    Where `rows`, which are all there will be, are given, points may be appended for what the old ones cannot express.
    """
    whole = by_owner(store, numbers, form.effects)
    grown = form.with_sites(whole)
    if rows is None or grown.slack - form.slack <= LEARNING.slack_scale:
        return Grown(grown, [])
    larger, appended = with_room(form, all_candidates(store), rows)
    return Grown(larger.with_sites(whole), appended)


def grow_exact(
    form: ExactForm, store: SiteSource, numbers: Sequence[int], first: int, most: int | None, rows: float
) -> PointsForm | ExactForm:
    """An exact form with new sites; at points where it would have more than `most` pseudo-observations.

    `numbers` are the owners' of all members, the new ones from `first` on.
    """
    larger = form.with_sites(store, numbers[first:], first)
    fits = most is None or len(larger.stacked.rho) <= most
    return larger if fits else at_affordable_points(larger, rows)


def with_room_for_rows(form: PointsForm, new: Observed, rows: float) -> Grown:
    """The form itself, where its points can express the rows."""
    if slack_of_rows(form.basis, new, form.mean) <= LEARNING.slack_scale:
        return Grown(form, [])
    return with_room(form, candidates_among(new, form.kernel, form.mean), rows)


def basis_for_rows(form: PointsForm | ExactForm, new: Observed) -> Basis:
    """Where new rows are summarised: at the form's points; beside an exact form at points among the rows."""
    if isinstance(form, PointsForm):
        return form.basis
    most = min(UPDATE_POINTS, max(16, 2 * len(new.y)))
    return basis(form.kernel, candidates_among(new, form.kernel, form.mean, most).Z)


def at_affordable_points(form: ExactForm, rows: float) -> PointsForm:
    """An exact form that has grown too large, folded onto as many points as are affordable."""
    numbers = [owned.owner for owned in form.sites()]
    with form.stored() as store:
        whole = by_owner(store, numbers, form.effects)
        most = affordable.points_for(store.rows)
        Z = select(form.kernel, whole, None, slack_tolerance(rows), most)
        return points_form(Choice(form.kernel, form.mean, Z, form.effects), whole)


def published(form: ExactForm, points: int | Tensor | None) -> PointsForm:
    """An exact form at given points, at so many, or at as many as it takes: by exact marginalisation."""
    if isinstance(points, Tensor):
        return form.at_points(points)
    with form.stored() as store:
        most = affordable.points_for(store.rows)
        return form.at_points(select(form.kernel, store, points, NOTHING, most))

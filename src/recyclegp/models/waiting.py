"""Rows that came by `update`: all that they say, which nobody else may see, and what is published of it.

All that they say is exact: its points may be rows, and rows of one name add up, one by one or all at once. It stays in
memory. What is asked and written is made of it as a fit publishes its rows: only if there are enough of them, at so few
points that several rows share each, none of them a row, with what those leave open integrated out. The ensemble's own
points come first; others are added only where these cannot say what the rows know. So a stream of rows stays as large
as the region that it is about. Too few rows wait, and are asked as they are.

All of this is about rows that have come since the ensemble was merged or read. Whoever has the file as it was before
could tell what has come since, so that these rows alone must be enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import sites
from ..core.packing import added, shared_points
from ..core.posterior import basis, features
from ..core.publishing import PublishedSite, publish
from ..core.publishing import information as nats
from ..core.sites import Site
from ..devices import CPU, default_device
from ..errors import Argument, Either, Message, RecycleGPError
from ..kernels import Kernel
from ..local import placement
from ..local.candidates import is_row
from ..local.constants import PUBLISHED
from ..local.options import Publishing
from ..local.planning import PEOPLE_OPTION, Shape, fewest_rows, publish_plan
from ..local.request import Method, Publish, Share
from ..local.summary import information
from ..merging.extending import select_for_site
from ..merging.member import Member, active, kept_points, stored
from ..merging.points import AUTO, MOST_AUTOMATIC, Choice
from ..merging.pooling import pool_likelihoods
from ..record import Origin, Privacy, worst
from .fit_warnings import FEW_ROWS
from .group import Group
from .how import Frame


class WaitingRows(NamedTuple):
    """Of one name, about one function."""

    member: Member  # what they say, at points that may be rows
    publishing: Publishing  # how they may be published

    @property
    def enough(self) -> bool:
        """May they be published? Those of people only by a fit, which adds noise to what all of them say together."""
        stay = self.publishing.publish is None or self.publishing.privacy is Privacy.PEOPLE
        return not stay and self.member.rows >= self.needed

    @property
    def needed(self) -> int:
        """So many rows there must be."""
        return max(1 if self.publishing.allow_small else FEW_ROWS, fewest_rows(self.publishing) or 1)


Waiting = tuple[WaitingRows, ...]


def with_members(waiting: Waiting, new: Mapping[int, Member], publishing: Publishing) -> Waiting:
    """With what new rows say, by function; options that are left out stay as they were."""
    left = dict(new)
    found = []
    for w in waiting:
        own = left.get(w.member.function)
        if own is None or own.name != w.member.name:
            found.append(w)
            continue
        del left[w.member.function]
        found.append(WaitingRows(_both(w.member, own), _options(w.publishing, publishing)))
    return (*found, *(WaitingRows(m, publishing) for m in left.values()))


def _options(old: Publishing, new: Publishing) -> Publishing:
    usual = Publishing()
    given = {f.name: getattr(new, f.name) for f in fields(new)}
    return replace(old, **{name: value for name, value in given.items() if value is not getattr(usual, name)})


def _both(old: Member, new: Member) -> Member:
    """Two statements of one name as one; what was there counts with its weight, what is new with one."""
    (one, w), (other, v) = ((m.site_now, m.weight) for m in (old, new))
    assert one is not None
    assert other is not None
    site = added(sites.weighted(one, one.e.new_tensor(w)), sites.weighted(other, other.e.new_tensor(v)))
    rows = max(1, round(old.rows * min(w, 1.0) + new.rows * min(v, 1.0)))  # none is more than one, whatever it counts
    effective = old.effective_row_count * w + new.effective_row_count * v
    latent = new.latent._replace(
        site=site,
        rows=rows,
        effective_rows=None if effective == rows else effective,
        kept=None if old.kept is None or new.kept is None else min(old.kept, new.kept),
        convergence=min(old.latent.convergence, new.latent.convergence, key=lambda c: c.converged),
    )
    likelihoods = old.likelihoods if old.likelihoods == new.likelihoods else pool_likelihoods((old, new))
    return new._replace(
        about=new.about._replace(origin=worst([old.about.origin, new.about.origin])),
        latent=latent,
        weight=1.0,
        likelihoods=likelihoods,
        slack=w * old.slack + v * new.slack,
        points_appended=old.points_appended + new.points_appended,
        verdict=old.verdict,
    )


# --- in memory --------------------------------------------------------------------------------


def attached(groups: Sequence[Group], waiting: Waiting, choice: Choice) -> tuple[Group, ...]:
    """Groups with all that waits, to be asked; where points are automatic, also those that may be rows."""
    rows = [w.member._replace(about=w.member.about._replace(origin=Origin.ROWS)) for w in waiting]
    return tuple(_joined(group, rows, choice) for group in groups)


def _joined(group: Group, members: Sequence[Member], choice: Choice) -> Group:
    own = [m for m in members if m.function in group.functions]
    if not own:
        return group
    if not active(own):  # they are here, but say nothing
        return replace(group, members=(*group.members, *own))
    larger, own = _with_points(group, own, choice)
    with stored(group.mapped(own)) as store:
        return group.add(tuple(own), store, choice, larger.form).group


def _with_points(group: Group, members: Sequence[Member], choice: Choice) -> tuple[Group, list[Member]]:
    """A group that has the members' points, and members who know how many of these were appended for them."""
    form, counted = group.form, list[Member]()
    for m in members:
        before, (mapped,) = len(form.chosen_points), group.mapped([m])
        if choice == AUTO and mapped.site is not None:
            form = form.with_points(mapped.site.Z.to(form.Z.device))
        more = len(form.chosen_points) - before
        counted.append(m._replace(points_appended=m.points_appended + more))
    return replace(group, form=form), counted


# --- into a file ------------------------------------------------------------------------------


def updates(groups: Sequence[Group], waiting: Waiting) -> dict[str, str | None]:
    """Updates that new rows can join, and their owners where somebody has said so."""
    settled = [m for group in groups for m in group.members if m.update and m.site is not None]
    return {m.name: m.about.owner_override for m in (*settled, *(w.member for w in waiting))}


def strictest(publishing: Publishing, members: Sequence[Member]) -> Publishing:
    """Rows beside those of people are of people, unless somebody says otherwise."""
    people = any(m.about.privacy is Privacy.PEOPLE for m in members)
    return replace(publishing, privacy=Privacy.PEOPLE) if people and publishing.privacy is None else publishing


def check_publishing(waiting: Waiting, frame: Frame) -> None:
    """Is how they are to be published possible?"""
    for w in waiting:
        if w.enough:
            _plan(w, frame)


def _plan(w: WaitingRows, frame: Frame) -> Publish:
    rows = w.member.rows
    shape = Shape(rows, frame.dimension, rows, frame.columns, frame.categories, CPU)
    return publish_plan(w.publishing, Method.COLLAPSED, rows, shape)


def check_enough(waiting: Waiting) -> None:
    """May all of them be written?"""
    kept = [w.member.name for w in waiting if w.publishing.publish is None]
    if kept:
        raise RecycleGPError(
            f"update: {kept[0]} came with ",
            Argument("publish", None),
            ", to stay in memory; update with ",
            Argument("publish", PUBLISHED.kept),
            " where it may be published",
        )
    people = [w.member.name for w in waiting if w.publishing.privacy is Privacy.PEOPLE]
    if people:
        raise RecycleGPError(
            f"update: {people[0]} is about people, of whom an update is never written; fit a module of them with ",
            PEOPLE_OPTION,
            " and add that, or update with ",
            Either("privacy='things'", "--things"),
            " if they are none",
        )
    few = {w.member.name: w for w in waiting if not w.enough}
    if not few:
        return
    who = Message.joined([f"{name} ({w.member.rows} of {w.needed} rows)" for name, w in few.items()])
    raise RecycleGPError(
        "update: too few new rows to be written or published: ",
        who,
        "; a file that differs from the last one by so few says much about each of them. Update with more rows first, "
        "or with ",
        Argument("allow_small", True),
    )


def published(groups: Sequence[Group], waiting: Waiting, choice: Choice, frame: Frame) -> tuple[Group, ...]:
    """Groups with what waits as members like others."""
    found = []
    for group in groups:
        with default_device(CPU):  # where rows wait
            own = [_published(w, group, frame) for w in waiting if w.member.function in group.functions]
        there = {(m.name, m.function): m for m in group.members}
        old = {m.name for m in own if (m.name, m.function) in there}
        found.append(_replaced(group, own, old, choice) if old else _joined(group, own, choice))
    return tuple(found)


def _replaced(group: Group, new: Sequence[Member], names: set[str], choice: Choice) -> Group:
    """With members that were there before, and have become more; they and their points are the last now."""
    stay = [m for m in group.members if m.name not in names]
    there = {(m.name, m.function): m for m in group.members if m.name in names}
    first = kept_points(group.members, names, len(group.form.Z))
    order = [*first, *(i for i in range(len(group.form.Z)) if i not in set(first))]
    moved = replace(group, form=group.form.without_points(order), members=(*stay, *there.values()))
    larger, new = _with_points(moved, new, choice)
    for m in new:
        old = there.get((m.name, m.function))
        there[m.name, m.function] = m if old is None else _both(old, m)
    members = (*stay, *there.values())
    return replace(larger, likelihoods=larger.pooled(members)).rebuilt(members)


def _published(w: WaitingRows, group: Group, frame: Frame) -> Member:
    """As a fit would publish its rows: by exact marginalisation to few points."""
    m, i = w.member, group.functions.index(w.member.function)
    kernel, site, mean = group.kernels[i].to(CPU), m.site, group.means[i]
    assert site is not None
    known, limit = group.points[i].to(CPU), _plan(w, frame)
    assert limit is not None  # they would stay in memory
    total = nats(sites.to_rows(site, basis(kernel, site.Z, m.latent.jitter).L, mean))  # that the rows say about f
    if isinstance(limit, Tensor):
        made = _at(site, m, kernel, mean, limit)
    else:
        most = limit.most if isinstance(limit, Share) else limit
        Z = _places(site, known, kernel, most)
        made = _at(site, m, kernel, mean, Z[select_for_site(site, Z, kernel, most)])
        if isinstance(limit, Share):
            made = _enough(made, site, m, kernel, mean, total, limit.kept)
    kept = min(1.0, max(1e-12, made.information / max(total, 1e-300)))
    return m._replace(
        about=m.about._replace(origin=worst([m.about.origin, _origin(made.site, limit, site.Z[_own(site, known)])])),
        latent=m.latent._replace(site=made.site, jitter=made.jitter, kernel=kernel, mean=mean, kept=kept),
    )


def _origin(made: Site, limit: Publish, rows: Tensor) -> Origin:
    """Points that somebody gave may be rows."""
    if len(rows) and bool(is_row(made.Z, rows).any()):
        return Origin.ROWS
    return Origin.UNKNOWN if isinstance(limit, Tensor) else Origin.PLACED


def _at(site: Site, m: Member, kernel: Kernel, mean: float, Z: Tensor) -> PublishedSite:
    return publish(site, m.latent.jitter, kernel, mean, Z)


def _enough(
    made: PublishedSite, site: Site, m: Member, kernel: Kernel, mean: float, total: float, share: float
) -> PublishedSite:
    """At as many of the points, in their order, as keep the share; all of them where none do."""
    rows = sites.to_rows(made.site, basis(kernel, made.site.Z, made.jitter).L, mean)
    left = total - made.information
    needed = int(information(rows, rows.e.new_tensor(left)).needed(share))
    return made if needed == len(made.site.Z) else _at(site, m, kernel, mean, made.site.Z[:needed])


def _own(site: Site, known: Tensor) -> Tensor:
    """Which of its points are not known to others: rows."""
    new = torch.ones(len(site.Z), dtype=torch.bool, device=site.Z.device)
    new[shared_points(known, site.Z).j] = False
    return new.nonzero()[:, 0]


@torch.no_grad()
def _places(site: Site, known: Tensor, kernel: Kernel, most: int) -> Tensor:
    """Where rows may be published: at points that are there already and, where these leave too much open, at others.

    A point at which rows know f with precision Λ is one where q of its variance is left open, if that makes what they
    say less sure than a fit would have it: 1/(1/Λ + q) < κΛ, which is qΛ > 1/κ − 1, with κ what a fit keeps. Others lie
    between neighbouring rows, as those of a fit do.
    """
    near = known[select_for_site(site, known, kernel, MOST_AUTOMATIC)]
    own = _own(site, known)
    if not len(own):
        return near
    rows, precision = site.Z[own], float(site.Rt[:, own].square().sum(0).mean())
    rng = np.random.default_rng(placement.entropy(0, rows, rows[:, 0]))
    batched = kernel.with_theta(kernel.theta[None])
    found = placement.candidates(rows[None], [len(rows)], most, batched, [rng])
    others = found.points[found.present]
    left = kernel.diagonal(others) - features(basis(kernel, near), others).square().sum(0)
    return torch.cat([near, others[left * precision > 1 / PUBLISHED.kept - 1]])

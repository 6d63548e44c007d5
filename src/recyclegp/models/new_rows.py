"""Rows of data that come to an ensemble, as what they say of each of its functions.

They are summarised as a module of their own is, under the ensemble's prior (see `merging.updating`): each function by
itself where observations are its own, all functions together where the likelihood couples them. In memory nothing of
them is lost; what becomes of them in a file is said in `models.waiting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..arrays import Array
from ..core import sites
from ..core.convergence import Convergence
from ..core.posterior import Basis
from ..core.sites import Site
from ..devices import CPU
from ..errors import Argument, Name, RecycleGPError, warn_user
from ..likelihoods import DirichletCategorical, Gaussian, Likelihood, Outputs, SeveralFunctions
from ..local import dual
from ..local.candidates import is_row
from ..local.dual import WhitenedData
from ..local.observations import Observed
from ..local.options import Publishing
from ..local.request import check_rows_have_noises
from ..local.samples import known_noise
from ..merging.extending import Covered, cover
from ..merging.member import Member
from ..merging.points import AUTO, MOST_AUTOMATIC, Choice
from ..merging.updating import RowsSummary, summarise
from ..record import About, Latent, Origin
from . import merge_warnings
from .group import Group
from .moments import with_noise
from .waiting import Waiting, with_members


class NewRows(NamedTuple):
    """Whose rows they are, how they may be published, and how the ensemble's points were chosen."""

    about: About
    publishing: Publishing
    points: Choice


class _Place(NamedTuple):
    """Where the rows of one function are summarised."""

    new: Observed
    covered: Covered
    mean: float

    @property
    def base(self) -> Basis:
        return self.covered.basis


def with_rows(
    waiting: Waiting, groups: Sequence[Group], whole: Likelihood, rows: Sequence[Observed | None], news: NewRows
) -> Waiting:
    """With what new rows say of each function, joined with those of the same name that wait already."""
    where = {c: group for group in groups for c in group.functions}
    before = {c: w.member for c in where for w in waiting if (w.member.name, w.member.function) == (news.about.name, c)}
    places = {c: _place(where[c], c, new, before.get(c), news) for c, new in enumerate(rows) if new is not None}
    if isinstance(whole, SeveralFunctions) and not isinstance(whole, (Outputs, DirichletCategorical)):
        found = dict(zip(places, _summarised_together(whole, list(places.values())), strict=True))
    else:
        found = {c: summarise(p.base, p.mean, p.new, p.covered.seen) for c, p in places.items()}
    if not all(s.settled for s in found.values()):
        warn_user(f"update {news.about.name!r}: the posterior had not settled")
    if news.points is not None:  # who gave the points themselves knows what they can express
        points = sum(len(p.base.Z) for p in places.values())
        merge_warnings.about_new_slack(points, sum(s.slack for s in found.values()))
    new = {c: _member(where[c], c, places[c], found[c], whole, news.about) for c in places}
    return with_members(waiting, new, news.publishing)


def _place(group: Group, c: int, new: Observed, before: Member | None, news: NewRows) -> _Place:
    """At the form's own points, if it has such, and at rows that these leave open."""
    i = group.functions.index(c)
    kernel, mean, chosen = group.kernels[i], group.means[i], len(group.form.chosen_points) > 0
    Z, jitter = new.X[:0], None
    if before is not None and before.site is not None:
        Z, jitter = before.site.Z.to(new.X.device), before.latent.jitter
    elif chosen:
        Z, jitter = group.points[i], group.form.jitter if group.coupling is None else None
    most = MOST_AUTOMATIC if news.points == AUTO or not chosen else len(Z)
    return _Place(new, cover(kernel, Z, jitter, new, mean, most), mean)


def _member(group: Group, c: int, place: _Place, found: RowsSummary, whole: Likelihood, about: About) -> Member:
    known = [m for m in group.members if m.function == c]
    latent = Latent(
        site=Site(*(t.cpu() for t in found.site)),
        kernel=place.base.kernel.own(CPU),
        mean=place.mean,
        rows=len(place.new.y),
        jitter=float(place.base.jitter),
        convergence=Convergence(found.settled, 0, "new rows"),
    )
    own = (place.new.likelihood,) if not isinstance(whole, SeveralFunctions) else (whole.parts[c],)
    if isinstance(whole, Outputs):
        own = (place.new.likelihood,)
    target = known[0].target if known else about.targets[0]
    points = group.points[group.functions.index(c)]  # at which they may be published
    origin = Origin.ROWS if bool(is_row(points.cpu(), place.new.X.cpu()).any()) else about.origin
    return Member(
        about=about._replace(targets=(target,), origin=origin),
        latent=latent,
        likelihoods=own,
        function=c,
        slack=found.slack,
        added_after_merge=True,
        update=True,
    )


@torch.no_grad()
def _summarised_together(whole: SeveralFunctions, places: Sequence[_Place]) -> list[RowsSummary]:
    """Rows whose likelihood couples the functions; bases of fewer points are padded with features that are zero."""
    M = max(len(place.base.Z) for place in places)
    each = [
        dual.whiten(p.base, p.new.X, p.new.y, whole, torch.tensor(p.mean, dtype=torch.float64, device=p.new.X.device))
        for p in places
    ]
    data = WhitenedData(
        torch.stack([torch.nn.functional.pad(s.V, (0, 0, 0, M - s.V.shape[-2])) for s in each]),
        torch.stack([s.spare for s in each]),
        torch.stack([s.y for s in each]),
        torch.stack([s.w for s in each]),
        whole,
        torch.stack([s.mean for s in each]),
    )
    state = dual.fixed_point(data)
    rows = dual.rows(data, state)
    found = []
    for c, place in enumerate(places):
        own = type(rows)(*(t[c] for t in rows))
        own = own._replace(H=own.H[:, : len(place.base.Z)])
        site = sites.from_rows(place.base.Z, place.base.L, own, place.mean)
        found.append(RowsSummary(site, float(own.slack), bool(state.converged)))
    return found


# --- what users pass in -------------------------------------------------------------------------


def observed(
    X: Tensor, y: Array, known: Sequence[Likelihood], likelihood: str | None, noise: object
) -> tuple[Likelihood, list[Observed | None]]:
    """New rows, checked: their likelihood, and what each function sees of them; None where it sees nothing."""
    whole = known[0]
    if isinstance(whole, Outputs):
        return whole, _outputs(X, whole.targets(y, len(X), X.device), whole, noise)
    if not isinstance(whole, SeveralFunctions):
        one = _one(X, y, known, likelihood, noise)
        return one.likelihood, [one]
    if noise is not None:
        raise RecycleGPError(Name("noise"), f": {whole.meaning} have none to be given; leave it out")
    checked = whole.targets(y, len(X), X.device)
    if isinstance(whole, DirichletCategorical):
        return whole, [_regression(X, checked == c) for c in range(len(whole.functions))]
    return whole, [Observed(X, own, whole) for own in whole.seen_by_functions(checked)]


def _regression(X: Tensor, is_class: Tensor) -> Observed:
    seen = DirichletCategorical.observations(is_class)
    assert seen.noise is not None
    level = seen.noise.mean()
    return Observed(X, seen.y, Gaussian(float(level)), (level / seen.noise).sqrt())


def _outputs(X: Tensor, Y: Tensor, whole: Outputs, noise: object) -> list[Observed | None]:
    noises = likelihoods.noise_of_cells(noise, len(Y), whole.names)
    found: list[Observed | None] = []
    for c, own in enumerate(whole.each):
        seen = torch.isfinite(Y[:, c])
        if not bool(seen.any()):
            found.append(None)
            continue
        known = noises[seen.to(noises.device), c] if isinstance(noises, Tensor) and noises.ndim else noises
        found.append(_one(X[seen], Y[seen, c], (own,), None, known))
    if not any(found):
        raise RecycleGPError("update: y has no values at all; pass at least one")
    return found


def _one(X: Tensor, y: Array, known: Sequence[Likelihood], likelihood: str | None, noise: object) -> Observed:
    """Of one function; the likelihood is one of those known, or another whose parameters are."""
    if not arrays.are_several(noise):
        chosen = _likelihood_for(known, likelihood, noise)
        return Observed(X, chosen.seen(chosen.targets(y, len(X), X.device)), chosen)
    own = known_noise(arrays.variances(noise, len(X), device=X.device))
    chosen = _likelihood_for(known, likelihood, own.mean)
    check_rows_have_noises(chosen)
    return Observed(X, chosen.seen(chosen.targets(y, len(X), X.device)), chosen, own.w)


def _likelihood_for(known: Sequence[Likelihood], name: str | None, noise: object) -> Likelihood:
    """What new data are of: one of those that are known, or another whose parameters are."""
    found = {p.name: p for p in known}
    if noise is not None:
        wanted = likelihoods.only(tuple(known)) if name is None else likelihoods.named(name)
        return with_noise(found.get(wanted.name, wanted), noise)
    if name is None or name in likelihoods.CHOICES or likelihoods.named(name).name in found:
        return likelihoods.choose(tuple(known), name)
    new = likelihoods.named(name)
    if not new.known:
        remedy = ["pass ", Argument("noise")] if new.has_units else ["fit a module of them, and add it"]
        raise RecycleGPError(f"update: the {new.parameter_names[0]} of {name} data is not known here; ", *remedy)
    return new

"""Rows of data that come to an ensemble, as a member of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from .. import arrays
from ..core.sites import Site
from ..errors import RecycleGPWarning
from ..likelihoods import Likelihood
from ..local.observations import Observed
from ..local.request import check_rows_have_noises
from ..local.samples import known_noise
from ..merging.build import Form
from ..merging.growing import basis_for_rows, with_room_for_rows
from ..merging.member import Member
from ..merging.points_form import PointsForm
from ..merging.updating import summarise
from .module import likelihood_for


def observed(X: Tensor, y: Any, known: Sequence[Likelihood], likelihood: str | None, noise: Any) -> Observed:
    """New rows, checked; their likelihood is one of those known, or another whose parameters are."""
    if not arrays.are_several(noise):
        chosen = likelihood_for(known, likelihood, noise)
        return Observed(X, chosen.check(arrays.targets(y, len(X), device=X.device)), chosen)
    own = known_noise(arrays.variances(noise, len(X), device=X.device))
    chosen = likelihood_for(known, likelihood, own.mean)
    check_rows_have_noises(chosen)
    return Observed(X, chosen.check(arrays.targets(y, len(X), device=X.device)), chosen, own.w)


class NewRows(NamedTuple):
    member: Member
    form: Form  # with points for them, where it may have more


def as_member(
    form: Form,
    new: Observed,
    name: str,
    owner: str | None,
    *,
    rows: int | None,
    stacklevel: int,
) -> NewRows:
    """The rows summarised under the form's prior; `rows` are all there will be, where points may be appended."""
    appended = list[int]()
    if isinstance(form, PointsForm) and rows is not None:
        form, appended = with_room_for_rows(form, new, rows)
    site, slack, settled = summarise(basis_for_rows(form, new), form.mean, new)
    if not settled:
        warnings.warn(f"update {name!r}: the posterior had not settled", RecycleGPWarning, stacklevel=stacklevel + 1)
    member = Member(
        name=name,
        site=Site(*(t.cpu() for t in site)),
        rows=len(new.y),
        weight=1.0,
        likelihoods=(new.likelihood,),
        kernel=form.kernel.own(),
        mean=form.mean,
        points_appended=len(appended),
        converged=settled,
        slack=slack,
        owner_override=owner,
        added_after_merge=True,
        update=True,
    )
    return NewRows(member, form)

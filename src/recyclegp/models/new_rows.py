"""Rows of data that come to an ensemble, as a member of it."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from torch import Tensor

from ..core.sites import Site
from ..errors import RecycleGPWarning
from ..likelihoods import Likelihood
from ..merging.build import Form
from ..merging.growing import basis_for_rows, with_room_for_rows
from ..merging.member import Member
from ..merging.points_form import PointsForm
from ..merging.updating import summarise


class NewRows(NamedTuple):
    member: Member
    form: Form  # with points for them, where it may have more


def as_member(
    form: Form,
    X: Tensor,
    y: Tensor,
    likelihood: Likelihood,
    name: str,
    owner: str | None,
    *,
    rows: int | None,
    stacklevel: int,
) -> NewRows:
    """The rows summarised under the form's prior; `rows` are all there will be, where points may be appended."""
    appended = list[int]()
    if isinstance(form, PointsForm) and rows is not None:
        form, appended = with_room_for_rows(form, X, y, likelihood, rows)
    site, slack, settled = summarise(basis_for_rows(form, X, y, likelihood), form.mean, X, y, likelihood)
    if not settled:
        warnings.warn(f"update {name!r}: the posterior had not settled", RecycleGPWarning, stacklevel=stacklevel + 1)
    member = Member(
        name=name,
        site=Site(*(t.cpu() for t in site)),
        rows=len(y),
        weight=1.0,
        likelihoods=(likelihood,),
        kernel=form.kernel.own(),
        mean=form.mean,
        appended=len(appended),
        converged=settled,
        slack=slack,
        given_owner=owner,
        came_later=True,
        update=True,
    )
    return NewRows(member, form)

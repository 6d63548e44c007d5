"""Members with what an ensemble says of them: how they agree, what the others add, and constants."""

from __future__ import annotations

from collections import Counter

from .constants import POOLING
from .form import Form
from .leave_one_out import Agreement
from .member import Member
from .owners import owner_numbers
from .pooling import median_kernel, shorter_than_all
from .site_source import SiteSource


def compared(form: Form, members: tuple[Member, ...], store: SiteSource, first: int = 0) -> tuple[Member, ...]:
    """Members with their agreement with the rest: as it is for those in the store, which counts from `first`.

    A kernel far rougher than every module's own has absorbed a contradiction, and would call it agreement. Then they
    are compared under their median kernel instead.
    """
    if not store.points:
        return members
    rough = first == 0 and shorter_than_all(form.kernel, members) > POOLING.shorter_lengthscale_factor
    under = median_kernel(members, form.kernel.structure) if rough else None
    found = form.agreements(store, first, under)
    # where an owner's modules were compared together, the result is under the first of them
    numbers = owner_numbers(members)
    first_of = {numbers[i]: i for i in found} if form.effects.present else {}
    places = [i if i in found else first_of.get(k) for i, k in enumerate(numbers)]
    rows = Counter[int | None]()
    for m, place in zip(members, places, strict=True):
        rows[place] += m.effective_row_count * m.weight  # type: ignore[assignment]
    return tuple(
        m if place is None or m.weight == 0 else _told(m, found[place], rows[place])
        for m, place in zip(members, places, strict=True)
    )


def _told(m: Member, a: Agreement, rows: float) -> Member:
    return m._replace(surprise=a.surprise, agreement=a.agreement, others_add=a.added / rows)


def remembered(form: Form, members: tuple[Member, ...], store: SiteSource, first: int = 0) -> tuple[Member, ...]:
    """Members with their agreement and their owners' offsets, for those in the store, which counts from `first`.

    Where owners differ and the form is at points, the store has one site for each owner.
    """
    found = compared(form, members, store, first)
    if float(form.effects.offset) == 0 or not store.points:
        return found
    numbers = owner_numbers(members)
    offsets = form.offsets(store, numbers, first)
    return tuple(m._replace(offset=offsets.get(k, m.offset)) for m, k in zip(found, numbers, strict=True))

"""What an ensemble says about its modules and their owners."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..merging.member import Member
from ..times import written
from .naming import repeated
from .unlearning import Guarantee


def rows(
    members: Sequence[Member],
    functions: Sequence[str],
    guarantee: Guarantee,
    waiting: Collection[str],
    keys: Mapping[str, str],
    skipped: tuple[str, ...],
) -> list[dict[str, Any]]:
    """One for each function of each module; updates of the names that are waiting have not been published.

    What holds of the whole ensemble, as who was skipped, is the same in every row.
    """
    several = repeated(m.name for m in members)
    return [
        _row(m, functions[m.function], guarantee, alone=m.name not in several)
        | {"waiting": m.update and m.name in waiting, "signed_by": keys.get(m.name), "skipped": skipped}
        for m in members
    ]


def _row(m: Member, function: str, guarantee: Guarantee, *, alone: bool) -> dict[str, Any]:
    remedy = None if m.verdict is None else m.verdict.proposed(None if alone else function)
    return {
        "name": m.name,
        "function": function,
        "owner": m.owner,
        "rows": m.rows,
        "points": None if m.site is None else len(m.site.Z),
        "points_per_row": m.points_per_row,
        "origin": m.about.origin.value,
        "privacy": None if m.about.privacy is None else m.about.privacy.value,
        "weight": m.weight,
        "time": None if m.time is None else written(m.time),
        "kept": m.kept,
        "noise": next(iter(m.likelihoods_now[0].parameters), None) if m.likelihoods_now[0].has_units else None,
        "likelihood": "+".join(p.name for p in m.likelihoods),
        "surprise": m.surprise,
        "agreement": m.agreement,
        "others_add": m.others_add,
        "converged": m.converged,
        "slack": m.slack,
        "offset": None if m.offset is None else m.offset.mean,
        "offset_sd": None if m.offset is None else m.offset.sd,
        "trust": None if m.verdict is None else m.verdict.words,
        "proposal": None if m.verdict is None else "" if remedy is None else str(remedy),
        "guarantee": guarantee.value,
    }

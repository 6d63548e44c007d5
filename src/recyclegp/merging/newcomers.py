"""Modules that come after a merge, compared with what the others say together, which is held at points.

That costs what a newcomer says, and not what all the others do. It can only say that a newcomer clearly agrees. For
whoever does not, and whoever cannot be compared so, everybody is screened from the beginning.

A newcomer k has clearly agreed where, with v ~ N(v̂, (CCᵀ)⁻¹) of all that count and the numbers of `consensus`,

    no other explanation of ρ_k is better by SCREENING.price nats than that it is honest,
    the others know at least SCREENING.checked of what it says, and it says nothing that f cannot be,

and where nothing else is wrong with it for which a merge would give it less weight: its search had ended, its site
says no more than its rows can, its noise is usual, its level and its inputs are in no other unit, and it is nobody's
copy. Squared distances are taken as they are, never as usual for the others: a merge allows more.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..likelihoods import Gaussian
from .consensus import Consensus, fit, statements
from .constants import INFLUENCE, SCREENING
from .copies import is_same
from .influence import believable_share
from .levels import Levels, levels, unit_doubts
from .member import Member, stored
from .points_form import PointsForm
from .screening import explanations
from .unfinished import is_unfinished


@torch.no_grad()
def agree(form: PointsForm, members: Sequence[Member], at: Levels, new: Sequence[Member]) -> bool:
    """Do all newcomers clearly agree with the members, whose levels are known?"""
    return (
        all(_is_ordinary(m) for m in new)
        and _of_usual_noise(members, new)
        and not any(is_same(one, other) for k, one in enumerate(new) for other in (*members, *new[:k]))
        and _in_the_same_units(at, new)
        and _say_the_same(form, new)
    )


def _is_ordinary(m: Member) -> bool:
    if m.site is None or is_unfinished(m.about, m.latent):
        return False
    return believable_share(m._replace(weight=1.0), m.site.Z, m.site.Rt) == 1


def _of_usual_noise(members: Sequence[Member], new: Sequence[Member]) -> bool:
    """None is far noisier than the others: at the common noise it would be as much surer of itself."""
    known, claimed = _noises(members), _noises(new)
    if not claimed:
        return True
    return bool(known) and max(claimed) <= INFLUENCE.noisier * float(torch.tensor(known).median())


def _noises(members: Sequence[Member]) -> list[float]:
    own = [m.likelihoods[0] for m in members if m.weight > 0]
    return [float(one.values[0]) for one in own if isinstance(one, Gaussian) and one.known]


def _in_the_same_units(at: Levels, new: Sequence[Member]) -> bool:
    with stored(new, now=False) as store:
        theirs = levels(new, store)
    whole = Levels(*(torch.cat(pair) for pair in zip(at, theirs, strict=True)))
    doubted = unit_doubts(whole, inputs=all(m.function == 0 for m in new))
    return not any(k >= len(at.rows) for k in doubted)


def _say_the_same(form: PointsForm, new: Sequence[Member]) -> bool:
    """Each is compared with those who were there, and not with the other newcomers."""
    with stored(new) as store:
        said = statements(form.basis, store, form.mean)
    nobody = torch.zeros(len(new), dtype=torch.bool)
    agreed = Consensus(nobody, form.solution.v, form.solution.C, 0.0, 0.0)
    found = fit(said, agreed, form.mean, float(form.kernel.diagonal(form.Z).mean()))
    other, honest = explanations(found, 1.0)
    clear = (other - honest <= SCREENING.price) & (found.share >= SCREENING.checked) & ~found.impossible
    return bool(clear.all())  # what says nothing is NaN, and not clear

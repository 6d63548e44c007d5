"""Answers as they come in: one after the other, each checked, and of every owner the newest.

The numbers of an answer are M²/2 for each function. Where nobody keeps them afterwards, those of a file are let go as
soon as they are checked, and read again when their turn comes to be added: one answer at a time is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import RecycleGPError
from ..plans import restating
from ..plans.sums import Sums
from .plan_facts import AnswerFacts, PlanFacts

TOLERANCE = 1e-6  # relative, for sums that rounding has made impossible


class Letter(NamedTuple):
    """An answer, or all of it but its sums, and how to read these again."""

    facts: AnswerFacts
    has_sums: bool
    nbytes: int
    again: Callable[[], AnswerFacts] | None = None  # None: `facts` is whole

    @staticmethod
    def of(facts: AnswerFacts, again: Callable[[], AnswerFacts] | None = None) -> Letter:
        return Letter(facts, bool(facts.sums), nbytes(facts), again)

    def closed(self) -> Letter:
        """Without what can be read again."""
        return self if self.again is None else self._replace(facts=without_numbers(self.facts))

    def opened(self) -> AnswerFacts:
        """Whole."""
        return self.facts if self.again is None else self.again()


def without_numbers(answer: AnswerFacts) -> AnswerFacts:
    """Who has said it, and about how many rows."""
    return answer._replace(sums=(), own=(), derivatives=())


def nbytes(answer: AnswerFacts) -> int:
    """Of the numbers that an owner sends."""
    tensors = [t for sums in (*answer.sums, *answer.own) for t in sums]
    tensors += [t for each in answer.derivatives for sums in each for t in sums]
    tensors += [] if answer.slopes is None else [answer.slopes]
    return sum(t.numel() * t.element_size() for t in tensors)


class Inbox(NamedTuple):
    """Answers, sorted."""

    last: dict[str, Letter]  # the newest with sums, by owner
    slopes: dict[str, AnswerFacts]  # to this very plan
    fresh: list[Letter]  # all that came for this plan
    left_out: dict[str, str]  # name → why


def sort(
    plan: PlanFacts, digest: str, letters: Iterable[Letter], remembered: Mapping[str, AnswerFacts], keep: bool
) -> Inbox:
    """The newest sums of every owner; an answer to another plan is refused, a bad one is left out."""
    box = Inbox({name: Letter.of(facts) for name, facts in remembered.items()}, {}, [], {})
    seen = set[tuple[str, str, bool]]()
    for letter in letters:
        answer = letter.facts
        name = answer.about.name
        if answer.plan != digest and answer.plan not in plan.lineage:
            raise RecycleGPError(
                f"answer of {name!r}: it is to another plan ({answer.plan[:8]}) than this one ({digest[:8]}) or those "
                "before it; send its owner this plan, and leave the answer out"
            )
        key = (name, answer.plan, letter.has_sums)
        if key in seen:
            raise RecycleGPError(
                f"two answers to one plan are of {name!r}; leave one out, or give owners different names"
            )
        seen.add(key)
        why = _wrong(answer, plan)
        if why:
            box.left_out[name] = why
            continue
        letter = letter._replace(again=None) if keep else letter.closed()
        if answer.plan == digest:
            box.fresh.append(letter)
            if answer.slopes is not None:
                box.slopes[name] = answer
        if letter.has_sums and (name not in box.last or answer.round >= box.last[name].facts.round):
            box.last[name] = letter
    for name in box.left_out:
        box.last.pop(name, None)
    # in the order of names: the next plan is the same, to the last bit, whoever came first
    return box._replace(
        slopes=dict(sorted(box.slopes.items())), fresh=sorted(box.fresh, key=lambda letter: letter.facts.about.name)
    )


def _wrong(answer: AnswerFacts, plan: PlanFacts) -> str | None:
    """Why an answer cannot be what it says, if so. For rows whatever they are: G ⪰ 0, b² ≤ Gc, h² ≤ Go, t ≥ 0."""
    if len(answer.priors) != len(plan.priors):
        return f"it has {len(answer.priors)} functions, and the plan {len(plan.priors)}"
    if answer.slopes is not None and (
        len(answer.slopes) != len(plan.search.x) or not bool(torch.isfinite(answer.slopes).all())
    ):
        return "its slopes are not finite, or not as many as the plan has parameters"
    for sums, prior in zip((*answer.sums, *answer.own), answer.priors * 2, strict=False):
        if not all(bool(torch.isfinite(t).all()) for t in sums):
            return "its sums are not finite"
        if len(sums.b) != len(prior.Z):
            return f"its sums are of {len(sums.b)} points, and the plan has {len(prior.Z)}"
        if sums.noisy:  # rows or not, noisy sums may be anything
            if not all(map(restating.same_coordinates, answer.priors, plan.priors)):
                return "its noise is that of an earlier plan with another kernel or other points"
            continue
        G = sums.matrix()
        d, size = G.diagonal().clone(), 1 + TOLERANCE
        scale = d.max().clamp_min(0)
        impossible = (
            bool((d < -TOLERANCE * scale).any())
            or bool((sums.h.square() > size * (d * sums.o + TOLERANCE * scale * sums.o)).any())
            or (not plan.variational and _residuals_are_wrong(sums, d))
            or float(sums.n) < 0
            or float(sums.t) < -TOLERANCE * float(d.sum() + 1)
        )
        if impossible or not _semidefinite(G):
            return "its sums cannot be those of any rows"
    return None


def _residuals_are_wrong(sums: Sums, d: Tensor) -> bool:
    """b² ≤ Gc, of residuals r with c = rᵀr."""
    most = (1 + TOLERANCE) * sums.c * (d + TOLERANCE * d.max().clamp_min(0))
    return float(sums.c) < 0 or bool((sums.b.square() > most).any())


def _semidefinite(G: Tensor) -> bool:
    """G, which is nobody else's, is changed."""
    G.diagonal().add_(TOLERANCE * G.diagonal().mean().clamp_min(1e-300))
    _, info = torch.linalg.cholesky_ex(G)
    return not bool(info)

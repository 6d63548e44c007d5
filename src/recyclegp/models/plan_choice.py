"""Which model a round returns: the present one, the best so far, or the merge that the plan was made from."""

from __future__ import annotations

from collections.abc import Mapping

from .combining import Combined, ensemble_of, gain, said_at
from .plan_ensemble import Parts, of_record
from .plan_facts import PlanFacts


def rounds_gain(plan: PlanFacts) -> float | None:
    """Nats per held-back row of the best round over the one-shot merge."""
    shot, best = plan.one_shot, plan.best
    if shot is None or best is None or not ({s.owner for s in shot.scores} & {s.owner for s in best.scores}):
        return None
    return gain(best.scores, shot.scores)


def better(found: Combined, one_shot: Parts | None, weights: Mapping[str, float]) -> Parts:
    """By held-back score, where that is known; the present model where it is not."""
    plan = found.plan
    ahead = rounds_gain(plan)
    if ahead is not None and ahead < 0 and plan.one_shot is not None:
        return of_record(plan.one_shot.record, plan.frame) if one_shot is None else one_shot
    best = plan.best if plan.search.done and plan.best is not None else plan.model
    stands = not found.rejected and best is plan.model
    if stands or best is None or not set(best.owners) <= set(found.last):
        return found.ensemble()
    said = [said_at(found.last[name], best.priors, weights) for name in best.owners]
    return ensemble_of(plan, best, said, keep=True)

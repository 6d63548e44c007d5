"""What there is to say of a plan and of an answer, as values for machines; `plan_words` says it to people."""

from __future__ import annotations

from typing import Any

import torch

from ..models.answer import Answer
from ..models.plan import Plan
from ..plans.prior import Prior
from . import words

Facts = dict[str, Any]


def of_plan(plan: Plan) -> Facts:
    facts = plan._facts
    return _common("plan", facts.priors, plan.likelihoods[0].parts) | {
        "name": None,
        "rows": 0,
        "points_per_row": 0.0,
        "digest_of_plan": plan.digest,
        "round": plan.round,
        "asks": plan.asks,
        "done": plan.done,
        "history": plan.history,
        "gain_over_one_shot": plan.gain,
        "one_shot": facts.one_shot is not None,
        "counts": list(facts.model.owners) if facts.model is not None else [],
        "functions": _functions(plan.functions, facts.priors),
        "target": [str(t) or None for t in plan.targets],
        "words": words.words(
            facts.model.owners if facts.model is not None else (),
            (),
            plan.columns,
            plan.categories,
            plan.targets,
            plan.likelihoods[0].words_of_y,
        ),
        "columns_of": plan.columns,
        "levels": plan.categories,
    }


def of_answer(answer: Answer) -> Facts:
    f, told = answer.facts, answer.disclosure
    return _common("answer", f.priors, f.likelihood.parts) | {
        "name": answer.name,
        "owner": answer.owner,
        "rows": answer.rows,
        "points_per_row": told.points_per_row,
        "answers_plan": answer.plan,
        "holds_sums": bool(f.sums),
        "derivatives": bool(f.derivatives),
        "held_back": f.scores[0][1].rows if f.scores else 0,
        "functions": _functions(f.likelihood.functions, f.priors),
        "target": [str(t) or None for t in answer.targets],
        "privacy": None if f.about.privacy is None else f.about.privacy.value,
        "origin": told.origin.value,
        "contains_data_rows": told.origin.rows_among_them,
        "smallest_member": told.smallest_member,
        "privacy_guarantee": told.guarantee.value if f.guaranteed is None else f.guaranteed.words,
        "words": words.words(
            [answer.name],
            [answer.owner],
            answer.columns,
            answer.categories,
            answer.targets,
            f.likelihood.words_of_y,
        ),
        "columns_of": answer.columns,
        "levels": answer.categories,
    }


def _common(kind: str, priors: tuple[Prior, ...], parts: Any) -> Facts:
    Z = torch.cat([p.Z for p in priors])
    return {
        "kind": kind,
        "points": max(len(p.Z) for p in priors),
        "likelihoods": list(dict.fromkeys(part.name for part in parts)),
        "ends": torch.stack([Z.amin(0), Z.amax(0)], 1),
    }


def _functions(names: tuple[str, ...], priors: tuple[Prior, ...]) -> list[Facts]:
    return [
        {
            "function": name,
            "kernel": p.kernel.describe(None),
            "kernel_in_short": p.kernel.describe(),
            "mean": p.mean,
            "noise": p.noise,
            "points": len(p.Z),
        }
        | {"offset_sd": p.effects.offset_sd, "smooth_sd": p.effects.smooth_sd}
        for name, p in zip(names, priors, strict=True)
    ]

"""Rows of one owner → an answer to a plan, in steps: check, hold back, sums over rows, slopes, scores.

Whatever is to stand between the rows and what leaves (noise for privacy, masks) stands behind `_sums`: there all that
an answer says of rows is a sum over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import arrays
from ..anonymity import LevelGuard
from ..arrays import Array
from ..categories import described
from ..core.owner_posterior import NewOwner
from ..core.posterior import Posterior
from ..errors import Argument, Either, RecycleGPError
from ..likelihoods import Likelihood, Moments, Outputs, labels
from ..local.candidates import is_row
from ..local.functions import requests_for
from ..local.held_back import held_back_if_any, take
from ..local.options import FitOptions, Publishing
from ..local.planning import PEOPLE_OPTION
from ..local.request import FitRequest
from ..plans import bound, slopes, variational
from ..plans.prior import Prior
from ..plans.sums import PlanRows, Sums, of_owner
from ..record import About, Origin, Privacy
from .fit_warnings import PublishedSize, warn_about_publishing
from .plan_facts import AnswerFacts, Asks, PlanFacts, Score
from .privacy import Privacy as DifferentialPrivacy
from .privacy import protected, rows_said

ONE_SHOT, ROUNDS = "one shot", "rounds"  # models that an answer may have scored
SCORED = 0.1  # of the rows are held back for scores: the very rows that `fit(hold_back=0.1)` keeps out
MOST_DERIVATIVES = 2**17  # numbers in the derivatives of sums, up to which they are sent to save an exchange


class OwnRows(NamedTuple):
    """Rows as they were given, but for the inputs, which are numbers."""

    X: Tensor
    y: Any
    noise: Any
    weights: Any

    def only(self, kept: Tensor) -> OwnRows:
        chosen = kept.cpu().numpy()
        return OwnRows(self.X[kept], *(take(value, chosen) for value in self[1:]))


def contribute(
    plan: PlanFacts,
    digest: str,
    X: Array,
    y: Array,
    *,
    about: About,
    noise: Any = None,
    weights: Array = None,
    missing: str = "refuse",
    publishing: Publishing,
    score: bool = False,
    with_derivatives: bool | None = None,
    private: DifferentialPrivacy | None = None,
    persons: Any = None,
) -> AnswerFacts:
    """All that one owner says."""
    check_not_people(publishing.privacy)
    if len(plan.priors) == 1 and plan.likelihood.classifies and not plan.likelihood.names_classes:
        y = labels.as_numbers(y, plan.targets[0].labels)
    if private is not None:
        _check_private(plan, private, noise, weights, score, with_derivatives)
    inputs = _inputs(plan, X)
    given = OwnRows(inputs, y, noise, weights)
    options = _options(plan, publishing, missing)
    whole = requests_for(given.X, y, about.name, options.changed(noise=noise), weights=weights)
    scored: OwnRows | None = None
    if score:
        held = torch.as_tensor(held_back_if_any(X, y, SCORED))
        if bool(held.any()):
            scored, kept = given.only(held), given.only(~held)
            whole = requests_for(kept.X, kept.y, about.name, options.changed(noise=kept.noise), weights=kept.weights)
    known = _functions(plan.likelihood, whole.likelihood)
    requests = dict(zip(known, whole.requests, strict=True))
    names = about.name, about.owner_override, about.time
    origin = Origin.ROWS if any(bool(is_row(p.Z, inputs).any()) for p in plan.priors) else plan.origin
    words = About(*names, "plan", *plan.frame[1:3], plan.targets, publishing.privacy, origin)
    rows = {c: plan_rows(request, plan.priors[c]) for c, request in requests.items()}
    answer = AnswerFacts(
        about=words,
        likelihood=plan.whole,
        plan=digest,
        round=plan.round,
        priors=plan.priors,
        rows=tuple(requests[c].rows if c in requests else 0 for c in range(len(plan.priors))),
        known_noise=any(request.noise is not None for request in requests.values()),
        scores=() if scored is None else _scores(plan, scored, about.name),
    )
    if private is not None:
        y_numbers = _numbers(plan.likelihood, y, len(inputs)).reshape(-1)
        one = torch.ones_like(y_numbers)
        return _private(answer, plan, private, PlanRows(inputs, y_numbers, one, one), persons)
    _warn(answer, publishing)
    if plan.variational:
        totals = None if plan.model is None else plan.model.totals
        if plan.asks is Asks.SLOPES and totals is not None and about.name in plan.model.owners:  # type: ignore[union-attr]
            return answer._replace(slopes=variational.slopes(plan.priors, totals, plan.likelihood, rows))
        return answer._replace(sums=variational.of_owner(plan.priors, totals, plan.likelihood, rows))
    if plan.asks is Asks.SLOPES and plan.model is not None and about.name in plan.model.owners:
        return answer._replace(slopes=_slopes(plan, rows))
    answer = answer._replace(sums=_sums(plan.priors, rows))
    if any(p.effects.present for p in plan.priors):
        answer = answer._replace(own=_sums([p.without_effects for p in plan.priors], rows))
    wanted = _few_derivatives(plan.priors) if with_derivatives is None else with_derivatives
    return answer._replace(derivatives=_derivatives(plan.priors, rows)) if wanted and plan.learn else answer


def _check_private(
    plan: PlanFacts, private: DifferentialPrivacy, noise: Any, weights: Any, score: bool, with_derivatives: bool | None
) -> None:
    """Everything that leaves must go through the mechanism."""
    given = {
        "noise": noise is not None,
        "weights": weights is not None,
        "score": score,
        "slopes": bool(with_derivatives),
    }
    wrong = [name for name, is_given in given.items() if is_given]
    if wrong:
        raise RecycleGPError(Argument(wrong[0]), " is not covered by the guarantee of a private answer; leave it out")
    if plan.variational or len(plan.priors) > 1 or plan.priors[0].effects.present:
        raise RecycleGPError(
            "a private answer is of one function with Gaussian noise that owners share: nothing is proven of others; "
            "agree on a plan without effects and of one output, for yes and no on numbers 0 and 1"
        )
    told = plan.one_shot is not None and plan.one_shot.record.about.guaranteed is None
    came = told or (plan.model is not None and not all(t.noisy for t in plan.model.totals))
    if (came or plan.origin is Origin.ROWS) and not private.public_plan:
        raise RecycleGPError(
            "this plan was made from what owners have said without a guarantee, perhaps from these very rows; agree on "
            "a plan from public knowledge, or pass ",
            Argument("public_plan", True),
            " in Privacy where that does not matter",
        )


def _private(
    answer: AnswerFacts, plan: PlanFacts, private: DifferentialPrivacy, rows: PlanRows, persons: Any
) -> AnswerFacts:
    """What leaves is noisy sums, and what is public anyway. Whether a point is a row is not looked at."""
    what = f"{answer.about.name}, round {plan.round}, plan {answer.plan[:8]}, {private.guaranteed.words}"
    sums = protected(private, plan.priors[0], rows, persons, what)
    said = len(rows.y) if private.public_rows else rows_said(sums)
    about = answer.about._replace(origin=plan.origin, guaranteed=private.guaranteed)
    return answer._replace(about=about, sums=(sums,), rows=(said,))


# --- what is given ------------------------------------------------------------------------------


def _inputs(plan: PlanFacts, X: Array) -> Tensor:
    """Numbers, in the order of the plan's columns; levels must be the plan's."""
    frame = plan.frame
    guard = LevelGuard(known=dict(frame.categories.levels))
    found = arrays.matched(X, *frame[:3], device="cpu", guard=guard)
    new = found.categories.beyond(frame.categories)
    if new:
        raise RecycleGPError(
            f"X has levels that the plan does not know: {described(new, frame.columns)}; leave those rows out, or "
            "agree on a plan that has them"
        )
    if not len(found.X):
        raise RecycleGPError("X has no rows; an answer needs at least one")
    return found.X.detach()


def _options(plan: PlanFacts, publishing: Publishing, missing: str) -> FitOptions:
    """What `fit` would have been asked for: its checks are those of an answer."""
    whole, Z = plan.likelihood, plan.priors[0].Z
    first = whole.parts[0] if isinstance(whole, Outputs) else whole
    return FitOptions.of(
        likelihood=first.name,
        method="dual" if plan.variational else "collapsed",
        inducing=Z,
        publish=Publishing(None, publishing.rows_per_point, publishing.allow_small, None),
        target=list(whole.functions) if isinstance(whole, Outputs) else None,
        classes=whole.own_labels or None,
        missing=missing,
    )


def _numbers(likelihood: Likelihood, y: Any, rows: int) -> Tensor:
    return likelihood.targets(y, rows, torch.device("cpu")).detach()


def _functions(plan: Likelihood, own: Likelihood) -> list[int]:
    """Which functions of the plan the rows have seen."""
    if len(plan.functions) == 1:
        return [0]
    return [plan.functions.index(name) for name in own.functions]


def check_not_people(chosen: Privacy | None) -> None:
    """Sums are exact. Noise as a module of people has, in round after round, would be averaged away."""
    if chosen is Privacy.PEOPLE:
        raise RecycleGPError(
            PEOPLE_OPTION,
            ": an answer is exact sums over rows, and noise that hides somebody once would not in round after round; ",
            Either(
                "pass privacy=rgp.Privacy(epsilon=…, delta=…, bound=…), or add answers up under masks "
                "(rgp.rounds(…, secure=True), rgp.join_sum)",
                "give --epsilon, --delta and --bound, or add answers up under masks (recyclegp join-sum)",
            ),
            ", or merge modules, without rounds",
        )


def _warn(answer: AnswerFacts, publishing: Publishing) -> None:
    """What should be known before it leaves; that points are many is the plan's choice, and is said, too."""
    each = [
        PublishedSize(answer.about.name, rows, len(p.Z), p.Z.shape[1], None)
        for rows, p in zip(answer.rows, answer.priors, strict=True)
        if rows
    ]
    warn_about_publishing([min(each, key=lambda s: s.rows / s.points)], publishing)


def plan_rows(request: FitRequest, prior: Prior) -> PlanRows:
    """Rows as sums see them: noise s/w² each, where s is the plan's."""
    counts = torch.ones_like(request.y) if request.counts is None else request.counts
    w2 = counts.clone() if request.w is None else request.w.square()
    if request.noise is not None:  # known, for all rows or row by row: w² = c·mean/σᵢ²
        w2 = w2 * (prior.noise / request.noise)
    return PlanRows(request.X, request.y, w2.sqrt(), counts)


# --- what is said -------------------------------------------------------------------------------


def _sums(priors: Sequence[Prior], rows: dict[int, PlanRows]) -> tuple[Sums, ...]:
    return tuple(
        of_owner(p.basis(), rows[c], p.mean, p.noise, p.effects) if c in rows else variational.nothing(p)
        for c, p in enumerate(priors)
    )


def _slopes(plan: PlanFacts, rows: dict[int, PlanRows]) -> Tensor:
    """The owner's share of the gradient, for all functions behind one another."""
    assert plan.model is not None
    found = []
    for c, prior in enumerate(plan.priors):
        by_sums = bound.adjoint(plan.model.totals[c], prior.noise)
        found.append(slopes.share(prior, rows[c], by_sums) if c in rows else torch.zeros_like(prior.x))
    return torch.cat(found)


def _derivatives(priors: Sequence[Prior], rows: dict[int, PlanRows]) -> tuple[tuple[Sums, ...], ...]:
    return tuple(
        tuple(slopes.derivatives(p, rows[c])) if c in rows else (variational.nothing(p),) * len(p.x)
        for c, p in enumerate(priors)
    )


def _few_derivatives(priors: Sequence[Prior]) -> bool:
    return sum(len(p.x) * len(p.Z) ** 2 // 2 for p in priors) <= MOST_DERIVATIVES


# --- how well models do -------------------------------------------------------------------------


def _scores(plan: PlanFacts, held: OwnRows, owner: str) -> tuple[tuple[str, Score], ...]:
    """Σ log p(y) of rows that are in no answer."""
    from .module import Module

    y = plan.likelihood.targets(held.y, len(held.X), held.X.device)
    found = []
    if plan.one_shot is not None and not plan.one_shot.scores:
        module = Module(*plan.one_shot.record)
        whole = module.likelihoods[0]
        at = module._moments_at(held.X)
        found.append((ONE_SHOT, _score(whole.log_density_at(y, at), owner)))
    if plan.model is not None and not plan.model.scores:
        likelihood = plan._replace(priors=plan.model.priors).whole
        found.append(
            (ROUNDS, _score(likelihood.log_density_at(y, moments(plan.model.priors, plan.model.totals, held.X)), owner))
        )
    return tuple(found)


def _score(each: Tensor, owner: str) -> Score:
    seen = each[torch.isfinite(each)]
    return Score(owner, len(seen), float(seen.sum()))


@torch.no_grad()
def moments(priors: Sequence[Prior], totals: Sequence[Sums], X: Tensor) -> Moments:
    """Of a new owner's functions at X, (n, C) both."""
    found = []
    for prior, total in zip(priors, totals, strict=True):
        solved = bound.solve(total, prior.noise)
        shared = Posterior(prior.basis(), prior.Z.new_tensor(prior.mean), solved.v, solved.C)
        found.append(NewOwner(shared, prior.kernel, prior.effects).predict(X))
    return Moments(*(torch.stack(part, -1) for part in zip(*found, strict=True)))

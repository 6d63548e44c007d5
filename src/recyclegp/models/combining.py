"""Answers to a plan → the ensemble, and the next plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.convergence import Convergence
from ..errors import RecycleGPError, warn_user
from ..kernels import Kernel
from ..merging.points import select_by_slack
from ..plans import bound, restating, slopes, variational
from ..plans.prior import Prior
from ..plans.search import SHORTEST
from ..plans.sums import Sums, add, weighted
from .contributing import ONE_SHOT, ROUNDS
from .naming import few
from .plan_ensemble import Parts, Said, ensemble
from .plan_facts import AnswerFacts, Asks, Evaluated, OneShot, PlanFacts, Round, Score

MOVED = math.log(2)  # a parameter has moved so far since points were chosen: they are chosen again; by hand
PATIENCE = 3  # evaluations in a row that have not improved the held-back score; by hand
VARIATIONAL = 1e-9  # of the bound: a step that would move q by less, in nats, ends the rounds of other likelihoods
TOLERANCE = 1e-6  # relative, for sums that rounding has made impossible


class Inbox(NamedTuple):
    """Answers, sorted."""

    last: dict[str, AnswerFacts]  # the newest with sums, by owner
    slopes: dict[str, AnswerFacts]  # to this very plan
    fresh: list[AnswerFacts]  # all that came for this plan
    left_out: dict[str, str]  # name → why


class Combined(NamedTuple):
    ensemble: Parts
    plan: PlanFacts
    last: dict[str, AnswerFacts]  # to be remembered
    rejected: bool = False  # the plan was a step too far: what was found before is better


def combine(
    plan: PlanFacts,
    digest: str,
    answers: Iterable[AnswerFacts],
    remembered: Mapping[str, AnswerFacts],
    *,
    keep: bool,
    weights: Mapping[str, float],
    unreadable: Mapping[str, str],
) -> Combined:
    """One exchange; `unreadable` are files that turn out to be none while answers are read."""
    box = sort(plan, digest, answers, remembered)
    box.left_out.update(unreadable)
    if box.left_out:
        why = "; ".join(f"{name}: {reason}" for name, reason in box.left_out.items())
        warn_user(f"left out of this round, because they cannot be believed: {why}; ask their owners")
    if plan.variational:
        return _with_pseudo_observations(plan, digest, box, keep, weights)
    if plan.asks is Asks.SLOPES:
        return _with_slopes(plan, digest, box, keep, weights)
    return _with_sums(plan, digest, box, keep, weights)


# --- what has come ------------------------------------------------------------------------------


def sort(plan: PlanFacts, digest: str, answers: Iterable[AnswerFacts], remembered: Mapping[str, AnswerFacts]) -> Inbox:
    """The newest sums of every owner; an answer to another plan is refused, a bad one is left out."""
    box = Inbox(dict(remembered), {}, [], {})
    seen = set[tuple[str, str, bool]]()
    for answer in answers:
        name = answer.about.name
        if answer.plan != digest and answer.plan not in plan.lineage:
            raise RecycleGPError(
                f"answer of {name!r}: it is to another plan ({answer.plan[:8]}) than this one ({digest[:8]}) or those "
                "before it; send its owner this plan, and leave the answer out"
            )
        key = (name, answer.plan, bool(answer.sums))
        if key in seen:
            raise RecycleGPError(
                f"two answers to one plan are of {name!r}; leave one out, or give owners different names"
            )
        seen.add(key)
        why = _wrong(answer, plan)
        if why:
            box.left_out[name] = why
            continue
        if answer.plan == digest:
            box.fresh.append(answer)
            if answer.slopes is not None:
                box.slopes[name] = answer
        if answer.sums and (name not in box.last or answer.round >= box.last[name].round):
            box.last[name] = answer
    for name in box.left_out:
        box.last.pop(name, None)
    return box


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
            continue
        G = sums.matrix()
        d, size = G.diagonal(), 1 + TOLERANCE
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
    scale = G.diagonal().mean().clamp_min(1e-300)
    _, info = torch.linalg.cholesky_ex(G + TOLERANCE * scale * torch.eye(len(G), dtype=G.dtype))
    return not bool(info)


# --- an exchange of sums --------------------------------------------------------------------------


def _with_sums(plan: PlanFacts, digest: str, box: Inbox, keep: bool, weights: Mapping[str, float]) -> Combined:
    # in the order of names: the same numbers, to the last bit, whoever came first
    said = [said_at(box.last[name], plan.priors, weights) for name in sorted(box.last)]
    said = [one for one in said if one.weight > 0]
    if not said:
        raise RecycleGPError("answers is empty, or none of them counts; a round needs at least one")
    totals = tuple(add([weighted(one.sums[c], one.weight) for one in said]) for c in range(len(plan.priors)))
    names = tuple(one.answer.about.name for one in said)
    missing = tuple(one.answer.about.name for one in said if one.answer.plan != digest)
    value = sum(bound.value(t, p.noise) for t, p in zip(totals, plan.priors, strict=True))
    model = Evaluated(plan.priors, totals, names, value)
    plan = _scored(plan, box.fresh)
    if any(total.noisy for total in totals):  # noise that was added for privacy would be learned from
        plan = plan._replace(learn=False)
    nxt = plan if not plan.learn else _moved(plan, model, box, said, weights)
    report = _report(plan, box, value, missing)
    last = box.last if keep else {}
    e = ensemble_of(plan, model, said, keep)
    rejected = plan.learn and nxt.model is plan.model
    return Combined(e, _next(nxt, digest, report, model if not plan.learn else nxt.model), last, rejected)


def said_at(answer: AnswerFacts, priors: Sequence[Prior], weights: Mapping[str, float]) -> Said:
    """What an owner has said, at these priors."""
    pairs = list(zip(answer.priors, priors, strict=True))
    sums = tuple(restating.expressed(s, *both) for s, both in zip(answer.sums, pairs, strict=True))
    alone = [(before.without_effects, now.without_effects) for before, now in pairs]
    own = tuple(restating.expressed(s, *both) for s, both in zip(answer.own, alone, strict=False))
    return Said(answer, sums, own, float(weights.get(answer.about.name, 1.0)))


def _moved(
    plan: PlanFacts, model: Evaluated, box: Inbox, said: Sequence[Said], weights: Mapping[str, float]
) -> PlanFacts:
    """Noise and mean at their best; then a shorter step, or the slope here."""
    learn_noise = not any(one.answer.known_noise for one in said)
    priors, totals = list[Prior](), list[Sums]()
    for prior, total in zip(model.priors, model.totals, strict=True):
        best = bound.profile(total, prior.noise, learn_noise=learn_noise)
        priors.append(prior.with_noise(best.noise, prior.mean + best.change))
        totals.append(total.shifted(best.change))
    value = sum(float(bound.solve(t, p.noise).bound) for t, p in zip(totals, priors, strict=True))
    here = Evaluated(tuple(priors), tuple(totals), model.owners, value)
    search = plan.search
    if plan.model is None or set(plan.model.owners) != set(model.owners):
        search = search._replace(value=-math.inf)  # another bound than before
    if plan.model is not None and not search.high_enough(value):
        shorter = search.rejected(value)  # from the points that were there before
        return plan._replace(search=shorter, priors=_at(plan.model.priors, shorter.trial))
    if plan.model is not None and not _same_points(plan.model, here):
        search = search._replace(value=-math.inf)  # how slopes have changed says nothing of how the bound bends
    now = plan._replace(search=search, priors=here.priors, model=here)
    if all(one.answer.derivatives and one.answer.round == plan.round for one in said):
        return _stepped(now, _gradient_of_derivatives(here, said))
    return now._replace(asks=Asks.SLOPES)


def _gradient_of_derivatives(here: Evaluated, said: Sequence[Said]) -> Tensor:
    found = []
    for c, prior in enumerate(here.priors):
        by_sums = bound.adjoint(here.totals[c], prior.noise)
        for j in range(len(prior.x)):
            change = prior.mean - said[0].answer.priors[c].mean
            each = [weighted(one.answer.derivatives[c][j].shifted(change), one.weight) for one in said]
            found.append(slopes.inner(by_sums, add(each)))
    return torch.stack(found)


# --- an exchange of slopes ------------------------------------------------------------------------


def _with_slopes(plan: PlanFacts, digest: str, box: Inbox, keep: bool, weights: Mapping[str, float]) -> Combined:
    model = plan.model
    assert model is not None
    known = {name: box.last[name] for name in sorted(model.owners) if name in box.last}
    said = [said_at(answer, plan.priors, weights) for answer in known.values()]
    plan = _scored(plan, box.fresh)
    gradient = torch.zeros_like(plan.search.x)
    missing, unknown = list[str](), 0.0
    by_sums = [bound.adjoint(t, p.noise) for t, p in zip(model.totals, model.priors, strict=True)]
    for name in model.owners:
        weight = float(weights.get(name, 1.0))
        if name in box.slopes:
            gradient = gradient + weight * box.slopes[name].slopes  # type: ignore[operator]
            continue
        missing.append(name)
        if name in known:  # as far as it can be said without the owner
            own = zip(known[name].sums, known[name].priors, model.priors, by_sums, strict=True)
            gradient = gradient + weight * torch.cat([restating.share(*each) for each in own])
        else:
            unknown += 1
    if unknown == len(model.owners):
        raise RecycleGPError("answers is empty, or none of them has the slopes that the plan asks for")
    gradient = gradient * (len(model.owners) / (len(model.owners) - unknown))
    report = _report(plan, box, model.bound, tuple(missing))
    stepped = _stepped(plan, gradient)
    keep_sites = keep and len(said) == len(model.owners)
    who = said if keep_sites else [Said(a, (), (), float(weights.get(a.about.name, 1.0))) for a in box.slopes.values()]
    e = ensemble_of(plan, plan.model or model, who, keep_sites)
    return Combined(e, _next(stepped, digest, report, stepped.model), box.last if keep else {})


def _stepped(plan: PlanFacts, gradient: Tensor) -> PlanFacts:
    """Where to ask next: other points, too, where the kernel has moved far from the one they were chosen for."""
    assert plan.model is not None
    search = plan.search.accepted(plan.model.bound, gradient)
    if search.done or _worse(plan):
        return plan._replace(search=search._replace(done=True), asks=Asks.SUMS)
    priors = _at(plan.priors, search.trial)
    anchor = plan.anchor
    if plan.candidates is not None and anchor is not None:
        theta = search.trial
        if float((theta - anchor).abs().max()) > MOVED:
            priors, anchor = tuple(_reselected(p, plan.candidates) for p in priors), theta
    return plan._replace(search=search, priors=priors, asks=Asks.SUMS, anchor=anchor)


def _at(priors: Sequence[Prior], x: Tensor) -> tuple[Prior, ...]:
    parts = x.split([len(p.x) for p in priors])
    return tuple(p.moved(own) for p, own in zip(priors, parts, strict=True))


def _same_points(a: Evaluated, b: Evaluated) -> bool:
    return all(torch.equal(p.Z, q.Z) for p, q in zip(a.priors, b.priors, strict=True))


def _reselected(prior: Prior, candidates: Tensor) -> Prior:
    Z = choose_points(prior.kernel, candidates, len(prior.Z))
    return Prior.at(Z, prior.kernel, prior.mean, prior.noise, prior.effects)


def choose_points(kernel: Kernel, candidates: Tensor, count: int) -> Tensor:
    """Those that leave the least variance: pivoted Cholesky."""
    chosen = select_by_slack(candidates, candidates.new_ones(len(candidates)), count, 0.0, kernel)
    return candidates[chosen]


# --- likelihoods that are not Gaussian ------------------------------------------------------------


def _with_pseudo_observations(
    plan: PlanFacts, digest: str, box: Inbox, keep: bool, weights: Mapping[str, float]
) -> Combined:
    """A damped step of the common q: shorter where the bound has not risen."""
    said = [said_at(box.last[name], plan.priors, weights) for name in sorted(box.last)]
    said = [one for one in said if one.weight > 0]
    if not said:
        raise RecycleGPError("answers is empty, or none of them counts; a round needs at least one")
    names = tuple(one.answer.about.name for one in said)
    missing = tuple(one.answer.about.name for one in said if one.answer.plan != digest)
    goal = tuple(add([weighted(one.sums[c], one.weight) for one in said]) for c in range(len(plan.priors)))
    plan = _scored(plan, box.fresh)
    here, before, search = plan.model, plan.before, plan.search
    rejected, done, length, totals, after = False, False, 1.0, goal, None
    if here is None:  # nobody has known anything yet
        value = sum(float(bound.solve(t, variational.UNIT).bound) for t in goal)
    else:
        value = sum(float(variational.value(at, new)) for at, new in zip(here.totals, goal, strict=True))
        same = before is not None and set(before.owners) == set(names)
        if same and before is not None and value < before.bound - VARIATIONAL * abs(before.bound):
            rejected, after, length = True, before, 0.5 * search.length
            totals = tuple(variational.between(a, b, 0.5) for a, b in zip(before.totals, here.totals, strict=True))
            done = length < SHORTEST
        else:
            after = here._replace(bound=value, owners=names)
            length = min(1.0, 2 * search.length)
            totals = tuple(variational.between(a, b, length) for a, b in zip(here.totals, goal, strict=True))
            left = sum(variational.distance(a, b) for a, b in zip(here.totals, goal, strict=True))
            done = left < VARIATIONAL * (1 + abs(value))
    search = search._replace(length=length, value=value, evaluations=search.evaluations + 1, done=done)
    model = Evaluated(plan.priors, totals, names, -math.inf)
    report = _report(plan, box, value, missing)
    shown = after if rejected and after is not None else model
    nxt = plan._replace(search=search, before=after)
    last = box.last if keep else {}
    return Combined(ensemble_of(plan, shown, said, keep), _next(nxt, digest, report, model), last)


# --- scores ---------------------------------------------------------------------------------------


def _scored(plan: PlanFacts, fresh: Sequence[AnswerFacts]) -> PlanFacts:
    """With what owners say of models on rows that they have held back."""
    found: dict[str, list[Score]] = {}
    for answer in fresh:
        for which, score in answer.scores:
            found.setdefault(which, []).append(score)
    if plan.one_shot is not None and ONE_SHOT in found:
        plan = plan._replace(one_shot=OneShot(plan.one_shot.record, tuple(found[ONE_SHOT])))
    if plan.model is None or ROUNDS not in found or plan.model.scores:
        return plan
    model = plan.model._replace(scores=tuple(found[ROUNDS]))
    best = model if plan.best is None or gain(model.scores, plan.best.scores) > 0 else plan.best
    return plan._replace(model=model, best=best)


def gain(new: Sequence[Score], old: Sequence[Score]) -> float:
    """Nats per row that one model has over another, on the rows of owners who have scored both."""
    before = {s.owner: s for s in old}
    both = [(s, before[s.owner]) for s in new if s.owner in before]
    rows = sum(s.rows for s, _ in both)
    return sum(s.total - t.total for s, t in both) / rows if rows else 0.0


def per_row(scores: Sequence[Score]) -> float | None:
    rows = sum(s.rows for s in scores)
    return sum(s.total for s in scores) / rows if rows else None


def _worse(plan: PlanFacts) -> bool:
    """Has the score not improved for some evaluations?"""
    known = [r.score for r in plan.history if r.score is not None]
    now = None if plan.model is None else per_row(plan.model.scores)
    known += [] if now is None else [now]
    return len(known) > PATIENCE and max(known[:-PATIENCE]) >= max(known[-PATIENCE:])


# --- the next plan --------------------------------------------------------------------------------


def _report(plan: PlanFacts, box: Inbox, value: float, missing: tuple[str, ...]) -> Round:
    size = [nbytes(answer) for answer in box.fresh]
    scored = [score for answer in box.fresh for which, score in answer.scores if which == ROUNDS]
    if missing:
        warn_user(f"no answer to this plan from {few(list(missing))}: what they said before counts")
    return Round(
        plan.asks,
        value,
        len(box.fresh),
        sum(size) // max(1, len(size)),
        per_row(scored),
        missing,
        tuple(box.left_out),
    )


def nbytes(answer: AnswerFacts) -> int:
    """Of the numbers that an owner sends."""
    tensors = [t for sums in (*answer.sums, *answer.own) for t in sums]
    tensors += [t for each in answer.derivatives for sums in each for t in sums]
    tensors += [] if answer.slopes is None else [answer.slopes]
    return sum(t.numel() * t.element_size() for t in tensors)


def _next(plan: PlanFacts, digest: str, report: Round, model: Evaluated | None) -> PlanFacts:
    return plan._replace(model=model, lineage=(*plan.lineage, digest), history=(*plan.history, report))


def ensemble_of(plan: PlanFacts, model: Evaluated, said: Sequence[Said], keep: bool) -> Parts:
    likelihood = plan._replace(priors=model.priors).whole
    ended = Convergence(True, plan.search.evaluations, f"as the plan of round {plan.round + 1} has it")
    return ensemble(likelihood, plan.frame, model.priors, model.totals, said, keep=keep, ended=ended)

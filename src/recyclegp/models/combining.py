"""Answers to a plan → the ensemble, and the next plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.convergence import Convergence
from ..errors import RecycleGPError, warn_user
from ..kernels import Kernel
from ..merging.points import select_by_slack
from ..plans import bound, noisy, restating, slopes, variational
from ..plans.prior import Prior
from ..plans.search import SHORTEST
from ..plans.sums import Sums, add, weighted
from .contributing import ONE_SHOT, ROUNDS
from .inbox import Inbox, Letter, sort, without_numbers
from .naming import few
from .plan_ensemble import Parts, Said, ensemble
from .plan_facts import AnswerFacts, Asks, Evaluated, OneShot, PlanFacts, Round, Score

MOVED = math.log(2)  # a parameter has moved so far since points were chosen: they are chosen again; by hand
PATIENCE = 3  # evaluations in a row that have not improved the held-back score; by hand
VARIATIONAL = 1e-9  # of the bound: a step that would move q by less, in nats, ends the rounds of other likelihoods
NEAR, CLOSE = 0.5, 1e-2  # nats that a step moves q by: near enough for slopes, and for the end; by hand
GAINS = 4  # times what a step moves q by, the most that the bound may still gain with this kernel; by hand


class Combined(NamedTuple):
    ensemble: Callable[[], Parts]  # made when somebody wants it: its members' sites take most of the time
    plan: PlanFacts
    last: dict[str, AnswerFacts]  # to be remembered
    rejected: bool = False  # the plan was a step too far: what was found before is better


def combine(
    plan: PlanFacts,
    digest: str,
    answers: Iterable[Letter],
    remembered: Mapping[str, AnswerFacts],
    *,
    keep: bool,
    weights: Mapping[str, float],
    unreadable: Mapping[str, str],
) -> Combined:
    """One exchange; `unreadable` are files that turn out to be none while answers are read."""
    box = sort(plan, digest, answers, remembered, keep)
    box.left_out.update(unreadable)
    if box.left_out:
        why = "; ".join(f"{name}: {reason}" for name, reason in box.left_out.items())
        warn_user(f"left out of this round, because they cannot be believed: {why}; ask their owners")
    if plan.asks is Asks.SLOPES:
        return _with_slopes(plan, digest, box, keep, weights)
    if plan.variational:
        return _with_pseudo_observations(plan, digest, box, keep, weights)
    return _with_sums(plan, digest, box, keep, weights)


# --- an exchange of sums --------------------------------------------------------------------------


class Gathered(NamedTuple):
    """All that owners have said, added up, and who they are."""

    totals: tuple[Sums, ...]
    said: tuple[Said, ...]  # in the order of names; without sums where nobody keeps them
    derivatives: tuple[tuple[Sums, ...], ...]  # of the totals; none unless everybody has sent them with this plan

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.answer.about.name for one in self.said)

    def missing(self, digest: str) -> tuple[str, ...]:
        return tuple(one.answer.about.name for one in self.said if one.answer.plan != digest)


def _gathered(plan: PlanFacts, box: Inbox, keep: bool, weights: Mapping[str, float]) -> Gathered:
    """One owner after the other, in the order of names: the same numbers, to the last bit, whoever came first."""
    totals, derivatives, said = list[Sums](), list[list[Sums]](), list[Said]()
    everybody = True
    for name in sorted(box.last):
        one = said_at(box.last[name].opened(), plan.priors, weights)
        if one.weight == 0:
            continue
        own = [weighted(sums, one.weight) for sums in one.sums]
        totals = _added(totals, own) if said else own
        everybody = everybody and bool(one.answer.derivatives) and one.answer.round == plan.round
        if everybody:
            slope = [[weighted(sums, one.weight) for sums in each] for each in one.answer.derivatives]
            derivatives = [_added(*both) for both in zip(derivatives, slope, strict=True)] if said else slope
        said.append(one if keep else Said(without_numbers(one.answer), (), (), one.weight))
    if not said:
        raise RecycleGPError("answers is empty, or none of them counts; a round needs at least one")
    return Gathered(tuple(totals), tuple(said), tuple(map(tuple, derivatives)) if everybody else ())


def _added(one: Sequence[Sums], other: Sequence[Sums]) -> list[Sums]:
    return [add(both) for both in zip(one, other, strict=True)]


def _with_sums(plan: PlanFacts, digest: str, box: Inbox, keep: bool, weights: Mapping[str, float]) -> Combined:
    got = _gathered(plan, box, keep, weights)
    value = sum(bound.value(t, p) for t, p in zip(got.totals, plan.priors, strict=True))
    model = Evaluated(plan.priors, got.totals, got.names, value)
    plan = _scored(plan, box.fresh)
    learn_once = plan.learn and any(total.noisy for total in got.totals)
    if learn_once:  # a search would ask for more answers, and these cost; what the sums say is learned once, at home
        plan = plan._replace(learn=False)
    nxt = plan if not plan.learn else _moved(plan, model, got)
    report = _report(plan, box, value, got.missing(digest))
    e = partial(ensemble_of, plan, model, got.said, keep, learn_once=learn_once)
    rejected = plan.learn and nxt.model is plan.model
    return Combined(e, _next(nxt, digest, report, model if not plan.learn else nxt.model), _kept(box, keep), rejected)


def _kept(box: Inbox, keep: bool) -> dict[str, AnswerFacts]:
    return {name: letter.facts for name, letter in box.last.items()} if keep else {}


def said_at(answer: AnswerFacts, priors: Sequence[Prior], weights: Mapping[str, float]) -> Said:
    """What an owner has said, at these priors."""
    pairs = list(zip(answer.priors, priors, strict=True))
    sums = tuple(restating.expressed(s, *both) for s, both in zip(answer.sums, pairs, strict=True))
    alone = [(before.without_effects, now.without_effects) for before, now in pairs]
    own = tuple(restating.expressed(s, *both) for s, both in zip(answer.own, alone, strict=False))
    return Said(answer, sums, own, float(weights.get(answer.about.name, 1.0)))


def _moved(plan: PlanFacts, model: Evaluated, got: Gathered) -> PlanFacts:
    """Noise and mean at their best; then a shorter step, or the slope here."""
    learn_noise = not any(one.answer.known_noise for one in got.said)
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
    if got.derivatives:
        return _stepped(now, _gradient(here, model, got.derivatives))
    return now._replace(asks=Asks.SLOPES)


def _gradient(here: Evaluated, asked: Evaluated, derivatives: Sequence[Sequence[Sums]]) -> Tensor:
    """∂F/∂x = Σ_j ∂F/∂S_j · ∂S_j/∂x, at the mean and noise that are best for the sums."""
    found = []
    for prior, before, total, each in zip(here.priors, asked.priors, here.totals, derivatives, strict=True):
        by_sums = bound.adjoint(total, prior.noise)
        found += [slopes.inner(by_sums, own.shifted(prior.mean - before.mean)) for own in each]
    return torch.stack(found)


# --- an exchange of slopes ------------------------------------------------------------------------


def _with_slopes(plan: PlanFacts, digest: str, box: Inbox, keep: bool, weights: Mapping[str, float]) -> Combined:
    model = plan.model
    assert model is not None
    known = [name for name in sorted(model.owners) if name in box.last]
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
            before = box.last[name].opened()
            own = zip(before.sums, before.priors, model.priors, by_sums, strict=True)
            gradient = gradient + weight * torch.cat([restating.share(*each) for each in own])
        else:
            unknown += 1
    if unknown == len(model.owners):
        raise RecycleGPError("answers is empty, or none of them has the slopes that the plan asks for")
    gradient = gradient * (len(model.owners) / (len(model.owners) - unknown))
    report = _report(plan, box, model.bound, tuple(missing))
    stepped = _stepped(plan, gradient)
    if plan.variational:
        stepped = _with_q(stepped)
    keep_sites = keep and len(known) == len(model.owners)

    def e() -> Parts:
        if keep_sites:
            who = [said_at(box.last[name].opened(), plan.priors, weights) for name in known]
        else:
            who = [Said(a, (), (), float(weights.get(a.about.name, 1.0))) for a in box.slopes.values()]
        return ensemble_of(plan, plan.model or model, who, keep_sites)

    return Combined(e, _next(stepped, digest, report, stepped.model), _kept(box, keep))


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
    got = _gathered(plan, box, keep, weights)
    names, goal = got.names, got.totals
    plan = _scored(plan, box.fresh)
    here, before, search = plan.model, plan.before, plan.search
    rejected, settled, length, totals, after, left = False, False, 1.0, goal, None, math.inf
    if here is None:  # nobody has known anything yet
        value = sum(float(bound.solve(t, variational.UNIT).bound) for t in goal)
    else:
        value = sum(float(variational.value(at, new)) for at, new in zip(here.totals, goal, strict=True))
        same = before is not None and set(before.owners) == set(names)
        if same and before is not None and value < before.bound - VARIATIONAL * abs(before.bound):
            rejected, after, length = True, before, 0.5 * search.length
            totals = tuple(variational.between(a, b, 0.5) for a, b in zip(before.totals, here.totals, strict=True))
            settled = length < SHORTEST
        else:
            after = here._replace(bound=value, owners=names)
            length = min(1.0, 2 * search.length)
            totals = tuple(variational.between(a, b, length) for a, b in zip(here.totals, goal, strict=True))
            left = sum(variational.distance(a, b) for a, b in zip(here.totals, goal, strict=True))
            settled = left < VARIATIONAL * (1 + abs(value))
    if here is not None and here.owners and set(here.owners) != set(names):
        search = search._replace(value=-math.inf)  # another bound than before
    search = search._replace(length=length, evaluations=search.evaluations + 1)
    model = Evaluated(plan.priors, totals, names, -math.inf)
    report = _report(plan, box, value, got.missing(digest))
    shown = after if rejected and after is not None else model
    nxt = plan._replace(search=search, before=after, model=model)
    if not plan.learn:
        nxt = nxt._replace(search=search._replace(done=settled))
    elif not rejected or settled:
        nxt = _kernel_next(nxt, after.bound if rejected and after is not None else value, 0.0 if settled else left)
    e = partial(ensemble_of, plan, shown, got.said, keep)
    return Combined(e, _next(nxt, digest, report, nxt.model), _kept(box, keep))


def _kernel_next(plan: PlanFacts, value: float, left: float) -> PlanFacts:
    """q for this kernel is nearly known: the bound's slope there, or a shorter step of the kernel; else the same again.

    `left` is what the last step has moved q by. A bound that is high enough will only rise further, one that is too low
    may become so. While q is looked for, `length` is that of its own steps: the kernel's have length 1.
    """
    assert plan.model is not None
    search = plan.search._replace(length=1.0)
    if math.isfinite(search.value) and not bool((search.step != 0).any()):  # back where no step led higher from
        return plan._replace(search=search._replace(done=True)) if left < CLOSE else plan
    if search.high_enough(value):
        if left >= NEAR:
            return plan
        search = search._replace(evaluations=search.evaluations - 1)  # `accepted` counts it
        return plan._replace(search=search, model=plan.model._replace(bound=value), asks=Asks.SLOPES)
    if left >= CLOSE and search.high_enough(value + GAINS * left):
        return plan
    step = search.rejected(value).length * search.step
    step = step if float(step.abs().max()) > SHORTEST else torch.zeros_like(step)
    search = search._replace(step=step)
    return _with_q(plan._replace(search=search, priors=_at(plan.priors, search.trial)))


def _with_q(plan: PlanFacts) -> PlanFacts:
    """What was said of f at the points, under the kernel that is tried next: there q is looked for again."""
    assert plan.model is not None
    each = zip(plan.model.totals, plan.model.priors, plan.priors, strict=True)
    totals = tuple(restating.expressed(*one) for one in each)
    return plan._replace(model=Evaluated(plan.priors, totals, plan.model.owners, -math.inf), before=None)


# --- scores ---------------------------------------------------------------------------------------


def _scored(plan: PlanFacts, fresh: Sequence[Letter]) -> PlanFacts:
    """With what owners say of models on rows that they have held back."""
    found: dict[str, list[Score]] = {}
    for letter in fresh:
        for which, score in letter.facts.scores:
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
    size = [letter.nbytes for letter in box.fresh]
    scored = [score for letter in box.fresh for which, score in letter.facts.scores if which == ROUNDS]
    if missing:
        warn_user(f"no answer to this plan from {few(list(missing))}: what they said before counts")
    return Round(
        plan.asks,
        value,
        len(box.fresh),
        sum(size) // max(1, len(size)),
        per_row(scored),
        missing,
        tuple(sorted(box.left_out)),
    )


def _next(plan: PlanFacts, digest: str, report: Round, model: Evaluated | None) -> PlanFacts:
    return plan._replace(model=model, lineage=(*plan.lineage, digest), history=(*plan.history, report))


def ensemble_of(
    plan: PlanFacts, model: Evaluated, said: Sequence[Said], keep: bool, *, learn_once: bool = False
) -> Parts:
    """At the model's priors; or, of noisy sums, at those that they speak for."""
    priors, how = model.priors, f"as the plan of round {plan.round + 1} has it"
    if learn_once:
        pairs = zip(model.totals, model.priors, strict=True)
        priors = tuple(noisy.learned(total, prior) if total.noisy else prior for total, prior in pairs)
        how = "learned from sums with noise, beginning at the plan's"
    likelihood = plan._replace(priors=priors).whole
    ended = Convergence(True, plan.search.evaluations, how)
    return ensemble(likelihood, plan.frame, model.priors, model.totals, said, keep=keep, ended=ended, at=priors)

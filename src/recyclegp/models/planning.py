"""A merge → the plan that it proposes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import arrays
from ..arrays import CountOrPoints
from ..core.effects import NO_EFFECTS
from ..core.sites import to_rows
from ..errors import RecycleGPError
from ..likelihoods import Gaussian, Likelihood
from ..merging.member import Member
from ..plans import variational
from ..plans.prior import Prior
from ..plans.sums import triangle
from ..record import Origin, Record, worst
from .combining import choose_points
from .merged import MergedModel
from .plan import Plan
from .plan_ensemble import Parts
from .plan_facts import Evaluated, OneShot, PlanFacts
from .plan_public import start

MOST_CANDIDATES = 4096  # from which points are chosen; of more every n-th


def plan_of(e: MergedModel, whole: Record, points: CountOrPoints, learn: bool) -> Plan:
    """Points from the union of the modules' under its kernel; kernel, noise, mean and owners' variances as they are.

    `whole` is all that it knows, as a module.
    """
    if e.output_covariance is not None:
        raise RecycleGPError(
            "plan: these outputs are correlated, and a plan has each by itself; use independent().plan()"
        )
    count = arrays.count_or_points(points, "points", e.dimension, e.columns, "cpu", e.categories)
    candidates = _candidates(e)
    likelihood = _only(e.likelihoods)
    priors = []
    for c, group in enumerate(e.groups):
        kernel = group.form.kernel.own()
        Z = count if isinstance(count, Tensor) else choose_points(kernel, candidates, count)
        priors.append(Prior.at(Z, kernel, group.form.mean, _noise(likelihood.parts[c]), group.form.effects))
    begin = start(priors)
    chosen = not isinstance(count, Tensor)
    facts = PlanFacts(
        likelihood=likelihood,
        frame=e.frame._replace(named_by=""),
        targets=e.targets,
        priors=tuple(priors),
        search=begin,
        learn=learn,
        origin=worst(m.about.origin for m in e._members) if chosen else Origin.UNKNOWN,
        one_shot=OneShot(whole),
        candidates=candidates if chosen else None,
        anchor=begin.x if chosen else None,
    )
    if facts.variational:
        facts = _begun(facts, e)
    return Plan._of(facts, one_shot=Parts(e.likelihoods[0], e.frame, e.groups, e.how))


def _candidates(e: MergedModel) -> Tensor:
    """Whoever does not count because of what it says has no say in where others are asked, either."""
    members: list[Member] = [m for m in e._members if m.site is not None]
    members = [m for m in members if m.weight or m.verdict is None or not m.verdict.flagged] or members
    found = [m.site.Z for m in members if m.site is not None] or [Z.cpu() for Z in e._points]
    union = torch.unique(torch.cat(found), dim=0)
    return union[:: -(-len(union) // MOST_CANDIDATES)]


def _only(likelihoods: tuple[Likelihood, ...]) -> Likelihood:
    if len(likelihoods) > 1:
        raise RecycleGPError(
            "plan: these modules have different likelihoods, and a plan is for one; merge those of one"
        )
    return likelihoods[0]


def _noise(part: Likelihood) -> float:
    """Of one function; 1 where it has none, or has it as a parameter of its likelihood."""
    if not isinstance(part, Gaussian):
        return 1.0
    if part.noise is None:
        raise RecycleGPError("plan: the noise of this model is not known; make a Plan with the noise that you expect")
    return float(part.noise)


def _begun(facts: PlanFacts, e: MergedModel) -> PlanFacts:
    """Of a likelihood that is not Gaussian: rounds begin at what the merge knows at these points."""
    priors = tuple(p._replace(noise=1.0, effects=NO_EFFECTS) for p in facts.priors)
    totals = []
    for prior, group in zip(priors, e.groups, strict=True):
        rows = group.form.at_points(prior.Z).site()
        said = to_rows(rows, prior.basis().L, prior.mean)
        totals.append(variational.nothing(prior)._replace(G=triangle(said.H.mT @ said.H), b=said.H.mT @ said.rho))
    model = Evaluated(priors, tuple(totals), (), -math.inf)
    return facts._replace(priors=priors, search=start(priors), model=model, candidates=None, anchor=None)

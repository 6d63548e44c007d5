"""Sums at a plan's points → modules and the ensemble: exactly the central collapsed model, whoever holds the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..core import linalg
from ..core.convergence import Convergence
from ..core.posterior import Basis
from ..core.sites import Site
from ..errors import RecycleGPError
from ..likelihoods import Likelihood
from ..merging.member import Member, stored
from ..merging.merge_config import MergeConfig
from ..merging.points_form import PointsForm
from ..merging.trust import Trust
from ..plans import bound, noisy
from ..plans.prior import Prior
from ..plans.sums import Sums
from ..record import Latent, Record
from .group import Group
from .how import Frame, How
from .plan_facts import AnswerFacts

AS_GIVEN = MergeConfig(None, learn=False, pool_noise=False, trust=Trust.NONE)
ROUNDING = 1e-13  # of the mean precision: what is added so that sums of fewer rows than points have a factor


class Parts(NamedTuple):
    """Of which an ensemble is made."""

    likelihood: Likelihood
    frame: Frame
    groups: tuple[Group, ...]
    how: How


class Said(NamedTuple):
    """One owner's sums, as they count."""

    answer: AnswerFacts
    sums: tuple[Sums, ...]  # at the priors of the ensemble; none where only who said it is known
    own: tuple[Sums, ...] = ()  # of what its owner sees, where owners differ
    weight: float = 1.0


@torch.no_grad()
def site(sums: Sums, prior: Prior, base: Basis) -> Site:
    """exp(e − ½‖Rᵀu − ρ‖²) with RRᵀ = L⁻ᵀ(G/s)L⁻¹ and Rρ = L⁻ᵀb/s + mRRᵀ1."""
    if sums.noisy:
        found = bound.rows(sums, prior)
        Rt = linalg.solve_right(base.L, found.H)
        return Site(prior.Z, Rt, found.rho + prior.mean * Rt.sum(-1), found.e)
    P = sums.matrix().div_(prior.noise)
    P.diagonal().add_(ROUNDING * P.diagonal().mean().clamp_min(1e-300))
    A = linalg.cholesky(P).L
    rho = linalg.solve_lower(A, sums.b[:, None] / prior.noise)[:, 0]
    constant = sums.n * math.log(2 * math.pi * prior.noise) + sums.logdet + (sums.c + sums.t) / prior.noise
    Rt = linalg.solve_right(base.L, A.mT)
    return Site(prior.Z, Rt, rho + prior.mean * Rt.sum(-1), -0.5 * (constant - rho.square().sum()))


def latent(
    answer: AnswerFacts, sums: Sums | None, c: int, prior: Prior, base: Basis | None, at: Prior | None = None
) -> Latent:
    """Without a basis only who it is. A site is about f(Z), whatever kernel `at` has been learned since."""
    at = prior if at is None else at
    effective = float(answer.rows[c] if sums is None else sums.n)
    return Latent(
        site=None if base is None or sums is None else site(sums, prior, base),
        kernel=at.kernel,
        mean=at.mean,
        rows=answer.rows[c],
        jitter=at.jitter,
        effective_rows=None if effective == answer.rows[c] else effective,
    )


def record(answer: AnswerFacts) -> Record:
    """An answer as the module that it is, of the functions that its rows have seen."""
    if not answer.sums:
        raise RecycleGPError(
            f"answer of {answer.about.name!r}: it has slopes only, which say nothing of f; its answer to the plan "
            "before is a module"
        )
    seen = [c for c, rows in enumerate(answer.rows) if rows]
    whole = answer.likelihood
    about = answer.about
    if len(seen) < len(answer.rows):
        whole = whole.only(seen)
        about = about._replace(targets=tuple(about.targets[c] for c in seen))
    said = answer.own or answer.sums
    latents = [latent(answer, said[c], c, answer.priors[c], answer.priors[c].basis()) for c in seen]
    return Record(about, (whole,), tuple(latents))


def ensemble(
    likelihood: Likelihood,
    frame: Frame,
    priors: Sequence[Prior],
    totals: Sequence[Sums],
    said: Sequence[Said],
    *,
    keep: bool,
    ended: Convergence,
    at: Sequence[Prior],
) -> Parts:
    """The ensemble of sums under these priors; members are who said it. `keep` is for their sites.

    `at` are the same priors, or, of sums with noise, what was learned from these.
    """
    groups = []
    for c, (prior, total, now) in enumerate(zip(priors, totals, at, strict=True)):
        base = prior.basis()
        rows = noisy.rows(total, prior, now) if total.noisy else bound.rows(total, prior)
        form = PointsForm(now.kernel, now.mean, now.Z, now.jitter, rows, now.effects, None if keep else rows)
        own = (likelihood.parts[c],)
        members = tuple(
            Member(
                about=one.answer.about._replace(targets=(one.answer.about.targets[c],)),
                latent=latent(one.answer, _seen(one, c), c, prior, base if keep else None, now),
                likelihoods=own,
                weight=one.weight,
                function=c,
            )
            for one in said
            if one.answer.rows[c]
        )
        groups.append(Group((c,), form, members, (own,), (None,), convergence=ended))
    return Parts(likelihood, frame, tuple(groups), How(configs=(AS_GIVEN,) * len(groups)))


def _seen(one: Said, c: int) -> Sums | None:
    """What a member says is what its owner sees; the shared f is what the form makes of it."""
    said = one.own or one.sums
    return said[c] if said else None


def of_record(one: Record, frame: Frame) -> Parts:
    """An ensemble of a single module, at its own points: a merge that only a file remembers."""
    groups = []
    for c, own in enumerate(one.latents):
        known = tuple(p.parts[c] for p in one.likelihoods)
        member = Member(one.about._replace(targets=(one.about.targets[c],)), own, known, function=c)
        with stored([member]) as store:
            form = PointsForm.of(store, own.kernel, own.mean, own.known_site.Z)
        groups.append(Group((c,), form, (member,), (known,), (None,), convergence=own.convergence))
    return Parts(one.likelihoods[0], frame, tuple(groups), How(configs=(AS_GIVEN,) * len(groups)))

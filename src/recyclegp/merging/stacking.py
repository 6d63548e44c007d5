"""How far an owner is answered from its own module beside the merge: stacking of the two.

A merge has one kernel, one size of owners' functions and one kind of departure for everybody, and owners who are
unlike the others in that are better answered from what they found themselves. Which of the two is right is known of
pseudo-observations that neither has seen: each ρ_i of an owner is predicted by all others, its own and those of the
other owners, under the merged model, and by the owner's own under the owner's kernel (leave one out, in closed form).
The share a of owners' own answers is the one that makes these most probable (Yao et al. 2018, stacking of predictive
distributions),

    a = argmax Σ_i log((1 − a) p_i + a q_i) + prior·log(1 − a)

one number for all owners: each of them alone says too little. What e_k changes by under the merged noise belongs to
p, too, in equal parts. Sites of approximate likelihoods (classes, counts) are no such test: each was made about what
its owner alone took f for, which flatters the owner (four sets of `groups` to be looked at lost 0.02 by it), and there
the merge answers.

Pseudo-observations do not tell what is lost between points. Owners who contradict each other can bend the shared kernel
until points a little apart have nothing to do with each other: every pseudo-observation is then explained, and what
owners knew of the rest of their regions is gone. It shows in the variance of f between an owner's own points, which a
merge should make smaller. Where it is several times larger for most owners, the merge has no answer for them: a = 1.
What too few points of the merge leave open is not meant: it must be the kernel that leaves f between them open, also
where f is known at all of the owner's points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.averaged import best_share, leave_one_out
from ..core.effects import Effects
from ..core.owner_posterior import FunctionPosterior
from ..core.posterior import Posterior
from ..core.sites import Site
from ..kernels import Kernel, weighted_median
from .constants import STACKING
from .influence import votes
from .member import Member
from .owners import approximated, stack_sites
from .unfinished import is_unfinished


class OwnAnswer(NamedTuple):
    """An owner whose modules can answer for themselves."""

    owner: str
    members: list[Member]

    @property
    def published(self) -> Site:
        return stack_sites([m.latent.known_site for m in self.members])

    @property
    def rows(self) -> float:
        return sum(m.weighted_rows for m in self.members)

    @property
    def now(self) -> Site:
        """As it counts, under the merged noise."""
        return stack_sites([site for m in self.members if (site := m.site_now) is not None])


class OwnerKernel(NamedTuple):
    """Of f_k = f + b_k + g_k."""

    kernel: Kernel
    effects: Effects

    def left_open(self, Z: Tensor, X: Tensor) -> Tensor:
        """Variance of f_k at the rows of X (…, n, D) where f_k(Z) is known."""
        L = linalg.cholesky(self._matrix(Z, Z)).L
        V = linalg.solve_lower(L, self._matrix(Z, X))
        return self.kernel.diagonal(X) + self.effects.diagonal(self.kernel, X) - V.square().sum(-2)

    def left_open_of_each(self, Z: Sequence[Tensor], X: Sequence[Tensor]) -> Sequence[Tensor]:
        """Of several owners, of whom those with as many points are asked together."""
        if all([z.shape == Z[0].shape for z in Z]):
            return self.left_open(torch.stack(list(Z)), torch.stack(list(X))).unbind()
        return [self.left_open(z, x) for z, x in zip(Z, X, strict=True)]

    def _matrix(self, X1: Tensor, X2: Tensor) -> Tensor:
        return self.kernel.matrix(X1, X2) + self.effects.matrix(self.kernel, X1, X2)


def can_answer(members: Sequence[Member]) -> bool:
    """Can an owner with these modules be answered from them, as much as the merge found that to be right?

    The merge must have looked at them as they are: not those that came later, nor those that somebody made to count
    more or less, nor models from elsewhere whose search had not ended, nor those that say more than their rows can.
    """
    return bool(members) and all(_counts_in_full(m) or _counts_less_as_unexpected(m) for m in members)


def _counts_in_full(m: Member) -> bool:
    """As it is, and the merge has looked at it so."""
    return m.weight == 1 and _is_as_merged(m)


def _is_as_merged(m: Member) -> bool:
    latent = m.latent
    here = latent.site is not None and not (m.update or m.added_after_merge)
    return here and (latent.convergence.converged or not is_unfinished(m.about, latent))


def _counts_less_as_unexpected(m: Member) -> bool:
    """Only because the others did not expect it to be so sure, which its owner may know better."""
    v = m.verdict
    return v is not None and v.is_unexpected and v.weight == 1 and m.weight > 0 and _is_as_merged(m)


def own_part(members: Sequence[Member], share: float) -> float:
    """So much of the answer to an owner with these modules is theirs: a, and all of it as far as they do not count.

    The merge has taken only a part w of what they say, because the others do not expect it: 1 − w(1 − a).
    """
    counts = sum(m.weight * m.rows for m in members) / sum(m.rows for m in members)
    return 1 - counts * (1 - share)


class Comparison(NamedTuple):
    """One function's owners as the merge answers them, and as they answer for themselves."""

    owners: Sequence[OwnAnswer]  # at most so many: one number for all needs no more
    merged: Sequence[FunctionPosterior]  # on the device
    alone: Sequence[FunctionPosterior]
    kernel: OwnerKernel  # of the merge, on the device
    device: torch.device

    @staticmethod
    def of(
        members: Sequence[Member],
        merged: Callable[[OwnAnswer], FunctionPosterior],
        alone: Callable[[OwnAnswer], FunctionPosterior],
        kernel: OwnerKernel,
        device: torch.device,
    ) -> Comparison | None:
        """None where there is nobody to be compared with."""
        by_owner: dict[str, list[Member]] = {}
        for m in members:
            by_owner.setdefault(m.about.owner, []).append(m)
        in_full = by_owner.keys() - {m.about.owner for m in members if not _counts_in_full(m)}
        known = [owner for owner in by_owner if owner in in_full]
        if len(by_owner) < 2 or not known or approximated(members):
            return None
        asked = [OwnAnswer(owner, by_owner[owner]) for owner in _some(known)]
        return Comparison(asked, [merged(own) for own in asked], [alone(own) for own in asked], kernel, device)

    @torch.no_grad()
    def own_share(self) -> float:
        """a; all of it where the merge has lost what owners knew."""
        if self.is_lost_between_points():
            return 1.0
        published, now = [own.published for own in self.owners], [own.now for own in self.owners]
        there = [Site(*(t.to(self.device) for t in site)) for site in now]
        by_others = [p.cpu() for p in _left_out(self.merged, there)]
        by_themselves = [leave_one_out(*each).cpu() for each in zip(self.alone, published, strict=True)]
        # what e_k changes by, in equal parts; of no rows nothing is said
        gained = [float(b.e - a.e) / max(1, len(a.rho)) for a, b in zip(published, now, strict=True)]
        first = torch.cat([p + e for p, e in zip(by_others, gained, strict=True)])
        found = best_share(first, torch.cat(by_themselves), STACKING.prior)
        return found if found >= STACKING.least else 0.0

    @torch.no_grad()
    def is_lost_between_points(self) -> bool:
        """Do most owners, by their rows, know several times less of f between their points than each alone?"""
        Z = [own.published.Z for own in self.owners]
        X = [between_points(z, own.members[0].kernel.structure.discrete) for z, own in zip(Z, self.owners, strict=True)]
        some = [i for i, x in enumerate(X) if len(x)]
        if not some:
            return False
        before = torch.stack([self.alone[i].predict(X[i]).variance.mean().cpu() for i in some])
        Z, X = [Z[i].to(self.device) for i in some], [X[i].to(self.device) for i in some]
        variances = _variances([self.merged[i] for i in some], X)
        left_open = self.kernel.left_open_of_each(Z, X)
        now = torch.stack([v.minimum(o).mean() for v, o in zip(variances, left_open, strict=True)])
        less = (now.cpu() / before.clamp_min(1e-300)).tolist()
        return weighted_median(less, votes([self.owners[i].rows for i in some])) > STACKING.lost


def between_points(Z: Tensor, discrete: Sequence[int]) -> Tensor:
    """In the middle between each of M points and the one next to it, (M, D); codes of levels stay what they are."""
    if len(Z) < 2:
        return Z[:0]
    scale = Z.std(0)
    scaled = Z / torch.where(scale > 0, scale, torch.ones_like(scale))
    apart = torch.cdist(scaled, scaled)
    nearest = Z[apart.fill_diagonal_(torch.inf).argmin(-1)].clone()
    nearest[:, list(discrete)] = Z[:, list(discrete)]
    return (Z + nearest) / 2


def _some(known: Sequence[str]) -> Sequence[str]:
    """At most so many, evenly spaced."""
    step = max(1.0, len(known) / STACKING.most_owners)
    return [known[int(i * step)] for i in range(min(len(known), STACKING.most_owners))]


def _variances(posteriors: Sequence[FunctionPosterior], X: Sequence[Tensor]) -> Sequence[Tensor]:
    """Of each at its own X; one that answers for all is asked once."""
    first = posteriors[0]
    if all([p is first for p in posteriors]):
        return first.predict(torch.cat(list(X))).variance.split([len(x) for x in X])
    return [p.predict(x).variance for p, x in zip(posteriors, X, strict=True)]


def _left_out(posteriors: Sequence[FunctionPosterior], sites: Sequence[Site]) -> Sequence[Tensor]:
    """What leaves each number of a site out, under its posterior; one that answers for all is asked once."""
    first, shape = posteriors[0], sites[0].Rt.shape
    alike = all([p is first for p in posteriors]) and all([site.Rt.shape == shape for site in sites])
    if isinstance(first, Posterior) and alike:
        return leave_one_out(first, Site(*map(torch.stack, zip(*sites, strict=True)))).unbind()
    return [leave_one_out(*each) for each in zip(posteriors, sites, strict=True)]

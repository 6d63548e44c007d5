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
        """Variance of f_k at the rows of X where f_k(Z) is known."""
        L = linalg.cholesky(self._matrix(Z, Z)).L
        V = linalg.solve_lower(L, self._matrix(Z, X))
        return self.kernel.diagonal(X) + self.effects.diagonal(self.kernel, X) - V.square().sum(0)

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
        pairs = [_compared(*each, self.device) for each in zip(self.owners, self.merged, self.alone, strict=True)]
        first, second = (torch.cat(part) for part in zip(*pairs, strict=True))
        found = best_share(first, second, STACKING.prior)
        return found if found >= STACKING.least else 0.0

    @torch.no_grad()
    def is_lost_between_points(self) -> bool:
        """Do most owners, by their rows, know several times less of f between their points than each alone?"""
        less, rows = [], []
        for own, merged, alone in zip(self.owners, self.merged, self.alone, strict=True):
            Z = own.published.Z
            X = between_points(Z, own.members[0].kernel.structure.discrete)
            if not len(X):
                continue
            before = float(alone.predict(X).variance.mean())
            Z, X = Z.to(self.device), X.to(self.device)
            now = merged.predict(X).variance.minimum(self.kernel.left_open(Z, X))
            less.append(float(now.mean()) / max(before, 1e-300))
            rows.append(own.rows)
        return bool(less) and weighted_median(less, votes(rows)) > STACKING.lost


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


def _compared(
    own: OwnAnswer, merged: FunctionPosterior, alone: FunctionPosterior, device: torch.device
) -> tuple[Tensor, Tensor]:
    published, now = own.published, own.now
    p, q = leave_one_out(merged, Site(*(t.to(device) for t in now))), leave_one_out(alone, published)
    return p.cpu() + float(now.e - published.e) / max(1, len(p)), q.cpu()  # of no rows nothing is said

"""Which modules contradict the others: found before a kernel is learned, which bad ones would bend.

Every module is prior the shared function, or it is not: then it is of a function of its own, or far too sure of
itself. The trusted set is the one under which all that modules say is most probable, each that is left out at a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import torch
from torch import Tensor

from ..logs import logger
from .consensus import Consensus, Fit, Statements, consensus, fit
from .constants import SCREENING

log = logger(__name__)


class PriorMoments(NamedTuple):
    """Mean and variance of f a priori."""

    mean: float
    variance: float  # on average


class _Present(NamedTuple):
    """Who is there, and what is asked of them."""

    members: Tensor  # bool
    prior: PriorMoments
    certain: Tensor  # nats of contradiction, from which on whoever can hardly be checked is left out


class Screened(NamedTuple):
    """Who is trusted, and how everybody fits those who are."""

    agreed: Consensus
    fit: Fit
    usual: float  # squared distance per number that is usual among the trusted: 1 where the model is right
    value: float  # log-probability of all that modules say, less the price of those left out
    gain: Tensor  # nats by which the best other explanation of each module is better than honesty,
    contradicted: Tensor  # and by which what the others know makes what it says less probable than the prior alone
    certain: Tensor  # how many of the latter are a plain contradiction

    @property
    def flagged(self) -> list[int]:
        """Positions of those that contradict the others."""
        known = ~self.fit.chi2.isnan()
        return (known & ~self.agreed.trusted).nonzero()[:, 0].tolist()

    @property
    def unchecked(self) -> list[int]:
        """Positions of those that cannot be checked: the others know too little of what they say."""
        return self.cannot_be_checked.nonzero()[:, 0].tolist()

    @property
    def cannot_be_checked(self) -> Tensor:
        """Of which of them the others know too little, unless that little is plainly contradicted."""
        few = (self.fit.share < SCREENING.checked) & (self.contradicted <= self.certain)
        return few & ~self.fit.impossible


def screen(
    said: Sequence[Statements], members: int, prior: PriorMoments, doubted: AbstractSet[int] = frozenset()
) -> Screened:
    """The best of several starts: everybody, those nobody doubts, and the friends of each of a few modules.

    Whoever is doubted for another reason need not contradict the others plainly, where they can hardly check it.
    """
    present = torch.zeros(members, dtype=torch.bool)
    for s in said:
        present[s.members] = True
    certain = torch.full((members,), SCREENING.certain, dtype=torch.float64)
    certain[sorted(doubted)] = SCREENING.price
    those, known = _Present(present, prior, certain), dict[bytes, Screened]()
    best = _refined(said, those, present, known)
    if doubted:
        others = present.clone()
        others[sorted(doubted)] = False
        best = max(best, _refined(said, those, others, known), key=lambda found: found.value)
    few = len(best.flagged) <= SCREENING.few * int(present.sum())  # so few cannot have bent what the others agree on
    if int(present.sum()) < 3 or (few and best.usual < SCREENING.unusual):
        return best
    everyone = present.nonzero()[:, 0]
    seeds = everyone[torch.linspace(0, len(everyone) - 1, min(SCREENING.seeds, len(everyone))).round().long()]
    for seed in seeds.unique().tolist():
        alone = torch.zeros_like(present)
        alone[seed] = True
        found = _refined(said, those, alone, known)
        if found.value > best.value:
            best = found
    log.info("screening: %d of %d modules contradict the others", len(best.flagged), len(everyone))
    return best


def _refined(said: Sequence[Statements], those: _Present, trusted: Tensor, known: dict[bytes, Screened]) -> Screened:
    """Those that fit the trusted ones join them, and the worst of those that do not leave, until nothing changes.

    `known` says where earlier searches have arrived from trusted sets that they met: from there all go the same way.
    """
    seen, present = set[bytes](), those.members
    for _ in range(SCREENING.steps):
        if _bits(trusted) in known:
            return known[_bits(trusted)]
        seen.add(_bits(trusted))
        agreed = consensus(said, trusted)
        now = _compared(said, agreed, those)
        bad = present & (now.gain > SCREENING.price) & ~now.cannot_be_checked
        bad |= present & now.fit.impossible
        leaving = bad & trusted
        if int(leaving.sum()) > 1:  # one bad module makes others look bad: the worse half goes first
            leaving &= now.gain >= now.gain[leaving].sort().values[int(leaving.sum()) // 2]
        following = (trusted | (present & ~bad)) & ~leaving
        if bool((following == trusted).all()) or _bits(following) in seen or not bool(following.any()):
            break
        trusted = following
    # once their friends had left
    lonely = present & ~trusted & now.cannot_be_checked
    if bool(lonely.any()):
        now = _compared(said, consensus(said, trusted | lonely), those)
    now = _valued(said, now, those)
    known.update(dict.fromkeys(seen, now))
    return now


def _valued(said: Sequence[Statements], now: Screened, those: _Present) -> Screened:
    """As probable as without those who cannot be checked, and whom something else explains better than that they agree.

    They are trusted, as nobody knows better; but what they say of a place of their own is no reason to trust others
    less, who contradict nobody.
    """
    strange = now.agreed.trusted & now.cannot_be_checked & (now.gain > SCREENING.price)
    rest = now.agreed.trusted & ~strange
    if not bool(strange.any()) or not bool(rest.any()):
        return now
    return now._replace(value=max(now.value, _compared(said, consensus(said, rest), those).value))


def _bits(which: Tensor) -> bytes:
    return which.cpu().numpy().tobytes()


def _compared(said: Sequence[Statements], agreed: Consensus, those: _Present) -> Screened:
    """Everybody with what the trusted agree on."""
    found = fit(said, agreed, *those.prior)
    ratio = found.chi2 / found.counts.clamp_min(1)
    inside = ratio[agreed.trusted & ~found.chi2.isnan()]
    usual = min(SCREENING.most_usual, max(1.0, float(inside.median()))) if len(inside) > 2 else 1.0
    other, honest = explanations(found, usual)
    left_out = those.members & ~agreed.trusted
    value = agreed.evidence + float((other[left_out] - SCREENING.price).sum())
    gain, contradicted = other - honest, found.under_prior - honest
    return Screened(agreed, found, usual, value, gain, contradicted, those.certain)


def explanations(found: Fit, usual: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities of what each module says: if it is not honest, however that is best explained, and if it is."""
    ratio = found.chi2 / found.counts.clamp_min(1)
    honest = _scaled(found, torch.full_like(ratio, usual))
    too_sure = torch.where(ratio > SCREENING.too_sure * usual, _scaled(found, ratio.clamp_min(1e-300)), found.alone)
    return torch.stack([found.alone, found.affine, too_sure]).amax(0), honest


def _scaled(found: Fit, by: Tensor) -> Tensor:
    """log N(ρ_k; what the others predict, with this many times their covariance)."""
    return found.together + 0.5 * found.chi2 * (1 - 1 / by) - 0.5 * found.counts * by.log()

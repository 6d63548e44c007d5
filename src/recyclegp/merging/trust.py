"""Whom to trust: modules screened under several kernels, and a verdict on each that a person understands.

Bad modules bend a kernel that is learned with them until it believes everybody. So the first screening is at the
median of the modules' own kernels. Where somebody stands out, kernels (with owners' effects and noise) are learned from
those that are trusted and from everybody, and under the one that makes all that is said most probable they are
screened again: honest owners that differ, or a median kernel that suits nobody, are no reason to distrust.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from .. import threads
from ..core.posterior import Basis, basis
from ..kernels import Kernel
from ..likelihoods import SeveralFunctions
from . import verdicts
from .consensus import Statements, consensus, predicted, statements
from .constants import NOISE, SCREENING
from .exact_learning import Learned, decide_from_some
from .explanations import Explanation, explained
from .input_units import InputChange, Place, best_units
from .learning import starts
from .member import Member
from .noise import PooledNoise, Readings, at_noise
from .owners import Owners, owner_numbers
from .points import select
from .pooling import median_mean, most_common_kernel
from .screening import PriorMoments, Screened, screen
from .site_source import SiteSource
from .verdicts import TRUSTED, InputFactor, Standing, Units, Verdict

FEATURES = 2**25  # numbers that may be held while they are: with many modules, at fewer points
TOGETHER = 3000  # rows of pseudo-observations that are worked on at once, or thereabouts
CONTRADICTION = Verdict(Standing.UNCHECKED, verdicts.CONTRADICTION)
NO_CONSENSUS = Verdict(Standing.UNCHECKED, "no majority agrees about the function")


class Trust(Enum):
    """What becomes of modules that contradict the others."""

    LEARN = "learn"  # they do not count
    REPORT = "report"  # they count, and are named
    NONE = "none"  # nobody looks


class _Compared(NamedTuple):
    base: Basis
    now: SiteSource  # as they count under the belief
    said: list[Statements]
    screened: Screened
    mean: float

    @property
    def value(self) -> float:
        """Log-probability of all that modules say, each that is left out at a price."""
        return self.screened.value + float(sum(s.e for s in self.said))

    @property
    def trusted(self) -> int:
        return int(self.screened.agreed.trusted.sum())

    @property
    def most_agree(self) -> bool:
        """Only a majority can say who is wrong."""
        return len(self.screened.flagged) < self.trusted


class ScreeningResult(NamedTuple):
    """A verdict on each member, by its position."""

    verdicts: list[Verdict]
    learned: Learned | None = None  # from some of them, where all are trusted and it was needed to see that


def screen_members(
    members: Sequence[Member], store: SiteSource, *, owners: Owners, pool_noise: bool
) -> ScreeningResult:
    """About members whose sites are as they were published.

    Args:
        members: whose sites they are.
        store: the sites.
        owners: how owners may differ.
        pool_noise: whether Gaussian modules come to one noise.
    """
    readings = Readings.of(members) if pool_noise else None
    noise = None
    if readings is not None and bool(readings.known.any()):
        noise = PooledNoise(float(readings.estimate[readings.known].median()), NOISE.dof)
    start = most_common_kernel(members)
    first = _compared(Learned(start, median_mean(members), noise=noise), members, store, readings)
    if not first.screened.flagged:
        return ScreeningResult(_verdicts(first, members))
    if store.sites < SCREENING.fewest:
        return ScreeningResult([CONTRADICTION] * len(members))
    candidates, differ = [], owners
    if first.most_agree:
        of_trusted = _learned(store.without(first.screened.flagged), members, start, owners, readings)
        again = _compared(of_trusted, members, store, readings)
        if not again.screened.flagged and again.value > first.value:
            # it was the median kernel that suited nobody
            return ScreeningResult(_verdicts(again, members), of_trusted)
        candidates += [first, again]
        if first.trusted >= SCREENING.min_trusted_to_rule_out_effects and not of_trusted.effects.present:
            differ = Owners.NONE  # owners do not differ; those few who stand out are no reason to believe it
    of_all = _learned(store, members, start, differ, readings)
    candidates.append(_compared(of_all, members, store, readings))
    best = max(candidates, key=lambda c: c.value)
    # a kernel that believes everybody where no majority agrees has only bent; owners that differ are another matter
    settled = best.most_agree and (first.most_agree or of_all.effects.present)
    return ScreeningResult(_verdicts(best, members) if settled else [NO_CONSENSUS] * len(members))


class ScreenedMembers(NamedTuple):
    members: tuple[Member, ...]  # with verdicts
    sites: SiteSource  # of those that count
    learned: Learned | None = None  # from some of these, if that is known


def apply_screening(
    members: Sequence[Member],
    store: SiteSource,
    *,
    trust: Trust,
    owners: Owners,
    pool_noise: bool,
) -> ScreenedMembers:
    """Whom to trust, and what follows from it."""
    if trust is Trust.NONE:
        return ScreenedMembers(tuple(members), store)
    about = screen_members(members, store, owners=owners, pool_noise=pool_noise)
    found = with_verdicts(members, about.verdicts, trust)
    excluded = [i for i, m in enumerate(found) if m.weight != members[i].weight]
    return ScreenedMembers(found, store.without(excluded) if excluded else store, about.learned)


def with_verdicts(members: Sequence[Member], found: Sequence[Verdict], trust: Trust) -> tuple[Member, ...]:
    """Members that know what was said about them; those that are not to be trusted have no weight."""
    screened = []
    for m, v in zip(members, found, strict=True):
        excluded = v.flagged and trust is Trust.LEARN
        verdict = v._replace(weight=m.weight) if excluded else v
        screened.append(m._replace(weight=0.0 if excluded else m.weight, verdict=verdict))
    return tuple(screened)


def reset_screening(members: Sequence[Member]) -> tuple[Member, ...]:
    """Members as if nobody had looked at them: those that were excluded have their weight again."""

    def before(m: Member) -> Member:
        if m.verdict is None:
            return m
        return m._replace(weight=m.weight if m.verdict.weight is None else m.verdict.weight, verdict=None)

    return tuple(map(before, members))


def _learned(
    store: SiteSource, members: Sequence[Member], start: Kernel, owners: Owners, readings: Readings | None
) -> Learned:
    """Kernel, mean, effects and noise by the exact evidence of some of the modules."""
    return decide_from_some(store, owner_numbers(members), readings, start, starts(start, members), owners)


def _compared(belief: Learned, members: Sequence[Member], store: SiteSource, readings: Readings | None) -> _Compared:
    now = at_noise(store, readings, belief.noise)
    count = int(min(SCREENING.points, max(SCREENING.least_points, FEATURES // max(store.rows, 1))))
    with torch.no_grad(), threads.limit_threads(float(min(store.rows, TOGETHER)) * count**2):
        Z = select(belief.kernel, _tempered(now, len(members)), None, SCREENING.unsaid, count)
        base = basis(belief.kernel, Z, effects=belief.effects)
        said = statements(base, now, belief.mean)
        prior = PriorMoments(belief.mean, float(belief.kernel.diagonal(Z).mean()))
        return _Compared(base, now, said, screen(said, len(members), prior), belief.mean)


def _tempered(store: SiteSource, members: int) -> SiteSource:
    """The same sites, none of them far surer of itself than is usual: where points are is not for one to decide."""
    precision = torch.full((members,), math.nan, dtype=torch.float64)
    for p in store.packs(1):
        precision[torch.tensor(p.members)] = p.Rt.square().sum((-2, -1)) / p.Z.shape[1]
    usual = float(precision.nanmedian())
    roots = (
        (SCREENING.max_relative_precision * usual / precision.nan_to_num(usual).clamp_min(1e-300)).clamp_max(1).sqrt()
    )
    return store.scaled(roots, torch.zeros_like(roots))


def _verdicts(c: _Compared, members: Sequence[Member]) -> list[Verdict]:
    """In words. Other units of inputs are looked for in some modules only: it takes a while."""
    flagged, unchecked = set(c.screened.flagged), set(c.screened.unchecked)
    most, searched = max(1, SCREENING.most_unit_searches // c.base.Z.shape[-1]), 0
    found = []
    for i, m in enumerate(members):
        if m.weight <= 0:
            found.append(Verdict(Standing.UNCHECKED, "does not count"))
        elif i in flagged:
            why = _explained(c, i, m, inputs=searched < most and not _one_of_several(m))
            searched += 1
            found.append(Verdict(Standing.FLAGGED, why.reason, _remedy(why, m)))
        elif i in unchecked:
            changed: tuple[InputFactor, ...] = ()
            if c.trusted >= SCREENING.fewest and searched < most and not _one_of_several(m) and _strange_lengths(c, m):
                changed = _elsewhere(c, i, m)
                searched += 1
            found.append(_unchecked(c, i, changed))
        else:
            found.append(TRUSTED)
    return found


def _one_of_several(m: Member) -> bool:
    """One function of several? Inputs in other units would show in all of them, which nobody compares."""
    return any(isinstance(p, SeveralFunctions) for p in m.likelihoods)


def _explained(c: _Compared, member: int, m: Member, *, inputs: bool) -> Explanation:
    p = predicted(c.said, c.screened.agreed, member, c.mean)
    best = explained(p, float(c.screened.fit.alone[member]), c.screened.usual)
    if not inputs:
        return best
    found = best_units(_place(c, member))
    if not found.changes or found.value <= best.value:
        return best
    changed = found.inputs(m.about.columns)
    return Explanation(_other_inputs(changed), found.value, inputs=changed)


def _remedy(why: Explanation, m: Member) -> Units | None:
    """What would make a module agree, as far as it can be changed: classes and counts have no other units."""
    changeable = bool(why.inputs) or all(p.has_units for p in m.likelihoods)
    return why.remedy if changeable else None


def _unchecked(c: _Compared, member: int, changed: tuple[InputFactor, ...]) -> Verdict:
    """Of a module of which the others know little; with these changes of inputs it would agree with them."""
    fit, remedy = c.screened.fit, Units(inputs=changed) if changed else None
    if changed and float(fit.chi2[member]) > SCREENING.too_sure * c.screened.usual * float(fit.counts[member]):
        return Verdict(Standing.FLAGGED, _other_inputs(changed), remedy)  # nor can it be where it says it is
    said = f"the others know {max(0.0, float(fit.share[member])):.0%} of what it says"
    if changed:
        said = f"{said}, and it would agree with them as {_in_words(changed)}"
    return Verdict(Standing.UNCHECKED, said, remedy)


def _other_inputs(changed: Sequence[InputFactor]) -> str:
    return f"inputs in other units: it would agree as {_in_words(changed)}"


def _elsewhere(c: _Compared, member: int, m: Member) -> tuple[InputFactor, ...]:
    """Other units in which a module would be where the others are, and agree with them.

    Only usual factors, and such that bring the lengths of its own kernel nearer to theirs: where a function hardly
    varies, a module agrees with the others wherever it is put.
    """
    own = _log_lengths(c, m)

    def worth(change: InputChange) -> bool:
        ratio = float(own[change.column])
        return change.usual and abs(ratio + math.log(change.scale)) < 0.5 * abs(ratio)

    place = _place(c, member)
    found, as_it_is = best_units(place, worth), best_units(place, lambda change: False)
    if found.value - as_it_is.value < SCREENING.price:
        return ()
    return found.inputs(m.about.columns)


def _strange_lengths(c: _Compared, m: Member) -> bool:
    """Has its own kernel a length that is far from the shared one?"""
    return bool((_log_lengths(c, m).abs() > math.log(SCREENING.max_length_ratio)).any())


def _log_lengths(c: _Compared, m: Member) -> Tensor:
    """log of the lengths of a module's own kernel over those of the shared one, by column; 0 where there are none."""
    D = c.base.Z.shape[-1]
    ratio = m.kernel.lengths(D).log() - c.base.kernel.lengths(D).log().cpu()
    return ratio.nan_to_num(0.0, posinf=0.0, neginf=0.0)


def _place(c: _Compared, member: int) -> Place:
    packed = next(p for p in (q.only(frozenset([member])) for q in c.now.packs(len(c.base.Z))) if p.members)
    agreed = c.screened.agreed
    if bool(agreed.trusted[member]):  # what the others say without it
        others = agreed.trusted.clone()
        others[member] = False
        agreed = consensus(c.said, others)
    return Place(c.base, packed, agreed, c.mean, c.screened.usual)


def _in_words(inputs: Sequence[InputFactor]) -> str:
    return ", ".join(f.words for f in inputs)

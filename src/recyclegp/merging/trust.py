"""Whom to trust: modules screened under several kernels, and a verdict on each that a person understands.

Bad modules bend a kernel that is learned with them until it believes everybody. So the first screening is at the
median of the modules' own kernels, with rbf in place of matern52: it sees more. Where somebody stands out, it is also
done under that median itself, and kernels (with owners' effects and noise) are learned from those that are trusted and
from everybody; the one that makes all that is said most probable decides. Honest owners that differ, or a median kernel
that suits nobody, are no reason to distrust.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from .. import threads
from ..core.effects import NO_EFFECTS, Effects
from ..core.posterior import Basis, Posterior, basis
from ..devices import CPU
from ..errors import printable
from ..kernels import Kernel
from ..kernels.units import smoother
from ..likelihoods import SeveralFunctions
from ..record import IMPORTED
from . import verdicts
from .consensus import Statements, consensus, predicted, statements
from .constants import INFLUENCE, LEVELS, NOISE, SCREENING, UNIT_SEARCH
from .copies import copies
from .exact_learning import Learned, decide_from_some
from .explanations import Explanation, explained
from .influence import believable_shares, relative_precision, seen_shares, shown_shares, unseen_share
from .input_units import InputChange, Place, best_units
from .learning import starts
from .levels import UnitDoubt, levels, unit_doubts
from .member import Member, Members, with_columns
from .moved import is_moved
from .noise import PooledNoise, Readings, at_noise
from .owners import Owners, approximated, owner_numbers
from .points import select
from .pooling import median_mean, most_common_kernel
from .screening import PriorMoments, Screened, screen
from .site_source import SiteSource
from .unfinished import is_unfinished
from .unit_table import KNOWN, OF_LOGARITHMS
from .verdicts import COPY, TRUSTED, UNKNOWN, InputFactor, Standing, Units, Verdict

FEATURES = 2**25  # numbers that may be held while they are: with many modules, at fewer points
TOGETHER = 3000  # rows of pseudo-observations that are worked on at once, or thereabouts
EXEMPT = IMPORTED | {"ensemble"}  # methods of models whose noise need not be that of their rows
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
    effects: Effects = NO_EFFECTS  # under which they were compared

    @property
    def value(self) -> float:
        """Log-probability of all that modules say, each that is left out at a price."""
        return self.screened.value + float(sum(s.e for s in self.said))

    @property
    def trusted(self) -> int:
        return int(self.screened.agreed.trusted.sum())

    def is_apart(self, member: int, times: float) -> bool:
        """Is what it says so many times the usual squared distance from the others?"""
        fit = self.screened.fit
        return float(fit.chi2[member]) > times * self.screened.usual * float(fit.counts[member])

    def makes_strangers_of(self, other: _Compared) -> bool:
        """Can most of those no more be checked who agreed there, or most of those who stood out?

        A kernel that has bent until nobody overlaps contradicts nobody, and explains all that is said very well.
        """
        strangers = set(self.screened.unchecked) - set(other.screened.unchecked)
        out = set(other.screened.flagged)
        agreed = set(other.screened.agreed.trusted.nonzero()[:, 0].tolist()) - set(other.screened.unchecked)
        return any(2 * len(strangers & some) > len(some) for some in (agreed, out))

    @property
    def apart(self) -> set[int]:
        """Who stands out, and who cannot be checked: whoever says what nobody knows can differ as much as he likes."""
        return {*self.screened.flagged, *self.screened.unchecked}

    @property
    def rest_can_tell(self) -> bool:
        """Are those so few, and the others enough, that these know each other's functions and how far they differ?"""
        present = len(self.screened.flagged) + self.trusted
        few = len(self.apart) <= SCREENING.most_forged * present
        return few and present - len(self.apart) >= SCREENING.min_trusted_to_rule_out_effects

    @property
    def own_variance(self) -> float:
        """What owners have of their own, on average."""
        return float(torch.as_tensor(self.effects.diagonal(self.base.kernel, self.base.Z)).mean())

    def shared(self, without: AbstractSet[int] = frozenset()) -> Posterior:
        """What the trusted ones know of f, some of them left out."""
        trusted = self.screened.agreed.trusted.clone()
        trusted[sorted(without)] = False
        agreed = consensus(self.said, trusted) if without else self.screened.agreed
        return Posterior(self.base, agreed.v.new_tensor(self.mean), agreed.v, agreed.C)

    @property
    def most_agree(self) -> bool:
        """Only a majority can say who is wrong."""
        return len(self.screened.flagged) < self.trusted

    @property
    def nearly_all_agree(self) -> bool:
        """So many that a kernel under which the rest agrees, too, is no explanation that is needed."""
        out = len(self.screened.flagged)
        return out <= SCREENING.most_forged * (out + self.trusted)


class ScreeningResult(NamedTuple):
    """A verdict on each member, by its position."""

    verdicts: list[Verdict]
    learned: Learned | None = None  # from some of them, where all are trusted and it was needed to see that


def screen_members(
    members: Sequence[Member], store: SiteSource, *, owners: Owners, pool_noise: bool
) -> ScreeningResult:
    """About members whose sites are as they were published.

    A module that is there twice counts once. Levels and scales are compared first: whoever is in another unit, and
    grossly so, takes no part in what follows.

    Args:
        members: whose sites they are.
        store: the sites.
        owners: how owners may differ.
        pool_noise: whether Gaussian modules come to one noise.
    """
    # inputs in other units would show in all functions of a module: they are looked at once
    repeated = copies(members, store)
    members = _unweighted(members, repeated)
    store = store.without(repeated) if repeated else store
    doubts = unit_doubts(levels(members, store), inputs=all(m.function == 0 for m in members))
    wrong = {k for k, found in doubts.items() if any(d.gross for d in found)}
    about = _screened(_unweighted(members, wrong), store.without(wrong) if wrong else store, owners, pool_noise)
    verdicts = list(about.verdicts)
    for k, original in repeated.items():
        verdicts[k] = Verdict(
            Standing.UNCHECKED, f"{COPY} {printable(members[original].name)}, and counts once", share=0.0
        )
    for k, found in doubts.items():
        verdicts[k] = _doubted(verdicts[k], found, members[k], wrong=k in wrong)
    return about._replace(verdicts=verdicts)


def _unweighted(members: Sequence[Member], some: Collection[int]) -> Sequence[Member]:
    """As if some of them did not count, by their positions."""
    return [m._replace(weight=0.0) if k in some else m for k, m in enumerate(members)] if some else members


def _screened(members: Sequence[Member], store: SiteSource, owners: Owners, pool_noise: bool) -> ScreeningResult:
    """By what they say about the function."""
    readings, noise = _noises(members, store, pool_noise)
    now = at_noise(store, readings, noise)
    seen = seen_shares(now, len(members))
    if bool((seen == 1).all()):
        return _at_seen_precision(members, store, owners, readings, noise)
    shown = shown_shares(seen, now, store)
    shares = {i: share for i, share in enumerate(shown.tolist()) if share != 1}
    less = Members.of(members).weighing({i: members[i].weight * share for i, share in shares.items()})
    capped = store.weighted(shown)
    about = _at_seen_precision(less, capped, owners, *_noises(less, capped, pool_noise, seen == 1))
    verdicts = [_seen(v, share) for v, share in zip(about.verdicts, seen.tolist(), strict=True)]
    return about._replace(verdicts=verdicts)


def _noises(
    members: Sequence[Member], store: SiteSource, pool_noise: bool, asked: Tensor | None = None
) -> tuple[Readings | None, PooledNoise | None]:
    """What members say about theirs, and what is usual; where not all are asked, the others keep theirs."""
    readings = Readings.of(members, store) if pool_noise else None
    if readings is not None and asked is not None:
        readings = readings._replace(known=readings.known & asked)
    if readings is None or not bool(readings.known.any()):
        return readings, None
    return readings, PooledNoise(float(readings.estimate[readings.known].median()), NOISE.dof)


def _is_far_below(noise: PooledNoise | None, usual: PooledNoise | None) -> bool:
    """Is a noise that was learned far below what most say of theirs? No rows of theirs could tell it."""
    return noise is not None and usual is not None and float(noise.level) * INFLUENCE.noisier < float(usual.level)


def _seen(v: Verdict, share: float) -> Verdict:
    """Of a module that was compared as if it had said so much less: who is trusted counts in full."""
    if v.standing is Standing.TRUSTED or v.flagged or unseen_share(share) == 1:
        return v
    said = f"it says {1 / share:.3g} times more {verdicts.UNSEEN}, and counts that much less"
    return v._replace(reason=f"{v.reason}; {said}", share=unseen_share(share) * v.share)


def _at_seen_precision(
    members: Sequence[Member],
    store: SiteSource,
    owners: Owners,
    readings: Readings | None,
    noise: PooledNoise | None,
) -> ScreeningResult:
    """Of sites none of which is far surer of itself than is usual."""
    rougher, mean = most_common_kernel(members), median_mean(members)
    start = smoother(rougher)
    first = _compared(Learned(start, mean, noise=noise), members, store, readings)
    if not first.screened.flagged:
        return ScreeningResult(_verdicts(first, members, owners))
    candidates, differ = [], owners
    relearned = _relearned(first, start, members, store, owners, readings)
    if relearned is not None and relearned.settles:
        return relearned.result(members, owners)
    if start != rougher:
        other = _compared(Learned(rougher, mean, noise=noise), members, store, readings)
        nobody = not other.screened.flagged and other.value > first.value
        if nobody or not first.most_agree:
            start, first = rougher, other
            relearned = _relearned(first, start, members, store, owners, readings)
        elif other.most_agree:
            candidates.append(other)
    if not first.screened.flagged:
        return ScreeningResult(_verdicts(first, members, owners))
    if store.sites < SCREENING.fewest:
        return ScreeningResult([CONTRADICTION] * len(members))
    if relearned is not None:
        if relearned.settles:
            return relearned.result(members, owners)
        candidates += [first, relearned.compared]
        if first.trusted >= SCREENING.min_trusted_to_rule_out_effects and not relearned.belief.effects.present:
            differ = Owners.NONE  # so many agree to the last: those few who stand out are no reason to believe it
    of_all = _learned(store, members, start, differ, readings)
    everybody = _compared(of_all, members, store, readings)
    bent = everybody.makes_strangers_of(first) or _is_far_below(of_all.noise, noise)
    if not approximated(members):
        begin = relearned if first.rest_can_tell else None
        most = _Most(of_all) if begin is None else _Most(begin.belief, begin.compared, frozenset(first.apart))
        most = _of_most(most, start, members, store, owners, readings)
        if most.is_moved(everybody):
            return most.result(members, owners)
    if not (first.nearly_all_agree and bent):
        candidates.append(everybody)
    best = max(candidates, key=lambda c: c.value)
    # a kernel that believes everybody where no majority agrees has only bent; owners that differ are another matter,
    # as long as what they share is far more
    differ_little = of_all.effects.present and float(of_all.effects.smooth) < SCREENING.most_own
    settled = best.most_agree and (first.most_agree or differ_little)
    if not settled:
        return ScreeningResult([NO_CONSENSUS] * len(members))
    agreed = best is everybody and not best.screened.flagged
    return ScreeningResult(_verdicts(best, members, owners), of_all if agreed else None)


class _Relearned(NamedTuple):
    """Everybody compared once more, under what was learned from those who were trusted."""

    belief: Learned
    compared: _Compared
    settles: bool  # nobody stands out any more: it was the median kernel that suited nobody

    def result(self, members: Sequence[Member], owners: Owners) -> ScreeningResult:
        return ScreeningResult(_verdicts(self.compared, members, owners), self.belief._replace(of_all=False))


def _relearned(
    first: _Compared,
    start: Kernel,
    members: Sequence[Member],
    store: SiteSource,
    owners: Owners,
    readings: Readings | None,
) -> _Relearned | None:
    """Where a majority agrees and some stand out."""
    flagged = first.screened.flagged
    if not flagged or not first.most_agree or store.sites < SCREENING.fewest:
        return None
    belief = _learned(store.without(first.apart if first.rest_can_tell else flagged), members, start, owners, readings)
    again = _compared(belief, members, store, readings)
    return _Relearned(belief, again, not again.screened.flagged and again.value > first.value)


class _Most(NamedTuple):
    """What those say who know each other, and everybody compared under it, if that was done."""

    belief: Learned
    compared: _Compared | None = None
    apart: AbstractSet[int] = frozenset()  # who was left out of what is learned

    def is_moved(self, everybody: _Compared) -> bool:
        """Do owners differ for the sake of a few, and is f moved by that where the others know it?"""
        if self.compared is None or not self.apart or not everybody.effects.present:
            return False
        Z = self.compared.base.Z
        here, there = self.compared.shared(without=self.apart).predict(Z), everybody.shared().predict(Z)
        return is_moved(here, there, self.compared.own_variance, self.compared.base.kernel.diagonal(Z))

    def result(self, members: Sequence[Member], owners: Owners) -> ScreeningResult:
        """What is said of everybody: those few decide nothing for all."""
        assert self.compared is not None
        found = _verdicts(self.compared, members, owners)
        for i in self.compared.apart:
            if not found[i].flagged:
                found[i] = found[i].moving
        return ScreeningResult(found)


def _of_most(
    known: _Most,
    start: Kernel,
    members: Sequence[Member],
    store: SiteSource,
    owners: Owners,
    readings: Readings | None,
) -> _Most:
    """Without those who stand out, or cannot be checked, where owners differ far less than is believed, or not at all.

    Of the others some may stand out then, in turn.
    """
    for _ in range(SCREENING.rounds):
        if not known.belief.effects.present:
            break
        for times in (1 / SCREENING.differ_less, 0.0):
            less = known.belief._replace(effects=known.belief.effects.scaled(times))
            beside = _compared(less, members, store, readings)
            more = beside.apart - known.apart if beside.rest_can_tell else set()
            if more:
                break
        if not more:
            break
        apart = known.apart | more
        belief = _learned(store.without(apart), members, start, owners, readings)
        known = _Most(belief, _compared(belief, members, store, readings, apart), apart)
    return known


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
    believed = believable_shares(members, store)
    seen = store
    if believed:
        seen = store.weighted(torch.tensor([believed.get(i, 1.0) for i in range(len(members))], dtype=torch.float64))
    about = screen_members(members, seen, owners=owners, pool_noise=pool_noise)
    verdicts = about.verdicts
    if believed:
        verdicts = [_believed(v, believed.get(i, 1.0), members[i]) for i, v in enumerate(verdicts)]
    found = with_verdicts(members, verdicts, trust)
    before = Members.of(members).weights
    less = [i for i, (now, w) in enumerate(zip(found.weights, before, strict=True)) if now < w]
    excluded = [i for i in less if found.weights[i] == 0]
    counted = store.without(excluded) if excluded else store
    if len(less) > len(excluded):
        left = torch.ones(len(members), dtype=torch.float64, device=CPU)
        for i in set(less).difference(excluded):
            left[i] = found.weights[i] / before[i]
        counted = counted.weighted(left.to(store.device))
    return ScreenedMembers(found, counted, about.learned)


def _believed(v: Verdict, share: float, m: Member) -> Verdict:
    """Of a module that says more than its rows can: merged noises and models from elsewhere may honestly do so."""
    if share == 1 or v.flagged:
        return v
    reason = f"overconfident: it says {1 / share:.3g} times more than its rows and its noise allow"
    if 1 / share > SCREENING.gross_sure and m.about.method not in EXEMPT:
        return Verdict(Standing.FLAGGED, reason)
    known = f"{v.reason}; " if v.decides_nothing else ""
    return v._replace(
        standing=Standing.UNCHECKED, reason=f"{known}{reason}, and counts that much less", share=share * v.share
    )


def with_verdicts(members: Sequence[Member], found: Sequence[Verdict], trust: Trust) -> Members:
    """Members that know what was said about them; those that are not to be trusted have no weight, or less of it."""
    screened = with_columns(members, "verdict", found)
    for i, v in enumerate(found) if trust is Trust.LEARN else ():
        share = 0.0 if v.flagged else v.share
        if v is not TRUSTED and share != 1:
            weight = members[i].weight
            screened[i] = screened[i]._replace(weight=share * weight, verdict=v._replace(weight=weight))
    return Members.of(members).changed(screened)


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
    numbers, kernels = owner_numbers(members), starts(start, members)
    return decide_from_some(store, numbers, readings, start, kernels, owners, approximate=approximated(members))


def _compared(
    belief: Learned,
    members: Sequence[Member],
    store: SiteSource,
    readings: Readings | None,
    doubted: AbstractSet[int] = frozenset(),
) -> _Compared:
    now = at_noise(store, readings, belief.noise)
    count = int(min(SCREENING.points, max(SCREENING.least_points, FEATURES // max(store.rows, 1))))
    with torch.no_grad(), threads.limit_threads(float(min(store.rows, TOGETHER)) * count**2):
        Z = select(belief.kernel, _tempered(now, len(members)), None, SCREENING.unsaid, count)
        base = basis(belief.kernel, Z, effects=belief.effects)
        said = statements(base, now, belief.mean)
        prior = PriorMoments(belief.mean, float(belief.kernel.diagonal(Z).mean()))
        return _Compared(base, now, said, screen(said, len(members), prior, doubted), belief.mean, belief.effects)


def _tempered(store: SiteSource, members: int) -> SiteSource:
    """The same sites, none of them far surer of itself than is usual: where points are is not for one to decide."""
    sure = relative_precision(store, members).nan_to_num(1.0).clamp_min(1e-300)
    roots = (SCREENING.max_relative_precision / sure).clamp_max(1).sqrt()
    return store.scaled(roots, torch.zeros_like(roots))


def _verdicts(c: _Compared, members: Sequence[Member], owners: Owners) -> list[Verdict]:
    """In words. Other units of inputs are looked for in some modules only: it takes a while."""
    flagged, unchecked = set(c.screened.flagged), set(c.screened.unchecked)
    approximate = approximated(members)
    most, searched = max(1, SCREENING.most_unit_searches // c.base.Z.shape[-1]), 0
    found = []
    for i, m in enumerate(members):
        if m.weight <= 0:
            found.append(Verdict(Standing.UNCHECKED, "does not count"))
        elif i in flagged:
            why = _explained(c, i, m, inputs=searched < most and not _one_of_several(m))
            searched += 1
            found.append(_flagged(why, m, gross=_is_gross(c, i, why, owners, approximate=approximate)))
        elif i in unchecked:
            changed: tuple[InputFactor, ...] = ()
            if c.trusted >= SCREENING.fewest and searched < most and not _one_of_several(m) and _strange_lengths(c, m):
                changed = _elsewhere(c, i, m)
                searched += 1
            found.append(_unchecked(c, i, changed))
        else:
            found.append(TRUSTED)
    return found


def _is_gross(c: _Compared, member: int, why: Explanation, owners: Owners, *, approximate: bool) -> bool:
    """Is it so far from the others that no honest owner could be, or so far in scale?

    Small owners are often too sure of themselves, and only many others can rule out a constant of an
    owner's own, unless it is known that owners do not differ. Where sites approximate what classes or counts say, they
    do so about what their owner alone took f for: from there, what the others say can look far farther than it is.
    """
    units = why.units
    apart, scale = SCREENING.gross, SCREENING.gross_scale
    if float(c.effects.smooth) > 0:
        apart, scale = SCREENING.gross_own, SCREENING.gross_own_scale
    if bool(c.screened.fit.impossible[member]):
        return True
    if approximate and why.is_nameless:
        return False
    if units is not None and (units.scale < 0 or abs(math.log(units.scale)) > math.log(scale)):
        return True
    few = owners is not Owners.NONE and c.trusted < SCREENING.min_trusted_to_rule_out_effects
    far = SCREENING.gross_shift * float(c.base.kernel.diagonal(c.base.Z).mean()) ** 0.5
    if few and units is not None and units.scale == 1 and abs(units.shift) < far:
        return False
    if 1 < why.too_sure < SCREENING.gross_sure:
        return False
    return c.is_apart(member, apart)


def _flagged(why: Explanation, m: Member, *, gross: bool) -> Verdict:
    """It does not count; but one that is only unusual does, and one that is only too sure of itself counts less."""
    if why.too_sure > 1 and (not gross or is_unfinished(m.about, m.latent)):
        return Verdict(Standing.UNCHECKED, f"it is {why.reason}, and counts that much less", share=1 / why.too_sure)
    if not gross:
        return Verdict(Standing.UNCHECKED, f"it is unusual, but not so much that it must be wrong: {why.reason}")
    return Verdict(Standing.FLAGGED, why.reason, _remedy(why, m))


def _doubted(verdict: Verdict, doubts: Sequence[UnitDoubt], m: Member, *, wrong: bool) -> Verdict:
    """Of a module whose numbers are where they would be in other units; it counts, unless that is certain.

    What it says about f may have said so already, or more.
    """
    if not wrong and verdict.remedy is not None:
        return verdict
    units, said, would = Units(), [], []
    for doubt in doubts[: UNIT_SEARCH.most_changed]:
        change, sure = doubt.undone_by[0], len(doubt.undone_by) == 1
        factor = InputFactor(_named(doubt.column, m), *change)
        said.append(doubt.words(factor.name))
        would += [factor._replace(scale=c.scale, shift=c.shift).words for c in doubt.undone_by[: LEVELS.most_named]]
        if sure:  # otherwise nobody should be told what to type
            units = units._replace(**({"inputs": (*units.inputs, factor)} if doubt.column >= 0 else change._asdict()))
    agrees = f"{' and '.join(said)}: {verdicts.QUESTION} {' or '.join(would)} would agree"
    remedy = units if units != Units() else None
    if wrong:
        return Verdict(Standing.FLAGGED, f"in other units: {agrees}", remedy)
    if verdict.flagged:
        return verdict._replace(reason=f"{verdict.reason}; {agrees}", remedy=remedy)
    return verdict._replace(standing=Standing.UNCHECKED, reason=agrees, remedy=remedy)


def _named(column: int, m: Member) -> str | int:
    """−1 is y."""
    if column < 0:
        return m.target.name or "y"
    return column if m.about.columns is None else m.about.columns[column]


def _one_of_several(m: Member) -> bool:
    """One function of several? Inputs in other units would show in all of them, which nobody compares."""
    return any(isinstance(p, SeveralFunctions) for p in m.likelihoods)


def _explained(c: _Compared, member: int, m: Member, *, inputs: bool) -> Explanation:
    p = predicted(c.said, c.screened.agreed, member, c.mean)
    known = OF_LOGARITHMS if _of_logarithms(m) else KNOWN
    best = explained(p, float(c.screened.fit.alone[member]), c.screened.usual, known)
    if known is OF_LOGARITHMS and best.units is not None and best.units.scale == 1:
        best = best._replace(reason=f"in other units: about {math.exp(best.units.shift):.2g}·y")
    if not inputs:
        return best
    found = best_units(_place(c, member))
    if not found.changes or found.value <= best.value:
        return best
    changed = found.inputs(m.about.columns)
    return Explanation(_other_inputs(changed), found.value, inputs=changed, remedy=Units(inputs=changed))


def _remedy(why: Explanation, m: Member) -> Units | None:
    """What would make a module agree, as far as it can be changed: classes and counts have no other units."""
    if why.inputs or why.remedy is None:
        return why.remedy
    of_y = {p.change_of_y(why.remedy.scale, why.remedy.shift) for p in m.likelihoods}
    change = of_y.pop() if len(of_y) == 1 else None
    return None if change is None else why.remedy._replace(scale=change.scale, shift=change.shift)


def _of_logarithms(m: Member) -> bool:
    """Is f the logarithm of y?"""
    return any(p.of_seen is not p for p in m.likelihoods)


def _unchecked(c: _Compared, member: int, changed: tuple[InputFactor, ...]) -> Verdict:
    """Of a module of which the others know little; with these changes of inputs it would agree with them."""
    fit, remedy = c.screened.fit, Units(inputs=changed) if changed else None
    if changed and c.is_apart(member, SCREENING.too_sure):
        return Verdict(Standing.FLAGGED, _other_inputs(changed), remedy)  # nor can it be where it says it is
    said = f"{UNKNOWN} {max(0.0, float(fit.share[member])):.0%} of what it says"
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
    ratio = m.kernel.lengths(D).log().cpu() - c.base.kernel.lengths(D).log().cpu()
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

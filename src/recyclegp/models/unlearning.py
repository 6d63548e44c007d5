"""What is left of modules that were removed: nothing, or what had been chosen while they were there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from ..core.packing import shared_points
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..merging.form import Form
from ..merging.member import Member, active
from ..merging.merge_config import MergeConfig
from ..merging.noise import PooledNoise
from ..merging.owners import Owners
from ..merging.pooling import median_mean, most_common_kernel, pool_likelihoods, with_unknown_filled
from .naming import few


class Trace(Enum):
    """What may have been chosen together with a module that is gone."""

    KERNEL = "kernel"
    MEAN = "mean"
    NOISE = "noise"
    POINTS = "points"
    OWNERS = "owners' variances"
    TRUST = "trust"


class Guarantee(Enum):
    NOTHING_REMOVED = "nothing was removed"
    EXACT = "as if they had never been here"
    TRACES = "traces are left"


class Unlearned(NamedTuple):
    """How many modules were removed, and what still reflects them. It does not say who they were."""

    removed: int = 0
    traces: tuple[Trace, ...] = ()  # that were chosen with one of them and are as they were
    updates: tuple[str, ...] = ()  # rows that are still here, and were summarised under such a choice

    @property
    def guarantee(self) -> Guarantee:
        if not self.removed:
            return Guarantee.NOTHING_REMOVED
        return Guarantee.TRACES if self.traces or self.updates else Guarantee.EXACT

    def __str__(self) -> str:
        """In plain words."""
        if not self.removed:
            return "nothing was removed"
        said = f"{self.removed} module{'s' * (self.removed != 1)}: what they said of f is gone; "
        if self.guarantee is Guarantee.EXACT:
            return f"{said}the ensemble is as if they had never been here"
        left = []
        if self.traces:
            names = [t.value for t in self.traces]
            all_of_them = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
            left.append(f"{all_of_them} had been chosen with them and are as they were (relearn=True chooses anew)")
        if self.updates:
            left.append(
                f"rows that came by update ({few(self.updates)}) were summarised under what had been chosen with them "
                "(only a new merge of the other files, and new updates, are free of that)"
            )
        return said + "; ".join(left)

    def relearned(self) -> Unlearned:
        """After everything was chosen anew: summaries of rows are as they were."""
        return self._replace(traces=())


def together(several: Sequence[Unlearned]) -> Unlearned:
    """Of several processes of one ensemble."""
    traces = {trace for u in several for trace in u.traces}
    updates = dict.fromkeys(name for u in several for name in u.updates)
    return Unlearned(max(u.removed for u in several), tuple(t for t in Trace if t in traces), tuple(updates))


ROUNDING = 1e-12  # relative: no trace of anybody
NOTHING_REMOVED = Unlearned()


class Chosen(NamedTuple):
    """What an ensemble is, as far as modules had a part in it."""

    form: Form
    members: Sequence[Member]
    recipe: MergeConfig
    owners: Owners
    noise: PooledNoise | None
    likelihoods: tuple[Likelihood, ...]
    points_chosen: bool  # from the modules, or that it needs none
    waiting: Sequence[Member] = ()  # updates that have not been published, among the members


def likelihoods_without(known: tuple[Likelihood, ...], rest: Sequence[Member]) -> tuple[Likelihood, ...]:
    """The likelihoods that a merge would have had without those who are gone."""
    left = {p.name for m in active(rest) for p in m.likelihoods}
    first = active(m for m in rest if not m.added_after_merge)
    chosen = pool_likelihoods(first) if first else ()
    names = {p.name for p in chosen}
    kept = (*chosen, *(p for p in known if p.name in left and p.name not in names))
    return with_unknown_filled(kept, pool_likelihoods(rest))


def after_removal(before: Unlearned, e: Chosen, gone: set[str], *, relearned: bool) -> Unlearned:
    """What is left of the modules that go now, and of those that went before."""
    rest = [m for m in e.members if m.name not in gone]
    traces = _traces(e, gone, rest)
    updates = {u.name for u in rest if u.name in before.updates or _reflects(u, e, gone, traces, rest)}
    left = set() if relearned else {*before.traces, *traces}
    return Unlearned(
        removed=before.removed + len(gone),
        traces=tuple(t for t in Trace if t in left),
        updates=tuple(m.name for m in rest if m.name in updates),
    )


def _traces(e: Chosen, gone: set[str], rest: Sequence[Member]) -> set[Trace]:
    """What would not be the same, had those who go never been there; what comes out the same is none."""
    judges = any(m.verdict is not None for m in e.members if m.name in gone)
    disarmed = any(m.verdict is not None and m.verdict.weight is not None for m in rest)
    judged = {Trace.TRUST} if judges and disarmed else set()
    if all(m.added_after_merge for m in e.members if m.name in gone):
        return judged
    learn, first = e.recipe.learn, active(m for m in rest if not m.added_after_merge)
    same_kernel = e.recipe.kernel is not None or (bool(first) and _alike(most_common_kernel(first), e.form.kernel))
    same_mean = bool(first) and math.isclose(median_mean(first), e.form.mean, rel_tol=ROUNDING)
    is_so = {
        Trace.KERNEL: learn or not same_kernel,
        Trace.MEAN: learn or not same_mean,
        Trace.NOISE: e.noise is not None or not first,
        Trace.POINTS: e.points_chosen and e.form.depends_on_choice_of_points,
        Trace.OWNERS: e.owners is not Owners.NONE and (learn or e.owners is not Owners.AUTO),
    }
    return judged | {trace for trace, chosen in is_so.items() if chosen}


def _alike(one: Kernel, other: Kernel) -> bool:
    """A median of equal kernels is the same but for rounding."""
    return one.structure == other.structure and float((one.theta - other.theta).abs().max()) <= ROUNDING


def _shares_points(one: Member, other: Member) -> bool:
    known = one.site is not None and other.site is not None
    return known and len(shared_points(one.site.Z, other.site.Z).i) > 0  # type: ignore[union-attr]


def _reflects(u: Member, e: Chosen, gone: set[str], traces: set[Trace], rest: Sequence[Member]) -> bool:
    """Were the rows of an update summarised under something that somebody who goes had a part in?

    Members stand in the order in which they came, so that only those before it matter.
    """
    if not u.update:
        return False
    place = next(i for i, m in enumerate(e.members) if m is u)
    earlier = [m for m in e.members[:place] if m.name in gone]
    if any(_shares_points(u, m) for m in earlier):  # it was summarised at their points
        return True
    no_points = not len(e.form.chosen_points)
    if not any(u is w for w in e.waiting) and any(no_points or m.points_appended for m in earlier):
        return True  # it was published at points that were chosen beside theirs
    if all(m.added_after_merge for m in earlier):
        return False
    other_noise = u.likelihoods[0] in e.likelihoods and (
        Trace.NOISE in traces or u.likelihoods[0] not in likelihoods_without(e.likelihoods, rest)
    )
    return bool(traces & {Trace.KERNEL, Trace.MEAN, Trace.POINTS}) or (u.likelihoods[0].has_units and other_noise)

"""What may be wrong although everything is valid: said once, as a warning that names the modules and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from .. import arrays
from ..categories import Categories, called, shown
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..errors import ContradictionWarning, RecycleGPError, warn_user
from ..kernels import Kernel
from ..merging.constants import LEARNING
from ..merging.learning import slack_tolerance
from ..merging.member import Member
from ..merging.pooling import shorter_than_all
from ..merging.size import Size
from ..target import Target, contradiction
from .naming import SHOWN, few


class LevelsApart:
    """Levels of one column, in groups of which no module has seen two: the same ones, spelt differently?"""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, str]] = {}  # the group of each level: its levels, and who had them first

    def look_at(self, names: Sequence[str], owner: str) -> None:
        if all(name in self._groups for name in names) and len({id(self._groups[name]) for name in names}) == 1:
            return
        joined = dict.fromkeys(names, owner)
        for name in names:
            joined |= self._groups.get(name, {})
        self._groups |= dict.fromkeys(joined, joined)

    @property
    def found(self) -> list[str]:
        """In words, if there are several; one level alone may be the name of a place or a device."""
        several = [group for group in {id(g): g for g in self._groups.values()}.values() if len(group) > 1]
        if len(several) < 2:
            return []
        return [f"{shown(sorted(group))} ({next(iter(group.values()))})" for group in several]


FAR_POWER = 2  # of ten, by which an input may be in another unit
MOST_COMPARED = 50  # modules whose regions are compared one by one


class Doubts:
    """About modules that are to be merged, collected while they are read one after the other."""

    def __init__(self, already: Sequence[Member] = ()) -> None:
        self.targets: dict[str, tuple[Target, str]] = {}  # what the first one said, by likelihood
        self.other_targets: list[str] = []
        self.unnamed: list[str] = []
        self.unsettled: list[str] = []
        self.levels: dict[str, LevelsApart] = {}  # by column
        for m in already:
            self._compare(m.target, [p.name for p in m.likelihoods], f"module {m.name!r}")
        self.other_targets.clear()

    def look_at(self, member: Member, columns: arrays.Columns, label: str) -> None:
        self._compare(member.target, [p.name for p in member.likelihoods], label)
        if columns is None:
            self.unnamed.append(member.name)
        if not member.converged:
            self.unsettled.append(member.name)

    def look_at_levels(self, categories: Categories, columns: arrays.Columns, owner: str) -> None:
        for column, names in categories.levels:
            self.levels.setdefault(called(column, columns), LevelsApart()).look_at(names, owner)

    def _compare(self, target: Target, likelihoods: Iterable[str], label: str) -> None:
        """With what others of the same likelihood said; different kinds of data may be different quantities."""
        if not target.known:
            return
        for name in likelihoods:
            known, owner = self.targets.get(name, (Target(), ""))
            why = contradiction(known, target)
            if why is not None:
                raise RecycleGPError(f"{owner} and {label} contradict each other: {why}")
            if known.name is not None and target.name is not None and known.name != target.name:
                self.other_targets.append(f"{owner} of {known.name!r}, {label} of {target.name!r}")
            both = Target(known.name or target.name, known.unit or target.unit, known.labels or target.labels)
            self.targets[name] = (both, owner if known.known else label)

    def tell(self, columns: arrays.Columns) -> None:
        if self.other_targets:
            warn_user(f"modules name different targets ({few(self.other_targets)}); is it the same quantity?")
        for column, levels in self.levels.items():
            if levels.found:
                warn_user(
                    f"modules share no level of {column}: {' against '.join(levels.found[:SHOWN])}; if they mean the "
                    "same, write them alike and fit again"
                )
        if columns is not None and self.unnamed:
            warn_user(
                f"columns of {few(self.unnamed)} have no names and were taken to be {', '.join(columns)}, in that "
                "order; fit with columns=, or name them with module.with_columns"
            )
        if self.unsettled:
            warn_user(
                f"{few(self.unsettled)} had not converged when they were published; ask their owners for another fit, "
                "or give them a smaller weight"
            )


def about_learning(kernel: Kernel, convergence: Convergence, members: Sequence[Member]) -> None:
    """Did the search end, and does its kernel resemble any module's own?"""
    if not convergence.converged:
        warn_user(
            f"the search for the kernel {convergence.message} after {convergence.evaluations} evaluations; the "
            "ensemble may be better with another kernel=, or with inducing= points"
        )
    factor = shorter_than_all(kernel, members) if convergence != NOTHING_TO_LEARN else None
    if factor is not None:
        warn_user(
            f"the kernel that was learned, {kernel.describe()}, has a lengthscale {factor:.0f} times shorter than "
            "those of the modules: they may contradict each other (in other units, or of other functions); report(), "
            "or recyclegp compare, tells who disagrees"
        )


def about_trust(members: Sequence[Member]) -> None:
    """Who does not count because of what the others say?"""
    disarmed = [m for m in members if m.verdict is not None and m.verdict.flagged and m.weight == 0]
    if disarmed:
        said = [f"{m.name} ({m.verdict.explained})" for m in disarmed if m.verdict is not None]
        warn_user(
            f"{len(disarmed)} of {len(members)} modules contradict the others and do not count: {few(said)}; ask their "
            "owners. reweight makes one count all the same, trust=None all of them",
            ContradictionWarning,
        )
    elsewhere = [m for m in members if m.verdict is not None and m.verdict.elsewhere]
    if elsewhere:
        said = [f"{m.name} ({m.verdict.explained})" for m in elsewhere if m.verdict is not None]
        warn_user(
            f"{len(elsewhere)} of {len(members)} modules count, but the others know little of what they say, and in "
            f"other units they would agree with them: {few(said)}; ask their owners"
        )


def about_regions(members: Sequence[Member], columns: arrays.Columns) -> None:
    """Has one module an input whose numbers are a power of ten away from those of others, who share a region?

    This is no proof, and needs no agreement about f: modules that differ otherwise, too, hide a wrong unit from those
    who look at what is said.
    """
    boxes = {m.name: _box(m) for m in members if m.site is not None and m.weight > 0}
    explained = {m.name for m in members if m.verdict is not None and m.verdict.proposal}
    if len(boxes) > MOST_COMPARED:
        return
    for name, own in boxes.items():
        if name in explained:
            continue  # which has been said
        others = [box for other, box in boxes.items() if other != name]
        for column in range(own.shape[1]):
            power = _power_of_ten(own[:, column], [box[:, column] for box in others])
            if power:
                called = f"column {column}" if columns is None else columns[column]
                warn_user(
                    f"{name} has {called} from {own[0, column]:.3g} to {own[1, column]:.3g}, where the others would be "
                    f"if theirs were divided by {10.0**power:g}; if its unit is another one, use "
                    f"transform(input_scale={{{called!r}: {10.0**power:g}}}), or recyclegp transform --input-scale "
                    f"{called}={10.0**power:g}"
                )


def _box(m: Member) -> Tensor:
    assert m.site is not None
    return torch.stack([m.site.Z.amin(0), m.site.Z.amax(0)])


def _power_of_ten(own: Tensor, others: Sequence[Tensor]) -> int:
    """By which inputs from own[0] to own[1] would lie where others do; 0 where nothing suggests one."""
    if len(others) < 2 or float(own[0]) <= 0 or any(float(other[0]) <= 0 for other in others):
        return 0
    mine, theirs = own.log10(), [other.log10() for other in others]
    alike = [a for i, a in enumerate(theirs) if any(_shared(a, b) for j, b in enumerate(theirs) if j != i)]
    if len(alike) < len(theirs) or any(float(mine[0]) <= float(a[1]) and float(a[0]) <= float(mine[1]) for a in theirs):
        return 0
    middle = torch.stack([a.mean() for a in theirs]).median()
    power = round(float(middle - mine.mean()))
    moved = mine + power
    return power if abs(power) >= FAR_POWER and all(_shared(moved, a) for a in theirs) else 0


def _shared(a: Tensor, b: Tensor) -> bool:
    """Do two intervals have half of the shorter one in common?"""
    common = float(torch.minimum(a[1], b[1]) - torch.maximum(a[0], b[0]))
    return common > 0.5 * min(float(a[1] - a[0]), float(b[1] - b[0]))


def about_points(size: Size, members: Sequence[Member]) -> None:
    """Have automatic points reached their limit before they could express everybody?"""
    if size.slack > 10 * slack_tolerance(sum(m.weighted_rows for m in members)):
        warn_user(
            f"{size.points} points leave {size.slack:.3g} nats of the modules' knowledge unexpressed; pass a larger "
            f"inducing=, or inducing='all', for a sharper ensemble ({size})"
        )


def about_new_slack(points: int, lost: float) -> None:
    """Can the points, which stay where they are, express what is new?"""
    if lost > LEARNING.slack_scale:
        warn_user(
            f"{points} points cannot express {lost:.3g} nats of what is new, which bends what was known; pass "
            "relearn=True to choose them anew, or merge with a larger inducing="
        )

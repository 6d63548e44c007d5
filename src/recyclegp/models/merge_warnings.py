"""What may be wrong although everything is valid: said once, as a warning that names the modules and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import arrays
from ..categories import Categories, called, shown
from ..core.convergence import NOTHING_TO_LEARN
from ..errors import (
    Argument,
    ContradictionWarning,
    Either,
    Message,
    Name,
    RecycleGPError,
    Remedy,
    UncheckedWarning,
    warn_user,
)
from ..likelihoods import Likelihood
from ..merging.constants import LEARNING, POOLING
from ..merging.learning import slack_tolerance
from ..merging.member import Member, Members, active
from ..merging.merge_config import Held
from ..merging.pooling import shorter_than_all
from ..merging.size import Size
from ..merging.unfinished import unfinished
from ..merging.verdicts import TRUSTED
from ..record import IMPORTED, About
from ..target import Target, contradiction
from .group import Group
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


class MergeWarnings:
    """About modules that are to be merged, collected while they are read one after the other."""

    def __init__(self, already: Sequence[Member] = (), functions: Sequence[str] = ("f",)) -> None:
        self.targets: dict[tuple[str, str], tuple[Target, str]] = {}  # what the first one said, of what
        self.other_targets: list[str] = []
        self.unnamed: list[str] = []
        self.unsettled: list[str] = []
        self.levels: dict[str, LevelsApart] = {}  # by column
        for m in already:
            self.look_at_target(m.target, functions[m.function], m.likelihoods, f"module {m.name!r}")
        self.other_targets.clear()

    def look_at(self, about: About, converged: bool) -> None:
        if about.columns is None:
            self.unnamed.append(about.name)
        if not converged and about.method not in IMPORTED:  # see about_held
            self.unsettled.append(about.name)

    def look_at_all(self, abouts: Sequence[About], unsettled: Sequence[About]) -> None:
        """At many modules, of which some had not converged."""
        self.unnamed += [about.name for about in abouts if about.columns is None]
        self.unsettled += [about.name for about in unsettled if about.method not in IMPORTED]

    def look_at_levels(self, categories: Categories, columns: arrays.Columns, owner: str) -> None:
        for column, names in categories.levels:
            self.levels.setdefault(called(column, columns), LevelsApart()).look_at(names, owner)

    def look_at_target(self, target: Target, function: str, likelihoods: Sequence[Likelihood], label: str) -> None:
        """Beside what others of the same function and likelihood said: other kinds of data may be other quantities."""
        if not target.known:
            return
        for likelihood in likelihoods:
            key = function, likelihood.name
            known, owner = self.targets.get(key, (Target(), ""))
            why = contradiction(known, target)
            if why is not None:
                raise RecycleGPError(f"{owner} and {label} contradict each other: ", why)
            if known.name is not None and target.name is not None and known.name != target.name:
                self.other_targets.append(f"{owner} of {known.name!r}, {label} of {target.name!r}")
            both = Target(known.name or target.name, known.unit or target.unit, known.labels or target.labels)
            self.targets[key] = (both, owner if known.known else label)

    def warn(self, columns: arrays.Columns) -> None:
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
                "order",
                Either("; fit with columns=, or name them with module.with_columns", ""),
            )
        if self.unsettled:
            warn_user(
                f"{few(self.unsettled)} had not converged when they were published; ask their owners for another fit"
            )


def about_held(held: Held, members: Sequence[Member]) -> None:
    """Was something not learned that should have been, and what of unfinished modules counts?"""
    names = [m.name for m in unfinished(active(members))]
    if names:
        learned = "; kernel, mean, noise and effects were learned from the others"
        if held is Held.UNFINISHED:
            learned = "; the kernel is theirs and was not learned, but for the size of f within a factor of two"
        warn_user(
            f"{few(names)} were fitted elsewhere by searches that had not ended: what cannot be so does not "
            f"count{learned}. Finish those fits, and merge again"
        )
    doubtful = [m.name for m in active(members) if m.verdict is not None and m.verdict.is_doubtful]
    if doubtful:
        warn_user(
            f"{few(doubtful)} were fitted elsewhere, and are far too sure of themselves beside the modules that were "
            "fitted here: they count less, and kernel, mean, noise and effects were learned from the others. Train "
            "them longer, and merge again; ",
            Argument("trust", None),
            " merges all of them as they are",
        )
    if held is Held.LARGE:
        warn_user(
            f"the kernel of these modules has more than the {LEARNING.most_parameters} parameters that are learned: "
            "kernel, mean and noise stay as the modules have them, and nobody is screened; for a smaller one pass ",
            Argument("kernel"),
        )
    if held is Held.ABSURD:
        warn_user(
            "what the modules say together led to a function far outside what any of them says, so nothing was learned "
            "and the kernel is theirs; look at report() for modules that disagree, leave them out, or pass ",
            Argument("kernel"),
        )


def about_learning(group: Group) -> None:
    """Did the search end, does its kernel resemble any module's own, and do owners know more than alone?"""
    kernel, convergence = group.form.kernel, group.convergence
    if not convergence.converged:
        warn_user(
            f"the search for the kernel {convergence.message} after {convergence.evaluations} evaluations; the "
            "ensemble may be better with another ",
            Argument("kernel"),
            ", or with ",
            Argument("inducing"),
            " points",
        )
    factor = shorter_than_all(kernel, group.members) if convergence != NOTHING_TO_LEARN else 1.0
    if group.own_share == 1 or (factor > POOLING.doubtful_lengthscale_factor and group.is_lost_between_points()):
        warn_user(
            "merging does not help these owners: under the kernel that they share, ",
            kernel.describe(),
            ", most of them know far less of their own functions than alone, as happens where they contradict each "
            "other. Who asks for itself (",
            Name("owner"),
            ") is answered from its own module, unless owners were said to be alike; ",
            Remedy("report", command="compare", writes=False),
            " tells who disagrees",
            category=ContradictionWarning,
        )
    elif factor > POOLING.shorter_lengthscale_factor or (
        factor > POOLING.doubtful_lengthscale_factor and _somebody_disagrees(group)
    ):
        warn_user(
            f"the kernel that was learned, {kernel.describe()}, has a lengthscale {factor:.2g} times shorter than "
            "those of the modules: they may contradict each other (in other units, or of other functions); ",
            Remedy("report", command="compare", writes=False),
            " tells who disagrees",
        )


def _somebody_disagrees(group: Group) -> bool:
    """Does a member say what can hardly be, by what the others know?"""
    found = [m.agreement for m in group.report() if m.agreement is not None]
    return bool(found) and min(found) < POOLING.implausible / len(found)


def about_screening(members: Sequence[Member], outputs: Mapping[str, str]) -> None:
    """Who does not count because of what the others say? `outputs` names the function, for modules with several."""
    judged = [(m, m.verdict) for m in members if m.verdict is not None and m.verdict is not TRUSTED]

    def why(some: Sequence[Member]) -> Message:
        named = [(m.name, v.explained(outputs.get(m.name))) for m in some if (v := m.verdict) is not None]
        return few([Message(f"{name} (", reason, ")") for name, reason in named])

    disarmed = [m for m, verdict in judged if verdict.flagged and m.weight == 0]
    if disarmed:
        warn_user(
            f"{len(disarmed)} of {len(members)} modules contradict the others and do not count: ",
            why(disarmed),
            "; ask their owners. reweight makes one count all the same, ",
            Argument("trust", None),
            " all of them",
            category=ContradictionWarning,
        )
    again = [m for m, verdict in judged if verdict.is_copy and m.weight == 0]
    if again:
        warn_user(
            f"{len(again)} of {len(members)} modules are copies of others and count once: ",
            why(again),
            "; ",
            Argument("trust", None),
            " counts them as often as they are there",
        )
    torn = [m.name for m, verdict in judged if verdict.undecided]
    if torn:
        warn_user(
            f"{few(torn)} contradict each other, and nobody can say who is right: they all count; ask their owners, or "
            "merge with modules of others who know the same region",
            category=ContradictionWarning,
        )
    asked = [m for m, verdict in judged if verdict.is_a_question]
    if asked:
        warn_user(
            f"{len(asked)} of {len(members)} modules count, but may be in other units, in which they would agree with "
            "the others: ",
            why(asked),
            "; ask their owners",
            category=ContradictionWarning,
        )


def about_unchecked(members: Sequence[Member]) -> None:
    """Who counts although nobody could notice a mistake? Once, for all functions together."""
    judged = [(m, m.verdict) for m in members if m.verdict is not None and m.verdict is not TRUSTED]
    why = {m.name: verdict.reason for m, verdict in judged if verdict.is_unknown and m.weight > 0}
    modules = len({m.name for m in members}) if why else 0
    if modules > 1:
        warn_user(
            f"{len(why)} of {modules} modules cannot be checked: ",
            few([f"{name} ({reason})" for name, reason in why.items()]),
            f"; a mistake in {'it' if len(why) == 1 else 'them'}, as another unit, would not be noticed",
            category=UncheckedWarning,
        )


def about_points(size: Size, members: Sequence[Member]) -> None:
    """Have automatic points reached their limit before they could express everybody?"""
    if size.slack > 10 * slack_tolerance(sum(Members.of(members).weighted_rows)):
        warn_user(
            f"{size.points} points leave {size.slack:.3g} nats of the modules' knowledge unexpressed; pass a larger ",
            Argument("inducing"),
            ", or ",
            Argument("inducing", "all"),
            f", for a sharper ensemble ({size})",
        )


def about_new_slack(points: int, lost: float) -> None:
    """Can the points, which stay where they are, express what is new?"""
    if lost > LEARNING.slack_scale:
        warn_user(
            f"{points} points cannot express {lost:.3g} nats of what is new, which bends what was known; pass ",
            Argument("relearn", True),
            " to choose them anew, or merge with a larger ",
            Argument("inducing"),
        )

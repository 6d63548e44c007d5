"""What a form is made from: members and their sites, and what is to be chosen for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..kernels import Kernel
from ..kernels.units import smoother
from .constants import POINTS
from .exact_learning import Learned, decide_from_some
from .learning import Choice, begin, finish, slack_tolerance, starts
from .member import Member, Members
from .noise import Readings, at_noise
from .owners import Owners, approximated, by_owner, owner_numbers
from .points import PointsWanted
from .site_source import SiteSource


@dataclass(frozen=True, eq=False)
class MergeProblem:
    start: Kernel  # where learning begins
    members: Sequence[Member]
    store: SiteSource  # their sites
    wanted: PointsWanted
    learn: bool  # kernel, mean and noise
    asked_owners: Owners = Owners.NONE
    pool_noise: bool = True
    compare_smoothness: bool = False  # is the kernel's smoothness to be learned, too?
    first: Learned | None = None  # what is known from some of the members; without `learn` it stays

    @cached_property
    def numbers(self) -> list[int]:
        """Of the members' owners."""
        return owner_numbers(self.members)

    @property
    def owners(self) -> Owners:
        asked = self.asked_owners
        if asked is Owners.NONE or (asked is Owners.AUTO and not self.learn) or len(set(self.numbers)) == 1:
            return Owners.NONE
        return asked

    @cached_property
    def readings(self) -> Readings | None:
        """What members say about their noise, where it is to be pooled."""
        if not self.pool_noise or not (self.learn or self.first is not None):
            return None
        return Readings.of(self.members, self.store)

    @cached_property
    def as_smooth_as_it_is(self) -> MergeProblem:
        """The same problem with rbf in place of matern52 where some of the modules say so; then that is known."""
        other = smoother(self.start)
        if not (self.learn and self.compare_smoothness) or other.structure == self.start.structure:
            return self
        begins = starts(self.start, self.members)
        first = decide_from_some(
            self.store,
            self.numbers,
            self.readings,
            self.start,
            begins,
            self.owners,
            approximate=approximated(self.members),
            compare_smoothness=True,
            known=self.first,
        )
        same = first.kernel.structure == self.start.structure
        return replace(self, start=self.start if same else other, first=first, compare_smoothness=False)

    @property
    def tolerance(self) -> float:
        """Slack that is nothing beside all rows."""
        return POINTS.negligible * slack_tolerance(sum(Members.of(self.members).weighted_rows))

    # --- what is chosen where it is held at points: once, whoever asks ---

    @cached_property
    def begun(self) -> Choice:
        """From some of the modules."""
        asked = (self.start, self.members, self.store, self.wanted)
        return begin(*asked, learn=self.learn, owners=self.owners, readings=self.readings, first=self.first)

    @cached_property
    def by_owner(self) -> SiteSource:
        """At the noise that was chosen; where owners differ, one site for each."""
        sites, effects = at_noise(self.store, self.readings, self.begun.noise), self.begun.effects
        return by_owner(sites, self.numbers, effects) if effects.present else sites

    @cached_property
    def finished(self) -> Choice:
        """From all of them."""
        return finish(self.begun, self.start, self.by_owner, self.wanted) if self.learn else self.begun

    def choices(self) -> Iterator[Choice]:
        """As far as one must go on."""
        yield self.begun
        yield self.finished

"""What a model gives away to whoever has its file, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ..record import Guaranteed, Origin, Record, weakest, worst

if TYPE_CHECKING:
    from ..merging.member import Member


class PrivacyGuarantee(Enum):
    """What is proven of all attacks. Of modules nothing: what the noise hides that is added for people is measured."""

    NONE = "none"
    DIFFERENTIAL = "differential privacy"  # of private answers, and of whatever is made of these alone


class Disclosure(NamedTuple):
    """Of a module, or the worst of all members of an ensemble."""

    origin: Origin  # of the points: are rows among them?
    points_per_row: float
    smallest_member: int  # rows behind the function or member that has fewest
    guaranteed: Guaranteed | None = None  # by how much, where something is proven

    @property
    def guarantee(self) -> PrivacyGuarantee:
        return PrivacyGuarantee.NONE if self.guaranteed is None else PrivacyGuarantee.DIFFERENTIAL


def of_record(found: Record) -> Disclosure:
    """Of a module: whose the points are, how many for each row, the fewest rows behind a function."""
    each = [len(latent.known_site.Z) / latent.rows for latent in found.latents]
    return Disclosure(found.about.origin, max(each), min(p.rows for p in found.latents), found.about.guaranteed)


def of_member(m: Member, points_per_row: float) -> Disclosure:
    """`points_per_row` are those of the whole ensemble, for a member that has kept no points of its own."""
    own = m.points_per_row
    return Disclosure(m.about.origin, points_per_row if own is None else own, m.rows, m.about.guaranteed)


def of_members(members: Sequence[Member], shared: Iterable[Origin], points_per_row: float) -> Disclosure:
    """The worst of all; `shared` is what is known of points that are no member's."""
    each = [of_member(m, points_per_row) for m in members]
    return Disclosure(
        worst([*shared, *(d.origin for d in each)]),
        max(d.points_per_row for d in each),
        min(d.smallest_member for d in each),
        weakest({m.name: (m.about.owner, m.about.guaranteed) for m in members}.values()),  # of all its functions once
    )

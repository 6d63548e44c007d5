"""How an ensemble's points were chosen: "auto", "all", a number of them, or None for points that were given."""

from __future__ import annotations

from torch import Tensor

from ..merging.points import PointsWanted

Choice = int | str | None
AUTO = "auto"  # points were chosen automatically
ALL = "all"  # the exact form was asked for


def choice_of(wanted: PointsWanted) -> Choice:
    return ALL if wanted.all_of_them else AUTO if wanted.automatic else wanted.count


def wanted_again(choice: Choice, Z: Tensor) -> PointsWanted:
    """What was wanted of the points, when they are chosen once more; those that were given are Z."""
    if choice is None:
        return PointsWanted(given=Z)
    return PointsWanted(count=choice if isinstance(choice, int) else None, all_of_them=choice == ALL)

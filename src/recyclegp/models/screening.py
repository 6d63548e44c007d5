"""Modules → who contradicts the others, and why, before anything is merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..merging.owners import Owners
from ..merging.site_store import SiteStore
from ..merging.trust import screen_members
from ..merging.verdicts import TRUSTED, Standing, Verdict
from .joint.merging import are_joint, joint_modules, united
from .joint.module import JointModule
from .merge import POOL, JointSource, noise_wanted, owners_wanted
from .reading import Source, read_modules

WORST_FIRST = (Standing.FLAGGED, Standing.UNCHECKED, Standing.TRUSTED)


@dataclass(frozen=True)
class Screening:
    """What screening says about each module, in the order in which they came."""

    verdicts: dict[str, Verdict]  # by the modules' names
    rows: dict[str, int]

    @property
    def flagged(self) -> list[str]:
        """Names of modules that contradict the others."""
        return self._of(Standing.FLAGGED)

    @property
    def unchecked(self) -> list[str]:
        """Names of modules that cannot be checked, because the others know too little of what they say."""
        return self._of(Standing.UNCHECKED)

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per module: name, rows, standing, reason, and what would explain it.

        `proposal` is the call on a module that would make it agree with the others, where a change of units of y or of
        inputs explains why it does not, or where it cannot be checked but would be among the others in other units;
        ask its owner before you believe it.
        """
        return [
            {
                "name": name,
                "rows": self.rows[name],
                "standing": v.standing.value,
                "reason": v.reason,
                "proposal": v.proposal,
            }
            for name, v in self.verdicts.items()
        ]

    @property
    def summary_line(self) -> str:
        """How many contradict the others; where nobody does, but some cannot be checked, not that all is well."""
        flagged, unchecked, all_of_them = len(self.flagged), len(self.unchecked), len(self.verdicts)
        if unchecked and not flagged:
            return f"0 of {all_of_them} modules flagged, {unchecked} cannot be checked"
        more = f"; {unchecked} cannot be checked" if unchecked else ""
        return f"{flagged} of {all_of_them} modules contradict the others{more}"

    def __str__(self) -> str:
        lines = [self.summary_line]
        for name, v in self.verdicts.items():
            if v.standing is not Standing.TRUSTED:
                lines.append(f"  {name}: {v.words}" + (f"; try {v.proposal}" if v.proposal else ""))
        return "\n".join(lines)

    def _of(self, standing: Standing) -> list[str]:
        return [name for name, v in self.verdicts.items() if v.standing is standing]


def screen(modules: Source | JointSource, *, owners: str | None = "auto", noise: str = "pool") -> Screening:
    """Which modules contradict the others, and why. Nothing is merged.

    A module is flagged where its being of another function, in other units, or far too sure of itself explains it
    clearly better than its being honest, under the kernel and the trusted modules that make all that is said most
    probable. `merge` does the same by itself (trust="learn").

    Of modules of several functions each function is screened by itself, and a module has its worst standing; the
    reason names the function.

    Args:
        modules: as for `merge`: modules, files, a directory, or an iterable of them.
        owners: how owners' functions may differ from the shared one, as for `merge`: what this allows is no
            contradiction.
        noise: "pool" or "keep", as for `merge`.

    Returns:
        A verdict on each; `flagged` has the names, `table` the reasons.
    """
    wanted, pool = owners_wanted(owners), noise_wanted(noise) == POOL
    if are_joint(modules):
        return _screen_jointly(joint_modules(modules), wanted, pool)
    return _screen_one(cast(Source, modules), wanted, pool)


def _screen_one(modules: Source, owners: Owners, pool: bool) -> Screening:
    """Of one function."""
    with SiteStore() as store:
        members, frame = read_modules(modules, store, keep=False)
        found = screen_members(members, store, owners=owners, pool_noise=pool, columns=frame.columns).verdicts
    return Screening(dict(zip((m.name for m in members), found, strict=True)), {m.name: m.rows for m in members})


def _screen_jointly(modules: Sequence[JointModule], owners: Owners, pool: bool) -> Screening:
    """Each function by itself."""
    found: dict[str, dict[str, Verdict]] = {m.name: {} for m in modules}  # name → function → verdict
    for function in united(modules).names:
        own = [m.part(function) for m in modules if function in m.link.names]
        for name, verdict in _screen_one(own, owners, pool).verdicts.items():
            found[name][function] = verdict
    return Screening({name: _worst(each) for name, each in found.items()}, {m.name: m.rows for m in modules})


def _worst(verdicts: dict[str, Verdict]) -> Verdict:
    """Of the functions of one module. A remedy is for one function alone, so it goes into the reason."""
    standing = min((v.standing for v in verdicts.values()), key=WORST_FIRST.index)
    if standing is Standing.TRUSTED:
        return TRUSTED
    said = [
        f"{function}: {v.reason or v.standing.value}" + (f" (for {function} alone: {v.proposal})" if v.proposal else "")
        for function, v in verdicts.items()
        if v.standing is standing
    ]
    return Verdict(standing, "; ".join(said))

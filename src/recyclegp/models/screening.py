"""Modules → who contradicts the others, and why, before anything is merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..devices import CPU
from ..errors import Argument, RecycleGPError, Remedy
from ..merging.trust import screen_members
from ..merging.verdicts import TRUSTED, Standing, Verdict, proposed
from .failures import FAILED, blamed, culprits
from .intake import ModuleIntake, ModulesRead
from .merge import KEEP, POOL, owners_wanted
from .sources import Source

WORST_FIRST = (Standing.FLAGGED, Standing.UNCHECKED, Standing.TRUSTED)


@dataclass(frozen=True)
class Screening:
    """What screening says about each module, in the order in which they came."""

    verdicts: dict[str, Verdict]  # by the modules' names
    rows: dict[str, int]
    remedies: dict[str, Remedy]  # what would make a module agree, where that is known

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
                "proposal": str(self.remedies.get(name, "")),
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
                lines.append(f"  {name}: {v.words}" + (f"; try {self.remedies[name]}" if name in self.remedies else ""))
        return "\n".join(lines)

    def _of(self, standing: Standing) -> list[str]:
        return [name for name, v in self.verdicts.items() if v.standing is standing]


def screen(modules: Source, *, owners: str | None = "auto", noise: str = "pool") -> Screening:
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

    Raises:
        RecycleGPError: Modules cannot be merged, or a file cannot be read; the message names it.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 90)[:, None]
        >>> ms = [rgp.fit(X[i::5], np.sin(X[i::5, 0]), name=f"ward-{i}") for i in range(5)]
        >>> rgp.screen(ms).flagged
        []
    """
    if noise not in (POOL, KEEP):
        raise RecycleGPError(Argument("noise", noise), "; use 'pool' or 'keep'")
    wanted, pool = owners_wanted(owners), noise == POOL
    found: dict[str, dict[str, Verdict]] = {}  # name → function → verdict
    rows: dict[str, int] = {}

    def screened(some: ModulesRead) -> list[list[Verdict]]:
        return [screen_members(*own, owners=wanted, pool_noise=pool).verdicts for own in some.functions if own.members]

    with ModuleIntake(device=CPU, keep=False) as intake:
        read = intake.read(modules)
        try:
            judged = screened(read)
        except FAILED as failed:
            raise blamed(culprits(read, screened, screened), read, failed) from failed
        functions = [each for each in zip(read.likelihood.functions, read.functions, strict=True) if each[1].members]
        for (function, own), verdicts in zip(functions, judged, strict=True):
            for member, verdict in zip(own.members, verdicts, strict=True):
                found.setdefault(member.name, {})[function] = verdict
                rows[member.name] = max(rows.get(member.name, 0), member.rows)
    worst = {name: _worst(each) for name, each in found.items()}
    alone = len(read.likelihood.functions) == 1
    said = {name: next(iter(each.values())) if alone else _summed_up(each) for name, each in worst.items()}
    return Screening(said, rows, proposals(worst))


def proposals(verdicts: Mapping[str, Mapping[str, Verdict]]) -> dict[str, Remedy]:
    """By the names of modules, from the verdicts on their functions."""
    remedies = {name: proposed(each) for name, each in verdicts.items()}
    return {name: remedy for name, remedy in remedies.items() if remedy is not None}


def _worst(verdicts: dict[str, Verdict]) -> dict[str, Verdict]:
    """Of the functions of one module."""
    standing = min((v.standing for v in verdicts.values()), key=WORST_FIRST.index)
    return {function: v if v.standing is standing else TRUSTED for function, v in verdicts.items()}


def _summed_up(worst: dict[str, Verdict]) -> Verdict:
    """With the names of the functions it is about."""
    bad = {function: v for function, v in worst.items() if v is not TRUSTED}
    said = [f"{function}: {v.reason or v.standing.value}" for function, v in bad.items()]
    return Verdict(next(iter(bad.values())).standing, "; ".join(said)) if bad else TRUSTED

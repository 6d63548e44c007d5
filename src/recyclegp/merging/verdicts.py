"""What screening says about one module."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ..errors import Argument, Message, Remedy, printable


class InputFactor(NamedTuple):
    """x' = scale·x + shift, for one input."""

    column: str | int  # its name, or its position where it has none
    scale: float
    shift: float = 0.0

    @property
    def name(self) -> str:
        return printable(self.column) if isinstance(self.column, str) else f"input {self.column + 1}"

    @property
    def words(self) -> str:
        scaled = self.name if self.scale == 1 else f"{self.scale:.4g}·{self.name}"
        return scaled if self.shift == 0 else f"{scaled} {'−' if self.shift < 0 else '+'} {abs(self.shift):.4g}"


class Units(NamedTuple):
    """A change of units: scale·f + shift, and of inputs."""

    scale: float = 1.0
    shift: float = 0.0
    inputs: tuple[InputFactor, ...] = ()

    def remedy(self, output: str | None = None) -> Remedy:
        """The change as a call on a module: of this output, where it has several."""
        of_y = {"output_scale": _short(self.scale), "output_shift": _short(self.shift)}
        given: dict[str, float | dict[str, float] | dict[str | int, float]] = {
            name: value if output is None else {output: value}
            for (name, value), usual in zip(of_y.items(), (1.0, 0.0), strict=True)
            if value != usual
        }
        scales = {f.column: f.scale for f in self.inputs if f.scale != 1}
        shifts = {f.column: f.shift for f in self.inputs if f.shift != 0}
        given |= {name: values for name, values in (("input_scale", scales), ("input_shift", shifts)) if values}
        return Remedy("transform", tuple(Argument(name, value) for name, value in given.items()))

    @property
    def back(self) -> Units:
        """The change that undoes it, of f alone."""
        return Units(1 / self.scale, -self.shift / self.scale + 0.0)  # no −0, which would be printed


def _short(value: float) -> float:
    """An estimate, in as many digits as anybody would type."""
    return float(f"{value:.6g}")


class Standing(Enum):
    TRUSTED = "trusted"
    UNCHECKED = "cannot be checked"  # the others know too little of what it says
    FLAGGED = "flagged"  # it contradicts the others


class Verdict(NamedTuple):
    standing: Standing
    reason: str = ""  # for a person
    remedy: Units | None = None  # what would make it agree with the others, where units explain it
    weight: float | None = None  # that it would have, had it been trusted; where it was excluded, or counts less
    share: float = 1.0  # of its weight that it keeps, where it is known to be too sure of itself

    @property
    def flagged(self) -> bool:
        return self.standing is Standing.FLAGGED

    @property
    def undecided(self) -> bool:
        """Modules contradict each other, and nobody can say who is right."""
        return self.standing is Standing.UNCHECKED and self.reason == CONTRADICTION

    @property
    def is_copy(self) -> bool:
        """It is a module that is here under another name."""
        return self.standing is Standing.UNCHECKED and self.reason.startswith(COPY)

    @property
    def is_unexpected(self) -> bool:
        """The others do not expect it to be so sure, and it counts less; its rows may allow it."""
        return self.standing is Standing.UNCHECKED and self.reason.startswith(UNEXPECTED)

    @property
    def is_unseen(self) -> bool:
        """It says far more than most, where the others know too little to check it."""
        return self.standing is Standing.UNCHECKED and UNSEEN in self.reason

    @property
    def moves(self) -> bool:
        """With it, and others who cannot be checked, f would be elsewhere."""
        return self.standing is Standing.UNCHECKED and MOVES in self.reason

    @property
    def moving(self) -> Verdict:
        """The same of a module with which that is so."""
        return self._replace(reason=f"{self.reason}; {MOVES}")

    @property
    def decides_nothing(self) -> bool:
        """It counts as far as it agrees with what the others know, and nothing common is learned from it."""
        return self.is_a_question or self.is_unseen or self.moves

    @property
    def is_doubtful(self) -> bool:
        """It came from elsewhere, and is far too sure of itself beside modules that were fitted here."""
        return self.standing is Standing.UNCHECKED and self.reason.startswith(ELSEWHERE)

    @property
    def is_unknown(self) -> bool:
        """Nobody would notice if it were wrong: the others know too little of what it says."""
        return self.standing is Standing.UNCHECKED and self.reason.startswith(UNKNOWN) and self.remedy is None

    @property
    def is_a_question(self) -> bool:
        """It would agree with the others in other units: its owner should be asked in which unit it is."""
        return self.standing is Standing.UNCHECKED and (self.remedy is not None or QUESTION in self.reason)

    def proposed(self, output: str | None = None) -> Remedy | None:
        """How to turn the module into one that agrees; `output` is what the function is called among several."""
        remedy = None if self.remedy is None else self.remedy.remedy(output)
        return remedy if remedy is not None and remedy.arguments else None

    @property
    def proposal(self) -> str:
        """The same in Python, for a module of one function."""
        return str(self.proposed() or "")

    def explained(self, output: str | None = None) -> Message:
        """The reason, and what would help."""
        remedy = self.proposed(output)
        return Message(self.reason) if remedy is None else Message(self.reason, "; ", remedy)

    @property
    def words(self) -> str:
        return self.standing.value + (f": {self.reason}" if self.reason else "")


def proposed(verdicts: Mapping[str, Verdict]) -> Remedy | None:
    """For a whole module, of the verdicts on its functions by name; where two know other inputs, the first counts."""
    if len(verdicts) == 1:
        return next(iter(verdicts.values())).proposed()
    given: dict[str, dict[str | int, float]] = {}
    for function, verdict in verdicts.items():
        remedy = verdict.proposed(function)
        for argument in () if remedy is None else remedy.arguments:
            given[argument.name] = {**argument.value, **given.get(argument.name, {})}
    return Remedy("transform", tuple(Argument(name, values) for name, values in given.items())) if given else None


COPY = "a copy of"
ELSEWHERE = "it was fitted elsewhere"
UNEXPECTED = "it is overconfident"  # and by which factor
UNSEEN = "than most, which nobody can check"
UNKNOWN = "the others know"  # and how much of what it says
MOVES = "with it f would be elsewhere, where the others know it"
QUESTION = "in which unit is it?"
CONTRADICTION = "they contradict each other, and nobody can say who is right"
TRUSTED = Verdict(Standing.TRUSTED)

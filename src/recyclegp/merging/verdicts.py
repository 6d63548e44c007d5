"""What screening says about one module."""

from __future__ import annotations

import shlex
from enum import Enum
from typing import NamedTuple

from ..errors import printable


class InputFactor(NamedTuple):
    """x' = scale·x + shift, for one input."""

    column: str | int  # its name, or its position where it has none
    scale: float
    shift: float = 0.0

    @property
    def words(self) -> str:
        name = printable(self.column) if isinstance(self.column, str) else f"input {self.column + 1}"
        scaled = name if self.scale == 1 else f"{self.scale:.4g}·{name}"
        return scaled if self.shift == 0 else f"{scaled} {'−' if self.shift < 0 else '+'} {abs(self.shift):.4g}"


class Units(NamedTuple):
    """A change of units: scale·f + shift, and of inputs."""

    scale: float = 1.0
    shift: float = 0.0
    inputs: tuple[InputFactor, ...] = ()

    @property
    def call(self) -> str:
        """In Python, on a module."""
        if not self.inputs:
            return f"transform(output_scale={self.scale:.4g}, output_shift={self.shift:.4g})"
        given = [
            f"{argument}={{{', '.join(f'{column!r}: {value:.10g}' for column, value in values.items())}}}"
            for argument, values in self._by_column.items()
        ]
        return f"transform({', '.join(given)})"

    def command(self, file: str) -> str:
        """On the command line, for the file of a module; nothing where the inputs have no names."""
        if any(isinstance(f.column, int) for f in self.inputs):
            return ""
        options = [
            f"--{argument.replace('_', '-')} {shlex.quote(f'{column}={value:.10g}')}"
            for argument, values in self._by_column.items()
            for column, value in values.items()
        ]
        if not self.inputs:
            options = [f"--output-scale {self.scale:.6g}", f"--output-shift {self.shift:.6g}"]
        new = f"{file.removesuffix('.safetensors')}-new.safetensors"
        return f"recyclegp transform {shlex.quote(file)} {' '.join(options)} -o {shlex.quote(new)}"

    @property
    def _by_column(self) -> dict[str, dict[str | int, float]]:
        """Arguments of transform that are not as they would be anyway."""
        scales = {f.column: f.scale for f in self.inputs if f.scale != 1}
        shifts = {f.column: f.shift for f in self.inputs if f.shift != 0}
        return {name: values for name, values in (("input_scale", scales), ("input_shift", shifts)) if values}

    @property
    def back(self) -> Units:
        """The change that undoes it, of f alone."""
        return Units(1 / self.scale, -self.shift / self.scale + 0.0)  # no −0, which would be printed


class Standing(Enum):
    TRUSTED = "trusted"
    UNCHECKED = "cannot be checked"  # the others know too little of what it says
    FLAGGED = "flagged"  # it contradicts the others


class Verdict(NamedTuple):
    standing: Standing
    reason: str = ""  # for a person
    remedy: Units | None = None  # what would make it agree with the others, where units explain it
    weight: float | None = None  # that it would have, had it been trusted; where it was disarmed

    @property
    def flagged(self) -> bool:
        return self.standing is Standing.FLAGGED

    @property
    def elsewhere(self) -> bool:
        """Is it not known whether it is right, and would it agree in other units?"""
        return self.standing is Standing.UNCHECKED and self.remedy is not None

    @property
    def explained(self) -> str:
        """The reason, and what would help."""
        return f"{self.reason}; {self.proposal}" if self.proposal else self.reason

    @property
    def proposal(self) -> str:
        """How to turn a module with the remedy into one that agrees."""
        return "" if self.remedy is None else self.remedy.call

    def command(self, file: str) -> str:
        """The same on the command line, for the file of the module."""
        return "" if self.remedy is None else self.remedy.command(file)

    @property
    def words(self) -> str:
        return self.standing.value + (f": {self.reason}" if self.reason else "")


TRUSTED = Verdict(Standing.TRUSTED)

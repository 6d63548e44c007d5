"""What y means: words that travel with a module, so that those who merge can notice a misunderstanding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .errors import Argument, Message, RecycleGPError, Remedy

LONGEST = 200  # characters of a word


@dataclass(frozen=True)
class Target:
    """All of it is optional; what is not known cannot contradict."""

    name: str | None = None  # of the column
    unit: str | None = None
    labels: tuple[str | None, str | None] | None = None  # of classes 0 and 1

    def __post_init__(self) -> None:
        words = [("target", self.name), ("unit", self.unit), *(("labels", label) for label in self.labels or ())]
        for argument, word in words:
            if word is None:
                continue
            if not isinstance(word, str):
                raise TypeError(f"{argument} must be text, not {type(word).__name__}")
            if not word or len(word) > LONGEST or not word.isprintable():
                raise RecycleGPError(Argument(argument, word[:50]), f"; use 1 to {LONGEST} printable characters")
        if self.labels is not None and self.labels[0] == self.labels[1]:
            raise RecycleGPError(
                Argument("labels", self.labels), "; give two different ones, of class 0 and of class 1"
            )

    @property
    def known(self) -> bool:
        return not (self.name is None and self.unit is None and self.labels is None)

    def in_units(self, scale: float, shift: float, unit: str | None) -> Target:
        """Of scale·y + shift, which is measured in `unit`: without one, nobody knows in what."""
        changed = (scale, shift) != (1.0, 0.0) or unit is not None
        return replace(self, unit=unit) if changed else self

    def __str__(self) -> str:
        said = [self.name or "", f"in {self.unit}" if self.unit else ""]
        if self.labels is not None:
            said.append(f"{self.labels[1] or 'class 1'} against {self.labels[0] or 'the rest'}")
        return " ".join(word for word in said if word)


NO_TARGET = Target()  # nobody has said anything


def target_name(y: Any) -> str | None:
    """The name of a pandas Series, or of the one column of a DataFrame."""
    own, columns = getattr(y, "name", None), list(getattr(y, "columns", []))
    own = columns[0] if own is None and len(columns) == 1 else own
    fits = isinstance(own, str) and 0 < len(own) <= LONGEST and own.isprintable()
    return own if fits else None


def described(y: Any, name: str | None, unit: str | None, labels: Any) -> Target:
    """From what a user says, and from the name y has of its own."""
    name = target_name(y) if name is None else name
    if labels is not None:
        words = () if isinstance(labels, str) else tuple(labels)
        if len(words) != 2:
            raise RecycleGPError(Argument("labels", labels), "; give two, of class 0 and of class 1")
        labels = words
    return Target(name, unit, labels)


UNITS = ("output_scale", "output_shift", "unit")  # arguments of transform that change those of y


def contradiction(a: Target, b: Target) -> Message | None:
    """Why two targets cannot be one quantity, if so: in words, with the remedy."""
    if a.labels is not None and b.labels is not None:
        (a0, a1), (b0, b1) = a.labels, b.labels
        swapped = (a1 is not None and a1 == b0) or (b1 is not None and b1 == a0)
        if swapped or (a1 is not None and b1 is not None and a1 != b1):
            return Message(
                f"class 1 is {a1 or 'not ' + str(a0)!r} for one and {b1 or 'not ' + str(b0)!r} for the other; fit one "
                "of them again with the same class as 1"
            )
    if a.unit is not None and b.unit is not None and a.unit != b.unit:
        return Message(
            f"y is in {a.unit!r} for one and in {b.unit!r} for the other; change one with ",
            Remedy("transform", tuple(Argument(name) for name in UNITS)),
        )
    return None

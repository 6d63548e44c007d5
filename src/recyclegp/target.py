"""What y means: words that travel with a module, so that those who merge can notice a misunderstanding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from .errors import Argument, Message, RecycleGPError, Remedy

LONGEST = 200  # characters of a word
MOST_FUNCTIONS = 256  # of a model


class _Words(NamedTuple):
    name: str | None  # of the column
    unit: str | None
    labels: tuple[str | None, str | None] | None  # of classes 0 and 1


class Target(_Words):
    """All of it is optional; what is not known cannot contradict."""

    __slots__ = ()

    def __new__(
        cls, name: str | None = None, unit: str | None = None, labels: tuple[str | None, str | None] | None = None
    ) -> Self:
        words = [("target", name), ("unit", unit), *(("labels", label) for label in labels or ())]
        for argument, word in words:
            if word is None:
                continue
            if not isinstance(word, str):
                raise TypeError(f"{argument} must be text, not {type(word).__name__}")
            if not word or len(word) > LONGEST or not word.isprintable():
                raise RecycleGPError(Argument(argument, word[:50]), f"; use 1 to {LONGEST} printable characters")
        if labels is not None and labels[0] == labels[1]:
            raise RecycleGPError(Argument("labels", labels), "; give two different ones, of class 0 and of class 1")
        return super().__new__(cls, name, unit, labels)

    @property
    def known(self) -> bool:
        return not (self.name is None and self.unit is None and self.labels is None)

    def in_units(self, scale: float, shift: float, unit: str | None) -> Target:
        """Of scale·y + shift, which is measured in `unit`: without one, nobody knows in what."""
        changed = (scale, shift) != (1.0, 0.0) or unit is not None
        return Target(self.name, unit, self.labels) if changed else self

    def __str__(self) -> str:
        named = self.unit is not None and self.name is not None and with_unit(self.name, self.unit) == self.name
        said = [self.name or "", f"in {self.unit}" if self.unit and not named else ""]
        if self.labels is not None:
            said.append(f"{self.labels[1] or 'class 1'} against {self.labels[0] or 'the rest'}")
        return " ".join(word for word in said if word)


def with_unit(name: str, unit: str | None) -> str:
    """For an axis, once: names of columns often have the unit already."""
    return name if unit is None or name.endswith((f"({unit})", f"[{unit}]")) else f"{name} ({unit})"


NO_TARGET = Target()  # nobody has said anything


def check_names(names: Sequence[Any], what: str) -> None:
    """Of functions: text that can be printed, each its own."""
    for name in names:
        if not isinstance(name, str) or not name or len(name) > LONGEST or not name.isprintable():
            raise RecycleGPError(f"{what} is called {str(name)[:50]!r}; use 1 to {LONGEST} printable characters")
    if len(set(names)) < len(names) or not 1 <= len(names) <= MOST_FUNCTIONS:
        raise RecycleGPError(f"{len(names)} names for {what} each; give 1 to {MOST_FUNCTIONS} that are different")


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


def united(said: Iterable[Target]) -> Target:
    """What several say together, who may not all say everything; nothing where they disagree."""
    words = zip(*((t.name, t.unit, *(t.labels or (None, None))) for t in (NO_TARGET, *said)), strict=True)
    each = [{word for word in some if word is not None} for some in words]
    if any(len(found) > 1 for found in each):
        return NO_TARGET
    name, unit, zero, one = (next(iter(found), None) for found in each)
    if zero is None and one is None:
        return Target(name, unit)
    return NO_TARGET if zero == one else Target(name, unit, (zero, one))


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

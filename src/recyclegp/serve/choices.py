"""What somebody has chosen on the page: which modules count, and in which units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import arrays
from ..errors import RecycleGPError
from ..models.module import Module

FIELDS = ("output_scale", "output_shift", "input_scale", "input_shift", "unit")


@dataclass(frozen=True)
class Change:
    """Of units: s·f((x − shift)/scale) + b, as `Module.transform` takes it."""

    output_scale: float = 1.0
    output_shift: float = 0.0
    input_scale: tuple[float, ...] = ()  # none, or one for each input column
    input_shift: tuple[float, ...] = ()
    unit: str | None = None

    def of(self, module: Module) -> Module:
        if self == NO_CHANGE:
            return module
        try:
            return module.transform(
                input_scale=self.input_scale or None,
                input_shift=self.input_shift or None,
                output_scale=self.output_scale,
                output_shift=self.output_shift,
                unit=self.unit,
            )
        except RecycleGPError as refused:
            raise RecycleGPError(f"units of {module.name!r}: {refused}") from None


NO_CHANGE = Change()


@dataclass(frozen=True)
class Choice:
    """Positions of the modules that count, and changes of units, of those alone that have one."""

    on: tuple[int, ...]
    changes: tuple[tuple[int, Change], ...] = ()

    def change(self, position: int) -> Change:
        return dict(self.changes).get(position, NO_CHANGE)

    @property
    def counted(self) -> Choice:
        """The same without changes of modules that do not count."""
        return Choice(self.on, tuple((i, c) for i, c in self.changes if i in self.on))

    def of_all(self, count: int) -> Choice:
        """Everybody, in the same units."""
        return Choice(tuple(range(count)), self.changes)


def everybody(count: int) -> Choice:
    """All modules, as they were sent."""
    return Choice(tuple(range(count)))


def from_json(given: Any, modules: Sequence[Module]) -> Choice:
    """What the page has sent, checked."""
    if not isinstance(given, Mapping):
        raise RecycleGPError("choice: send an object with off and units")
    off, units = given.get("off", []), given.get("units", {})
    if not isinstance(off, list) or not isinstance(units, Mapping):
        raise RecycleGPError("choice: off must be a list of positions, and units an object by position")
    gone = {_position(i, len(modules)) for i in off}
    changes = {_position(i, len(modules)): c for i, c in units.items()}
    made = ((i, _change(c, modules[i].dimension)) for i, c in sorted(changes.items()))
    return Choice(
        tuple(i for i in range(len(modules)) if i not in gone), tuple((i, c) for i, c in made if c != NO_CHANGE)
    )


def _position(given: Any, count: int) -> int:
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 10:  # keys of JSON are text
        given = int(given)
    if type(given) is not int or not 0 <= given < count:
        raise RecycleGPError(f"choice: there is no module at {str(given)[:20]!r}; there are {count}")
    return given


def _change(given: Any, dimension: int) -> Change:
    if not isinstance(given, Mapping) or not set(given) <= set(FIELDS):
        raise RecycleGPError(f"units: send an object with {', '.join(FIELDS)}")
    unit = given.get("unit")
    if unit is not None and not isinstance(unit, str):
        raise RecycleGPError("unit must be text")
    return Change(
        _number(given.get("output_scale", 1.0), "output_scale"),
        _number(given.get("output_shift", 0.0), "output_shift"),
        _each(given, "input_scale", 1.0, dimension),
        _each(given, "input_shift", 0.0, dimension),
        unit or None,
    )


def _each(given: Mapping[str, Any], name: str, usual: float, dimension: int) -> tuple[float, ...]:
    """One number for each input column; none where all are as usual."""
    numbers = given.get(name) or []
    if not isinstance(numbers, list) or len(numbers) not in (0, dimension):
        raise RecycleGPError(f"{name}: send one number for each of the {dimension} input columns")
    found = tuple(_number(n, name) for n in numbers)
    return found if any(n != usual for n in found) else ()


def _number(given: Any, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or abs(given) > arrays.LARGEST:
        raise RecycleGPError(f"{name} must be a number of ordinary size")
    return arrays.number(given, name)

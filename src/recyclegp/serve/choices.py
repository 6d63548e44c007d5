"""What somebody has chosen on the page: which modules count, and in which units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import arrays
from ..errors import RecycleGPError
from ..models.model import squeezed
from ..models.module import Module

FIELDS = ("output_scale", "output_shift", "input_scale", "input_shift", "unit")


@dataclass(frozen=True)
class Change:
    """Of units: s·f((x − shift)/scale) + b, as `Module.transform` takes it."""

    output_scale: tuple[float, ...] = ()  # none, or one for each output
    output_shift: tuple[float, ...] = ()
    input_scale: tuple[float, ...] = ()  # none, or one for each input column
    input_shift: tuple[float, ...] = ()
    unit: tuple[str | None, ...] = ()

    def of(self, module: Module) -> Module:
        if self == NO_CHANGE:
            return module
        try:
            return module.transform(
                input_scale=self.input_scale or None,
                input_shift=self.input_shift or None,
                output_scale=squeezed(self.output_scale or (1.0,)),
                output_shift=squeezed(self.output_shift or (0.0,)),
                unit=squeezed(self.unit or (None,)),
            )
        except RecycleGPError as refused:
            raise RecycleGPError(f"units of {module.name!r}: ", refused) from None


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
    made = ((i, _change(c, modules[i])) for i, c in sorted(changes.items()))
    on = tuple(i for i in range(len(modules)) if i not in gone)
    return Choice(on, tuple((i, c) for i, c in made if c != NO_CHANGE))


def _position(given: Any, count: int) -> int:
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 10:  # keys of JSON are text
        given = int(given)
    if type(given) is not int or not 0 <= given < count:
        raise RecycleGPError(f"choice: there is no module at {str(given)[:20]!r}; there are {count}")
    return given


def outputs_of(module: Module) -> tuple[str, ...]:
    """Whose units can be changed one by one, by name; of one y its name does not matter."""
    whole = module.likelihoods[0]
    return whole.functions if whole.predicts_all and not whole.classifies else ("y",)


def _change(given: Any, module: Module) -> Change:
    if not isinstance(given, Mapping) or not set(given) <= set(FIELDS):
        raise RecycleGPError(f"units: send an object with {', '.join(FIELDS)}")
    outputs, inputs = (len(outputs_of(module)), "outputs"), (module.dimension, "input columns")
    units = _listed(given, "unit", *outputs)
    if not all(unit is None or isinstance(unit, str) for unit in units):
        raise RecycleGPError("unit must be text")
    return Change(
        _numbers(given, "output_scale", 1.0, *outputs),
        _numbers(given, "output_shift", 0.0, *outputs),
        _numbers(given, "input_scale", 1.0, *inputs),
        _numbers(given, "input_shift", 0.0, *inputs),
        tuple(unit or None for unit in units) if any(units) else (),
    )


def _listed(given: Mapping[str, Any], name: str, count: int, of: str) -> list[Any]:
    """One value for each of them, or none; one alone needs no list."""
    found = [] if given.get(name) is None else given[name]
    found = [found] if count == 1 and not isinstance(found, list) else found
    if not isinstance(found, list) or len(found) not in (0, count):
        raise RecycleGPError(f"{name}: send one number for each of the {count} {of}")
    return found


def _numbers(given: Mapping[str, Any], name: str, usual: float, count: int, of: str) -> tuple[float, ...]:
    """None where all are as usual."""
    found = _listed(given, name, count, of)
    for n in found:
        if isinstance(n, bool) or not isinstance(n, (int, float)) or not abs(n) <= arrays.LARGEST:
            raise RecycleGPError(f"{name} must be a number of ordinary size")
    return tuple(map(float, found)) if any(n != usual for n in found) else ()

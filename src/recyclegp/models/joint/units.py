"""Changes of the units of y as users write them, for each of several functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ... import arrays
from ...errors import RecycleGPError
from .links import Link, Outputs, VaryingNoise


class Change(NamedTuple):
    """y becomes scale·y + shift."""

    scale: float = 1.0
    shift: float = 0.0
    unit: str | None = None  # of y afterwards, if that is to be said


def changes_of(link: Link, scale: Any, shift: Any, unit: Any) -> list[Change]:
    """One for each function."""
    if isinstance(link, Outputs):
        scales = [arrays.number(s, "output_scale") for s in _each(link, scale, "output_scale", 1.0)]
        shifts = [arrays.number(b, "output_shift") for b in _each(link, shift, "output_shift", 0.0)]
        return [Change(*new) for new in zip(scales, shifts, _each(link, unit, "unit", None), strict=True)]
    for argument, value in (("output_scale", scale), ("output_shift", shift), ("unit", unit)):
        if isinstance(value, Mapping):
            raise RecycleGPError(f"{argument}: only outputs have names, and this model has {link.kind}; give one value")
    s, b = arrays.number(scale, "output_scale"), arrays.number(shift, "output_shift")
    if isinstance(link, VaryingNoise):
        if s == 0:
            raise RecycleGPError(f"output_scale={scale}; pass a number that is not zero")
        return [Change(s, b, unit), Change(1.0, 2 * math.log(abs(s)), unit)]  # e^g is a variance
    if (s, b, unit) != (1.0, 0.0, None):
        raise RecycleGPError(
            f"output_scale, output_shift and unit do not apply to {link.kind}; leave them out, at 1 and 0"
        )
    return [Change()] * len(link.names)


def _each(link: Outputs, given: Any, argument: str, usual: Any) -> list[Any]:
    """One value for all outputs, one for each, or those of some by name."""
    names = link.names
    if isinstance(given, Mapping):
        unknown = [str(key) for key in given if key not in names]
        if unknown:
            raise RecycleGPError(f"{argument}: no output {', '.join(unknown)}; there are {', '.join(names)}")
        return [given.get(name, usual) for name in names]
    if not arrays.are_several(given):
        return [given] * len(names)
    found = np.asarray(given).tolist()
    if len(found) != len(names):
        raise RecycleGPError(
            f"{argument} has {len(found)} values for {len(names)} outputs; give one, one each, or a dict by output"
        )
    return list(found)

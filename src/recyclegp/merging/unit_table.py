"""Changes of units that people make: of y, and of inputs."""

from __future__ import annotations

import math
from typing import NamedTuple


class KnownChange(NamedTuple):
    """x' = scale·x + shift."""

    scale: float
    shift: float = 0.0


POWERS_OF_TEN = (10.0, 100.0, 1e3, 1e6)
FACTORS = (
    2.54,  # cm in an inch
    3.28084,  # feet in a metre
    1.609344,  # km in a mile
    2.204623,  # pounds in a kg
    7.500617,  # mmHg in a kPa
    4.184,  # kJ in a kcal
    12.0,  # months in a year, inches in a foot
    24.0,
    60.0,
    365.25,
    3600.0,
    18.016,  # mg/dL in a mmol/L of glucose
    38.67,  # likewise of cholesterol
    88.42,  # µmol/L in a mg/dL of creatinine
)
AFFINE = (
    KnownChange(1.8, 32.0),  # °C to °F
    KnownChange(1 / 1.8, -32 / 1.8),
    KnownChange(1.0, 273.15),  # °C to K
    KnownChange(1.0, -273.15),
)
DECIMAL = tuple(KnownChange(f) for ten in POWERS_OF_TEN for f in (ten, 1 / ten))  # the most frequent of them
KNOWN = (*DECIMAL, *(KnownChange(f) for factor in FACTORS for f in (factor, 1 / factor)), *AFFINE)
OF_LOGARITHMS = tuple(KnownChange(1.0, math.log(c.scale)) for c in KNOWN if c.shift == 0)  # the same, of f = log y

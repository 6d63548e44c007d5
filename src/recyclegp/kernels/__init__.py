"""Kernels as frozen values: composed of typed nodes, evaluated, compared, pooled and rescaled as such.

`kernel.py` is where to begin. GPyTorch's objects come in and go out in `gpytorch_objects.py`; JSON is for files only
(`file_form.py`).
"""

from .kernel import Kernel, continuous_columns, entries, knows_its_level, learned, numeric_columns, parameters, stacked
from .nodes import Node, Parameter, Unit
from .parsing import NAMES, parse
from .pooling import pool, weighted_median

__all__ = [
    "NAMES",
    "Kernel",
    "Node",
    "Parameter",
    "Unit",
    "continuous_columns",
    "entries",
    "knows_its_level",
    "learned",
    "numeric_columns",
    "parameters",
    "parse",
    "pool",
    "stacked",
    "weighted_median",
]

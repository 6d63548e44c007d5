"""Kernels as frozen values: composed of typed nodes, evaluated, compared, pooled and rescaled as such.

`kernel.py` is where to begin. GPyTorch's objects come in and go out in `gpytorch_objects.py`; JSON is for files only
(`file_form.py`).
"""

from .kernel import (
    Kernel,
    continuous_columns,
    entries,
    knows_its_level,
    learned,
    numeric_columns,
    parameters,
    pool,
    weighted_median,
)
from .nodes import Node, Parameter, Unit
from .parsing import DEFAULT as DEFAULT_KERNEL
from .parsing import NAMES, parse

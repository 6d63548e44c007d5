"""Partitions of one's own data, fitted where they lie and merged: on a Dask cluster, or on the cores of one machine.

`engines.dask` and `engines.joblib` differ in who runs the tasks, and in nothing else: `fitting` is what both do.
`engines.flower` is for rows of others: rounds between owners, as apps of Flower.
"""

import importlib
from typing import Any

__all__ = ["dask", "flower", "joblib"]


def __getattr__(name: str) -> Any:
    """Nothing of Dask, joblib or Flower is imported until somebody asks for it."""
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

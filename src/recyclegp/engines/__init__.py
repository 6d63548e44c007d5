"""Partitions of one's own data, fitted where they lie and merged: on a Dask cluster, or on the cores of one machine.

`engines.dask` and `engines.joblib` differ in who runs the tasks, and in nothing else: `fitting` is what both do.
"""

import importlib
from typing import Any

__all__ = ["dask", "joblib"]


def __getattr__(name: str) -> Any:
    """Nothing of Dask or joblib is imported until somebody asks for it."""
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

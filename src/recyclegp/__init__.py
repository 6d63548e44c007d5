"""recyclegp: merge fitted Gaussian processes into one, without revisiting any data."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

from .errors import RecycleGPError, RecycleGPWarning

if TYPE_CHECKING:
    from . import plot
    from .ensemble import Ensemble
    from .files import load
    from .fitting import fit, fit_many
    from .interop.gpflow import from_gpflow
    from .interop.gpjax import from_gpjax
    from .interop.gpytorch import from_gpytorch
    from .interop.scikit_learn import from_sklearn
    from .merging import merge
    from .module import Module

__version__ = "0.1.0"

# Where each public name lives: nothing heavy (torch takes seconds) is imported until one is used.
_HOMES = {
    "Ensemble": ".ensemble",
    "Module": ".module",
    "fit": ".fitting",
    "fit_many": ".fitting",
    "from_gpflow": ".interop.gpflow",
    "from_gpjax": ".interop.gpjax",
    "from_gpytorch": ".interop.gpytorch",
    "from_sklearn": ".interop.scikit_learn",
    "load": ".files",
    "merge": ".merging",
}
_ROOMS = ("plot",)  # public submodules, imported when first used

__all__ = [
    "Ensemble",
    "Module",
    "RecycleGPError",
    "RecycleGPWarning",
    "__version__",
    "fit",
    "fit_many",
    "from_gpflow",
    "from_gpjax",
    "from_gpytorch",
    "from_sklearn",
    "load",
    "merge",
    "plot",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""recyclegp: merge fitted Gaussian processes into one, without revisiting any data."""

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import engines, metrics, plot
    from .errors import RecycleGPError, RecycleGPWarning
    from .interop.gpflow import from_gpflow
    from .interop.gpjax import from_gpjax
    from .interop.gpytorch import from_gpytorch
    from .interop.scikit_learn import from_sklearn
    from .local.options import FitOptions, Inference, Naming, Publishing
    from .models.answer import Answer
    from .models.calibration import Calibrated, calibrate
    from .models.dictionary import Dictionary
    from .models.ensemble import Ensemble
    from .models.fit import FitManyError, fit, fit_many
    from .models.load import load, load_many
    from .models.merge import merge
    from .models.module import Module
    from .models.modules import Modules
    from .models.plan import Plan
    from .models.privacy import Privacy
    from .models.rounds import rounds
    from .models.screening import Screening, screen
    from .models.secure_answers import SecureSum, join_sum, secure_round
    from .storage.calibration import Calibration

# Where each public name lives: nothing (torch takes seconds) is imported until one is used.
_HOMES = {
    "Answer": ".models.answer",
    "Calibrated": ".models.calibration",
    "Calibration": ".storage.calibration",
    "Dictionary": ".models.dictionary",
    "Ensemble": ".models.ensemble",
    "FitManyError": ".models.fit",
    "FitOptions": ".local.options",
    "Inference": ".local.options",
    "Module": ".models.module",
    "Modules": ".models.modules",
    "Naming": ".local.options",
    "Plan": ".models.ensemble",
    "Privacy": ".models.privacy",
    "Publishing": ".local.options",
    "RecycleGPError": ".errors",
    "RecycleGPWarning": ".errors",
    "SecureSum": ".models.secure_answers",
    "calibrate": ".models.calibration",
    "fit": ".models.fit",
    "fit_many": ".models.fit",
    "from_gpflow": ".interop.gpflow",
    "from_gpjax": ".interop.gpjax",
    "from_gpytorch": ".interop.gpytorch",
    "from_sklearn": ".interop.scikit_learn",
    "join_sum": ".models.secure_answers",
    "load": ".models.load",
    "load_many": ".models.load",
    "merge": ".models.merge",
    "rounds": ".models.rounds",
    "screen": ".models.screening",
    "secure_round": ".models.secure_answers",
    "Screening": ".models.screening",
}
_ROOMS = ("engines", "metrics", "plot")  # public submodules, imported when first used

__all__ = [
    "Answer",
    "Calibrated",
    "Calibration",
    "Dictionary",
    "Ensemble",
    "FitManyError",
    "FitOptions",
    "Inference",
    "Module",
    "Modules",
    "Naming",
    "Plan",
    "Privacy",
    "Publishing",
    "RecycleGPError",
    "RecycleGPWarning",
    "Screening",
    "SecureSum",
    "__version__",
    "calibrate",
    "engines",
    "fit",
    "fit_many",
    "from_gpflow",
    "from_gpjax",
    "from_gpytorch",
    "from_sklearn",
    "join_sum",
    "load",
    "load_many",
    "merge",
    "metrics",
    "plot",
    "rounds",
    "screen",
    "secure_round",
]


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

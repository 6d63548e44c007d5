"""scikit-learn's exact GP on many small data sets, spread over processes by joblib."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

Part = tuple[np.ndarray, np.ndarray]


class Crowd:
    """Worker processes of one thread each, started before the clock is."""

    def __init__(self, processes: int) -> None:
        import joblib
        import sklearn  # noqa: F401  (to fail here if it is missing)

        self._joblib, self._processes = joblib, processes

    def fit(self, parts: Sequence[Part]) -> list[float]:
        """Log marginal likelihood of each y, in its own units."""
        joblib = self._joblib
        # without this a worker would inherit the parent's thread count, and all of them fight over the cores
        with joblib.parallel_config(backend="loky", n_jobs=self._processes, inner_max_num_threads=1):
            return joblib.Parallel()(joblib.delayed(one)(X, y) for X, y in parts)


def one(X: np.ndarray, y: np.ndarray) -> float:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel: Any = ConstantKernel() * RBF() + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # flat data: a parameter meets its bound
        model.fit((X - X.mean(0)) / X.std(0), y)
    return float(model.log_marginal_likelihood_value_ - len(y) * np.log(y.std()))

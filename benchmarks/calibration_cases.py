"""One case of benchmarks/where_merging_loses.py: a function, rows of it, their owners, and what a merge makes of them.

Rows depend on seed and D alone, and the noise is one draw at two scales: neighbouring figures differ by how the rows
are divided, not by luck.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import recyclegp as rgp
from recyclegp.baselines import central
from recyclegp.baselines.mapreduce import mapreduce
from recyclegp.baselines.rival import module_bytes

FEATURES = 3000  # of which a function is a sum: as good as a draw from the GP
TEST_POINTS = 1000
ALONE = 20  # modules that are also asked alone
LENGTHSCALE_1D = 0.3  # elsewhere sqrt(D), which would be almost a straight line here
ROUNDS_POINTS = 200  # of the sparse GP that is fitted in rounds
SCORED = ("nlpd", "coverage", "rmse", "believed", "alone", "published", "bytes", "points")
QUANTILE = NormalDist().inv_cdf(0.975)

Part = tuple[np.ndarray, np.ndarray]


class Setting(NamedTuple):
    """Everything about the rows but who owns them."""

    dimension: int
    noise: float  # standard deviation
    seed: int
    total: int  # rows of all owners together


class Cut(NamedTuple):
    """Who owns which rows."""

    rows: int  # each owner's
    owners: str  # "random" or "adjoining"


class Drawn(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    f_test: np.ndarray  # without the noise


class Merged(NamedTuple):
    """A merge of one setting, cut in one way. Numbers that are not known are None."""

    dimension: int
    noise: float
    seed: int
    rows: int
    owners: str
    nlpd: float | None
    coverage: float | None  # share of y inside the central 95% interval
    rmse: float | None  # of the mean, against f
    believed: float | None  # standard deviation of the noise
    alone: float | None  # NLPD of single modules, the mean over some of them
    published: float | None  # points of a module, in the mean
    bytes: float | None  # that leave an owner, in the mean
    points: int | None  # of the ensemble
    warned: int  # warnings of the library's
    failed: str  # why there is no merge; empty otherwise
    seconds: float


class Reference(NamedTuple):
    """The exact GP on all rows in one place, with learned hyperparameters."""

    dimension: int
    noise: float
    seed: int
    nlpd: float
    coverage: float
    rmse: float
    believed: float


class Rounds(NamedTuple):
    """A sparse GP on everybody's rows, which stay where they are: owners answer in many rounds."""

    dimension: int
    noise: float
    seed: int
    nlpd: float
    coverage: float
    rmse: float
    believed: float
    rounds: int
    bytes: float  # that leave an owner


def draw(setting: Setting) -> Drawn:
    """A GP of unit variance on [-1, 1]^D, RBF kernel, by random Fourier features."""
    D, noise, seed, total = setting
    rng = np.random.default_rng([seed, D])
    frequencies = rng.standard_normal((D, FEATURES)) / (LENGTHSCALE_1D if D == 1 else D**0.5)
    phases, weights = rng.uniform(0, 2 * np.pi, FEATURES), rng.standard_normal(FEATURES)
    X = rng.uniform(-1, 1, (TEST_POINTS + total, D))
    f = np.cos(X @ frequencies + phases) @ weights * (2 / FEATURES) ** 0.5
    y = f + noise * rng.standard_normal(len(f))
    return Drawn(X[TEST_POINTS:], y[TEST_POINTS:], X[:TEST_POINTS], y[:TEST_POINTS], f[:TEST_POINTS])


def divide(drawn: Drawn, cut: Cut) -> list[Part]:
    """Rows come at random; adjoining owners have them by the first input."""
    order = np.argsort(drawn.X[:, 0]) if cut.owners == "adjoining" else np.arange(len(drawn.y))
    return [(drawn.X[i], drawn.y[i]) for i in np.array_split(order, len(order) // cut.rows)]


def sensible(cut: Cut, total: int) -> bool:
    """One owner alone has nobody to merge with."""
    return total // cut.rows >= 2


def merged(setting: Setting, cut: Cut, publish: int | str) -> Merged:
    """Fit, merge, ask. A failure of the library's is a result, too."""
    drawn, begun = draw(setting), time.perf_counter()
    found: dict[str, Any] = dict.fromkeys(SCORED)
    failed = ""
    with counted_warnings() as said:
        try:
            found = fit_and_merge(divide(drawn, cut), drawn, publish if publish == "auto" else min(cut.rows, publish))
        except rgp.RecycleGPError as error:
            failed = str(error)
    seconds = round(time.perf_counter() - begun, 2)
    where = {"dimension": setting.dimension, "noise": setting.noise, "seed": setting.seed, **cut._asdict()}
    return Merged(**where, **found, warned=len(said), failed=failed, seconds=seconds)


def fit_and_merge(parts: list[Part], drawn: Drawn, publish: int | str) -> dict[str, Any]:
    modules = rgp.fit_many(parts, names=[f"owner-{k}" for k in range(len(parts))], publish=publish, progress=False)
    ensemble = rgp.merge(modules)
    asked = modules[:: -(-len(modules) // ALONE)]
    return {
        **scores(ensemble, drawn),
        "alone": float(np.mean([nlpd(m, drawn) for m in asked])),
        "published": float(np.mean([len(m.inducing) for m in modules])),
        "bytes": float(np.mean([module_bytes(m) for m in modules])),
        "points": len(ensemble.inducing),
    }


def reference(setting: Setting) -> Reference:
    drawn = draw(setting)
    with counted_warnings():
        exact = central.exact([(drawn.X, drawn.y)], rows=setting.total)
    return Reference(setting.dimension, setting.noise, setting.seed, **scores(exact, drawn))


def rounds(setting: Setting, cut: Cut) -> Rounds:
    drawn = draw(setting)
    with counted_warnings():
        found = mapreduce(divide(drawn, cut), inducing=min(ROUNDS_POINTS, setting.total))
    where = (setting.dimension, setting.noise, setting.seed)
    return Rounds(*where, **scores(found, drawn), rounds=found.rounds, bytes=found.bytes_sent())


def scores(model: Any, drawn: Drawn) -> dict[str, float]:
    (mean, variance), (_, latent) = model.predict_y(drawn.X_test), model.predict(drawn.X_test)
    return {
        "nlpd": nlpd(model, drawn),
        "coverage": float(np.mean(np.abs(drawn.y_test - mean) <= QUANTILE * np.sqrt(variance))),
        "rmse": float(np.sqrt(np.mean((mean - drawn.f_test) ** 2))),
        "believed": float(np.sqrt(np.mean(variance - latent))),
    }


def nlpd(model: Any, drawn: Drawn) -> float:
    return float(-model.log_density(drawn.X_test, drawn.y_test).mean())


@contextmanager
def counted_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """The library's, collected instead of shown."""
    with warnings.catch_warnings(record=True) as all_of_them:
        warnings.simplefilter("always")
        ours: list[warnings.WarningMessage] = []
        yield ours
    ours += [w for w in all_of_them if issubclass(w.category, rgp.RecycleGPWarning)]

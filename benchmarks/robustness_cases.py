"""One trial of benchmarks/robustness.py: honest owners of one function, some modules spoiled, and what comes of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import recyclegp as rgp
from calibration_cases import FEATURES, LENGTHSCALE_1D
from recyclegp.baselines.committee import module_experts
from recyclegp.core.sites import weighted

TEST_POINTS = 1000
NOISE = 0.1  # standard deviation; that of f is 1
ROWS = {1: 40, 4: 80}  # of each owner, by the number of inputs
RULES = ("poe", "gpoe", "rbcm")
SURE = 100.0  # times too small a variance

Part = tuple[np.ndarray, np.ndarray]


class Trial(NamedTuple):
    owners: int
    dimension: int
    kind: str  # how modules are bad
    bad: int  # of the owners' modules
    seed: int


class Outcome(NamedTuple):
    """NLPD of y at new points, in nats, and who was found."""

    owners: int
    dimension: int
    kind: str
    bad: int
    seed: int
    clean: float  # a merge of the honest modules alone
    trusting: float  # of all, trust=None
    screened: float  # of all, trust="learn"
    poe: float
    gpoe: float
    rbcm: float
    found: int  # bad modules that were flagged
    accused: int  # honest modules that were flagged
    reasons: list[str]
    seconds: float


class Function:
    """A GP of unit variance on [-1, 1]^D, RBF kernel, by random Fourier features."""

    def __init__(self, dimension: int, *seed: int) -> None:
        rng = np.random.default_rng([dimension, *seed])
        scale = LENGTHSCALE_1D if dimension == 1 else dimension**0.5
        self.frequencies = rng.standard_normal((dimension, FEATURES)) / scale
        self.phases, self.weights = rng.uniform(0, 2 * np.pi, FEATURES), rng.standard_normal(FEATURES)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.cos(X @ self.frequencies + self.phases) @ self.weights * (2 / FEATURES) ** 0.5


Spoiled = Callable[[Part, Trial, int], np.ndarray]  # other y of an owner's rows

SPOILED: dict[str, Spoiled] = {
    "shifted": lambda part, trial, k: part[1] + (0.5 if k % 2 else -0.5),
    "scaled": lambda part, trial, k: 1.8 * part[1],
    "other units": lambda part, trial, k: 1.8 * part[1] + 32,
    "sign-flipped": lambda part, trial, k: -part[1],
    "random": lambda part, trial, k: _of(Function(trial.dimension, trial.seed, 1, k), part, trial, k),
    "overconfident": lambda part, trial, k: part[1],  # its module is changed afterwards
    "colluding": lambda part, trial, k: _of(Function(trial.dimension, trial.seed, 2), part, trial, k),
}
HONEST = "none"


def _of(other: Function, part: Part, trial: Trial, k: int) -> np.ndarray:
    """Rows of another function."""
    return other(part[0]) + NOISE * np.random.default_rng([trial.seed, 3, k]).standard_normal(len(part[1]))


@cache
def parts(owners: int, dimension: int, seed: int) -> list[Part]:
    """Rows of honest owners, who have them from everywhere."""
    rng, f = np.random.default_rng([seed, owners, dimension]), Function(dimension, seed)
    X = rng.uniform(-1, 1, (owners, ROWS[dimension], dimension))
    return [(x, f(x) + NOISE * rng.standard_normal(len(x))) for x in X]


@cache
def honest_modules(owners: int, dimension: int, seed: int) -> list[rgp.Module]:
    return _fitted(parts(owners, dimension, seed), 0)


@cache
def clean(owners: int, dimension: int, bad: int, seed: int) -> float:
    """Of the honest modules alone, which trust each other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        return nlpd(rgp.merge(honest_modules(owners, dimension, seed)[bad:], trust=None), dimension, seed)


def _fitted(some: list[Part], first: int) -> list[rgp.Module]:
    return rgp.fit_many(some, names=[f"owner-{first + k}" for k in range(len(some))], progress=False)


def modules(trial: Trial) -> list[rgp.Module]:
    """The first ones are bad."""
    honest = honest_modules(trial.owners, trial.dimension, trial.seed)
    if not trial.bad:
        return honest
    if trial.kind == "overconfident":
        return [sure(m) for m in honest[: trial.bad]] + honest[trial.bad :]
    some = parts(trial.owners, trial.dimension, trial.seed)[: trial.bad]
    spoil = SPOILED[trial.kind]
    return _fitted([(x, spoil((x, y), trial, k)) for k, (x, y) in enumerate(some)], 0) + honest[trial.bad :]


def sure(module: rgp.Module) -> rgp.Module:
    """A module whose doubt is S/100: its likelihood to the power of a hundred."""
    (latent,) = module.latents
    site = weighted(latent.known_site, latent.known_site.e.new_tensor(SURE))
    return replace(module, latents=(latent._replace(site=site, noise_evidence=None),))


def test_rows(dimension: int, seed: int) -> Part:
    rng = np.random.default_rng([seed, 4, dimension])
    X = rng.uniform(-1, 1, (TEST_POINTS, dimension))
    return X, Function(dimension, seed)(X) + NOISE * rng.standard_normal(TEST_POINTS)


def nlpd(model: Any, dimension: int, seed: int) -> float:
    return float(-model.log_density(*test_rows(dimension, seed)).mean())


def run(trial: Trial) -> Outcome:
    begun, where = time.perf_counter(), (trial.dimension, trial.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        all_of_them = modules(trial)
        screened, trusting = rgp.merge(all_of_them), rgp.merge(all_of_them, trust=None)
        committee = module_experts(all_of_them)
        rivals = {rule: nlpd(committee.rival(rule), *where) for rule in RULES}
    rows = screened.report()
    flagged = [i for i, row in enumerate(rows) if row["weight"] == 0]
    return Outcome(
        *trial,
        clean=clean(trial.owners, trial.dimension, trial.bad, trial.seed),
        trusting=nlpd(trusting, *where),
        screened=nlpd(screened, *where),
        **rivals,
        found=sum(i < trial.bad for i in flagged),
        accused=sum(i >= trial.bad for i in flagged),
        reasons=sorted({rows[i]["trust"].removeprefix("flagged: ") for i in flagged if i < trial.bad})[:5],
        seconds=round(time.perf_counter() - begun, 2),
    )

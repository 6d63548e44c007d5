"""The same small problem as one output, several, classes, levels, varying noise: modules and both forms of merges."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import recyclegp as rgp

KINDS = (
    *("one output", "positive", "censored times", "several outputs", "correlated outputs", "classes"),
    *("levels", "varying noise"),
)
LIKELIHOODS = {
    "positive": "lognormal",
    "censored times": "survival",
    "classes": "categorical",
    "levels": "ordinal",
    "varying noise": "heteroscedastic",
}
LEVELS = ("low", "middle", "high")
LOGARITHMS = ("positive", "censored times")
FORMS = ("exact", "points")
OWNERS = ("north", "south", "west")
FIT: dict[str, Any] = {"publish": 8, "seed": 3, "allow_small": True}


class Rows(NamedTuple):
    X: np.ndarray
    y: Any


def rows(kind: str, seed: int, n: int = 30) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.5, 5.5, (n, 1))
    f = np.sin(X[:, 0])
    y = f + 0.1 * rng.standard_normal(n)
    if kind in ("several outputs", "correlated outputs"):
        return Rows(X, np.stack([y, 2 * f + 3 + 0.2 * rng.standard_normal(n)], 1))
    if kind == "positive":
        return Rows(X, np.exp(y))
    if kind == "censored times":
        return Rows(X, np.where(rng.random(n) < 0.2, -0.8, 1.0) * np.exp(y))
    if kind in ("classes", "levels"):
        return Rows(X, np.where(y > 0.4, "high", np.where(y < -0.4, "low", "middle")))
    return Rows(X, y)


def options(kind: str) -> dict[str, Any]:
    target = ["a", "b"] if "outputs" in kind else "a"
    levels = {"classes": list(LEVELS)} if kind == "levels" else {}
    return {"likelihood": LIKELIHOODS.get(kind, "gaussian"), "target": target, "columns": ["x"], **levels, **FIT}


def functions(kind: str) -> int:
    return {"one output": 1, "positive": 1, "censored times": 1, "levels": 1, "classes": 3}.get(kind, 2)


def width(kind: str) -> tuple[int, ...]:
    """Of what `predict` answers for one row."""
    return () if kind in ("one output", *LOGARITHMS, "levels", "varying noise") else (functions(kind),)


@cache
def module(kind: str, owner: str = "north") -> rgp.Module:
    X, y = rows(kind, 10 + OWNERS.index(owner) if owner in OWNERS else 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        return rgp.fit(X, y, name=owner, time=1.0, **options(kind))


@cache
def ensemble(kind: str, form: str) -> rgp.Ensemble:
    how: dict[str, Any] = {"inducing": "all" if form == "exact" else np.linspace(0.4, 5.6, 9)[:, None]}
    outputs = "auto" if "outputs" not in kind else 1 if kind == "correlated outputs" else "independent"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        return rgp.merge([module(kind, owner) for owner in OWNERS], owners="offset", outputs=outputs, **how)

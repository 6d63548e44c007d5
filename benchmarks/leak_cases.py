"""The cases of benchmarks/what_leaks.py: tables, ways to publish, and all attacks on what is published.

Modules are made from random halves of one pool of people, so that each module is a target and all others are an
attacker's shadows of it; members and strangers come from the same population. Nobody in the pool is in the test rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from sklearn.datasets import load_diabetes

import leak_inputs as inputs
import leak_outcomes as outcomes
import recyclegp as rgp
from calibration_cases import Setting, draw

ATTACKS = ("residual", "ratio", "nearness", "lines", "score", "precision", "shadows")
MERGED = 3  # owners of a merge
TESTED = 1000  # fresh rows, where there are so many
KEPT = 0.95  # what publish="auto" keeps
SOLVED = 2  # modules whose rows are solved for, which is slow


class Table(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    units: np.ndarray | None  # of each column, where all of them are in whole units


class Way(NamedTuple):
    """One way to publish."""

    kind: str  # kept, points, digits (of the default), digits of all (a point per row), rows, lines, people
    value: float  # share, points per row, or digits

    @property
    def digits(self) -> int | None:
        return int(self.value) if self.kind.startswith("digits") else None


class Plan(NamedTuple):
    """What is measured: every way on every table."""

    tables: tuple[str, ...]
    ways: tuple[Way, ...]
    rows: int  # of each module
    modules: int  # targets, which are each other's shadows
    larger: int = 0  # rows of other modules, of some of the tables, published by default; 0 for none
    hospitals: tuple[str, ...] = ()  # tables that are divided among hospitals; with none nothing else is attacked


class Leak(NamedTuple):
    """One way to publish one table. None where a number makes no sense."""

    table: str
    kind: str
    value: float
    points: float  # of a module, in the mean
    kept: float
    nlpd: float  # of a module alone, on fresh rows
    merged_nlpd: float
    auc: dict[str, float]  # attack → the chance to tell a member from a stranger
    caught: dict[str, float]  # attack → members found, where one stranger in a hundred is wrongly taken for one
    y_member: float  # error of the best guess at a member's y
    y_stranger: float  # error of the module's prediction of a stranger's y
    x_distance: float  # from a point to the nearest row, in distances between rows
    x_stranger: float  # from a fresh row to the nearest row
    x_recovered: float  # share of rows with a point within a hundredth of such a distance
    values_right: float | None  # share of points that, rounded to whole units, are somebody's complete x
    values_by_chance: float | None  # share of fresh rows that are somebody else's complete x
    rows_solved: float | None  # share of rows whose complete x follows from a point between two of them


def table(name: str) -> Table:
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True, scaled=False)
        order = np.random.default_rng(0).permutation(len(X))
        return Table(X[order], y[order], np.array([unit(column) for column in X.T]))
    if name == "survey":
        return _survey()
    dimension, noise = name.removesuffix(" noise").split(" inputs, ")
    drawn = draw(Setting(int(dimension), float(noise), 0, 1000))
    return Table(np.r_[drawn.X, drawn.X_test], np.r_[drawn.y, drawn.y_test], None)


def unit(column: np.ndarray) -> float:
    """1, 0.1, …: in which all numbers are whole."""
    return next(u for u in 10.0 ** -np.arange(9) if np.abs(column / u - np.round(column / u)).max() < 1e-6)


def _survey() -> Table:
    """Six columns of whole numbers: sex, smoker, age, two answers from 1 to 5, children."""
    rng, n = np.random.default_rng(5), 2000
    sex, smoker = rng.integers(0, 2, n), rng.uniform(size=n) < 0.25
    age, children = rng.integers(18, 91, n), rng.poisson(1.3, n)
    first, second = rng.integers(1, 6, n), rng.integers(1, 6, n)
    X = np.stack([sex, smoker, age, first, second, children], 1).astype(float)
    f = 0.5 * sex + 0.8 * smoker + np.sin(age / 15) + 0.3 * (first - 3) * (second - 3) - 0.2 * children
    return Table(X, f + 0.5 * rng.standard_normal(n), np.ones(6))


# --- publishing -------------------------------------------------------------------------------


Part = tuple[np.ndarray, np.ndarray]


def published(parts: Sequence[Part], way: Way) -> list[rgp.Module]:
    """Of parts that have the same number of rows."""
    n = len(parts[0][1])
    if way.digits is not None:
        exact = Way("kept", KEPT) if way.kind == "digits" else Way("points", 1.0)
        return [m.rounded(way.digits) for m in published(parts, exact)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        if way.kind in ("rows", "lines"):
            points = {"rows": lambda X: X, "lines": on_lines}[way.kind]
            return [rgp.fit(X, y, publish=points(X)) for X, y in parts]
        if way.kind == "people":
            return rgp.fit_many(parts, privacy="people", progress=False)
        publish = way.value if way.kind == "kept" else max(1, round(way.value * n))
        return rgp.fit_many(parts, publish=publish, progress=False)


def on_lines(X: np.ndarray) -> np.ndarray:
    """A point between every other row and its nearest neighbour, as no module should have them."""
    scaled = X / inputs.spread(X)
    neighbour = cKDTree(scaled).query(scaled, k=2)[1][:, 1]
    step = np.random.default_rng(len(X)).uniform(0.2, 0.5, (len(X), 1))
    return np.unique((X + step * (X[neighbour] - X))[::2], axis=0)


# --- attacking --------------------------------------------------------------------------------


def measured(name: str, way: Way, plan: Plan) -> Leak:
    """Publish and attack."""
    known, n = table(name), plan.rows
    pool, tested = slice(0, 2 * n), slice(MERGED * n, MERGED * n + TESTED)
    X, y, X_test, y_test = known.X[pool], known.y[pool], known.X[tested], known.y[tested]
    member = halves(plan.modules, 2 * n)
    modules = published([(X[inside], y[inside]) for inside in member], way)
    owners = [(known.X[k * n : (k + 1) * n], known.y[k * n : (k + 1) * n]) for k in range(MERGED)]
    merged = rgp.merge(published(owners, way))
    believed = [outcomes.beliefs(m, X, way.digits) for m in modules]
    scores = membership(modules, believed, [X] * len(modules), y, member)
    errors = [guesses(b, y, inside) for b, inside in zip(believed, member, strict=True)]
    near = [inputs.nearness(m.inducing, X[inside], X_test) for m, inside in zip(modules, member, strict=True)]
    return Leak(
        name,
        *way,
        points=_mean(len(m.inducing) for m in modules),
        kept=_mean(m.kept or np.nan for m in modules),
        nlpd=_mean(-m.log_density(X_test, y_test).mean() for m in modules),
        merged_nlpd=float(-merged.log_density(X_test, y_test).mean()),
        auc={attack: outcomes.auc(found, member) for attack, found in scores.items()},
        caught={attack: outcomes.caught(found, member) for attack, found in scores.items()},
        y_member=_mean(e[0] for e in errors),
        y_stranger=_mean(e[1] for e in errors),
        x_distance=_mean(e.median for e in near),
        x_stranger=_mean(e.fresh for e in near),
        x_recovered=_mean(e.recovered for e in near),
        **discrete(modules, X, X_test, known.units, member),
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def halves(modules: int, people: int) -> np.ndarray:
    """(K, N): who is in which module. Everybody is in half of them, as nearly as can be."""
    rng = np.random.default_rng(1)
    pairs = [rng.permutation(people) < people // 2 for _ in range((modules + 1) // 2)]
    return np.stack([half for inside in pairs for half in (inside, ~inside)][:modules])


def membership(
    modules: Sequence[rgp.Module],
    believed: Sequence[outcomes.Beliefs],
    Xs: Sequence[np.ndarray],
    y: np.ndarray,
    member: np.ndarray,
) -> dict[str, np.ndarray]:
    """Attack → scores (K, N), higher where a person rather is a member; everybody's x as each of the modules has it."""
    scale = inputs.spread(Xs[0])
    each: dict[str, Callable[[rgp.Module, outcomes.Beliefs, np.ndarray], np.ndarray]] = {
        "residual": lambda m, b, X: outcomes.by_residual(b, y),
        "ratio": lambda m, b, X: outcomes.by_ratio(b, y, float(m.noise)),
        "nearness": lambda m, b, X: -cKDTree(m.inducing / scale).query(X / scale)[0],
        "lines": lambda m, b, X: -np.minimum(inputs.on_lines(m.inducing, X), 1e3),
        "score": lambda m, b, X: outcomes.by_score(m, X, y),
        "precision": lambda m, b, X: outcomes.by_precision(m, X),
    }
    known = list(zip(modules, believed, Xs, strict=True))
    scores = {attack: np.stack([score(*own) for own in known]) for attack, score in each.items()}
    surprise = [(y - b.stranger) / np.sqrt(b.stranger_variance) for b in believed]
    variance = [np.log(b.stranger_variance) for b in believed]
    # a ratio's tails are long: what counts is its order
    statistics = np.stack(
        [np.stack(surprise), np.stack(variance), np.tanh(scores["ratio"] / 3), scores["nearness"]], -1
    )
    return {**scores, "shadows": outcomes.by_shadows(statistics, member)}


def guesses(believed: outcomes.Beliefs, y: np.ndarray, inside: np.ndarray) -> tuple[float, float]:
    """Errors of the better guess at members' y, and of the prediction of strangers'."""
    members = min(outcomes.error(guess[inside], y[inside]) for guess in (believed.row, believed.stranger))
    return members, outcomes.error(believed.stranger[~inside], y[~inside])


def discrete(
    modules: Sequence[rgp.Module], X: np.ndarray, fresh: np.ndarray, units: np.ndarray | None, member: np.ndarray
) -> dict[str, float | None]:
    """Where columns are whole numbers: complete rows from points."""
    if units is None:
        return {"values_right": None, "values_by_chance": None, "rows_solved": None}
    right, chance, solved = [], [], []
    for m, inside in zip(modules, member, strict=True):
        rows = X[inside]
        right.append(inputs.among(inputs.nearest_values(m.inducing, units), rows).mean())
        chance.append(inputs.among(fresh, rows).mean())
    for m, inside in list(zip(modules, member, strict=True))[:SOLVED]:
        solved.append(inputs.solved(m.inducing, X[inside], units))
    return {"values_right": _mean(right), "values_by_chance": _mean(chance), "rows_solved": _mean(solved)}

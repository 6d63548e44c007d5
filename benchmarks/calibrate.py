"""How often intervals hold what they should, before and after `calibrate`: right kernels and wrong ones.

    python benchmarks/calibrate.py [--data-dir DIR] [--quick] [--json FILE]
    python benchmarks/calibrate.py --show FILE

Several owners' modules are merged. The rows that nobody was given are divided at random, many times, into 100 that
calibrate and the rest, on which coverage is counted: the figures are means over all divisions. Data sets that are
neither in --data-dir nor in an installed package are skipped, and said to be.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import pages as files
import recyclegp as rgp
from data import MissingDataError, kin40k, noisy, sunspots
from pages import Column, table
from recyclegp.errors import LittleKeptWarning
from recyclegp.experiments.data import houses, random_function

LEVELS = (0.9, 0.95)
CALIBRATION_ROWS = 100
DIVISIONS = 200
OWNERS = 5
MOST_REST = 2000  # rows that calibrate and test
ALLOWED = 0.015  # from the nominal level
TOO_SHORT, TOO_SURE = 0.3, 0.1  # factors of the lengthscales and of the noise of a model that is wrong on purpose
DIGITS = 4

Table = tuple[np.ndarray, np.ndarray]


class Row(NamedTuple):
    data: str
    kernel: str
    rows: int  # of all owners
    inputs: int
    level: float
    plain: float  # coverage of the model's own intervals
    calibrated: float
    widened: float  # by which factor intervals became wider

    @property
    def kept(self) -> bool:
        return abs(self.calibrated - self.level) <= ALLOWED


class Data(NamedTuple):
    name: str
    rows_per_owner: int
    load: Callable[[Path | None, np.random.Generator], Table]


# --- data -------------------------------------------------------------------------------------


def smooth(folder: Path | None, rng: np.random.Generator) -> Table:
    """A random function of two inputs, Gaussian noise: the model is right."""
    X = rng.uniform(-1, 1, (3000, 2))
    return X, random_function(rng, 2, 0.7)(X) + 0.2 * rng.standard_normal(len(X))


def wave(folder: Path | None, rng: np.random.Generator) -> Table:
    """The paper's function, over one input."""
    x = rng.uniform(0, 5.5, 3000)
    return x[:, None], noisy(x, rng)


def skewed(folder: Path | None, rng: np.random.Generator) -> Table:
    """Noise that is skewed, and five times larger at one end than at the other."""
    X = rng.uniform(-1, 1, (3000, 3))
    noise = (0.3 + 0.2 * X[:, 0]) * (rng.exponential(size=len(X)) - 1)
    return X, random_function(rng, 3, 1.0)(X) + noise


def solar(folder: Path | None, rng: np.random.Generator) -> Table:
    return sunspots(folder)


def robot_arm(folder: Path | None, rng: np.random.Generator) -> Table:
    split = kin40k(folder, 0)
    return split.X, split.y


def homes(folder: Path | None, rng: np.random.Generator) -> Table:
    found = houses(folder)
    return found.where, found.price


def diabetes(folder: Path | None, rng: np.random.Generator) -> Table:
    try:
        from sklearn.datasets import load_diabetes
    except ImportError:
        raise MissingDataError("diabetes: pip install scikit-learn") from None
    X, y = load_diabetes(return_X_y=True)
    return X, y


DATA = (
    Data("smooth function", 100, smooth),
    Data("wave", 60, wave),
    Data("skewed, uneven noise", 100, skewed),
    Data("sunspots", 200, solar),
    Data("robot arm (kin40k)", 300, robot_arm),
    Data("homes", 200, homes),
    Data("diabetes", 40, diabetes),
)


# --- models -----------------------------------------------------------------------------------


def learned(parts: list[Table]) -> rgp.Ensemble:
    return rgp.merge(rgp.fit_many(parts, progress=False))


def linear(parts: list[Table]) -> rgp.Ensemble:
    """Far too stiff for all but the last data set."""
    return rgp.merge(rgp.fit_many(parts, kernel="linear", progress=False))


def made_wrong(parts: list[Table]) -> rgp.Ensemble:
    """Lengthscales and noise far too small, and nobody may learn better."""
    right = learned(parts)
    kernel = right.kernel
    kernel.base_kernel.lengthscale = TOO_SHORT * kernel.base_kernel.lengthscale.detach()
    noise = TOO_SURE * right.noise
    modules = rgp.fit_many(parts, kernel=kernel, noise=noise, learn=False, publish=64, progress=False)
    return rgp.merge(modules, learn=False)


KERNELS = {"rbf, learned": learned, "linear": linear, "rbf, made wrong": made_wrong}


# --- measuring --------------------------------------------------------------------------------


def measure(data: Data, folder: Path | None, divisions: int, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    X, y = data.load(folder, rng)
    order = rng.permutation(len(y))[: OWNERS * data.rows_per_owner + MOST_REST]
    given = np.array_split(order[: OWNERS * data.rows_per_owner], OWNERS)
    rest = order[OWNERS * data.rows_per_owner :]
    # as anybody would: the scale of what owners have
    own = np.concatenate(given)
    X, y = (X - X[own].mean(0)) / X[own].std(0), (y - y[own].mean()) / y[own].std()
    found = []
    for name, build in KERNELS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LittleKeptWarning)  # of the models that are wrong on purpose
            warnings.simplefilter("ignore", rgp.RecycleGPWarning)
            model = build([(X[i], y[i]) for i in given])
        found += coverages(model, data.name, name, X, y, rest, divisions, rng, len(own))
    return found


def coverages(
    model: rgp.Ensemble,
    data: str,
    kernel: str,
    X: np.ndarray,
    y: np.ndarray,
    rest: np.ndarray,
    divisions: int,
    rng: np.random.Generator,
    rows: int,
) -> list[Row]:
    plain = {level: model.predict_interval(X[rest], level) for level in LEVELS}
    calibrated: dict[float, list[float]] = {level: [] for level in LEVELS}
    widened: dict[float, list[float]] = {level: [] for level in LEVELS}
    for _ in range(divisions):
        order = rng.permutation(len(rest))
        local, new = rest[order[:CALIBRATION_ROWS]], rest[order[CALIBRATION_ROWS:]]
        tuned = rgp.calibrate(model, X[local], y[local], levels=LEVELS)
        for level in LEVELS:
            low, high = tuned.predict_interval(X[new], level)
            calibrated[level].append(float(np.mean((low <= y[new]) & (y[new] <= high))))
            before = [end[order[CALIBRATION_ROWS:]] for end in plain[level]]
            widened[level].append(float(np.mean((high - low) / (before[1] - before[0]))))
    return [
        Row(
            data,
            kernel,
            rows,
            X.shape[1],
            level,
            round(float(np.mean((plain[level][0] <= y[rest]) & (y[rest] <= plain[level][1]))), DIGITS),
            round(float(np.mean(calibrated[level])), DIGITS),
            round(float(np.mean(widened[level])), DIGITS),
        )
        for level in LEVELS
    ]


# --- the table --------------------------------------------------------------------------------


def values(rows: list[Row]) -> dict[str, dict[str, str]]:
    """One line for each data set and kernel."""
    by = {(row.data, row.kernel, row.level): row for row in rows}
    columns: list[Column] = [("data", lambda key: key[0], ""), ("kernel", lambda key: key[1], "")]
    for level in LEVELS:
        titles = {"plain": f"{level:.0%}, plain", "calibrated": f"{level:.0%}, calibrated", "widened": "width ×"}
        for name, title in titles.items():
            form = ".2f" if name == "widened" else ".1%"
            columns.append((title, lambda key, level=level, name=name: getattr(by[*key, level], name), form))

    return {"calibrate.md": {"all": table(columns, dict.fromkeys((row.data, row.kernel) for row in rows))}}


def read(file: Path) -> list[Row]:
    return [Row(**row) for row in files.read(file)]


def pages() -> dict[str, dict[str, str]]:
    return values(read(files.RESULTS / "calibrate.json"))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--quick", action="store_true", help="one data set, few divisions: no figures to quote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = read(asked.show) if asked.show else []
    for data in () if asked.show else DATA[:1] if asked.quick else DATA:
        try:
            found += measure(data, asked.data_dir, 20 if asked.quick else DIVISIONS)
        except MissingDataError as missing:
            print(f"skipped: {missing}", file=sys.stderr)
            continue
        print(f"{data.name}: done", file=sys.stderr, flush=True)
    if asked.json:
        files.write(asked.json, [row._asdict() for row in found])
    files.show(values(found))
    print(f"{sum(not row.kept for row in found)} of {len(found)} are further than {ALLOWED:.1%} from their level")


if __name__ == "__main__":
    main()

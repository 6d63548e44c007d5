"""Modules that the paper's authors' own program has fitted, merged here; and our fits in the layouts of the paper.

    python benchmarks/authors_modules.py [--data ../shared/data/authors] [--json FILE]
    python benchmarks/authors_modules.py --show FILE [--docs docs]

Two of their sets: the banana with its rows, and 10k, whose rows are made anew in their layout (50 adjoining intervals
of 200 rows, noise of standard deviation 2, the same test points, half a unit beyond the data). Scores are the mean of
−log p(y), and for 10k RMSE and MAE of f beside it; "log Σp" is the paper's measure of classes, where higher is better.
`--docs` writes the table in docs/experiments.md.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import recyclegp as rgp
from pages import RESULTS, Column, read, rounded, show_or_publish, table, write
from provenance import provenance
from recyclegp.experiments import data

DATA = Path(__file__).parents[2] / "shared" / "data" / "authors"
KEPT = RESULTS / "authors-modules.json"
PAGE, MARKER = "experiments.md", "authors"
ROWS, NOISE_SD = 200, 2.0  # of 10k in the paper

Array = np.ndarray
Found = dict[str, Any]


class Set(NamedTuple):
    """One of theirs, as it is in its file."""

    name: str
    words: str
    likelihood: str
    points: int  # of a module, and of their ensemble
    merged: int


SETS = (
    Set("banana", "banana, 4 modules", "bernoulli", 9, 25),
    Set("regression10k", "10k, 50 modules", "gaussian", 3, 35),
)


def imported(d: Any, this: Set, whose: str, name: str) -> rgp.Module:
    """What the program says of f at its points."""
    L = d[f"{whose}_L"].reshape(d[f"{whose}_L"].shape[-2:])
    variance, length = (float(np.ravel(d[f"{whose}_{key}"])[0]) for key in ("var", "ls"))
    noise = float(np.ravel(d[f"{whose}_sigma"])[0]) ** 2 if this.likelihood == "gaussian" else None
    return rgp.Module.from_moments(
        d[f"{whose}_Z"],
        d[f"{whose}_m"].ravel(),
        L @ L.T,
        kernel=f"rbf(outputscale={variance!r}, lengthscale={length!r})",
        likelihood=this.likelihood,
        noise=noise,
        name=name,
    )


def parts(d: Any, this: Set) -> Sequence[tuple[Array, Array]]:
    """The rows of each owner: theirs where they are known, else rows as theirs."""
    if "data0_x" in d:
        return [(d[f"data{i}_x"], d[f"data{i}_y"].ravel()) for i in range(int(d["modules"]))]
    rng = np.random.default_rng(0)
    edges = np.linspace(*data.REGION, int(d["modules"]) + 1)
    xs = [np.sort(rng.uniform(a, b, ROWS)) for a, b in itertools.pairwise(edges)]
    return [(x[:, None], data.wave(x) + rng.normal(0, NOISE_SD, len(x))) for x in xs]


def scores(model: Any, X: Array, y: Array) -> Found:
    """RMSE and MAE of f, which is known of 10k."""
    log_p = model.log_density(X, y)
    found = {"nlpd": -float(np.mean(log_p)), "log_sum": float(np.logaddexp.reduce(log_p))}
    if model.likelihoods[0].name == "gaussian":
        off = model.predict(X)[0] - data.wave(X[:, 0])
        found |= {"rmse": float(np.sqrt(np.mean(off**2))), "mae": float(np.mean(np.abs(off)))}
    return found


def measured(this: Set, folder: Path, say: Callable[[str], None]) -> Found:
    with np.load(folder / f"{this.name}.npz") as file:
        d = {key: file[key] for key in file.files}
    X, y = d["test_x"], d["test_y"].ravel()
    theirs = [imported(d, this, f"module{i}", f"m{i}") for i in range(int(d["modules"]))]
    rows = parts(d, this)
    common: Any = {"likelihood": this.likelihood, "privacy": "things"}
    found: Found = {"set": this.name}
    models: dict[str, Callable[[], Any]] = {
        "theirs": lambda: imported(d, this, "ensemble", "theirs"),
        "their modules, merged": lambda: rgp.merge(theirs),
        "our fits, as many points": lambda: rgp.merge(
            [rgp.fit(*own, publish=this.points, name=f"o{i}", **common) for i, own in enumerate(rows)],
            inducing=this.merged,
        ),
        "our fits, all defaults": lambda: rgp.merge(
            [rgp.fit(*own, name=f"o{i}", **common) for i, own in enumerate(rows)]
        ),
    }
    for name, build in models.items():
        found[name] = scores(build(), X, y)
        say(f"{this.name}: {name}: {found[name]}")
    return found


# --- the page -------------------------------------------------------------------------------------


def values(run: Found) -> dict[str, str]:
    found: Sequence[Found] = run["sets"]
    names = [name for name in found[0] if name != "set"]
    by_name = {this.name: this for this in SETS}

    def said(name: str) -> Callable[[Found], str]:
        def cell(row: Found) -> str:
            s = row[name]
            if "rmse" in s:
                return f"{s['nlpd']:.2f} / {s['rmse']:.2f} / {s['mae']:.2f}"
            return f"{s['nlpd']:.3f} (log Σp {s['log_sum']:.2f})"

        return cell

    columns: list[Column] = [("set", lambda row: by_name[row["set"]].words, "")]
    return {MARKER: table([*columns, *((name, said(name), "") for name in names)], found)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="where banana.npz and regression10k.npz are")
    parser.add_argument("--json", type=Path, help="write what was measured there")
    parser.add_argument("--show", type=Path, help="measure nothing: what such a file says")
    parser.add_argument("--docs", type=Path, help="write the section of the page in this folder")
    options = parser.parse_args(arguments)
    if options.show is None:
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sets = [measured(this, options.data, print) for this in SETS]
        found = {**provenance(arguments), "sets": rounded(sets, ".4g")}
        if options.json is not None:
            write(options.json, found)
    else:
        found = read(options.show)
    show_or_publish({PAGE: values(found)}, options.docs)


if __name__ == "__main__":
    main()

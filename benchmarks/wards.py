"""Six wards of 25 to 160 rows in two inputs: censored times and levels in an order, merged and otherwise.

    python benchmarks/wards.py [--seeds N] [--json FILE]
    python benchmarks/wards.py --show FILE [--docs docs]

Scores are the mean of −log p of rows that nobody has seen, whose times are all known, and how many of these times 95%
intervals hold. `--docs` writes two tables of docs/likelihoods.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import recyclegp as rgp
from pages import RESULTS, Column, read, rounded, show_or_publish, table, write

KEPT = RESULTS / "wards.json"
PAGE = "likelihoods.md"
ROWS = (25, 40, 60, 90, 120, 160)
SEEDS = 5
TEST = 1500
LEVELS, CUTS = ("none", "mild", "moderate", "severe"), (0.0, 1.0, 2.0)

Array = np.ndarray
Found = dict[str, Any]
Part = tuple[Array, Array]


class Ward(NamedTuple):
    """Rows as they were written down, and as they truly are."""

    X: Array
    y: Array
    known: Array


def truth(X: Array) -> Array:
    return 0.5 + np.sin(1.3 * X[:, 0]) + 0.6 * np.cos(X[:, 1])


def places(rng: np.random.Generator, k: int | None, n: int) -> Array:
    """Each ward sees a part of the first input, and all of the second."""
    low, high = (0.0, 6.0) if k is None else (0.7 * k, 0.7 * k + 2.5)
    return np.stack([rng.uniform(low, high, n), rng.uniform(0, 3, n)], 1)


def censored(rng: np.random.Generator, k: int | None, n: int) -> Ward:
    X = places(rng, k, n)
    t = np.exp(truth(X) + 0.5 * rng.standard_normal(n))
    waited = np.exp(rng.normal(0.6, 0.8, n))
    return Ward(X, t if k is None else np.where(t <= waited, t, -waited), t)


def ordered(rng: np.random.Generator, k: int | None, n: int) -> Ward:
    X = places(rng, k, n)
    u = 2 * truth(X) + rng.standard_normal(n)
    y = np.array(LEVELS)[(u[:, None] > np.array(CUTS)).sum(1)]
    return Ward(X, y, y)


def score(model: Any, test: Ward) -> Found:
    found = {"nlpd": -float(np.mean(model.log_density(test.X, test.known)))}
    if test.known.dtype.kind == "U":  # of four levels an interval holds more than it says
        return found | {"coverage": None}
    low, high = model.predict_interval(test.X, 0.95)
    return found | {"coverage": float(np.mean((low <= test.known) & (test.known <= high)))}


def of_survival(seed: int) -> Found:
    rng = np.random.default_rng(seed)
    wards, test = [censored(rng, k, n) for k, n in enumerate(ROWS)], censored(rng, None, TEST)
    each: Any = {"privacy": "things"}
    fits = [rgp.fit(w.X, w.y, likelihood="survival", name=f"w{k}", **each) for k, w in enumerate(wards)]
    X, y = (np.concatenate([w[i] for w in wards]) for i in (0, 1))
    found = {
        "merged": score(rgp.merge(fits), test),
        "all rows in one place": score(rgp.fit(X, y, likelihood="survival", **each), test),
        "each ward alone": _mean([score(m, test) for m in fits]),
        "censored times taken for events, merged": score(
            rgp.merge(
                [rgp.fit(w.X, np.abs(w.y), likelihood="lognormal", name=f"n{k}", **each) for k, w in enumerate(wards)]
            ),
            test,
        ),
    }
    return {"of": "survival", "seed": seed, "censored": float(np.mean(y < 0)), "models": found}


def of_levels(seed: int) -> Found:
    rng = np.random.default_rng(seed)
    wards, test = [ordered(rng, k, n) for k, n in enumerate(ROWS)], ordered(rng, None, TEST)
    each: Any = {"privacy": "things", "likelihood": "ordinal", "classes": list(LEVELS)}
    fits = [rgp.fit(w.X, w.y, name=f"w{k}", **each) for k, w in enumerate(wards)]
    X, y = (np.concatenate([w[i] for w in wards]) for i in (0, 1))
    found = {
        "merged": score(rgp.merge(fits), test),
        "all rows in one place": score(rgp.fit(X, y, **each), test),
        "each ward alone": _mean([score(m, test) for m in fits]),
        "levels taken for classes without order, merged": score(
            rgp.merge(
                [rgp.fit(w.X, w.y, name=f"n{k}", **each | {"likelihood": "categorical"}) for k, w in enumerate(wards)]
            ),
            test,
        ),
    }
    return {"of": "ordinal", "seed": seed, "censored": None, "models": found}


def _mean(found: Sequence[Found]) -> Found:
    return {key: None if of is None else float(np.mean([f[key] for f in found])) for key, of in found[0].items()}


# --- the page -------------------------------------------------------------------------------------


def values(found: Sequence[Found]) -> dict[str, str]:
    pages = {}
    for of in dict.fromkeys(row["of"] for row in found):
        rows = [row for row in found if row["of"] == of]
        models = [{"model": name} | _mean([row["models"][name] for row in rows]) for name in rows[0]["models"]]
        columns: list[Column] = [("", "model", ""), ("mean of −log p", "nlpd", ".3f")]
        if models[0]["coverage"] is not None:
            columns += [("95% intervals hold", "coverage", ".1%")]
        said = f"Means over {len(rows)} simulations of six wards of {ROWS[0]} to {ROWS[-1]} rows in two inputs"
        if of == "survival":
            said += f", {np.mean([row['censored'] for row in rows]):.0%} of them censored"
        pages[of] = f"{said}:\n\n{table(columns, models)}"
    return pages


def pages() -> dict[str, dict[str, str]]:
    return {PAGE: values(read(KEPT))} if KEPT.exists() else {}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--json", type=Path, help="write what was measured there")
    parser.add_argument("--show", type=Path, help="measure nothing: what such a file says")
    parser.add_argument("--docs", type=Path, help="write the sections of the page in this folder")
    options = parser.parse_args(arguments)
    if options.show is None:
        torch.set_num_threads(1)
        every: Sequence[Callable[[int], Found]] = (of_survival, of_levels)
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for simulate in every:
                for seed in range(options.seeds):
                    found.append(simulate(seed))
                    print(found[-1], flush=True)
        found = rounded(found, ".4g")
        if options.json is not None:
            write(options.json, found)
    else:
        found = read(options.show)
    show_or_publish({PAGE: values(found)}, options.docs)


if __name__ == "__main__":
    main()

"""Has merging become worse? Numbers that have no noise but rounding: the same data, seeds and searches every time.

Each is a difference of two scores of one run, in nats per held-out row, or a count. What is chosen by a search may be
chosen otherwise by another version of torch: limits leave room for that, and for nothing more. The tables
are some that many changes have been judged by; a promise is checked on others (docs/experiments.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import recyclegp as rgp
import units
from data import noisy, oracle, overlapping
from guard_rows import Row
from recyclegp.experiments.grouped_run import ALONE, MERGED, run_set

TEST_POINTS = 4000
TABLE = "sklearn/diabetes"


def small_overlapping_owners() -> Iterator[Row]:
    """Points that are far fewer than rows: what they leave open must not be taken for noise."""
    rng = np.random.default_rng(0)
    modules = rgp.fit_many(list(overlapping(100, 200, rng)), publish=3, progress=False)
    merged = rgp.merge(modules)
    x = rng.uniform(0, 5.5, TEST_POINTS)
    y = noisy(x, rng)
    found = float(-merged.log_density(x[:, None], y).mean()) - oracle(x, y)
    yield Row("NLPD above the oracle, 100 owners of 3 points", found, 0.03)


def owners(name: str, limit: float) -> Callable[[], Iterator[Row]]:
    """Real owners: what merging costs them beside staying alone, and whom it accuses."""

    def rows() -> Iterator[Row]:
        found = run_set(name, 0, rivals=False, new=0)
        yield Row(f"NLPD, {name}: merged less alone", found.nlpd[MERGED] - found.nlpd[ALONE], limit)
        yield Row(f"honest owners flagged, {name}", len(found.flagged), 0)

    return rows


def wrong_units() -> Iterator[Row]:
    """Five hospitals of 50 patients, one of which reports a tenth of what the others do."""
    parts, (X, y) = units.divided(TABLE, "", 0)
    names = [f"owner-{k}" for k in range(units.OWNERS)]
    honest = list(rgp.fit_many(parts, names=names, progress=False))
    clean, merged = units.outcome(TABLE, 0, units.NOTHING, honest, None)
    yield Row("honest owners accused, diabetes", clean.accused + clean.named, 0)
    wrong = rgp.fit(*units.spoiled(parts[0], "y / 10", 0), name=names[0])
    found, spoiled = units.outcome(TABLE, 0, "y / 10", [wrong, *honest[1:]], names[0])
    yield Row("y / 10 noticed, diabetes", float(found.flagged or found.asked), 1, at_least=True)
    yield Row("error with it / without, diabetes", units.error(spoiled, X, y) / units.error(merged, X, y), 1.1)


def rows_of(work: Callable[[], Iterator[Row]]) -> Callable[[], Iterator[Row]]:
    """With no warnings: what owners of real tables are told is no matter here."""

    def quiet() -> Iterator[Row]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return iter(list(work()))

    return quiet


ROWS: dict[str, Callable[[], Any]] = {
    name: rows_of(work)
    for name, work in {
        "small owners": small_overlapping_owners,
        "spinach": owners("drc/spinach", 0.02),
        "gasoline": owners("plm/Gasoline", -0.05),
        "wrong units": wrong_units,
    }.items()
}

"""Inputs in another unit, where modules differ otherwise, too: their numbers alone say so."""

import re
import warnings

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.errors import ContradictionWarning


def hospital(seed, unit=1.0, level=0.0):
    rng = np.random.default_rng(seed)
    dose, age = rng.uniform(120, 900, 60), rng.uniform(20, 80, 60)
    y = 10 * np.log(dose / 100) + 0.05 * age + level + rng.standard_normal(60)
    return rgp.fit(np.c_[dose * unit, age], y, name=f"hospital-{seed}", columns=["dose", "age"])


def test_a_power_of_ten_is_named():
    modules = [hospital(0), hospital(1, level=2.0), hospital(2, unit=0.001)]
    said = r"hospital-2 \(.*transform\(input_scale=\{'dose': 1000\}\)"
    with pytest.warns(ContradictionWarning) as told:
        merged = rgp.merge(modules)
    told = [w for w in told if w.category is ContradictionWarning]
    first, *others = (str(w.message) for w in told)
    assert re.search(said, first)
    assert others[0].startswith("merging does not help these owners")  # in these units it does not
    assert merged.names == ["hospital-0", "hospital-1", "hospital-2"]


@pytest.mark.parametrize(
    "places", [[(1, 2), (10, 20), (300, 900)], [(1, 9), (1, 9), (5, 80)], [(-5, 5), (1, 2), (900, 950)]]
)
def test_owners_of_different_regions_are_not_doubted(places):
    rng = np.random.default_rng(0)
    modules = []
    for i, (low, high) in enumerate(places):
        x = rng.uniform(low, high, (30, 1))
        modules.append(rgp.fit(x, np.log1p(np.abs(x[:, 0])) + 0.1 * rng.standard_normal(30), name=f"m{i}"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rgp.merge(modules)
    assert not [w for w in told if "in which unit" in str(w.message)]

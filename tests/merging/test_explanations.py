"""Data that are made exactly as an explanation says are explained by it, and by its numbers."""

import math
import re
import warnings

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.merging.consensus import Prediction
from recyclegp.merging.explanations import explained
from recyclegp.merging.verdicts import Units

NEVER = -1e9  # a function of its own is no explanation here


def prediction(scale=1.0, shift=0.0, sure=1.0, seed=0, count=25):
    """What the others predict, and a module of scale·f + shift; `sure` multiplies its errors."""
    rng = np.random.default_rng(seed)
    predicted, ones, doubt = 90 * rng.standard_normal(count), 8 + rng.standard_normal(count), rng.uniform(0, 0.5, count)
    noise = sure * rng.standard_normal(count) + scale * np.sqrt(doubt) * rng.standard_normal(count)
    rho = scale * predicted + shift * ones + noise
    return Prediction(*(torch.tensor(t) for t in (rho - predicted, predicted, ones, doubt)))


def check_units(found, scale, shift):
    assert found.units.scale == pytest.approx(scale, abs=0.03)
    assert found.units.shift == pytest.approx(shift, abs=0.2)
    back = found.units.back
    f = np.linspace(-3, 3, 7)
    there = found.units.scale * f + found.units.shift
    np.testing.assert_allclose(back.scale * there + back.shift, f, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("usual", [1.0, 2.5])
def test_each_explanation_by_data_made_from_it(seed, usual):
    shifted = explained(prediction(shift=-7.5, seed=seed), NEVER, usual)
    assert re.fullmatch(r"shifted by -7\.\d", shifted.reason)
    check_units(shifted, 1.0, -7.5)
    assert shifted.units.scale == 1
    scaled = explained(prediction(scale=2.4, seed=seed), NEVER, usual)
    assert scaled.reason == "scaled by about 2.4"
    check_units(scaled, 2.4, 0.0)
    assert scaled.units.shift == 0
    units = explained(prediction(scale=1.8, shift=32.0, seed=seed), NEVER, usual)
    assert units.reason == "in other units: about 1.8·y + 32"
    check_units(units, 1.8, 32.0)
    below = explained(prediction(scale=-0.5, shift=-40.0, seed=seed), NEVER, usual)
    assert below.reason == "in other units: about -0.5·y − 40"
    check_units(below, -0.5, -40.0)
    turned = explained(prediction(scale=-1.0, seed=seed), NEVER, usual)
    assert (turned.reason, turned.units, turned.units.back) == ("opposite sign", Units(-1.0), Units(-1.0))
    sure = explained(prediction(sure=20.0, seed=seed), NEVER, usual)
    assert 14 < float(sure.reason.removeprefix("overconfident by a factor of ")) < 28
    assert sure.units is None


def test_a_function_of_its_own_must_be_more_probable():
    p = prediction(shift=-7.5)
    best = explained(p, NEVER, 1.0)
    assert explained(p, best.value - 0.01, 1.0) == best
    assert explained(p, best.value + 0.01, 1.0).reason == "unlike everybody else"
    assert explained(p, best.value + 0.01, 1.0).units is None


def test_values_are_log_densities_less_the_price_of_their_numbers():
    p = prediction(shift=-7.5)
    error, predicted, ones, doubt = (t.numpy() for t in p)
    usual, price = 1.6, 1 + 0.5 * math.log(len(error))
    variance = usual * (1 + doubt)
    b = (ones * error / variance).sum() / (ones**2 / variance).sum()  # weighted least squares
    density = -0.5 * ((error - b * ones) ** 2 / variance + np.log(2 * np.pi * variance)).sum()
    found = explained(p, NEVER, usual)
    assert found.units.shift == pytest.approx(b, rel=1e-10)
    assert found.value == pytest.approx(density - price, rel=1e-10)
    # both numbers at once: variance and scale settle together, by repetition
    p = prediction(scale=1.8, shift=32.0)
    error, predicted, ones, doubt = (t.numpy() for t in p)
    a = b = 1.0
    for _ in range(60):
        root = 1 / np.sqrt(usual * (1 + a**2 * doubt))
        columns = np.stack([predicted, ones], 1) * root[:, None]
        a, b = np.linalg.lstsq(columns, root * (predicted + error), rcond=None)[0]
    found = explained(p, NEVER, usual)
    assert found.units[:2] == pytest.approx((a, b), rel=1e-8)
    variance = usual * (1 + a**2 * doubt)
    rest = predicted + error - a * predicted - b * ones
    density = -0.5 * (rest**2 / variance + np.log(2 * np.pi * variance)).sum()
    assert found.value == pytest.approx(density - 2 * price, rel=1e-8)


def test_what_cannot_be_turned_back_is_no_change_of_units():
    """A constant: of f it knows nothing."""
    p = prediction(scale=1e-4, shift=60.0)
    found = explained(p, NEVER, 1.0)
    assert found.units is None or abs(found.units.scale) > 0.05


def test_units_are_undone():
    assert Units(2.0, 6.0).back == Units(0.5, -3.0)
    assert Units(-4.0, 2.0).back.back == Units(-4.0, 2.0)


@pytest.mark.parametrize("known", [Units(2.54), Units(1 / 2.54), Units(1.8, 32.0), Units(1.0, 273.15)])
def test_a_known_change_is_proposed_as_it_is_known(known):
    found = explained(prediction(known.scale, known.shift), NEVER, 1.0)
    assert found.remedy == known.back


def test_other_numbers_are_proposed_where_both_are_clear():
    found = explained(prediction(7.07, -23.4), NEVER, 1.0)
    assert found.remedy == found.units.back
    assert found.units[:2] == pytest.approx((7.07, -23.4), rel=0.02)
    sign = explained(prediction(-1.0), NEVER, 1.0)
    assert sign.remedy == Units(-1.0)


def test_what_is_not_clear_is_not_proposed():
    """A module about which little is known looks like 7.07·y − 23.4, say: nobody should type that."""
    p = prediction(7.07, -23.4)
    p = p._replace(error=p.error / 300, predicted=p.predicted / 300, ones=p.ones / 30)
    found = explained(p, NEVER, 1.0)
    assert found.remedy is None


@pytest.mark.parametrize("count", [1, 6])
def test_nothing_is_proposed_where_the_others_know_a_constant(count):
    """As of a module with one point: a and b of a·f + b cannot be told apart."""
    ones, others = torch.linspace(80, 90, count, dtype=torch.float64), torch.full((count,), 0.1, dtype=torch.float64)
    found = explained(Prediction(7 * 0.3 * ones - 23.4 * ones - 0.3 * ones, 0.3 * ones, ones, others), NEVER, 1.0)
    assert found.remedy is None or found.remedy[:2] != found.units.back[:2]


def test_modules_of_one_point_can_be_merged():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (6, 30, 1))
    y = np.sin(5 * X[..., 0]) + 9.0 * (np.arange(6) == 2)[:, None] + 0.1 * rng.standard_normal((6, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        merged = rgp.merge([rgp.fit(*part, kernel="rbf", publish=1) for part in zip(X, y, strict=True)])
    assert np.isfinite(merged.predict(X[0])[0]).all()

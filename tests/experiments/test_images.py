"""Experiments with images and counts, at tiny settings, and what a picture must show."""

import math

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.experiments import banana, counts, data, eight, figures, london, mnist
from recyclegp.experiments.core import Held, MissingDataError, Settings
from recyclegp.experiments.rivals import Budget

TINY = Budget(rows=40, svgp=5, vem=5, vem_seconds=0.2)
QUICK = Settings(full=False, seeds=1, data_dir=None)


def get(loader, *args):
    try:
        return loader(None, *args)
    except MissingDataError as missing:
        pytest.skip(str(missing))


def said(module, settings):
    """Run an experiment; it announces as many steps as it takes."""
    messages = []
    outcome = module.run(settings, messages.append)
    assert len(messages) == module.steps(settings)
    return outcome


@pytest.fixture(scope="module")
def zero():
    image = get(data.mnist, 0)
    return image, mnist.owners_of(image, mnist.ZERO, 0, thinned=False)


def test_an_eight_has_two_holes(zero):
    image, owners = zero
    copies = [m.transform(input_shift=eight.UP).rename(m.name + "'") for m in owners.modules]
    merged = rgp.merge([*owners.modules, *copies], owners=eight.ONE_PICTURE)
    assert merged.names == [m.name for m in (*owners.modules, *copies)]
    assert not any(m.verdict and m.verdict.weight is not None for m in merged._members)  # honest copies are trusted
    assert eight.holes(figures.chart(merged, eight.BOX)[2] > 0.5) == 2
    # the zero's hole and its ring, by the pixels; the eight has each of them twice
    X, y = data.pixels(image)
    inside = np.array([[0.0, -0.1], [0.05, 0.1]])
    p = figures.probability(merged, np.concatenate([inside, inside + eight.UP]))
    assert (p < 0.5).all()
    sure = X[(y == 1) & (owners.modules[0].predict(X)[0] > 0) & (X[:, 1] < -0.3)]
    assert len(sure) > 10
    assert np.median(figures.probability(merged, sure)) > 0.8
    upper = X[(y == 1) & (X[:, 1] > 0.3)] + eight.UP
    assert np.median(figures.probability(merged, upper)) > 0.8


def test_the_zero_is_as_good_as_the_central_models(zero):
    _, owners = zero
    X, y = owners.held.X, owners.held.y
    merged = rgp.merge(owners.modules)
    assert eight.holes(figures.chart(merged, figures.UNIT)[2] > 0.5) == 1
    assert float(-merged.log_density(X, y).mean()) <= 0.08 + 0.03  # central: 0.08 to 0.09


def test_holes_are_counted():
    ink = np.zeros((7, 9), dtype=bool)
    assert eight.holes(ink) == 0
    ink[1:6, 1:8] = True
    ink[2:5, 2:4] = ink[3, 5] = False
    assert eight.holes(ink) == 2
    ink[3, 5:] = False  # a way out
    assert eight.holes(ink) == 1


def test_drawn_is_ink_in_either():
    image = np.zeros((28, 28))
    image[14, 7] = 1
    X, y = data.pixels(image)
    place = X[y == 1]
    assert eight.drawn(image, np.concatenate([place, place + eight.UP, place + 0.5 * eight.UP])).tolist() == [1, 1, 0]


def test_mnist_runs(monkeypatch):
    get(data.mnist, 0)
    monkeypatch.setattr(mnist, "QUICK", TINY)
    monkeypatch.setattr(mnist, "mnist", lambda folder, digit: data.mnist(folder, digit)[::3, ::3])
    monkeypatch.setattr(mnist, "TASKS", (mnist.ONE._replace(points=9),))
    monkeypatch.setattr(mnist, "SIDE", 2)
    outcome = said(mnist, QUICK)
    assert {r.case for r in outcome.rows} == {"one, two halves, M_k=4"}
    assert len({r.model for r in outcome.rows}) == len(outcome.rows) == 11
    assert len(outcome.figure.axes) == 3


def test_counts_run(monkeypatch):
    get(data.coal)
    monkeypatch.setattr(counts, "QUICK", TINY)
    outcome = said(counts, QUICK)
    best = {r.model: r for r in outcome.rows}
    merged, central = best["merged, auto"], best["central SVGP (dual), M=20"]
    assert merged.nlpd <= central.nlpd + 0.02
    assert 0.9 <= merged.coverage <= 1
    assert math.isnan(merged.error)
    assert outcome.figure is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.errors.NothingToLearnWarning")  # parts of so few rows are of one class
def test_banana_runs_on_a_few_points(monkeypatch, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2))
    table = [f"{a},{b},{int(a * b > 0)}" for a, b in X]
    (tmp_path / "banana.csv").write_text("\n".join(["x1,x2,y", *table]))
    monkeypatch.setattr(banana, "QUICK", TINY)
    outcome = said(banana, QUICK._replace(data_dir=tmp_path))
    names = [r.model for r in outcome.rows]
    assert names[:2] == ["merged, M=25", "merged, auto"]
    assert {"PoE, modules", "rBCM, modules", "central SVGP (GPyTorch), M=25"} <= set(names)


# --- units ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_units_are_found_by_the_evidence():
    """Two groups that measure one function, one of them upside down and in other units."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 6, 120))
    f = 2 * np.sin(1.5 * x) + 0.5 * x
    y = f + 0.1 * rng.normal(size=len(x))
    here = rgp.fit(x[::2, None], y[::2], publish=12, name="here")
    there = rgp.fit(x[1::2, None], (y[1::2] - 7) / -3, publish=12, name="there")
    fixed = rgp.merge([here], inducing=np.linspace(0, 6, 25)[:, None])
    found = london.align(fixed, [there], 1.0)
    assert found.best.scale == pytest.approx(-3, rel=0.02)
    assert found.best.shift == pytest.approx(7, abs=0.1)
    assert found.best.evidence > max(found.other.evidence, found.nothing) + 50


def test_the_best_shift_is_the_best():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 6, 60)
    here = rgp.fit(x[:30, None], np.sin(x[:30]) + 0.1 * rng.normal(size=30), publish=6, name="here")
    there = rgp.fit(x[30:, None], 4 + np.cos(x[30:]) + 0.1 * rng.normal(size=30), publish=6, name="there")
    fixed = rgp.merge([here])
    best = london.profiled(fixed, [there], 0.7)
    for shift in (best.shift - 0.01, best.shift + 0.01):
        other = fixed.add(there.transform(output_scale=0.7, output_shift=shift)).evidence + 30 * math.log(0.7)
        assert other < best.evidence


@pytest.mark.slow
def test_london_runs_on_a_small_city(monkeypatch):
    rng = np.random.default_rng(4)
    where = rng.uniform(size=(400, 2))
    f = 6 * np.sin(3 * where[:, 0]) * np.cos(2 * where[:, 1]) - 2
    contract = (rng.uniform(size=400) < 1 / (1 + np.exp(-f))).astype(float)
    city = data.Houses(where, 12 - 0.3 * f + 0.1 * rng.normal(size=400), contract, "Nowhere", "freehold")
    monkeypatch.setattr(london, "houses", lambda folder: city)
    monkeypatch.setattr(london, "COARSE", 7)
    monkeypatch.setattr(london, "FINE", 3)
    monkeypatch.setattr(london, "QUICK", london.Size(60, 20, 9, 12, TINY))
    outcome = said(london, QUICK)
    by_name = {r.model: r for r in outcome.rows}
    raw, aligned = by_name["merged, raw: log-price as it is"], by_name["merged, units by the evidence"]
    assert aligned.nlpd < raw.nlpd
    assert any("·log-price" in note for note in outcome.notes)


def test_nobody_sees_what_is_asked():
    rng = np.random.default_rng(6)
    homes = data.Houses(rng.uniform(size=(200, 2)), rng.normal(size=200), np.ones(200), "Nowhere", "freehold")
    city = london.divide(homes, None, 0)
    asked = {tuple(x) for x in city.asked.X}
    seen = [city.prices[0], *(X for X, _ in city.contracts)]
    assert isinstance(city.asked, Held)
    assert not asked & {tuple(x) for X in seen for x in X}
    assert all((x > city.centre).all() for x in city.asked.X)
    assert all(not (x > city.centre).all() for X, _ in city.contracts for x in X)

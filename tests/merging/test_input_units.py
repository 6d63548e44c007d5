"""Modules whose inputs are in other units: found, explained, and put right by what is proposed."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from recyclegp.core.packing import pack
from recyclegp.core.posterior import basis
from recyclegp.core.sites import Site
from recyclegp.kernels import parse
from recyclegp.kernels.units import InputUnits
from recyclegp.merging.consensus import Consensus
from recyclegp.merging.input_units import Place, best_units, fits
from recyclegp.merging.verdicts import InputFactor, Standing, Units, Verdict

# --- three hospitals --------------------------------------------------------------------------


def hospital(seed, rows=60):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 80, rows), rng.uniform(5, 50, rows)
    y = 110 + 0.4 * age - 12 * np.tanh((dose - 20) / 8) + 2 * rng.standard_normal(rows)
    return pd.DataFrame({"age": age, "dose": dose}), y


def three(change, names=True):
    """Modules of three hospitals, of which the second has measured something differently."""
    made = []
    for seed in range(3):
        X, y = hospital(seed)
        X = change(X) if seed == 1 else X
        made.append(rgp.fit(X if names else X.to_numpy(), y, name=f"h{seed}"))
    return made


def in_grams(X):
    return X.assign(dose=X.dose / 1000)


def put_right(modules, name, remedy):
    scale = {f.column: f.scale for f in remedy.inputs}
    shift = {f.column: f.shift for f in remedy.inputs}
    return [m.transform(input_scale=scale, input_shift=shift) if m.name == name else m for m in modules]


def test_a_dose_in_grams_is_flagged_and_put_right():
    modules = three(in_grams)
    found = rgp.screen(modules)
    assert found.flagged == ["h1"]
    verdict = found.verdicts["h1"]
    assert verdict.remedy.inputs == (InputFactor("dose", 1000.0),)
    assert verdict.reason == "inputs in other units: it would agree as 1000·dose"
    assert verdict.proposal == "transform(input_scale={'dose': 1000})"
    right = put_right(modules, "h1", verdict.remedy)
    assert rgp.screen(right).flagged == []
    e = rgp.merge(right)  # a warning would be an error
    assert {row["trust"] for row in e.report()} == {"trusted"}
    X, _ = hospital(9)
    assert np.sqrt(np.mean((e.predict(X)[0] - 110 - 0.4 * X.age + 12 * np.tanh((X.dose - 20) / 8)) ** 2)) < 1.5


@pytest.mark.parametrize(
    ("change", "factor"),
    [
        (lambda X: X.assign(dose=X.dose / 2.54), InputFactor("dose", 2.54)),
        (lambda X: X.assign(dose=X.dose / 1.3), None),  # nobody uses this factor, and it is learned
    ],
)
def test_other_units_are_found(change, factor):
    modules = three(change)
    found = rgp.screen(modules, owners=None)
    assert found.flagged == ["h1"]
    (said,) = found.verdicts["h1"].remedy.inputs
    if factor is None:
        assert said.column == "dose"
        assert said.scale == pytest.approx(1.3, rel=0.05)
    else:
        assert said == pytest.approx(factor)
    assert rgp.screen(put_right(modules, "h1", found.verdicts["h1"].remedy), owners=None).flagged == []


def test_degrees_fahrenheit_among_celsius():
    """A factor and a shift at once."""
    rng = np.random.default_rng(5)
    modules = []
    for i in range(4):
        celsius = rng.uniform(-20, 40, 60)
        y = np.sin(celsius / 8) + 0.1 * rng.standard_normal(60)
        temp = 1.8 * celsius + 32 if i == 2 else celsius
        modules.append(rgp.fit(pd.DataFrame({"temp": temp}), y, name=f"m{i}"))
    found = rgp.screen(modules)
    assert found.flagged == ["m2"]
    assert found.verdicts["m2"].remedy.inputs == (InputFactor("temp", 1 / 1.8, -32 / 1.8),)


def test_a_module_that_is_elsewhere_for_its_units_counts_and_is_named():
    """In micrograms it speaks of doses nobody else has seen: that may be so, and a warning says what may be instead."""
    modules = three(lambda X: X.assign(dose=1000 * X.dose))
    with pytest.warns(rgp.RecycleGPWarning, match=r"1 of 3 modules count, but.*transform\(input_scale=.'dose': 0.001"):
        e = rgp.merge(modules)
    row = next(row for row in e.report() if row["name"] == "h1")
    assert row["weight"] == 1
    assert row["trust"].startswith("cannot be checked: the others know 0% of what it says, and it would agree with")
    assert row["proposal"] == "transform(input_scale={'dose': 0.001})"


def test_an_honest_module_elsewhere_has_no_proposal():
    """Where nobody else has looked, of a function that varies there as it does here, or hardly at all."""
    rng = np.random.default_rng(0)
    for function in (lambda x: np.sin(3 * x), lambda x: 0 * x):
        modules = []
        for i, low in enumerate((0.0, 0.5, 1.0, 12.0)):
            x = rng.uniform(low, low + 3, 50)
            modules.append(rgp.fit(x, function(x) + 0.1 * rng.standard_normal(50), name=f"m{i}", publish=12))
        found = rgp.screen(modules)
        assert found.verdicts["m3"].standing is Standing.UNCHECKED
        assert all(v.remedy is None for v in found.verdicts.values())


def test_inputs_without_names_are_called_by_position():
    modules = three(in_grams, names=False)
    verdict = rgp.screen(modules).verdicts["h1"]
    assert verdict.proposal == "transform(input_scale={1: 1000})"
    assert verdict.proposed().shell("h1.safetensors") == (
        "recyclegp transform h1.safetensors --input-scale 1=1000 -o h1-new.safetensors"
    )
    assert "1000·input 2" in verdict.reason
    assert rgp.screen(put_right(modules, "h1", verdict.remedy)).flagged == []


def test_a_proposal_goes_through_a_file(tmp_path):
    with pytest.warns(rgp.RecycleGPWarning, match="1 of 3 modules contradict the others"):
        e = rgp.merge(three(in_grams))
    e.save(tmp_path / "e.safetensors")
    back = rgp.load(tmp_path / "e.safetensors")
    assert [m.verdict for m in back._members] == [m.verdict for m in e._members]
    assert back._members[1].verdict.remedy.inputs == (InputFactor("dose", 1000.0),)


# --- words ------------------------------------------------------------------------------------


def test_proposals_in_python_and_on_the_command_line():
    both = Units(inputs=(InputFactor("temp", 1.8, 32.0), InputFactor("dose in g", 1000.0)))
    verdict = Verdict(Standing.FLAGGED, remedy=both)
    assert verdict.proposal == "transform(input_scale={'temp': 1.8, 'dose in g': 1000}, input_shift={'temp': 32})"
    assert verdict.proposed().shell("a b.safetensors") == (
        "recyclegp transform 'a b.safetensors' --input-scale temp=1.8 --input-scale 'dose in g=1000' "
        "--input-shift temp=32 -o 'a b-new.safetensors'"
    )
    assert [f.words for f in both.inputs] == ["1.8·temp + 32", "1000·dose in g"]
    assert InputFactor(0, 1.0, -273.15).words == "input 1 − 273.1"
    of_y = Verdict(Standing.FLAGGED, remedy=Units(2.0, 6.0).back)
    assert of_y.proposed().shell("m.safetensors") == (
        "recyclegp transform m.safetensors --output-scale 0.5 --output-shift -3 -o m-new.safetensors"
    )
    assert Verdict(Standing.FLAGGED).proposed() is None
    assert Verdict(Standing.FLAGGED, remedy=Units(1 + 1e-9, 0.0)).proposed() is None  # nothing would change


# --- the formula ------------------------------------------------------------------------------


def rbf(A, B, lengths, variance):
    return variance * np.exp(-0.5 * (((A[:, None] - B[None]) / lengths) ** 2).sum(-1))


def test_fits_are_log_densities_in_numpy():
    """log N(ρ; m·1 + Hv̂, c(I + RᵀK'R − HHᵀ + H(CCᵀ)⁻¹Hᵀ)), as a difference between two changes of units."""
    rng = np.random.default_rng(3)
    lengths, variance, mean, usual = np.array([0.7, 2.0]), 1.4, 0.6, 1.3
    kernel = parse("rbf", 2)
    kernel = kernel.with_theta(torch.tensor([math.log(variance), *np.log(lengths)]))
    Z, X = rng.uniform(0, 3, (9, 2)), rng.uniform(0, 3, (5, 2))
    Rt, rho = rng.standard_normal((4, 5)), rng.standard_normal(4)
    base = basis(kernel, torch.tensor(Z))
    L, jitter = base.L.numpy(), float(base.jitter)
    A = rng.standard_normal((9, 9))
    C, v = np.linalg.cholesky(np.eye(9) + A @ A.T), rng.standard_normal(9)
    agreed = Consensus(torch.tensor([True]), torch.tensor(v), torch.tensor(C), 0.0, 1.0)
    site = Site(*map(torch.tensor, (X, Rt, rho)), torch.tensor(0.0, dtype=torch.float64))
    place = Place(base, pack([site], [0]), agreed, mean, usual)
    scale, shift = np.array([[1.0, 1.0], [0.8, 1.2], [1.0, 0.4]]), np.array([[0.0, 0.0], [0.3, 0.0], [0.0, 1.0]])
    found = fits(place, InputUnits(torch.tensor(scale), torch.tensor(shift)))
    wanted, shares = [], []
    for a, b in zip(scale, shift, strict=True):
        there = a * X + b
        H = Rt @ np.linalg.solve(L, rbf(Z, there, lengths, variance)).T
        prior = np.eye(4) + Rt @ (rbf(there, there, lengths, variance) + jitter * np.eye(5)) @ Rt.T
        cov = prior - H @ H.T + H @ np.linalg.inv(C @ C.T) @ H.T
        error = rho - mean * Rt.sum(1) - H @ v
        wanted.append(
            -0.5 * (error @ np.linalg.solve(usual * cov, error) + np.linalg.slogdet(2 * np.pi * usual * cov)[1])
        )
        shares.append(1 - np.linalg.slogdet(cov)[1] / np.linalg.slogdet(prior)[1])
    np.testing.assert_allclose(np.diff(found.value.numpy()), np.diff(wanted), rtol=1e-8)
    np.testing.assert_allclose(found.share.numpy(), shares, rtol=1e-7)
    assert best_units(place, lambda change: False).value == pytest.approx(float(found.value[0]))

"""transform: x' = scale·x + shift and y' = s·y + b, against NumPy, for modules, many of them, and ensembles."""

import math

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
import reference as ref
from recyclegp.target import Target

SCALE, SHIFT, S, B = np.array([1.8, 0.001]), np.array([32.0, -4.0]), -2.5, 7.0
UNITS = {"input_scale": SCALE, "input_shift": SHIFT, "output_scale": S, "output_shift": B}
COLUMNS = ["temp", "dose"]
NOISE = 0.04


def rows(seed, n=30):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(10, 30, n), rng.uniform(0, 900, n)])
    return X, np.sin(X[:, 0] / 4) + X[:, 1] / 500 + 0.2 * rng.standard_normal(n)


X_NEW = rows(99, 7)[0]
LENGTHS, PERIODS, SLOPES, VARIANCE = [5.0, 300.0], [7.0, 410.0], [2e-3, 3e-6], 1.7


def gpytorch_kernel(kind):
    k = gpytorch.kernels
    if kind == "linear":
        made = k.LinearKernel(ard_num_dims=2).double()
        made.variance = torch.tensor([SLOPES]).double()
        return made
    if kind == "periodic":
        made = k.PeriodicKernel(ard_num_dims=2).double()
        made.lengthscale, made.period_length = torch.tensor([[0.8, 1.3]]).double(), torch.tensor([PERIODS]).double()
    else:
        made = {"rbf": k.RBFKernel(ard_num_dims=2), "matern52": k.MaternKernel(nu=2.5, ard_num_dims=2)}[kind].double()
        made.lengthscale = torch.tensor([LENGTHS]).double()
    made = k.ScaleKernel(made).double()
    made.outputscale = VARIANCE
    return made


def formula(kind, scale, shift):
    """The kernel of f((x − shift)/scale), written down in the new units."""
    if kind == "linear":
        return lambda A, C: ref.linear(A, C, np.array(SLOPES) / scale**2, shift)
    if kind == "periodic":
        return lambda A, C: VARIANCE * ref.periodic(A, C, [0.8, 1.3], scale * PERIODS)
    if kind == "rbf":
        return lambda A, C: VARIANCE * ref.rbf(A, C, scale * LENGTHS)
    return lambda A, C: VARIANCE * ref.matern(A, C, scale * LENGTHS, 2.5)


@pytest.mark.parametrize("kind", ["rbf", "matern52", "periodic", "linear"])
def test_a_module_in_other_units_is_the_posterior_of_rows_in_other_units(kind):
    """Exact GP regression in NumPy on scale·X + shift and s·y + b, at the kernel in those units."""
    X, y = rows(0)
    m = rgp.fit(X, y, kernel=gpytorch_kernel(kind), learn=False, noise=NOISE, publish=X, columns=COLUMNS)
    new = m.transform(**UNITS)
    k, there, asked = formula(kind, SCALE, SHIFT), SCALE * X + SHIFT, SCALE * X_NEW + SHIFT
    A = S**2 * (k(there, there) + NOISE * np.eye(len(y)))
    cross, error = S**2 * k(there, asked), (S * y + B) - (S * m.mean + B)
    mean, variance = new.predict(asked)
    np.testing.assert_allclose(mean, S * m.mean + B + cross.T @ np.linalg.solve(A, error), rtol=1e-5, atol=1e-6)
    wanted = S**2 * np.diag(k(asked, asked)) - (cross * np.linalg.solve(A, cross)).sum(0)
    np.testing.assert_allclose(variance, wanted, rtol=1e-4, atol=1e-6)
    evidence = -0.5 * (error @ np.linalg.solve(A, error) + np.linalg.slogdet(A)[1] + len(y) * math.log(2 * math.pi))
    assert new.evidence == pytest.approx(evidence, abs=1e-4)


def learned(seed, name):
    X, y = rows(seed)
    return rgp.fit(pd.DataFrame(X, columns=COLUMNS), y, publish=10, name=name, target="pressure", unit="mmHg")


@pytest.fixture(scope="module")
def pair():
    return [learned(1, "a"), learned(2, "b")]


def models(pair):
    return {
        "module": pair[0],
        "exact": rgp.merge(pair, inducing="all"),
        "points": rgp.merge(pair, inducing=12),
        "names": rgp.merge(pair, inducing=12, keep="names"),
    }


@pytest.mark.parametrize("kind", ["module", "exact", "points", "names"])
def test_inputs_in_other_units_change_no_prediction_and_no_evidence(pair, kind):
    """g(scale·x + shift) = f(x), and the evidence is the same."""
    old = models(pair)[kind]
    new = old.transform(input_scale={"dose": 1000.0}, input_shift={"temp": 32.0})
    there = X_NEW * [1.0, 1000.0] + [32.0, 0.0]
    for one, other in zip(new.predict(there), old.predict(X_NEW), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    np.testing.assert_allclose(new.sample(there, 3, seed=1), old.sample(X_NEW, 3, seed=1), rtol=1e-6, atol=1e-7)
    assert new.evidence == pytest.approx(old.evidence, rel=1e-10)
    np.testing.assert_allclose(new.region, old.region * [[1.0], [1000.0]] + [[32.0], [0.0]], rtol=1e-12)
    assert new.noise == old.noise
    assert new.target == Target("pressure", "mmHg")
    back = new.transform(input_shift={"temp": -32.0}).transform(input_scale={"dose": 1e-3})
    np.testing.assert_allclose(back.predict(X_NEW)[0], old.predict(X_NEW)[0], rtol=1e-8)


def test_the_order_is_multiply_first_and_shift_afterwards(pair):
    """°C to °F."""
    celsius = pair[0]
    fahrenheit = celsius.transform(input_scale={"temp": 1.8}, input_shift={"temp": 32})
    for c, f in ((10.0, 50.0), (20.0, 68.0)):
        assert fahrenheit.predict([[f, 100.0]])[0] == pytest.approx(celsius.predict([[c, 100.0]])[0], rel=1e-9)


def test_names_and_places_are_the_same(pair):
    by_name = pair[0].transform(input_scale={"dose": 0.5}, input_shift={"temp": 3.0})
    by_place = pair[0].transform(input_scale=[1.0, 0.5], input_shift=[3.0, 0.0])
    np.testing.assert_array_equal(by_name.predict(X_NEW)[0], by_place.predict(X_NEW)[0])


def test_one_length_for_all_columns_becomes_one_for_each():
    X, y = rows(3)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    kernel.base_kernel.lengthscale = 40.0
    m = rgp.fit(X, y, kernel=kernel, learn=False, noise=0.1, publish=10)
    new = m.transform(input_scale=[1.0, 1000.0])
    np.testing.assert_allclose(new.predict(X_NEW * [1, 1000])[0], m.predict(X_NEW)[0], rtol=1e-9)


@pytest.mark.parametrize("inducing", ["all", 14])
def test_transforming_then_merging_is_merging_then_transforming(pair, inducing):
    e = rgp.merge(pair, learn=False, inducing=inducing)
    points = inducing if inducing == "all" else SCALE * e.inducing + SHIFT
    first = rgp.merge([m.transform(**UNITS) for m in pair], learn=False, inducing=points)
    then = e.transform(**UNITS)
    for one, other in zip(first.predict(X_NEW), then.predict(X_NEW), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert first.evidence == pytest.approx(then.evidence, rel=1e-8)
    left = then.remove("a", relearn=False)
    np.testing.assert_allclose(
        left.predict(X_NEW)[0], e.remove("a", relearn=False).transform(**UNITS).predict(X_NEW)[0], rtol=1e-6
    )


def test_a_recipe_follows_its_inputs(pair):
    """Relearning after a change of inputs is a change of inputs after relearning."""
    e = rgp.merge([*pair, learned(4, "c")])
    how = {"input_scale": SCALE, "input_shift": SHIFT}
    one = e.transform(**how).remove("c", relearn=True)
    other = e.remove("c", relearn=True).transform(**how)
    there = SCALE * X_NEW + SHIFT
    np.testing.assert_allclose(one.predict(there)[0], other.predict(there)[0], rtol=1e-3)


def test_many_modules_at_once(tmp_path):
    """The same as one by one, also through a file."""
    many = rgp.fit_many([rows(s) for s in range(4)], names=list("abcd"), columns=COLUMNS, publish=8)
    how = UNITS | {"unit": "kPa"}
    new = many[1:].transform(**how)
    new.save(tmp_path / "many.safetensors")
    for found in (new, rgp.load_many(tmp_path / "many.safetensors")):
        assert found.names == ["b", "c", "d"]
        for one, module in zip(found, many[1:], strict=True):
            wanted = module.transform(**how)
            for x, y in zip(one.predict(X_NEW), wanted.predict(X_NEW), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9)
            assert one.evidence == pytest.approx(wanted.evidence, rel=1e-9)
            assert one.noise_evidence == pytest.approx(wanted.noise_evidence)
            assert (one.noise, one.target.unit) == (pytest.approx(wanted.noise), "kPa")


def test_an_ensemble_says_its_new_unit(pair, tmp_path):
    e = rgp.merge(pair)
    new = e.transform(output_scale=0.133322, unit="kPa")
    assert new.target == Target("pressure", "kPa")
    assert e.transform(output_scale=2.0).target == Target("pressure")
    new.save(tmp_path / "e.safetensors")
    assert rgp.load(tmp_path / "e.safetensors").target == Target("pressure", "kPa")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"input_scale": [1.0, 0.0]}, "input_scale.*positive.*mirror"),
        ({"input_scale": {"dose": -1.0}}, "input_scale.*positive.*mirror"),
        ({"input_scale": {"dose": math.nan}}, r"input_scale=\{'dose': nan\}; pass a finite number"),
        ({"input_scale": {"dose": "1"}}, r"input_scale=\{'dose': '1'\}; pass a finite number"),
        ({"input_scale": {"weight": 2.0}}, "input_scale: no input column weight; there are temp, dose"),
        ({"input_shift": {"weight": 2.0}}, "input_shift: no input column weight; there are temp, dose"),
        ({"input_scale": [2.0]}, "input_scale has 1 numbers for 2 input columns; pass one each, or a dict"),
        ({"input_shift": [2.0, 1.0, 3.0]}, "input_shift has 3 numbers for 2 input columns"),
    ],
)
def test_units_that_are_none(pair, how, message):
    for model in (pair[0], rgp.merge(pair, learn=False)):
        with pytest.raises(rgp.RecycleGPError, match=message):
            model.transform(**how)


def test_names_need_names():
    m = rgp.fit(*rows(5), publish=5)
    with pytest.raises(rgp.RecycleGPError, match=r"input_scale: the 2 input columns have no names.*with_columns"):
        m.transform(input_scale={"dose": 2.0})
    m.with_columns(COLUMNS).transform(input_scale={"dose": 2.0})


# --- categories, and several functions at once ------------------------------------------------


def test_categories_have_no_units():
    X, y = rows(6, 40)
    frame = pd.DataFrame(X, columns=COLUMNS).assign(ward=["surgery", "medicine"] * 20)
    m = rgp.fit(frame, y, publish=10)
    new = m.transform(input_scale={"dose": 1000.0}, input_shift={"temp": 3.0})
    there = frame.assign(dose=1000 * frame.dose, temp=frame.temp + 3)
    np.testing.assert_allclose(new.predict(there)[0], m.predict(frame)[0], rtol=1e-8)
    assert new.evidence == pytest.approx(m.evidence, rel=1e-9)
    for how in ({"input_scale": {"ward": 2.0}}, {"input_shift": {"ward": 1.0}}):
        with pytest.raises(rgp.RecycleGPError, match="column 'ward' holds categories, which have no place"):
            m.transform(**how)


def test_several_outputs_at_once():
    """Each of them, apart and coupled."""
    made = []
    for seed in (7, 8):
        X, y = rows(seed, 40)
        made.append(
            rgp.fit(pd.DataFrame(X, columns=COLUMNS), np.column_stack([y, 2 * y + 1]), name=f"j{seed}", publish=8)
        )
    how = {"input_scale": {"dose": 1000.0}, "input_shift": {"temp": 32.0}}
    there = X_NEW * [1.0, 1000.0] + [32.0, 0.0]
    for model in (made[0], rgp.merge(made)):
        new = model.transform(**how)
        for one, other in zip(new.predict(there), model.predict(X_NEW), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
        assert new.evidence == pytest.approx(model.evidence, rel=1e-9)

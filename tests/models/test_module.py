"""What a module holds, and what it hands out."""

import pickle

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from recyclegp.target import Target

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.fixture(scope="module")
def module():
    return rgp.fit(X, Y, publish=12, name="a")


@pytest.mark.parametrize("M", [8, 16, 30])
def test_moments_of_an_exact_gp_need_no_jitter(M):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.3, 1.7
    Z = torch.linspace(0, 1, M, dtype=torch.float64)[:, None]
    data = torch.as_tensor(RNG.uniform(0, 1, (40, 1)))
    y = torch.sin(7 * data[:, 0]) + 0.3
    with torch.no_grad():
        K = kernel(data).to_dense() + 0.01 * torch.eye(40)
        cross = kernel(Z, data).to_dense()
        mean = cross @ torch.linalg.solve(K, y)
        S = kernel(Z).to_dense() - cross @ torch.linalg.solve(K, cross.mT)
    m = rgp.Module.from_moments(Z, mean, S, kernel=kernel, name="w")
    np.testing.assert_allclose(m.predict(Z.numpy())[0], mean, atol=1e-5)
    np.testing.assert_allclose(m.predict(Z.numpy())[1], S.diagonal(), atol=1e-5)


def test_what_is_handed_out_is_a_copy(module):
    e = rgp.merge([module])
    before = module.predict(X)[0]
    module.site.rho[:] = 100.0
    with pytest.raises(ValueError, match="read-only"):
        e.inducing[0] = 3.0
    np.testing.assert_array_equal(module.predict(X)[0], before)


def test_pickles_hold_no_caches():
    m = rgp.fit(X[:20], Y[:20], publish=6, name="m")
    small = len(pickle.dumps(m))
    m.predict(X)
    assert len(pickle.dumps(m)) == small


@pytest.mark.parametrize("points", [12, 13, 400])
def test_publishing_at_no_fewer_points_changes_nothing(module, points):
    """Other points of the same number would know less."""
    np.testing.assert_array_equal(module.publish(points).inducing, module.inducing)
    np.testing.assert_array_equal(module.publish(points).predict(X)[1], module.predict(X)[1])


def test_nothing_inside_can_be_written_to(module):
    """Also not through what an ensemble hands out."""
    e = rgp.merge([module], inducing=module.inducing)
    before = [*e.predict(X), *module.predict(X)]
    for handed in (e.basis, e.posterior.basis, module.posterior.basis):
        handed.Z[:] = 0
        handed.L[:] = 0
        handed.kernel.theta[:] = 0
    e.posterior.v[:] = 100
    e.kernel_spec.theta[:] = 5
    module.kernel_spec.theta[:] = 5
    for now, then in zip([*e.predict(X), *module.predict(X)], before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_nothing_inside_an_exact_ensemble_can_be_written_to(module):
    e = rgp.merge([module], inducing="all")
    before = e.predict(X)
    e.posterior.alpha[:] = 100
    e.posterior.L[:] = 0
    e.posterior.stacked.Z[:] = 0
    e.basis.Z[:] = 0
    np.testing.assert_array_equal(e.predict(X), before)


@pytest.mark.parametrize("weight", [0.37, 1.0, 2.4])
def test_units_and_recycling_commute(module, weight):
    """Evidence counts densities of y, of which a weighted module has no whole number."""
    e = rgp.merge([module], weights=[weight], learn=False)
    first, last = e.transform(output_scale=3.0).to_module("x"), e.to_module("x").transform(output_scale=3.0)
    assert first.evidence == pytest.approx(last.evidence, rel=1e-12)
    assert e.transform(output_scale=3.0).bound == pytest.approx(last.evidence, rel=1e-12)


def test_what_y_means_survives_files(tmp_path):
    series = pd.Series(Y, name="pressure")
    m = rgp.fit(X, series, unit="mmHg", publish=6, learn=False, name="a")
    m.save(tmp_path / "m.safetensors")
    again = rgp.load(tmp_path / "m.safetensors")
    assert again.target == m.target == Target("pressure", "mmHg")
    e = rgp.merge([again], learn=False)
    e.save(tmp_path / "e.safetensors")
    assert rgp.load(tmp_path / "e.safetensors").target == m.target
    assert e.to_module("b").target == m.target
    assert m.transform(output_scale=2.0).target == Target("pressure")  # nobody knows its unit now
    assert m.transform(output_scale=2.0, unit="half").target == Target("pressure", "half")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": ""}, "unit=''"),
        ({"target": "a\nb"}, "target='a"),
        ({"labels": ["a"]}, "give two"),
        ({"labels": ["a", "a"], "likelihood": "bernoulli"}, "two different ones"),
        ({"labels": ["a", "b"]}, "has no classes"),
    ],
)
def test_words_are_checked(options, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.fit(X, (Y > 0).astype(float), **options)


# --- fewer digits -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plane():
    """A module whose inputs are far from zero, and whose columns are of different sizes."""
    inputs = RNG.uniform(0, 6, (90, 2)) * [1.0, 200.0] + [50.0, -3000.0]
    y = np.sin(inputs[:, 0]) * np.cos(inputs[:, 1] / 150) + 40 + 0.2 * RNG.normal(size=90)
    return inputs, rgp.fit(inputs, y, name="plane")


def test_twelve_digits_predict_the_same(plane):
    inputs, m = plane
    short = m.rounded(12)
    for now, before in zip(short.predict(inputs), m.predict(inputs), strict=True):
        np.testing.assert_allclose(now, before, atol=1e-6)
    assert short.kept == pytest.approx(m.kept, abs=1e-6)
    assert short.evidence == pytest.approx(m.evidence, abs=1e-3)


@pytest.mark.parametrize("digits", [1, 2, 3, 6])
def test_rounded_modules_are_modules(plane, tmp_path, digits):
    inputs, m = plane
    before, whole = m.predict(inputs)[0].copy(), m.inducing.copy()
    short = m.rounded(digits)
    np.testing.assert_array_equal(m.predict(inputs)[0], before)  # the module itself stays
    np.testing.assert_array_equal(m.inducing, whole)
    assert (short.name, short.rows, short.noise, short.mean) == (m.name, m.rows, m.noise, m.mean)
    assert len(short.inducing) <= len(whole)
    unit = 10.0 ** (np.floor(np.log10(whole.std(0))) + 1 - digits)
    np.testing.assert_allclose(short.inducing / unit, np.round(short.inducing / unit), atol=1e-6)
    short.save(tmp_path / "m.safetensors")
    again = rgp.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict(inputs)[0], short.predict(inputs)[0])
    mean, variance = rgp.merge([again, m.rename("b")], learn=False).predict(inputs)
    assert np.isfinite(mean).all()
    assert (variance > 0).all()
    if digits >= 3:
        np.testing.assert_allclose(short.predict(inputs)[0], before, atol=0.1)


def test_what_is_said_has_so_few_digits(plane):
    """In the coordinates in which it is rounded: H = RᵀL up to the signs of its rows, ρ̃, e, and the noise evidence."""
    _, m = plane
    short = m.rounded(3)
    K = short.kernel(torch.tensor(short.inducing)).to_dense().detach().numpy()
    L = np.linalg.cholesky(K + short.jitter * np.eye(len(K)))
    H = short.site.Rt.numpy() @ L
    H = H[np.abs(H) > 1e-6 * np.abs(H).max()]
    digits = H / 10.0 ** (np.floor(np.log10(np.abs(H)) + 1e-9) - 2)
    assert np.mean(np.abs(digits - np.round(digits)) < 1e-2) > 0.99
    for value in (float(short.site.e), *short.noise_evidence):
        assert value == pytest.approx(float(f"{value:.2e}"), rel=1e-12)


@pytest.mark.parametrize("digits", [0, 16, -1, 2.5, "3", True, None])
def test_digits_are_checked(module, digits):
    with pytest.raises(rgp.RecycleGPError, match=r"digits=.*from 1 to 15"):
        module.rounded(digits)

"""What a file says of y may have no finite mean or variance: predictions are finite numbers all the same."""

import numpy as np
import pytest

import recyclegp as rgp
from hostile_files import rebuilt, taken_apart

X = np.linspace(0, 6, 24)[:, None]
F = np.sin(X[:, 0])
COUNTS = np.round(np.exp(F + 1))
Y = {
    "student-t": F,
    "lognormal": np.exp(F),
    "survival": np.where(np.arange(24) % 5, 1, -1) * np.exp(F),
    "poisson": COUNTS,
    "negative-binomial": COUNTS,
}
LIES = {
    "student-t": [(0.1, 1.5), (0.1, 2.0), (1e100, 2.1), (0.1, 1e-3)],
    "lognormal": [(1e3,), (1e100,)],
    "survival": [(1e3,), (1e100,)],
    "negative-binomial": [(1e-3,), (1e-100,)],
}
CASES = [(name, lie) for name, lies in LIES.items() for lie in lies]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heavy")
    found = {}
    for name, y in Y.items():
        path = folder / f"{name}.safetensors"
        rgp.fit(X, y, likelihood=name, learn=False, publish=5, privacy="things", name=name).save(path)
        found[name] = path.read_bytes()
    return found


def forged(content, change, path):
    outer, header, body = taken_apart(content)
    change(header)
    path.write_bytes(rebuilt(outer, header, body))
    return path


def check_finite(path):
    m = rgp.load(path)
    for found in (m.predict_y(X), m.predict_interval(X), m.predict_quantiles(X, [0.01, 0.99]).T):
        for numbers in found:
            assert np.isfinite(numbers).all()
    assert (m.predict_y(X)[1] >= 0).all()


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_parameters_without_a_finite_variance(files, tmp_path, name, parameters):
    def lie(header):
        known = [f for f in header["likelihoods"] if f["name"] == name]
        known[0]["parameters"] = list(parameters)

    check_finite(forged(files[name], lie, tmp_path / "x.safetensors"))


@pytest.mark.parametrize("name", Y)
@pytest.mark.parametrize("mean", [400.0, -400.0, 1e6])
def test_functions_whose_exponential_overflows(files, tmp_path, name, mean):
    def lie(header):
        header["parts"][0]["mean"] = mean

    check_finite(forged(files[name], lie, tmp_path / "x.safetensors"))


@pytest.mark.parametrize("mean", [400.0, -400.0, 1e6])
def test_a_noise_that_overflows(tmp_path, mean):
    """A file with varying noise says that its logarithm is so large."""
    path = tmp_path / "x.safetensors"
    rgp.fit(X, F, likelihood="heteroscedastic", learn=False, publish=5, privacy="things", name="x").save(path)

    def lie(header):
        header["parts"][1]["mean"] = mean

    check_finite(forged(path.read_bytes(), lie, path))
    noise = rgp.load(path).predict_noise(X)
    assert np.isfinite(noise).all()
    assert (noise >= 0).all()

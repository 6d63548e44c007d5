"""A stream of rows is a batch of them, and stays as large as the region that it is about."""

import time

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.merging import affordable
from weighted_sites import kernel

AT = np.random.default_rng(0).uniform(-2, 2, (25, 2))


def rows(n, seed, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    f = np.stack([np.sin(2 * X[:, 0]) + 0.5 * X[:, 1], np.cos(X[:, 0]) - X[:, 1]][:outputs], 1)
    return X, (f + 0.2 * rng.standard_normal(f.shape)).squeeze()


def start(form, monkeypatch, outputs=1):
    """It knows the left half of the region."""
    if form == "points":
        monkeypatch.setattr(affordable, "DIRECT", 0)
        monkeypatch.setattr(affordable, "held", lambda: 0)
    X, y = rows(80, 1, outputs)
    left = X[:, 0] < 0.3
    return rgp.merge(rgp.fit(X[left], y[left], name="first", privacy="things"))


def streamed(e, X, y, path):
    """The ensemble, seconds of each update, and bytes of the file after a half and after all."""
    seconds, sizes = [], []
    for i in range(len(X)):
        begun = time.process_time()
        e = e.update(X[i : i + 1], y[i : i + 1])
        seconds.append(time.process_time() - begun)
        if i + 1 in (len(X) // 2, len(X)):
            e.save(path)
            sizes.append(path.stat().st_size)
    return e, np.array(seconds), sizes


def check(form, n, path, monkeypatch, outputs=1):
    first = start(form, monkeypatch, outputs)
    X, y = rows(n, 2, outputs)
    e, seconds, sizes = streamed(first, X, y, path)
    assert first.groups[0].form.kind == form
    batch = first.update(X, y)
    for one, other in ((e, batch), (e, rgp.load(path))):
        assert one.names == other.names == ["first", "update-1"]
        for p, q in zip(one.predict(AT), other.predict(AT), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-6, atol=1e-6)
    exact = first.update(X, y, publish=None)
    np.testing.assert_allclose(e.predict(AT)[0], exact.predict(AT)[0], atol=0.15)
    assert np.median(seconds[-100:]) < 3 * np.median(seconds[:100])
    assert sizes[1] < 1.25 * sizes[0]
    assert all(len(w.member.site.Z) < 150 for w in e._waiting)
    assert e.rows == first.rows + n


@pytest.mark.parametrize("form", ["exact", "points"])
def test_300_rows_one_by_one_are_300_rows(form, tmp_path, monkeypatch):
    check(form, 300, tmp_path / "e", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["exact", "points"])
def test_10000_rows_one_by_one_are_10000_rows(form, tmp_path, monkeypatch):
    check(form, 10_000, tmp_path / "e", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["exact", "points"])
def test_two_outputs(form, tmp_path, monkeypatch):
    check(form, 150, tmp_path / "e", monkeypatch, outputs=2)


@pytest.mark.parametrize("noises", [False, True])
def test_a_stream_at_points_is_a_sum_over_its_rows(noises):
    """Λ = Σ hhᵀ/s and λ = Σ h(y − m + mhᵀ1)/s with h = K⁻¹k(Z, x), in NumPy."""
    X, y = rows(40, 3)
    Z = np.random.default_rng(4).uniform(-2, 2, (12, 2))
    s = np.random.default_rng(5).uniform(0.05, 0.4, 40) if noises else np.full(40, 0.07)
    e = rgp.merge(rgp.fit(*rows(30, 6), name="a", privacy="things"), inducing=Z, learn=False, kernel=kernel())
    batch = e.update(X, y, noise=s, publish=None)
    for i in range(40):
        e = e.update(X[i : i + 1], y[i : i + 1], noise=s[i], publish=None)
    K = kernel_matrix(e, Z, Z) + e.jitter * np.eye(12)
    h = np.linalg.solve(K, kernel_matrix(e, Z, X))
    precision, shift = (h / s) @ h.T, h @ ((y - e.mean + e.mean * h.sum(0)) / s)
    for one in (e, batch):
        site = one._members[-1].site
        Rt, rho = site.Rt.numpy(), site.rho.numpy()
        np.testing.assert_allclose(Rt.T @ Rt, precision, rtol=1e-6, atol=1e-6 * np.abs(precision).max())
        np.testing.assert_allclose(Rt.T @ rho, shift, rtol=1e-6, atol=1e-6 * np.abs(shift).max())


def kernel_matrix(e, a, b):
    import torch

    return e._kernels[0].matrix(torch.as_tensor(a), torch.as_tensor(b)).numpy()


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "student-t"])
def test_rows_that_are_not_gaussian_obey_the_same_limits(likelihood, tmp_path, monkeypatch):
    first = start("exact", monkeypatch)
    X, y = rows(24, 7)
    y = {"bernoulli": (y > 0) * 1.0, "poisson": np.round(np.exp(y.clip(-1, 2))), "student-t": y}[likelihood]
    noise = 0.05 if likelihood == "student-t" else None
    with pytest.raises(rgp.RecycleGPError, match="8 of 10 rows"):
        first.update(X[:8], y[:8], likelihood=likelihood, noise=noise).save(tmp_path / "e")
    e = first
    for part in range(3):
        some = slice(8 * part, 8 * part + 8)
        e = e.update(X[some], y[some], likelihood=likelihood, noise=noise)
    e.save(tmp_path / "e")
    back = rgp.load(tmp_path / "e")
    assert back.report()[-1]["points_per_row"] <= 0.5
    np.testing.assert_allclose(back.predict(AT), e.predict(AT), rtol=1e-9)
    assert e.predict(X)[1].mean() < first.predict(X)[1].mean()

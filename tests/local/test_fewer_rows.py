"""Exact searches begin on fewer rows, and end where they would have ended without them."""

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.kernels.parsing import parse
from recyclegp.likelihoods import Gaussian
from recyclegp.local import batch_fit, fewer_rows, search_space
from recyclegp.local.samples import Sample, Samples, scales, side_by_side
from recyclegp.local.together import ALONE, GroupSpace

SEARCH = batch_fit.SEARCH


def parts(noise, columns=1, shift=0.0, rows=(150, 130, 170, 150)):
    rng = np.random.default_rng(7)
    found = []
    for n in rows:
        X = rng.uniform(-1, 1, (n, columns))
        found.append((X + shift, np.sin(4 * X).sum(1) + noise * rng.normal(size=n)))
    return found


def reached(data, monkeypatch, *, fewer, **options):
    """Per data set, what the search has maximised where it ended; and how many searches began on fewer rows."""
    values, begun = [], []
    learn, first = batch_fit._learn, fewer_rows.begin
    with monkeypatch.context() as patched:
        patched.setattr(batch_fit, "_learn", lambda *a: (found := learn(*a), values.append(found.values))[0])
        patched.setattr(fewer_rows, "begin", lambda *a: (begun.append(len(a[2][0])), first(*a))[1])
        patched.setattr(batch_fit, "SEARCH", SEARCH._replace(fewer_from=128 if fewer else 10**9, promise=0.0))
        modules = rgp.fit_many(data, method="exact", publish=3, progress=False, **options)
    return torch.cat(values), begun, modules


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
@pytest.mark.parametrize(
    ("noise", "columns", "shift", "kernel"),
    [(0.3, 1, 0.0, "matern52"), (0.3, 2, 0.0, "rbf + linear"), (0.1, 1, 2e9, "rq"), (1e-3, 2, 5.0, "rbf")],
)
def test_it_ends_where_it_would_have_ended(noise, columns, shift, kernel, monkeypatch):
    data = parts(noise, columns, shift)
    (ever, none, _), (found, some, _) = (reached(data, monkeypatch, fewer=f, kernel=kernel) for f in (False, True))
    assert not none
    assert sum(some) == len(data)
    assert bool((found > ever - 1e-2).all())


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_one_by_one_is_the_same(monkeypatch):
    """Which rows are looked at first does not depend on who is fitted beside."""
    data = parts(0.3, 2, rows=(150,) * 3)
    together, _, _ = reached(data, monkeypatch, fewer=True)
    alone = torch.cat([reached([d], monkeypatch, fewer=True)[0] for d in data])
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_some_rows_of_each():
    """Of unequal data sets, one of which has rows of different noise; the shorter one is padded."""
    rng = np.random.default_rng(3)
    X = [torch.tensor(rng.normal(size=(n, 2))) for n in (40, 10)]
    w = torch.tensor(rng.uniform(0.5, 2, 40))
    data = side_by_side([Sample(X[0], X[0][:, 0], w), Sample(X[1], X[1][:, 0], None)], torch.device("cpu"))
    few = data.some(0.5, 8)
    assert few.X.shape == (2, 20, 2)
    assert few.rows.tolist() == [20, 8]
    for own, some in zip(data.X, few.X, strict=True):
        assert all(bool((row == own).all(-1).any()) for row in some)
    assert len({float(v) for v in few.X[0, :, 0]}) == 20
    place = {float(x): float(v) for x, v in zip(X[0][:, 0], w, strict=True)}
    assert few.w[0].tolist() == [place[float(x)] for x in few.X[0, :, 0]]
    assert few.w[1].tolist() == [1.0] * 8 + [0.0] * 12


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_collapsed_ends_where_it_would_have_ended(monkeypatch):
    """But for where points are, which differs with the kernel they were placed for: that is worth tenths of a nat."""
    rng = np.random.default_rng(11)
    data = [(X := rng.uniform(-1, 1, (900, 1)), np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=900)) for _ in range(3)]
    values = []
    learn = batch_fit._learn
    monkeypatch.setattr(batch_fit, "_learn", lambda *a: (found := learn(*a), values.append(found.values))[0])
    for fewest in (10**9, 64):
        monkeypatch.setattr(batch_fit, "SEARCH", SEARCH._replace(fewest_collapsed=fewest))
        rgp.fit_many(data, method="collapsed", inducing=12, publish=None, progress=False)
    ever, found = values
    assert not torch.equal(ever, found)  # other rows were looked at first
    np.testing.assert_allclose(found, ever, atol=0.5)


def test_rows_that_stand_for_more():
    """Each counts so often, also beside rows that count more than once already."""
    X = torch.zeros(2, 4, 1, dtype=torch.float64)
    w = torch.tensor([[1.0, 1.0, 2.0, 0.5], [1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    plain = Samples(X, X[..., 0], w).standing_for(torch.tensor([10.0, 3.0], dtype=torch.float64))
    np.testing.assert_allclose(plain.counts, [[2.5] * 4, [1.5, 1.5, 0, 0]])
    np.testing.assert_allclose(plain.w, w * torch.tensor([[2.5], [1.5]]).sqrt())
    counted = Samples(X[:1], X[:1, :, 0], w[:1], torch.tensor([[1.0, 1.0, 4.0, 2.0]])).standing_for(
        torch.tensor([16.0])
    )
    np.testing.assert_allclose(counted.counts, [[2, 2, 8, 4]])
    np.testing.assert_allclose(counted.w, w[:1] * np.sqrt(2))


def test_what_rows_say_about_hyperparameters():
    """Fisher's information of N(y; m1, K + σ²W⁻²), with derivatives worked out by hand, in a few rows for as many."""
    rng = np.random.default_rng(5)
    n, sizes, D = 9, (9, 6), 2
    X = rng.normal(size=(2, n, D))
    y = rng.normal(size=(2, n)) * 3 + 1
    w = rng.uniform(0.6, 1.5, (2, n)) * (np.arange(n) < np.array(sizes)[:, None])
    data = Samples(torch.tensor(X), torch.tensor(y), torch.tensor(w))
    rows = torch.tensor([20.0, 6.0], dtype=torch.float64)
    kernel = parse("rbf", D)
    space = search_space.search_space(kernel.structure, Gaussian(), scales(data, Gaussian()), rows)
    x = 0.3 * torch.tensor(rng.normal(size=(2, int(space.free.sum()))))
    found = fewer_rows.information(GroupSpace(space, ALONE), data, rows, x, torch.arange(2))
    h = space.unpack(x, torch.arange(2))
    for b, m in enumerate(sizes):
        theta, W = h.kernel.theta[b].numpy(), w[b, :m]
        length = np.exp(theta[1:])
        d2 = ((X[b, :m, None] - X[b, None, :m]) / length) ** 2
        K = W[:, None] * np.exp(theta[0] - 0.5 * d2.sum(-1)) * W
        noise = float(h.likelihood.values[0][b]) * m / float(rows[b])
        by = [K, *(K * d for d in np.moveaxis(d2, -1, 0))] if len(length) == D else [K, K * d2.sum(-1)]
        by.append(noise * np.eye(m))
        A = K + noise * np.eye(m)
        F = np.array([[0.5 * np.trace(np.linalg.solve(A, s) @ np.linalg.solve(A, t)) for t in by] for s in by])
        F[-1, -1] += 0.5 * (float(rows[b]) - m)
        mean = float(space.unit[b, -1]) ** 2 * W @ np.linalg.solve(A, W)
        wanted = np.zeros((len(by) + 1, len(by) + 1))
        wanted[:-1, :-1], wanted[-1, -1] = F, mean
        np.testing.assert_allclose(found[b] - torch.diag(space.sd[space.free] ** -2), wanted, rtol=2e-3, atol=1e-3)

"""A module holds no data rows, and nothing random comes from, or goes into, the global state."""

import random

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp

RNG = np.random.default_rng(42)
CLOUD = RNG.normal(size=(50, 2)) * [1.0, 30.0]
LATTICE = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), -1).reshape(-1, 2)
DATA = {
    "cloud": CLOUD,
    "line": RNG.uniform(-3, 3, (40, 1)),
    "lattice": LATTICE,
    "fine lattice": LATTICE / 8,
    "integers": RNG.integers(0, 4, (50, 2)),
    "one column of integers": np.arange(20)[:, None],
    "duplicates": np.repeat(CLOUD[:6], 5, axis=0),
    "one row": CLOUD[:1],
    "one row of zeros": np.zeros((1, 2)),
    "two rows": CLOUD[:2],
    "one place": np.tile(CLOUD[:1], (9, 1)),
    "constant column": np.c_[CLOUD[:, 0], np.full(50, 3.0)],
    "binary column": np.c_[CLOUD[:, 0], RNG.integers(0, 2, 50)],
    "far away": CLOUD + 1e12,
    "float32": CLOUD.astype(np.float32),
}


CONSTANT = "ignore::recyclegp.errors.NothingToLearnWarning"


def target(X):
    return np.sin(X[:, 0]) + 0.05 * np.cos(np.arange(len(X)))


def rows_of(X):
    return {tuple(row) for row in np.asarray(X, dtype=np.float64).tolist()}


@pytest.mark.filterwarnings(CONSTANT)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("options", [{}, {"method": "collapsed", "inducing": 30}], ids=["exact", "collapsed"])
def test_no_published_point_is_a_data_row(name, options):
    X = DATA[name]
    m = rgp.fit(X, target(X), publish=16, learn=False, allow_small=True, **options)
    assert 1 <= len(m.inducing) <= 16
    assert not rows_of(m.inducing) & rows_of(X)
    again = m.publish(5)
    assert not rows_of(again.inducing) & (rows_of(X) | rows_of(m.inducing))


@pytest.mark.parametrize("likelihood", ["bernoulli", "bernoulli-probit", "poisson", "student-t"])
def test_no_published_point_is_a_data_row_with_other_likelihoods(likelihood):
    for X in (LATTICE, CLOUD):
        y = (target(X) > 0).astype(float)
        for publish in (8, None):
            m = rgp.fit(X, y, likelihood=likelihood, inducing=12, publish=publish, learn=False)
            assert len(m.inducing) >= 1
            assert not rows_of(m.inducing) & rows_of(X)


def test_rows_as_close_as_floats_can_be():
    """Between neighbouring floats there is no third: one clear error."""
    X = np.arange(30.0)[:, None] + 2.0**52
    with pytest.raises(rgp.RecycleGPError, match="X"):
        rgp.fit(X, target(X - 2.0**52), publish=16, learn=False)


@pytest.mark.parametrize("options", [{}, {"method": "collapsed", "inducing": 30}], ids=["exact", "collapsed"])
def test_no_published_point_is_on_the_line_between_two_rows(options):
    """There it would give both rows away to whoever can guess them, and whole numbers to everybody."""
    X = RNG.normal(size=(60, 3)) * [1.0, 30.0, 5.0]
    Z = rgp.fit(X, target(X), publish=25, learn=False, **options).inducing
    X, Z = X / X.std(0), Z / X.std(0)
    along = X[None] - X[:, None]  # (n, n, D): from a to b
    along = along / np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), 1e-300)
    for z in Z:
        from_a = (z - X)[:, None]
        away = np.linalg.norm(from_a - (from_a * along).sum(-1, keepdims=True) * along, axis=-1)
        assert away[~np.eye(len(X), dtype=bool)].min() > 1e-5


def test_learning_does_not_change_that():
    m = rgp.fit(LATTICE, target(LATTICE), publish=64)
    assert not rows_of(m.inducing) & rows_of(LATTICE)


def test_points_given_by_the_user_are_the_users_choice():
    m = rgp.fit(CLOUD, target(CLOUD), publish=CLOUD[:5], learn=False)
    assert rows_of(m.inducing) == rows_of(CLOUD[:5])


@pytest.mark.parametrize("kernel", ["rbf", "rbf + linear"])
@pytest.mark.parametrize("merged", [False, True])
def test_files_hold_no_bytes_of_any_row(tmp_path, kernel, merged):
    X = RNG.normal(size=(40, 2)) + 0.1
    y = target(X)
    frame = pd.DataFrame(X, columns=["a", "b"])
    m = rgp.fit(frame, y, kernel=kernel, publish=20, name="m")
    model = rgp.merge([m, rgp.fit(frame + 0.2, y, kernel=kernel, publish=20, name="n")], learn=False) if merged else m
    model.save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    values = np.r_[X.ravel(), y]
    for value in values:
        assert value.tobytes() not in content
        assert value.astype(">f8").tobytes() not in content
        assert repr(float(value)).encode() not in content
    for row in np.c_[X, y].astype(np.float32):
        assert row[:2].tobytes() not in content
        assert row[1:].tobytes() not in content


def test_one_row_is_not_written_as_the_centre_of_a_kernel(tmp_path):
    rgp.fit(CLOUD[:1], [1.0], kernel="linear", publish=4, allow_small=True).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    assert not any(repr(float(v)).encode() in content for v in CLOUD[0])


def test_a_module_keeps_nothing_of_the_size_of_the_data():
    X = RNG.normal(size=(500, 2))
    m = rgp.fit(X, target(X), publish=10, learn=False)
    assert m.site.Z.shape[0] <= 10
    assert all(t.numel() <= 100 for t in m.site)
    assert all(t.untyped_storage().nbytes() <= 8 * 100 for t in m.site)  # nor a view of something larger


# --- placement --------------------------------------------------------------------------------


def test_different_data_give_different_points():
    X = RNG.uniform(size=(40, 2))
    moved = X.copy()
    moved[7, 1] += 1e-9
    a, b = (rgp.fit(x, target(x), publish=10, learn=False) for x in (X, moved))
    assert not rows_of(a.inducing) & rows_of(b.inducing)
    c = rgp.fit(X, target(X), publish=10, learn=False, seed=1)
    assert rows_of(a.inducing) != rows_of(c.inducing)


def test_points_cover_the_region_of_the_data_and_stay_in_it():
    X = np.r_[RNG.uniform(0, 1, (60, 2)), RNG.uniform(5, 6, (60, 2))]
    Z = rgp.fit(X, target(X), kernel="matern32", publish=24, learn=False).inducing
    assert (X.min(0) <= Z.min(0)).all()
    assert (Z.max(0) <= X.max(0)).all()
    for low in (0, 5):
        inside = (np.abs(Z - low - 0.5) <= 0.5).all(1)
        assert inside.sum() >= 8
        assert np.ptp(Z[inside], axis=0).min() > 0.5


@pytest.mark.filterwarnings(CONSTANT)
@pytest.mark.parametrize("name", ["cloud", "lattice", "duplicates", "one place", "far away"])
def test_points_are_well_conditioned(name):
    X = DATA[name]
    m = rgp.fit(X, target(X), publish=64)
    K = m.kernel(torch.tensor(m.inducing)).to_dense().detach().numpy()
    # each point, in the order chosen, adds at least the floor of 1e-6 of the prior variance
    pivots = np.diag(np.linalg.cholesky(K)) ** 2
    assert (pivots > 0.99e-6 * np.diag(K)).all()
    assert m.jitter <= 1e-9 * np.diag(K).mean()


# --- randomness -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"method": "collapsed", "inducing": 20}, {"likelihood": "student-t"}])
def test_same_seed_same_module(tmp_path, options):
    X = RNG.normal(size=(40, 2))
    for i in range(2):
        np.random.seed(i)  # noqa: NPY002
        torch.manual_seed(i)
        random.seed(i)
        rgp.fit(X, target(X), name="m", publish=8, seed=5, **options).save(tmp_path / str(i))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_points_do_not_depend_on_the_made_up_name():
    a, b = (rgp.fit(CLOUD, target(CLOUD), publish=8, learn=False) for _ in range(2))
    assert a.name != b.name
    np.testing.assert_array_equal(a.inducing, b.inducing)


def state():
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002
    return (kind, keys.tobytes(), *rest), random.getstate(), torch.random.get_rng_state().numpy().tobytes()


@pytest.mark.slow
def test_the_global_random_state_is_never_touched(tmp_path):
    before = state()
    X, y = CLOUD, target(CLOUD)
    a = rgp.fit(X, y, publish=8, name="a")
    b = rgp.fit(X + 1, y > 0, likelihood="bernoulli", inducing=8, name="b")
    e = rgp.merge([a, b])
    e.sample(X, 3)
    a.publish(4)
    e = e.update(X[:5], y[:5], likelihood="gaussian", allow_small=True).remove("b", relearn=False).add(b)
    e.report()
    e.to_module("c").save(tmp_path / "c")
    rgp.load(tmp_path / "c").predict(X)
    assert state() == before


def test_samples_are_seeded():
    m = rgp.fit(CLOUD, target(CLOUD), publish=8, learn=False)
    np.testing.assert_array_equal(m.sample(CLOUD, 3, seed=1), m.sample(CLOUD, 3, seed=1))
    assert np.abs(m.sample(CLOUD, 3, seed=1) - m.sample(CLOUD, 3, seed=2)).max() > 1e-3

"""One local model."""

import numpy as np
import pytest

import recyclegp as rgp

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 6, (80, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.mark.parametrize(
    "kernel", ["rbf", "matern12", "matern32", "matern52", "rq", "periodic", "linear", "rbf * periodic", "rbf + linear"]
)
def test_every_kernel_name_in_one_dimension(kernel, tmp_path):
    m = rgp.fit(X, Y, kernel=kernel, publish=16, name="m")
    m.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(rgp.load(tmp_path / "m.safetensors").predict(X)[0], m.predict(X)[0])
    trend = np.corrcoef(m.predict(X)[0], Y)[0, 1]
    assert trend > (0.01 if kernel == "linear" else 0.97)


def test_a_linear_kernel_may_begin_where_it_has_no_variance():
    for seed in range(20):
        m = rgp.fit(X[:20], Y[:20], kernel="linear", learn=False, noise=0.1, seed=seed)
        assert len(m.inducing) >= 1


@pytest.mark.filterwarnings("ignore::recyclegp.errors.NothingToLearnWarning")
def test_rows_at_one_place_far_from_zero():
    m = rgp.fit(np.full((50, 1), 1e5), 5 + 0.1 * RNG.normal(size=50))
    mean, variance = m.predict([[1e5]])
    assert mean[0] == pytest.approx(5, abs=0.1)
    assert variance[0] < 0.01


@pytest.mark.slow
def test_the_rows_learned_from_do_not_depend_on_what_is_published():
    """Of more rows than are learned from, the same ones are chosen."""
    Z = np.random.default_rng(0).uniform(0, 6, (1300, 1))
    y = np.sin(2 * Z[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=1300)
    few, many = (rgp.fit(Z, y, publish=count, name="a") for count in (5, 31))
    assert few.kernel_spec == many.kernel_spec
    assert few.noise == many.noise


def test_owners_on_one_grid_publish_at_different_points():
    """Their inputs are the same, so the targets decide."""
    grid = np.linspace(0, 5.5, 40)[:, None]
    rng = np.random.default_rng(0)
    parts = [(grid, np.sin(3 * grid[:, 0]) + rng.normal(size=40)) for _ in range(20)]
    modules = rgp.fit_many(parts, publish=3, learn=False)
    assert len({m.inducing.tobytes() for m in modules}) == 20


@pytest.mark.parametrize("scale", [1.0, -2.5, 1e6])
def test_points_do_not_depend_on_the_units_of_y(scale):
    first, other = (rgp.fit(X, y, publish=7, learn=False).inducing for y in (Y, scale * Y + 3.0))
    np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("argument", ["publish", "inducing"])
def test_no_more_points_than_can_be_held(argument):
    options = {"method": "collapsed"} if argument == "inducing" else {}
    with pytest.raises(rgp.RecycleGPError, match=f"{argument}=100000; pass at most 4,096 points"):
        rgp.fit(X, Y, **{argument: 100_000}, **options)
    with pytest.raises(rgp.RecycleGPError, match=f"{argument} has 20000 points; pass at most 16,384"):
        rgp.fit(X, Y, **{argument: np.linspace(0, 1, 20_000)[:, None]}, **options)


def test_points_are_no_more_than_rows_are_worth():
    """Four thousand points about eighty rows would take gigabytes and say nothing new."""
    m = rgp.fit(X, Y, publish=4000, kernel="matern12", learn=False)
    assert len(m.inducing) <= 160


# --- rows that share a point ------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"publish": 0.999},
        {"publish": 64},
        {"publish": 64, "method": "collapsed", "inducing": 20},
        {"publish": None, "method": "collapsed", "inducing": 20},
        {"method": "collapsed", "inducing": 20},
        {"likelihood": "student-t"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
@pytest.mark.parametrize("each", [9, 80])
def test_rows_share_points(options, each):
    assert len(rgp.fit(X, Y, learn=False, rows_per_point=each, **options).inducing) <= 80 // each


def test_no_fewer_points_than_rows_allow():
    """It is a limit, not a wish: what needs fewer points has fewer."""
    assert len(rgp.fit(X, Y, learn=False, publish=8, rows_per_point=10).inducing) == 8
    usual, limited = (rgp.fit(X, Y, rows_per_point=each) for each in (None, 2))
    np.testing.assert_array_equal(usual.inducing, limited.inducing)


@pytest.mark.parametrize("each", [0, -3, 2.5, "20", True])
def test_rows_per_point_is_checked(each):
    with pytest.raises(rgp.RecycleGPError, match=r"rows_per_point=.*whole number"):
        rgp.fit(X, Y, rows_per_point=each)


def test_too_few_rows_for_a_point():
    with pytest.raises(rgp.RecycleGPError, match="rows_per_point=81: 80 rows are too few"):
        rgp.fit(X, Y, rows_per_point=81)


@pytest.mark.parametrize("argument", ["publish", "inducing"])
def test_points_that_are_given_must_be_few_enough(argument):
    method = "collapsed" if argument == "inducing" else "exact"
    Z = np.linspace(0, 6, 9)[:, None]
    with pytest.raises(rgp.RecycleGPError, match=f"rows_per_point=10: 80 rows may have 8 points, and 9 .* {argument}"):
        rgp.fit(X, Y, rows_per_point=10, method=method, **{argument: Z})
    m = rgp.fit(X, Y, rows_per_point=10, method=method, learn=False, **{argument: Z[:8]})
    np.testing.assert_array_equal(m.inducing, Z[:8])


def test_the_warning_names_the_limit():
    with pytest.warns(rgp.RecycleGPWarning, match="a smaller rows_per_point than 40"):
        rgp.fit(X, Y, rows_per_point=40)

"""What is published of people follows from many of them: made-up rows, noise as a bound asks for, coarse numbers."""

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.core.least_squares import CentredRows, solve
from recyclegp.kernels import entries
from recyclegp.local import people
from recyclegp.local.constants import PEOPLE
from recyclegp.local.functions import requests_for
from recyclegp.local.options import FitOptions
from recyclegp.local.samples import side_by_side

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 0.0]
Y = np.sin(X[:, 0]) + X[:, 1] / 20 + 0.3 * RNG.standard_normal(300)


def request(x=X, y=Y, **options):
    return requests_for(x, y, "a", FitOptions.of(privacy="people", **options)).requests[0]


def test_made_up_rows_resemble_the_rows_and_are_none_of_them():
    asked = request()
    made = people.made_up_rows(side_by_side([asked.sample], asked.device), [asked]).X[0].numpy()
    assert made.shape == X.shape
    assert np.abs((made.mean(0) - X.mean(0)) / X.std(0)).max() < 0.2
    np.testing.assert_allclose(made.std(0), X.std(0), rtol=0.35)
    assert not (made[:, None] == X[None]).any()


def made_up(x):
    asked = request(x, np.resize(Y, len(x)))
    return people.made_up_rows(side_by_side([asked.sample], asked.device), [asked]).X[0].numpy()


def test_made_up_rows_go_together_as_the_rows_do():
    """Also a column of 0 and 1 with one of numbers; a column that is another one's double, or constant, is no harm."""
    rng = np.random.default_rng(8)
    one, noise = rng.standard_normal((2, 2000))
    two = 0.8 * one + 0.6 * noise
    group = (one + rng.standard_normal(2000) > 0) * 1.0
    made = made_up(np.c_[one, two, group, 2 * one, np.full(2000, 3.0)])
    found, expected = np.corrcoef(made[:, :3].T), np.corrcoef(np.c_[one, two, group].T)
    assert found[0, 1] == pytest.approx(expected[0, 1], abs=0.06)
    assert (found[2, :2] > 0.7 * expected[2, :2]).all()  # an order of numbers becomes one of groups once more
    np.testing.assert_allclose(made[:, 3], 2 * made[:, 0], atol=0.02 * np.std(2 * one))  # the next rank, at an end
    assert (made[:, 4] == 3).all()


def test_made_up_rows_have_the_shape_of_each_column():
    """Two groups and a long tail: as many made-up rows below each value as there are rows, but at the ends."""
    rng = np.random.default_rng(10)
    x = np.c_[rng.exponential(size=400), np.r_[rng.normal(-3, 0.4, 250), rng.normal(3, 0.4, 150)]]
    made = made_up(x)
    below = [(made < value).mean(0) for value in np.quantile(x, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0)]
    np.testing.assert_allclose(below, np.broadcast_to([[0.1], [0.25], [0.5], [0.75], [0.9]], (5, 2)), atol=0.07)
    assert made[:, 0].min() > -0.4  # where nobody is; of normal rows a sixth would be below


def test_nobody_is_more_of_a_shape_than_one_of_twenty():
    """Whatever one row has in a column, between the central values of the others."""
    column = np.sort(RNG.uniform(0, 1, (200, 1)), 0)
    before = people._shape(torch.as_tensor(column))
    for row, value in ((3, 1.0), (100, 0.0), (180, 0.5)):
        other = column.copy()
        other[row] = value
        away = (people._shape(torch.as_tensor(other)) - before).abs()
        # a block loses the row and all between get a neighbour's; each mean moves by what passes its ends
        assert away.max() <= 1.5 * np.abs(np.sort(other, 0) - column).sum() / PEOPLE.rows_share


def test_values_that_many_have_stay_values():
    """0 or 1 is nobody's number; but a value that few rows have is not in any made-up row."""
    rng = np.random.default_rng(5)
    sex, children = rng.integers(0, 2, 300) * 1.0, rng.permutation(np.repeat([0.0, 1.0, 2.0, 7.0], [150, 100, 47, 3]))
    made = made_up(np.c_[X[:, 0], sex, children])
    assert set(np.unique(made[:, 1])) == {0.0, 1.0}
    assert made[:, 1].mean() == pytest.approx(sex.mean(), abs=4 * (0.25 * 2 / 300) ** 0.5)
    assert set(np.unique(made[:, 2])) == {0.0, 1.0, 2.0}
    rare = np.where(np.arange(300) < 9, 1.0, 0.0)  # of nine rows
    assert (made_up(np.c_[X[:, 0], rare])[:, 1] == 0).all()


def test_where_all_columns_have_common_values_no_made_up_row_is_a_row():
    rng = np.random.default_rng(6)
    made = made_up(np.c_[rng.integers(0, 2, 300), rng.integers(1, 6, 300), rng.integers(0, 3, 300)].astype(float))
    assert set(np.unique(made[:, 0])) == {0.0, 1.0}
    assert not np.isin(made[:, 1], np.arange(7)).any()  # of most values
    assert set(np.unique(made[:, 2])) == {0.0, 1.0, 2.0}


def test_a_level_of_a_column_of_numbers_is_known_as_well_as_by_points_on_it():
    """Points between 0 and 1 say little of either: two groups with functions of their own, and 200 rows."""
    rng = np.random.default_rng(7)
    x = np.c_[rng.uniform(0, 5, 200), rng.integers(0, 2, 200)]

    def f(x):
        return np.where(x[:, 1] > 0, np.sin(x[:, 0]), 1 - 0.4 * x[:, 0])

    m = rgp.fit(x, f(x) + 0.3 * rng.standard_normal(200), privacy="people")
    assert (np.minimum(abs(m.inducing[:, 1]), abs(m.inducing[:, 1] - 1)) < 0.1).all()
    at = np.c_[np.linspace(0.5, 4.5, 40), np.arange(40) % 2]
    assert np.sqrt(np.mean((m.predict(at)[0] - f(at)) ** 2)) < 0.15


def test_nobodys_largest_value_matters():
    """What is far beyond all others moves nothing, however far it is."""
    regions = []
    for far in (1e3, 1e6):
        x = X.copy()
        x[7] = far
        m = rgp.fit(x, Y, privacy="people", seed=1)
        regions.append(np.asarray(m.region))
        assert regions[-1].max() < 120
    assert np.abs(regions[0]).max() < 120


def test_levels_are_drawn_and_stay_levels():
    levels = np.array(["red", "green", "blue"])[RNG.integers(0, 3, 300)]
    import pandas as pd

    m = rgp.fit(pd.DataFrame({"x": X[:, 0], "kind": levels}), Y, privacy="people")
    assert set(np.unique(m.inducing[:, 1])) <= {0.0, 1.0, 2.0}


def test_precision_is_shared_out_by_the_bound():
    """Σ γ/(1+λ) is what may be, no other way keeps more, and without a bound all is kept."""
    precision = torch.tensor([[50.0, 8.0, 2.0, 0.4, 0.0], [0.1, 0.1, 0.05, 0.0, 0.0]], dtype=torch.float64)
    kept = people._filled(precision, torch.tensor([1.2, 1.2], dtype=torch.float64))
    used = (kept / (1 + precision)).sum(-1)
    assert float(used[0]) == pytest.approx(1.2)
    torch.testing.assert_close(kept[1], precision[1])

    def information(gamma):
        return float(torch.log1p(gamma).sum())

    for _ in range(200):  # other ways to use as much
        share = torch.as_tensor(RNG.dirichlet(np.ones(5)))
        other = torch.minimum(share * 1.2 * (1 + precision[0]), precision[0])
        assert information(other) <= information(kept[0]) + 1e-9


def test_what_is_said_is_what_rows_say_with_noise_that_is_declared():
    """Over seeds, uᵀv is published about what the rows say, with the variance 1/γ − 1/λ; with many rows without."""
    rng = np.random.default_rng(3)
    H = torch.as_tensor(rng.standard_normal((1, 40, 6)))
    rho = torch.as_tensor(rng.standard_normal((1, 40)))
    zero = torch.zeros(1, dtype=torch.float64)
    rows = CentredRows(H, rho, zero, zero)
    plenty = people.shared(rows, rows, torch.tensor([1e6], dtype=torch.float64), [request()], 1)
    torch.testing.assert_close(solve(plenty).v, solve(rows).v, rtol=0.02, atol=0.02)
    most = torch.tensor([40.0], dtype=torch.float64)
    _, s, Ut = torch.linalg.svd(H[0], full_matrices=False)
    kept = people._filled(s.square()[None], most / PEOPLE.rows_share)[0]
    seen = kept > 0
    assert int(seen.sum()) > 0
    asked, found = request(), []
    for seed in range(300):
        few = people.shared(rows, rows, most, [asked._replace(entropy=[seed])], 1)
        torch.testing.assert_close(few.H[0].mT @ few.H[0], Ut.mT * kept @ Ut, rtol=0.02, atol=0.02 * float(kept.max()))
        sign = (few.H[0] * Ut).sum(-1).sign()  # a direction is the same either way
        found.append((sign * few.rho[0])[seen].numpy() / kept[seen].sqrt().numpy())
    middle = (1 + 1 / s.square()) * (Ut @ solve(rows).v[0])
    variance = (1 / kept - 1 / s.square())[seen].numpy()
    np.testing.assert_allclose(np.mean(found, 0), middle[seen].numpy(), atol=4 * np.sqrt(variance.max() / 300))
    np.testing.assert_allclose(np.var(found, 0), variance, rtol=0.35)


def test_where_real_rows_know_less_than_made_up_ones_nothing_is_drawn_to_the_mean():
    """Over functions and noise, what is published of uᵀv grows by one with uᵀv, as precisely as it says at most."""
    rng = np.random.default_rng(9)
    real, made = rng.standard_normal((12, 5)) * [3.0, 1.0, 0.4, 0.7, 1.0], rng.standard_normal((30, 5))
    many, zero = 4000, torch.zeros(4000, dtype=torch.float64)
    v = rng.standard_normal((many, 5))
    rho = v @ real.T + rng.standard_normal((many, 12))
    wide = [torch.as_tensor(np.broadcast_to(H, (many, *H.shape)).copy()) for H in (real, made)]
    rows, resembling = (CentredRows(H, torch.as_tensor(rho), zero, zero) for H in wide)
    asked = [request()._replace(entropy=[i]) for i in range(many)]
    said = people.shared(rows, resembling, torch.full((many,), 40.0, dtype=torch.float64), asked, 1)
    R = said.H[0].numpy()
    size = np.linalg.norm(R, axis=1)
    for j in np.flatnonzero(size > 0):
        u = R[j] / size[j]
        observed, truth = said.rho[:, j].numpy() / size[j], v @ u
        slope = observed @ truth / (truth @ truth)
        spread = (observed - slope * truth).std()
        assert slope == pytest.approx(1, abs=4 * spread / many**0.5)
        c = u @ np.linalg.inv(np.eye(5) + real.T @ real) @ u
        rest = np.linalg.inv(np.eye(5) + real.T @ real) @ u
        assert size[j] ** 2 <= 2**0.25 * 1.02 * (1 - c) ** 2 / (c - rest @ rest)  # 1/ν, up to the powers of √2


@pytest.mark.parametrize("kernel", ["rbf", "rbf + linear"])
def test_kernel_noise_and_mean_are_on_a_grid(kernel):
    m = rgp.fit(X, Y, kernel=kernel, privacy="people")
    theta = m.latents[0].kernel.theta
    learned = torch.tensor([p.learned for p in entries(m.latents[0].kernel.structure)])
    exact = rgp.fit(X, Y, kernel=kernel, privacy="things")
    assert 0 < (theta - exact.latents[0].kernel.theta)[learned].abs().max() <= PEOPLE.log_kernel / 2
    assert 0 < abs(np.log(m.noise / exact.noise)) <= PEOPLE.log_noise / 2
    for centre in theta[~learned].tolist():
        assert not np.isclose(centre, X.mean(0)).any()
        assert centre == pytest.approx(float(f"{centre:.6g}"))


def test_what_the_grids_do_averages_out():
    """Owners who agree are not all wrong by the same, as they would be on one grid."""
    rng = np.random.default_rng(3)  # hardly different, but no module has another's random numbers
    parts = [(X + 1e-9 * rng.standard_normal(X.shape), Y) for _ in range(100)]
    exact = rgp.fit(X, Y, privacy="things")
    noises = np.log([m.noise for m in rgp.fit_many(parts, privacy="people", progress=False)])
    away = noises - np.log(exact.noise)
    assert np.abs(away).max() <= PEOPLE.log_noise / 2 + 1e-6
    assert abs(away.mean()) < 4 * PEOPLE.log_noise / np.sqrt(12 * 100)
    assert away.std() == pytest.approx(PEOPLE.log_noise / np.sqrt(12), rel=0.25)


def test_given_numbers_stay():
    import gpytorch

    k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))
    k.base_kernel.lengthscale = torch.tensor([1.3, 7.7, 0.9])
    m = rgp.fit(X, Y, kernel=k, learn=False, noise=0.123, privacy="people")
    assert m.noise == pytest.approx(0.123)
    np.testing.assert_allclose(m.latents[0].kernel.lengths(3).numpy(), [1.3, 7.7, 0.9], rtol=1e-6)


def test_counts_are_rounded():
    assert rgp.fit(X[:287], Y[:287], privacy="people").rows == 290
    assert rgp.fit(X[:287], Y[:287], weights=np.full(287, 1.5), privacy="people").rows % 10 == 0
    assert rgp.fit_many([(X[:104], Y[:104])], privacy="people", progress=False)[0].rows == 100


def test_few_points_and_enough_rows():
    assert len(rgp.fit(X, Y, privacy="people").inducing) <= 30
    assert len(rgp.fit(X, Y, privacy="people", publish=200).inducing) <= 30
    assert len(rgp.fit(X, Y, privacy="people", rows_per_point=100).inducing) <= 3
    with pytest.raises(rgp.RecycleGPError, match=r"^privacy='people': 19 rows are too few, it needs 20"):
        rgp.fit(X[:19], Y[:19], privacy="people")
    with pytest.raises(rgp.RecycleGPError, match=r"^privacy='people': 1 of the 2 points in publish are rows"):
        rgp.fit(X, Y, privacy="people", publish=np.stack([X[3], X[3] + 1]))
    assert len(rgp.fit(X, Y, privacy="people", publish=X[:60] + 0.01).inducing) == 60  # a plan's, which are public


@pytest.mark.parametrize("method", ["exact", "collapsed", "dual"])
def test_every_method_and_many_alike(method):
    one = rgp.fit(X[:120], Y[:120], method=method, privacy="people", name="a")
    many = rgp.fit_many([(X[:120], Y[:120]), (X[120:], Y[120:])], method=method, privacy="people", progress=False)
    torch.testing.assert_close(many[0].site.rho, one.site.rho, rtol=1e-6, atol=1e-8)
    plain = rgp.fit(X[:120], Y[:120], method=method, privacy="things")
    assert one.kept < plain.kept
    assert np.corrcoef(one.predict(X)[0], plain.predict(X)[0])[0, 1] > 0.8


def test_functions_of_one_model():
    m = rgp.fit(X, np.stack([Y, -X[:, 0]], 1), privacy="people")
    assert np.array_equal(m.latents[0].site.Z, m.latents[1].site.Z)
    labels = np.where(Y > 3, "high", np.where(Y > 2, "middle", "low"))
    c = rgp.fit(X, labels, likelihood="categorical", privacy="people")
    assert (
        c.predict_proba(X).argmax(1) == rgp.fit(X, labels, likelihood="categorical").predict_proba(X).argmax(1)
    ).mean() > 0.7


def test_where_nobody_is_nothing_is_said():
    """Made-up rows are also between two groups of people, and f is as open there as it was."""
    x = np.concatenate([RNG.normal(-3, 0.3, 150), RNG.normal(3, 0.3, 150)])
    y = np.sin(3 * x) + 0.1 * RNG.standard_normal(300)
    _, people_leave = rgp.fit(x, y, privacy="people").predict(np.array([0.0]))
    _, things_leave = rgp.fit(x, y, privacy="things").predict(np.array([0.0]))
    assert people_leave > 0.7 * things_leave


def test_owners_of_one_function_do_not_contradict_each_other():
    modules = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 5, (200, 2))
        y = np.sin(2 * x[:, 0]) * np.cos(2 * x[:, 1]) + 0.1 * rng.standard_normal(200)
        modules.append(rgp.fit(x, y, name=f"m{seed}", privacy="people"))
    assert rgp.screen(modules).flagged == []

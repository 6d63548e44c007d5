"""recyclegp fit with columns that hold the noise of each row."""

import numpy as np
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import NORTH, X, call, means, module, ok, written

ERRORS = np.linspace(0.05, 0.9, len(NORTH))


@pytest.mark.parametrize(("option", "column"), [("--noise-column", ERRORS**2), ("--noise-sd-column", ERRORS)])
def test_errors_of_rows(tmp_path, out, option, column):
    """One per row: what the library does with them. Their column is no input; rows without one are missing values."""
    table = NORTH.assign(error=column)
    ok("fit", written(table, tmp_path / "a.csv"), "-t", "y", option, "error", "--publish", 6, "-o", out)
    direct = module(NORTH, "a", noise=ERRORS**2)
    assert rgp.load(out).columns == ("day", "depth")
    assert rgp.load(out).noise == pytest.approx(np.mean(ERRORS**2))
    np.testing.assert_allclose(means(out), direct.predict(X)[0], rtol=1e-9, atol=1e-9)
    table.loc[3, "error"] = np.nan
    gaps = written(table, tmp_path / "b.csv")
    arguments = ("fit", gaps, "-t", "y", option, "error", "--publish", 6, "-o", out)
    assert "(error: 1)" in one_line(call(*arguments))
    ok(*arguments, "--drop-missing")
    assert rgp.load(out).rows == len(NORTH) - 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--noise-column", "none"), "no column 'none'"),
        (("--noise-column", "said"), "column 'said' holds text ('small' in row 1); correct it; measurement errors are"),
        (("--noise-column", "y"), "--noise-column y: it is the target"),
        (("--noise-column", "day", "-i", "day"), "--noise-column day: it is among the inputs"),
        (("--noise-column", "depth"), "column 'depth' holds -0"),
        (("--noise-sd-column", "depth"), "a standard deviation of --noise-sd-column must be positive"),
        (("--noise-column", "day", "--noise", "0.1"), "--noise and --noise-column: both say what the noise is"),
        (("--noise-column", "day", "--noise-sd-column", "depth"), "--noise-column and --noise-sd-column: both"),
        (("--noise-column", "day", "--partitions", "2"), "--noise-column: it is for a single module"),
        (("--noise-column", "day", "--likelihood", "student-t"), "'student-t' has one for all rows"),
    ],
)
def test_errors_that_cannot_be(tmp_path, out, arguments, said):
    table = NORTH.assign(said=["small", "large"] * (len(NORTH) // 2)) if "said" in arguments else NORTH
    result = call("fit", written(table, tmp_path / "a.csv"), "-t", "y", *arguments, "-o", out)
    assert said in one_line(result)
    assert not out.exists()

"""Modules of the authors' program: how they are imported, scored, and shown."""

import numpy as np
import pytest

import authors_modules
import pages
from recyclegp.experiments import data

BANANA, LINE = authors_modules.SETS


def test_a_module_says_what_the_program_found():
    Z = np.linspace(0, 1, 3)[:, None]
    L = np.linalg.cholesky(0.1 * np.eye(3) + 0.02)
    kept = {"module0_Z": Z, "module0_m": np.array([[1.0], [0.5], [-0.2]]), "module0_L": L[None]}
    kept |= {"module0_var": np.array([2.0]), "module0_ls": np.array([[0.4]]), "module0_sigma": np.array([0.3])}
    m = authors_modules.imported(kept, LINE, "module0", "m0")
    mean, variance = m.predict(Z)
    np.testing.assert_allclose(mean, [1.0, 0.5, -0.2], atol=1e-5)
    np.testing.assert_allclose(variance, 0.12, rtol=1e-4)
    assert m.noise == pytest.approx(0.09)
    assert m.kernel_spec.describe() == "rbf(outputscale=2, lengthscale=0.4)"


def test_scores_are_of_y_and_of_f():
    Z = np.linspace(0, 1, 3)[:, None]
    kept = {"module0_Z": Z, "module0_m": data.wave(Z[:, 0]), "module0_L": 0.1 * np.eye(3)}
    kept |= {"module0_var": np.array([2.0]), "module0_ls": np.array([0.2]), "module0_sigma": np.array([0.3])}
    m = authors_modules.imported(kept, LINE, "module0", "m0")
    y = data.wave(Z[:, 0]) + 0.1
    found = authors_modules.scores(m, Z, y)
    log_p = m.log_density(Z, y)
    assert found["nlpd"] == pytest.approx(-log_p.mean())
    assert found["log_sum"] == pytest.approx(np.log(np.exp(log_p).sum()))
    assert found["rmse"] < 1e-4
    assert found["mae"] <= found["rmse"]


def test_rows_of_a_set_that_has_none_are_made_as_theirs():
    made = authors_modules.parts({"modules": np.array(50)}, LINE)
    assert len(made) == 50
    assert all(len(y) == authors_modules.ROWS for _, y in made)
    ends = np.array([(X.min(), X.max()) for X, _ in made])
    assert (ends[1:, 0] >= ends[:-1, 1]).all()  # adjoining
    residual = np.concatenate([y - data.wave(X[:, 0]) for X, y in made])
    assert residual.std() == pytest.approx(authors_modules.NOISE_SD, rel=0.05)


def test_the_kept_run_is_the_table_of_the_page(capsys):
    authors_modules.main(["--show", str(authors_modules.KEPT)])
    said = capsys.readouterr().out
    table = said[said.index("| set") :].strip()
    assert table in (pages.DOCS / authors_modules.PAGE).read_text(encoding="utf-8")
    assert all(this.words in table for this in (BANANA, LINE))

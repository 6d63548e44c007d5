"""The demonstration shows what it claims: merged files are as good as all the rows in one place."""

import matplotlib as mpl
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cases_pictures import collisions, marked_texts, symbols
from recyclegp import demo
from recyclegp.cli import app


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return demo.run(0, tmp_path_factory.mktemp("demo"))


@pytest.mark.slow
def test_merged_beats_every_module_alone(results):
    merged = results.scores["merged"]
    for owner in demo.OWNERS:
        alone = results.scores[owner.name]
        assert merged.nlpd < alone.nlpd - 0.3
        assert merged.rmse < 0.5 * alone.rmse
    # in C's own region it does at least as well as C, and far better than the others
    assert merged.rmse_only_c < 1.1 * results.scores["C"].rmse_only_c
    assert merged.rmse_only_c < 0.5 * min(results.scores[name].rmse_only_c for name in "AB")


def test_merged_is_as_good_as_central(results):
    merged, central = results.scores["merged"], results.scores["central"]
    assert abs(merged.nlpd - central.nlpd) < 0.01
    assert abs(merged.rmse - central.rmse) < 0.02
    assert merged.coverage > 0.85
    # and not only on average: the same mean and the same band everywhere
    x = np.linspace(*demo.REGION, 200)[:, None]
    (m, v), (m_central, v_central) = results.merged.predict(x), results.central.predict(x)
    assert np.all(np.abs(m - m_central) < 0.3 * np.sqrt(v_central))
    np.testing.assert_allclose(np.sqrt(v), np.sqrt(v_central), rtol=0.2)


def test_nobody_else_has_seen_what_only_c_has(results):
    assert all(results.data[name].X.max() < demo.ONLY_C for name in "AB")
    assert set(results.data["C"].y) == {0.0, 1.0}


def test_no_row_is_published(results):
    for name, module in results.modules.items():
        assert not np.isin(module.inducing, results.data[name].X).any()


def test_central_is_the_exact_gp_of_all_measurements(results):
    """The yardstick, checked by a GP written here: without C it must be the textbook GP on A's and B's rows."""
    model = results.central.remove("C", relearn=False)
    variance, lengthscale = np.exp(model.kernel_spec.theta.numpy())

    def k(a, b):
        return variance * np.exp(-0.5 * (a - b.T) ** 2 / lengthscale**2)

    X = np.concatenate([results.data[name].X for name in "AB"])
    y = np.concatenate([results.data[name].y for name in "AB"])
    noise = np.concatenate([np.full(len(results.data[n].y), results.modules[n].noise) for n in "AB"])
    x = np.linspace(*demo.REGION, 50)[:, None]
    gain = np.linalg.solve(k(X, X) + np.diag(noise), k(X, x)).T
    mean, var = model.predict(x)
    np.testing.assert_allclose(mean, model.mean + gain @ (y - model.mean), atol=2e-4)
    np.testing.assert_allclose(var, variance - np.sum(gain * k(x, X), axis=1), atol=2e-4)


def test_score_is_the_mean_negative_log_density(results):
    """NLPD on y, against the library's own density at the test noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(*demo.REGION, (50, 1))
    y = rng.standard_normal(50)
    mean, variance = results.merged.predict(X)
    density = torch.distributions.Normal(
        torch.as_tensor(mean), torch.as_tensor(np.sqrt(variance + demo.TEST_NOISE**2))
    ).log_prob(torch.as_tensor(y))
    assert demo.score(results.merged, X, y).nlpd == pytest.approx(-float(density.mean()), rel=1e-12)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(results, tmp_path):
    again = demo.run(0, tmp_path)
    assert again.to_dict() == results.to_dict()


@pytest.mark.slow
def test_figure_is_a_picture_and_leaves_matplotlib_alone(results, tmp_path):
    before = dict(mpl.rcParams)
    demo.draw(results).savefig(tmp_path / "demo.png")
    assert dict(mpl.rcParams) == before
    picture = mpl.image.imread(tmp_path / "demo.png")
    assert picture.shape == (1080, 1500, 4)
    assert np.isfinite(picture).all()
    # not blank: every colour of the palette is in it
    red, green, blue = np.round(picture[..., :3].reshape(-1, 3).T * 255).astype(int)
    seen = set(np.unique(red * 65536 + green * 256 + blue).tolist())
    for name, colour in demo.COLOURS.items():
        assert int(colour[1:], 16) in seen, name


@pytest.mark.slow
def test_table(results, tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setattr(demo, "run", lambda seed, folder: results)
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name, score in results.scores.items():
        row = next(line for line in result.stdout.splitlines() if line.startswith(f"│ {name}"))
        assert f"{score.nlpd:.3f}" in row
        assert f"{score.rmse:.3f}" in row
    assert "demo.png" in result.stdout
    assert torch.get_num_threads() == threads

    quiet = CliRunner().invoke(app, ["demo", "-o", str(tmp_path), "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")


def test_nothing_in_the_figure_stands_on_anything_else(results):
    figure = demo.draw(results)
    assert collisions(figure) == []
    assert marked_texts(figure) == []  # no triangle on "no"
    assert symbols(figure) == []

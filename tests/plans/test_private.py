"""Answers with a guarantee: the sensitivity lemma, the audit, bands that stay honest, the ledger."""

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import recyclegp as rgp
from cases_cli import answer, call, ok
from recyclegp.kernels import parse
from recyclegp.models import ledger
from recyclegp.plans import noisy, private
from recyclegp.plans.prior import Prior
from recyclegp.plans.sums import PlanRows, Sums, triangle
from recyclegp.record import weakest

GRID = rgp.Plan.grid([0], [1], 12)
KERNEL = "rbf(outputscale=1, lengthscale=0.2)"
PRIVACY = rgp.Privacy(epsilon=1, delta=1e-6, bound=3.0)


def plan(points=GRID, kernel=KERNEL, noise=0.09, learn=True):
    return rgp.Plan(points=points, kernel=kernel, noise=noise, learn=learn)


def rows_of(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 1))
    return X, np.sin(8 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def phi(prior, X, y, known):
    """φ of one row, by NumPy."""
    K = prior.kernel.matrix(prior.Z, prior.Z).numpy() + prior.jitter * np.eye(len(prior.Z))
    k = prior.kernel.matrix(prior.Z, torch.tensor(X)).numpy()
    h = np.linalg.solve(np.linalg.cholesky(K), k)[:, 0]
    a, B, gamma = known.variance, known.bound, private.GAMMA
    r = float(np.clip(y - prior.mean, -B, B))
    T = whitener(np.linalg.cholesky(K), a)
    w = min(1.0, 1 / max(np.linalg.norm(T @ h), 1e-300))
    g = w * T @ h
    i, j = np.tril_indices(len(h), -1)
    parts = [g[i] * g[j], g**2 / np.sqrt(2), known.weight * w * g * r / B]
    small = gamma * w**2 * np.array([1, r / B, (a - h @ h) / a])
    return np.concatenate([*parts, small, [private.KAPPA * w**2 * r**2 / B**2], gamma * w * g])


def whitener(L, a):
    """T, by NumPy."""
    values, U = np.linalg.eigh(L.T @ L / (a * len(L)))
    T = (U / np.sqrt(values + private.TAU)) @ U.T
    return T / np.linalg.norm(T @ L.T, axis=0).max()


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "rbf * matern52 + constant"])
def test_no_row_moves_the_sums_by_more_than_the_sensitivity(kernel):
    """An adversary who searches over rows, the plan's points among them, does not get beyond Δ."""
    rng = np.random.default_rng(0)
    prior = Prior.at(torch.tensor(rng.uniform(0, 1, (9, 2))), parse(kernel, 2), 0.4, 0.09)
    known = private.Bounded.of(prior, 1.7)
    tried = [(x[None], y) for x in prior.Z.numpy() for y in (-9.0, 0.4, 9.0)]
    best = max(np.linalg.norm(phi(prior, X, y, known)) for X, y in tried)
    at = prior.Z.numpy()[0]
    for _ in range(400):
        X, y = at + rng.standard_normal(2) * 10.0 ** rng.uniform(-6, 3), rng.choice([-50.0, 50.0]) * rng.uniform()
        now = np.linalg.norm(phi(prior, X[None], y, known))
        if now > best:
            best, at = now, X
    assert best <= known.sensitivity * (1 + 1e-9)
    assert best > 0.8 * known.sensitivity  # and the bound is not a loose one


def test_what_is_released_is_the_sums_of_phi():
    prior = Prior.at(torch.tensor(GRID), parse("rbf", 1), 0.1, 0.09)
    known = private.Bounded.of(prior, 0.8)
    X, y = rows_of(1, 30)
    one = torch.ones(30, dtype=torch.float64)
    found = private.bounded_sums(prior, PlanRows(torch.tensor(X), torch.tensor(y), one, one), known)
    total = sum(phi(prior, X[i : i + 1], y[i], known) for i in range(30))
    u, G = known.units, found.matrix().numpy()
    i, j = np.tril_indices(12, -1)
    expected = [G[i, j] / u["G"], np.diag(G) / (np.sqrt(2) * u["G"]), found.b.numpy() / u["b"]]
    expected += [np.array([float(getattr(found, name)) / u[name] for name in ("o", "a", "t", "c")])]
    expected += [found.h.numpy() / u["h"]]
    np.testing.assert_allclose(total, np.concatenate(expected), rtol=1e-8, atol=1e-8)


def test_noise_is_normal_from_a_secret_source_and_on_a_grid():
    drawn = private.secret_normals(20_000).numpy()
    assert stats.kstest(drawn, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(drawn[:10_000], drawn[10_000:])[0, 1]) < 0.06
    a = plan().contribute(*rows_of(0, 50), name="a", privacy=PRIVACY)
    sums, known = a.facts.sums[0], private.Bounded.of(a.facts.priors[0], 3.0)
    sd = ledger.noise_multiplier(1.0, 1e-6) * known.sensitivity * known.units["b"]
    grid = 2.0 ** (math.floor(math.log2(sd)) - private.GRID)
    whole = known.shape.times(sums.b[:, None])[:, 0].numpy() / grid
    np.testing.assert_allclose(whole, np.round(whole), atol=1e-3)
    np.testing.assert_allclose(sums.noise[1], sd**2)


def audited(release, runs, claim, delta):
    """A lower bound of ε, from how often a test can tell neighbouring data sets apart (Clopper and Pearson)."""
    with_row, without = (np.array([release(there) for _ in range(runs)]) for there in (True, False))
    best = 0.0
    for threshold in np.quantile(np.concatenate([with_row, without]), [0.05, 0.2, 0.5, 0.8, 0.95]):
        for sign in (1, -1):
            hits, false = (int((sign * v > sign * threshold).sum()) for v in (with_row, without))
            low = stats.beta.ppf(0.005, hits, runs - hits + 1) if hits else 0.0
            high = stats.beta.ppf(0.995, false + 1, runs - false) if false < runs else 1.0
            if low > delta:
                best = max(best, math.log((low - delta) / high))
    return best


@pytest.mark.slow
def test_the_audit_passes_the_mechanism_and_catches_a_broken_one(monkeypatch):
    """Neighbours differ by one outlying row; the test looks along what that row adds."""
    prior = Prior.at(torch.tensor(GRID), parse("rbf", 1), 0.0, 0.09)
    known = private.Bounded.of(prior, 3.0)
    X, y = rows_of(2, 20)
    X, y = np.vstack([X, GRID[5:6]]), np.append(y, 3.0)
    one = torch.ones(21, dtype=torch.float64)
    rows = PlanRows(torch.tensor(X), torch.tensor(y), one, one)
    exact = {there: private.bounded_sums(prior, rows.take(torch.arange(20 + there)), known) for there in (True, False)}
    direction = {f: (getattr(exact[True], f) - getattr(exact[False], f)) / known.units[f] ** 2 for f in ("b", "G", "c")}

    def release(there, multiplier):
        out = private.released(exact[there], known, multiplier, 1, public_rows=True)
        T = known.shape
        seen = {"b": T.times(out.b[:, None])[:, 0], "G": triangle(T.times(T.times(out.matrix()).mT)), "c": out.c}
        return sum(float((seen[f] * d).sum()) for f, d in direction.items())

    sigma = ledger.noise_multiplier(1.0, 1e-6)
    assert audited(lambda there: release(there, sigma), 2000, 1.0, 1e-6) < 1.0
    assert audited(lambda there: release(there, sigma / 12), 2000, 1.0, 1e-6) > 1.0  # noise that is far too small


@pytest.mark.slow
def test_bands_stay_honest_and_little_is_lost():
    """10,000 rows of ten owners, each with its own noise, ε = 1; in the middle of draws of a noise that is secret."""
    X, y = rows_of(7, 10_000)
    test, seen = rows_of(8, 2000)
    p = plan(learn=False)
    exact, _ = p.combine([p.contribute(X, y, name="all", privacy="things", slopes=False)])
    base = -exact.log_density(test, seen).mean()

    def once(answers):
        e, following = p.combine(answers)
        low, high = e.predict_interval(test, 0.95)
        assert following.done
        return -e.log_density(test, seen).mean() - base, np.mean((low < seen) & (seen < high))

    for owners, most in ((1, 0.03), (10, 0.08)):
        parts = [(X[i::owners], y[i::owners], f"o{i}") for i in range(owners)]
        draws = [once([p.contribute(*own, name=name, privacy=PRIVACY) for *own, name in parts]) for _ in range(5)]
        lost, covered = np.median(draws, 0)
        assert lost < most
        assert 0.93 < covered < 0.98


@pytest.mark.slow
def test_kernel_and_noise_are_learned_from_noisy_sums():
    """A plan that is wrong of both by a factor of three or four; asking once more is not needed."""
    X, y = rows_of(7, 10_000)
    test, seen = rows_of(8, 2000)
    wrong = {"kernel": "rbf(outputscale=4, lengthscale=0.2)", "noise": 0.3}
    scores = {}
    for learn in (False, True):
        p = plan(**wrong, learn=learn)
        e, following = p.combine([p.contribute(X, y, name="all", privacy=PRIVACY)])
        scores[learn] = -e.log_density(test, seen).mean()
        assert following.done
        assert following.noise == 0.3  # plans stay what they are: answers that come later are to the same one
    assert 0.03 < float(e.noise) < 0.18  # 0.09, give or take 0.013 each
    assert scores[True] < scores[False] - 0.1
    low, high = e.predict_interval(test, 0.95)
    assert 0.88 < np.mean((low < seen) & (seen < high)) < 0.995


def test_the_evidence_of_noisy_sums_is_that_of_their_distribution():
    """log N(b̃; 0, G̃QG̃ + N) by dense algebra, where nothing is known but the noise: G̃ = 0."""
    prior = Prior.at(torch.tensor(GRID), parse("rbf", 1), 0.0, 0.09)
    rng = np.random.default_rng(3)
    b, zero = torch.tensor(rng.standard_normal(12)), torch.zeros((), dtype=torch.float64)
    noise = torch.tensor([0.3, 0.7, 0, 0, 0, 0, 0], dtype=torch.float64)
    sums = Sums(zero + 5, zero, torch.zeros(78, dtype=torch.float64), b, b, zero, zero, zero, zero, noise)
    T = whitener(prior.basis().L.numpy(), 1.0)
    Q = np.linalg.inv(T) @ np.linalg.inv(T)  # of w = T⁻¹v, v ~ N(0, I)
    N = (0.7 + 0.3 * np.trace(Q)) * np.eye(12) + 0.3 * Q
    expected = stats.multivariate_normal(np.zeros(12), N).logpdf(T @ b.numpy())
    assert noisy.evidence(sums, prior) == pytest.approx(expected, rel=1e-9)


def test_ensembles_say_what_is_guaranteed_of_them(tmp_path):
    X, y = rows_of(3, 900)
    p = plan()
    private_ones = [p.contribute(X[i::3], y[i::3], name=f"o{i}", privacy=PRIVACY) for i in range(3)]
    e, _ = p.combine(private_ones)
    assert e.disclosure.guaranteed == PRIVACY.guaranteed  # of different owners, whose rows are different ones
    e.save(tmp_path / "e.safetensors")
    assert answer("inspect", str(tmp_path / "e.safetensors"))["privacy_guarantee"] == PRIVACY.guaranteed.words
    assert e.to_module("all").disclosure.guaranteed == PRIVACY.guaranteed
    twice = rgp.merge([private_ones[0].module, private_ones[0].module.rename("again")], learn=False)
    assert twice.disclosure.guaranteed is not None
    plain = p.contribute(X, y, name="plain", privacy="things", slopes=False)
    mixed, _ = p.combine([*private_ones, plain])
    mixed.save(tmp_path / "mixed.safetensors")
    assert mixed.disclosure.guaranteed is None
    assert answer("inspect", str(tmp_path / "mixed.safetensors"))["privacy_guarantee"] == "none"


def test_what_one_owner_publishes_twice_adds_up():
    one = PRIVACY.guaranteed
    assert weakest([("a", one), ("b", one)]) == one
    assert weakest([("a", one), ("a", one)]) == one._replace(epsilon=2, delta=2e-6)
    assert weakest([("a", one), ("b", None)]) is None
    assert weakest([("a", one), ("b", one._replace(unit="person"))]) is None


def test_a_plan_from_a_private_pilot_is_a_public_one():
    X, y = rows_of(6, 600)
    e, _ = plan().combine([plan().contribute(X, y, name="a", privacy=PRIVACY)])
    e.plan(6).contribute(X, y, name="a", privacy=PRIVACY)


def test_a_private_answer_is_a_module_that_knows_its_noise(tmp_path):
    X, y = rows_of(3, 2000)
    a = plan().contribute(X, y, name="a", privacy=PRIVACY)
    a.save(tmp_path / "a.safetensors")
    again = rgp.load(tmp_path / "a.safetensors")
    assert again.facts.guaranteed == PRIVACY.guaranteed
    np.testing.assert_array_equal(again.predict(GRID)[0], a.predict(GRID)[0])
    plain = plan().contribute(X, y, name="b", privacy="things", slopes=False)
    assert (a.predict(GRID)[1] > plain.predict(GRID)[1]).all()
    merged = rgp.merge([a.module, plain.module], learn=False)
    assert np.isfinite(merged.predict(GRID)[0]).all()
    said = answer("inspect", str(tmp_path / "a.safetensors"))
    assert said["privacy_guarantee"] == "private: ε = 1, δ = 1e-06 per row"
    assert "private: ε = 1" in ok("inspect", str(tmp_path / "a.safetensors")).stdout


def test_the_number_of_rows_is_a_secret_unless_it_is_public():
    X, y = rows_of(4, 500)
    said = {plan().contribute(X, y, name="a", privacy=PRIVACY).rows for _ in range(4)}
    assert len(said) > 1
    open_ = rgp.Privacy(1, 1e-6, 3.0, public_rows=True)
    assert plan().contribute(X, y, name="a", privacy=open_).rows == 500


def test_persons_are_protected_with_all_their_rows():
    X, y = rows_of(5, 300)
    whose = np.repeat(np.arange(60), 5)
    by_person = rgp.Privacy(1, 1e-6, 3.0, unit="person", rows_each=2)
    a = plan().contribute(X, y, name="a", privacy=by_person, persons=whose)
    by_row = plan().contribute(X, y, name="a", privacy=PRIVACY)
    np.testing.assert_allclose(a.facts.sums[0].noise, 4 * by_row.facts.sums[0].noise)  # (m·Δ)²
    with pytest.raises(rgp.RecycleGPError, match="persons is missing"):
        plan().contribute(X, y, name="a", privacy=by_person)
    from recyclegp.models.privacy import _kept

    kept = _kept(["u", "v", "u", "u", "v"], 5, 2).tolist()
    assert kept == [0, 1, 2, 4]


def test_what_the_guarantee_does_not_cover_is_refused():
    X, y = rows_of(6, 200)
    p = plan()
    for wrong in ({"weights": np.ones(200)}, {"noise": 0.1}, {"score": True}, {"slopes": True}):
        with pytest.raises(rgp.RecycleGPError, match=next(iter(wrong))):
            p.contribute(X, y, name="a", privacy=PRIVACY, **wrong)
    yes_no = rgp.Plan(points=GRID, kernel=KERNEL, likelihood="bernoulli")
    with pytest.raises(rgp.RecycleGPError, match="nothing is proven of others"):
        yes_no.contribute(X, y > 0, name="a", privacy=PRIVACY)
    with pytest.raises(rgp.RecycleGPError, match="same everywhere"):
        plan(kernel="linear").contribute(X, y, name="a", privacy=PRIVACY)
    modules = [rgp.fit(X[i::2], y[i::2], name=f"m{i}", learn=False, privacy="things") for i in range(2)]
    proposed = rgp.merge(modules, learn=False).plan(6)
    with pytest.raises(rgp.RecycleGPError, match="made from what owners have said without a guarantee"):
        proposed.contribute(X, y, name="m0", privacy=PRIVACY)
    trusting = rgp.Privacy(1, 1e-6, 3.0, public_plan=True)
    proposed.contribute(X, y, name="m0", privacy=trusting)


def test_clipped_values_are_said_to_the_owner_only():
    X, y = rows_of(6, 200)
    y[:7] = 50.0
    with pytest.warns(rgp.RecycleGPWarning, match="7 of 200 values of y"):
        plan().contribute(X, y, name="a", privacy=PRIVACY)


def test_the_ledger_refuses_what_exceeds_the_budget(tmp_path):
    X, y = rows_of(6, 200)
    path = tmp_path / "ledger.json"
    asked = rgp.Privacy(1, 1e-6, 3.0, ledger=path, budget=1.5)
    for _ in range(2):  # 1.45 together, as dp-accounting composes
        plan().contribute(X, y, name="a", privacy=asked)
    with pytest.raises(rgp.RecycleGPError, match=r"ε = 1\.8.* budget is ε = 1\.5; nothing was sent"):
        plan().contribute(X, y, name="a", privacy=asked)
    assert len(json.loads(path.read_text())["spent"]) == 2
    path.write_text("{")  # as no kill can leave it: it is replaced as a whole
    with pytest.raises(rgp.RecycleGPError, match="not a ledger"):
        plan().contribute(X, y, name="a", privacy=asked)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = rows_of(9, 300)
    np.savetxt("t.csv", np.c_[X, y], delimiter=",", header="x,y", comments="")
    rgp.Plan(points=GRID, kernel=KERNEL, noise=0.09, columns=["x"]).save("plan.safetensors")
    asked = ["contribute", "plan.safetensors", "t.csv", "-t", "y", "-o", "a.safetensors", "--epsilon", "1"]
    assert "--epsilon needs --delta and --bound" in call(*asked).stderr
    done = ok(*asked, "--delta", "1e-6", "--bound", "3", "--ledger", "ledger.json")
    assert "private: ε = 1, δ = 1e-06 per row" in done.stdout
    assert call(*asked, "--delta", "1e-6", "--bound", "3", "--ledger", "ledger.json").exit_code == 2


def test_the_command_protects_persons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = rows_of(9, 300)
    whose = np.repeat([f"p{i:02d}" for i in range(60)], 5)
    table = pd.DataFrame({"whose": whose, "x": X[:, 0], "y": y})
    table.to_csv("t.csv", index=False)
    rgp.Plan(points=GRID, kernel=KERNEL, noise=0.09).save("plan.safetensors")  # which does not know its columns
    asked = ["contribute", "plan.safetensors", "t.csv", "-t", "y", "-o", "a.safetensors"]
    guarantee = ["--epsilon", "1", "--delta", "1e-6", "--bound", "3"]
    given = {}
    contribute = rgp.Plan.contribute

    def seen(self, *rows, **how):
        given.update(how, X=rows[0])
        return contribute(self, *rows, **how)

    monkeypatch.setattr(rgp.Plan, "contribute", seen)
    done = ok(*asked, *guarantee, "--person", "whose", "--rows-each", "2")
    assert "private: ε = 1, δ = 1e-06 per person of at most 2 rows" in done.stdout
    assert list(given["X"].columns) == ["x"]
    assert given["persons"].tolist() == whose.tolist()
    assert given["privacy"].rows_each == 2
    by_row = contribute(plan(), X, y, name="t", privacy=PRIVACY)
    np.testing.assert_allclose(rgp.load("a.safetensors").facts.sums[0].noise, 4 * by_row.facts.sums[0].noise)
    assert "--person is part of a guarantee" in call(*asked, "--person", "whose").stderr
    assert "--rows-each is of persons" in call(*asked, *guarantee, "--rows-each", "2").stderr
    assert "it is among the inputs" in call(*asked, *guarantee, "--person", "x", "--inputs", "x").stderr
    assert "it is the target" in call(*asked, *guarantee, "--person", "y").stderr
    assert "no column 'who'" in call(*asked, *guarantee, "--person", "who").stderr
    table.assign(whose=np.where(np.arange(300) < 3, "", whose)).to_csv("t.csv", index=False)
    assert "3 of 300 rows do not say whose they are" in call(*asked, *guarantee, "--person", "whose").stderr


KILLED = """
import sys, recyclegp.models.ledger as ledger
from pathlib import Path
ledger.epsilon_of = lambda multipliers, delta: 0.01 * len(multipliers)  # composition is tested elsewhere, and slow
for i in range(10**6):
    ledger.spend(Path(sys.argv[1]), 10.0**6, 1e-6, ledger.Spent(f"answer {i}", 4.0))
    print(i, flush=True)
"""


@pytest.mark.slow
def test_the_ledger_survives_a_kill(tmp_path):
    """Killed while it writes: every answer that was said to be spent is in it, at most one more, and it can be read."""
    path = tmp_path / "ledger.json"
    for wanted in (3, 7):
        before = len(ledger.spent(path))
        with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
            for _ in range(wanted):
                process.stdout.readline()
            process.kill()
            said = wanted + len(process.stdout.read().split())
        assert before + said <= len(ledger.spent(path)) <= before + said + 1

"""The attacks find what is there to be found, and nothing where nothing is; the overview says what was measured."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score

import leak_inputs as inputs
import leak_outcomes as outcomes
import recyclegp as rgp
from leak_cases import Plan, Way, on_lines, table, unit
from leak_page import NO_GAIN, leaks, patients, values
from leak_people import SETS
from pages import RESULTS, read
from recyclegp.models.ledger import noise_multiplier
from what_leaks import FULL, measure

RNG = np.random.default_rng(11)
X, STRANGERS = RNG.uniform(-1, 1, (2, 24, 3)) * [1.0, 50.0, 0.1]
Y = 30 + np.sin(2 * X[:, 0]) + X[:, 1] / 50 + 0.3 * RNG.standard_normal(24)


@pytest.mark.parametrize("publish", [X, 24], ids=["rows as points", "as many points as rows"])
def test_as_many_points_as_rows_give_every_outcome(publish):
    m = rgp.fit(X, Y, publish=publish)
    believed = outcomes.beliefs(m, X)
    np.testing.assert_allclose(believed.row, Y, atol=1e-4)
    assert np.abs(believed.stranger - Y).mean() > 0.05  # what the module predicts is another matter
    scores = outcomes.by_ratio(believed, Y, float(m.noise))
    outside = outcomes.by_ratio(outcomes.beliefs(m, STRANGERS), 30 + RNG.standard_normal(24), float(m.noise))
    assert scores.min() > outside.max()


def test_beliefs_are_the_conditional_of_all_outcomes_given_the_file():
    """E[y | λ] and its variance by dense algebra, from K, the points and nothing of the library's."""
    m = rgp.fit(X, Y, publish=7)
    Z, n = m.inducing, len(X)
    with torch.no_grad():
        K = m.kernel(torch.tensor(np.r_[X, Z])).to_dense().numpy()
    W = np.linalg.solve(K[n:, n:] + m.jitter * np.eye(7), K[n:, :n]).T
    noise = m.noise * np.eye(n)
    A = W.T @ np.linalg.inv(noise + K[:n, :n] - W @ K[n:, :n])  # λ = A(y − m)
    C = K[:n, :n] + noise
    gain = C @ A.T @ np.linalg.inv(A @ C @ A.T)
    believed = outcomes.beliefs(m, X)
    np.testing.assert_allclose(believed.row, m.mean + gain @ A @ (Y - m.mean), rtol=1e-5)
    np.testing.assert_allclose(believed.row_variance, np.diag(C - gain @ A @ C), rtol=1e-4)
    np.testing.assert_allclose(believed.stranger, m.predict(X)[0])


def test_precisions_and_scores_find_rows_but_hardly_people():
    """Of two hundred on a list, half of whom are rows."""
    rng = np.random.default_rng(2)
    everybody = rng.standard_normal((200, 3))
    y = np.sin(everybody).sum(1) + 0.3 * rng.standard_normal(200)
    member = np.stack([rng.permutation(200) < 100 for _ in range(8)])
    parts = [(everybody[inside], y[inside]) for inside in member]
    found = {}
    for privacy in ("things", "people"):
        modules = rgp.fit_many(parts, privacy=privacy, progress=False)
        found[privacy] = [
            outcomes.auc(np.stack([outcomes.by_precision(m, everybody) for m in modules]), member),
            outcomes.auc(np.stack([outcomes.by_score(m, everybody, y) for m in modules]), member),
        ]
    assert found["things"][0] > 0.75
    assert found["things"][1] > 0.58
    assert max(found["people"]) < 0.6
    assert all(people < things for people, things in zip(found["people"], found["things"], strict=True))


def test_shadows_find_what_differs_and_nothing_else():
    member = np.array([RNG.permutation(40) < 20 for _ in range(20)])
    nothing = RNG.normal(size=(1, 40, 2)) + RNG.normal(size=(20, 40, 2))  # people differ, which says nothing
    something = nothing + 4 * member[..., None] * [1, 0]
    assert outcomes.auc(outcomes.by_shadows(nothing, member), member) == pytest.approx(0.5, abs=0.06)
    assert outcomes.auc(outcomes.by_shadows(something, member), member) > 0.97


def test_scores_of_attacks():
    member = RNG.uniform(size=(3, 400)) < 0.4
    scores = np.round(RNG.normal(size=(3, 400)) + member, 1)  # with ties
    assert outcomes.auc(scores, member) == pytest.approx(roc_auc_score(member.ravel(), scores.ravel()))
    worst = next(t for t in np.unique(scores) if np.mean(scores[~member] > t) <= 0.1)
    assert outcomes.caught(scores, member, wrongly=0.1) == np.mean(scores[member] > worst)
    assert outcomes.caught(member.astype(float), member) == 1


def test_points_on_lines_give_both_rows_away():
    found = inputs.on_lines(on_lines(X), np.r_[X, STRANGERS])
    assert np.sum(found[:24] < 1e-9) >= 12
    assert (found[24:] > 1e-6).all()
    automatic = inputs.on_lines(rgp.fit(X, Y, publish=12, learn=False).inducing, np.r_[X, STRANGERS])
    assert (automatic > 1e-6).all()
    assert np.isinf(inputs.on_lines(X[:4, :1], X[:, :1])).all()


def test_two_rows_of_whole_numbers_from_one_point():
    a, b, units = np.array([59, 2, 32.1, 157]), np.array([48, 1, 30.3, 183]), np.array([1, 1, 0.1, 1])
    largest = np.array([60, 1, 300, 200])
    np.testing.assert_allclose(inputs.shared_step(a + 0.3217 * (b - a), units, largest), [a, b])
    steps = np.array([0.31, 0.44, 0.27, 0.39]) + 1e-3 * RNG.uniform(size=4)
    assert inputs.shared_step(a + steps * (b - a), units, largest) is None
    rows = RNG.integers(0, 40, (10, 30, 5)).astype(float)
    assert np.mean([inputs.solved(on_lines(some), some, np.ones(5)) for some in rows]) > 0.25  # of 40 draws 0.38
    automatic = rgp.fit(rows[0], RNG.normal(size=30), publish=15, learn=False).inducing
    assert inputs.solved(automatic, rows[0], np.ones(5)) == 0


def test_nearness_of_rows_and_of_strangers():
    near, far = (inputs.nearness(points, X, STRANGERS) for points in (X[:6], STRANGERS))
    assert (near.median, near.recovered) == (0, 0.25)
    assert far.median == pytest.approx(far.fresh)
    assert 0.5 < far.median < 2
    assert inputs.among(np.array([[1.1, 2.0], [1.4, 2.0]]).round(), np.array([[1.0, 2.0]])).all()
    np.testing.assert_allclose(inputs.nearest_values(np.array([[1.13, 7.6]]), np.array([0.1, 1])), [[1.1, 8.0]])


def test_tables():
    diabetes = table("diabetes")
    assert diabetes.X.shape == (442, 10)
    np.testing.assert_allclose(diabetes.units[:3], [1, 1, 0.1])
    assert unit(np.array([0.25, 3.0])) == 0.01
    assert table("survey").units.tolist() == [1] * 6
    assert table("4 inputs, 0.5 noise").X.shape[1] == 4


@pytest.mark.slow
def test_a_run_says_what_is_known_of_the_worst_case():
    """Two tables of twelve rows: nothing to quote."""
    ways = (Way("kept", 0.95), Way("points", 1.0), Way("digits", 2), Way("rows", 1.0))
    run = measure(Plan(("2 inputs, 0.5 noise", "survey"), ways, rows=12, modules=6))
    found = leaks(run["leaks"])
    assert len(found) == 8
    worst = found[found.kind == "rows"]
    assert (worst[["best_auc", "best_caught", "x_recovered"]] == 1).all(axis=None)
    np.testing.assert_allclose(worst.y, 0, atol=1e-6)
    assert (found[found.kind == "points"].y < 0.01).all()
    assert found[found.table == "survey"].values_right.between(0, 1).all()
    assert found.lost.min() == 0
    assert set(values(run)["privacy-measured.md"]) > {"survey", "survey, by attack"}


def found_at_most(members):
    """What docs/privacy.md states, 0.025 above guessing, and two standard errors √(p/n) of a small share."""
    return 0.01 + 0.025 + 2 * ((0.01 + 0.025) / members) ** 0.5


def test_what_the_overview_says_in_words_was_measured():
    """The short answer of docs/privacy.md, sentence by sentence."""
    kept = read(RESULTS / "what-leaks.json")
    assert [tuple(way) for way in kept["plan"]["ways"]] == list(FULL.ways)
    found, larger = leaks(kept["leaks"]).set_index(["kind", "value"]).sort_index(), leaks(kept["larger"])
    mean = found.select_dtypes("number").groupby(["kind", "value"]).mean()
    assert found.best_caught["points", 0.1].max() == pytest.approx(1 / 16, abs=0.003)  # one person in sixteen
    assert 0.6 < found.best_caught["points", 0.5].max() < 0.7  # up to two thirds
    assert 0.6 < found.best_caught["kept", 0.95].max() < 0.7  # as many, by default
    assert found.best_caught["people", 0.0].max() < found_at_most(16 * 100)
    everything = found.loc[("points", 1.0)]
    assert (everything.best_caught > 0.999).all()
    assert 0.01 < everything.y.max() < 0.015  # about a hundredth
    auc, lost = mean.best_auc, mean.lost
    assert all(abs(auc["digits", digits] - auc["kept", 0.95]) < 0.002 for digits in (3, 4))
    assert auc["digits", 1] < auc["kept", 0.95] - 0.05
    assert lost["digits", 1] > 2 * lost["points", 0.2]
    assert auc["points", 0.2] < auc["digits", 1] + 0.005
    tenth = found.loc[("points", 0.1)].set_index("table").lost
    assert (tenth[["2 inputs, 0.5 noise", "4 inputs, 0.5 noise", "diabetes"]] < 0.05).all()
    assert tenth["4 inputs, 0.1 noise"] > 0.3
    survey = found.loc[("kept", 0.95)].set_index("table").loc["survey"]
    assert 0.075 < survey.values_right < 0.085  # eight points in a hundred
    assert 0.001 < survey.values_by_chance < 0.0025  # two in a thousand
    small = found.loc[("kept", 0.95)].set_index("table").loc[larger.table]
    assert (larger.points.to_numpy() / 400 < small.points.to_numpy() / 100).all()
    assert [round(100 * f(larger.best_caught)) for f in (min, max)] == [4, 38]
    assert [round(100 * f(small.best_caught)) for f in (min, max)] == [11, 59]


def test_what_the_page_says_of_people_was_measured():
    """What attacks find, and what is left of the gain."""
    kept = read(RESULTS / "what-leaks.json")
    found = patients(kept["patients"])
    people = found[found.kind == "people"].set_index("table")
    assert set(people.index) == {"diabetes", "survey", *(name for names in SETS for name in names)}
    for _, row in people.iterrows():
        assert all(auc <= 0.5 + 0.1 + 2 * row.auc_error[attack] for attack, auc in row.auc.items())
        assert row.best_caught <= found_at_most(16 * row.rows)
    of_people = [row for row in kept["elsewhere"] if "people" in row["way"]]
    assert len(of_people) == 6
    for row in of_people:
        many = 16 * (15 if "levels" in row["way"] else 100)  # members who may be found
        assert row["auc"] <= 0.5 + 0.1 + 2 * row["auc_error"]
        assert row["caught"] <= found_at_most(many)
    real = people.loc[[name for names in SETS for name in names]]
    gains = real[real.alone - real.default > NO_GAIN]
    assert set(gains.index) == set(real.index) - {"blood pressure", "weight of adults"}
    assert (gains.merged < gains.alone).all()
    last = gains.loc[list(SETS[-1])]  # nobody had looked at these
    assert (last.gain > 0.5).all()
    np.testing.assert_allclose(last.gain, [0.68, 0.82, 0.76], atol=0.006)
    np.testing.assert_allclose(last.gain_error, [0.15, 0.17, 0.18], atol=0.006)
    np.testing.assert_allclose(last.alone - last.default, [0.010, 0.004, 0.003], atol=0.0006)
    others = gains.drop(last.index)
    assert (len(others), others.gain.idxmin()) == (10, "mathematics")
    np.testing.assert_allclose([others.gain.min(), people.gain["survey"]], [0.54, 0.60], atol=0.006)
    assert people.gain["diabetes"] < 0


def test_attacks_on_private_answers_find_no_more_than_is_guaranteed():
    """Whether a row was there shifts one normal number by 1/σ at most: that bounds AUC and members found."""
    rows = {row["way"]: row for row in read(RESULTS / "what-leaks.json")["elsewhere"]}
    for epsilon in (1.0, 8.0):
        shift = 1 / noise_multiplier(epsilon, 1e-6)
        row = rows[f"a private answer, ε = {epsilon:g}"]
        found = stats.norm.cdf(stats.norm.ppf(0.01) + shift)
        assert row["auc"] <= stats.norm.cdf(shift / 2**0.5) + 2 * row["auc_error"]
        assert row["caught"] <= found + 2 * (found / 1600) ** 0.5
    assert abs(rows["a private answer, ε = 1"]["auc"] - 0.5) <= 2 * rows["a private answer, ε = 1"]["auc_error"]
    assert rows["a plan"]["auc"] > 0.7

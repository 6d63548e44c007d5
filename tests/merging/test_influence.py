"""One forged number must not decide for everybody."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.core.sites import Site
from recyclegp.likelihoods import Gaussian
from recyclegp.merging import influence
from recyclegp.merging.site_store import SiteStore

AT = np.array([[-0.5], [0.5]])


@pytest.fixture(scope="module")
def honest():
    parts = []
    for k in range(12):
        rng = np.random.default_rng(k)
        X = rng.uniform(-2, 2, (40, 1))
        parts.append((X, 1.3 * np.sin(2.5 * X[:, 0]) + 0.2 * rng.standard_normal(40)))
    return list(rgp.fit_many(parts, publish=10, names=[f"m{k}" for k in range(12)], privacy="things", kernel="rbf"))


def said(module, **changes):
    return replace(module, latents=(module.latents[0]._replace(**changes),))


def flipped(module, times=1.0, **changes):
    site = module.latents[0].site
    return said(module, site=site._replace(Rt=site.Rt * times, rho=-site.rho * times), **changes)


def evidence(module, **changes):
    return module.latents[0].noise_evidence._replace(**changes)


def merged(modules):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        return rgp.merge(modules)


def published(*modules):
    """Noises that they publish, and that their rows say."""
    one = [(float(m.likelihoods[0].values[0]), m.latents[0].noise_evidence, m.latents[0]) for m in modules]
    table = [(noise, e.chi2, x.rows, len(x.site.Z), e.residual, e.dof) for noise, e, x in one]
    columns = torch.tensor(table, dtype=torch.float64).T
    return columns[0], influence.noise_of_rows(*columns)


def answers(modules):
    return merged(modules).predict(AT)[0]


FORGED = {
    "noise": lambda m: replace(flipped(m), likelihoods=(Gaussian(1e4),)),
    "more noise": lambda m: replace(flipped(m), likelihoods=(Gaussian(1e8),)),
    "rows": lambda m: flipped(m, rows=10**15),
    "rows and another kernel": lambda m: flipped(
        m,
        rows=10**15,
        kernel=rgp.fit(AT, AT[:, 0], kernel="linear", learn=False, allow_small=True, privacy="things").kernel_spec,
    ),
    "sure": lambda m: flipped(m, 1e3),
    "surer": lambda m: flipped(m, 1e25),
    "sure, of many rows": lambda m: flipped(m, 1e6, rows=10**15),
    "sure, of exact rows": lambda m: replace(flipped(m, 1e6), likelihoods=(Gaussian(1e-13),)),
    "weights of rows": lambda m: flipped(m, effective_rows=1e100),
    "degrees of freedom": lambda m: flipped(m, noise_evidence=evidence(m, dof=1e100, residual=1e-300)),
    "residuals": lambda m: flipped(m, noise_evidence=evidence(m, residual=1e100)),
    "squares": lambda m: flipped(m, noise_evidence=evidence(m, chi2=1e100)),
    "left open": lambda m: flipped(m, noise_evidence=evidence(m, residual_variance=1e100)),
    "prior mean": lambda m: flipped(m, mean=1e99),
    "evidence": lambda m: said(m, site=m.latents[0].site._replace(e=torch.tensor(1e99, dtype=torch.float64))),
}


@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=[] if w in ("noise", "rows") else pytest.mark.slow) for w in FORGED]
)
def test_one_forged_number_does_not_bend_the_merge(honest, what):
    clean = answers(honest[1:])
    np.testing.assert_allclose(answers([FORGED[what](honest[0]), *honest[1:]]), clean, atol=0.05)


def test_a_site_says_no_more_than_its_rows_can(honest):
    """σ² tr(K_ZZ RRᵀ) ≤ n·max k(x, x), for honest modules of any noise."""
    rng = np.random.default_rng(1)
    for noise, n in ((1e-4, 15), (0.09, 60), (4.0, 200)):
        X = rng.uniform(-2, 2, (n, 2))
        m = rgp.fit(X, np.sin(X).sum(1) + noise**0.5 * rng.standard_normal(n), noise=noise, privacy="things")
        site, kernel = m.latents[0].site, m.kernel_spec
        K, Rt = kernel.matrix(site.Z, site.Z).numpy(), site.Rt.numpy()
        assert noise * np.trace(K @ Rt.T @ Rt) <= n * kernel.diagonal(site.Z).max().item() * (1 + 1e-9)


def test_who_says_more_than_its_rows_can_does_not_count(honest):
    site = honest[0].latents[0].site
    sure = said(honest[0], site=site._replace(Rt=1e6 * site.Rt, rho=1e6 * site.rho))
    imported = replace(sure, about=sure.about._replace(method="moments"))
    for module, weight in ((sure, 0.0), (imported, 1e-6)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rgp.RecycleGPWarning)
            row = rgp.merge([module, *honest[1:]]).report()[0]
        assert "more than its rows and its noise allow" in row["trust"]
        assert row["weight"] <= weight


def test_what_cannot_be_is_flagged_where_nobody_else_knows(honest):
    """At one place beside all others', far larger than f can be."""
    site = honest[0].latents[0].site
    far = said(honest[0], site=site._replace(Z=0 * site.Z + 4.0, rho=1e9 * site.rho))
    with pytest.warns(rgp.RecycleGPWarning, match="do not count"):
        e = rgp.merge([far, *honest[1:]])
    np.testing.assert_allclose(e.predict(AT)[0], answers(honest[1:]), atol=1e-6)


def knowing(module, times, away=0.0):
    """An honest owner's module of times² as many rows, who knows the function that much better, so far away."""
    site, rows, e = module.latents[0].site, round(module.latents[0].rows * times**2), module.latents[0].noise_evidence
    Rt, Z = site.Rt * times, site.Z + away
    more = e._replace(chi2=e.chi2 * times**2, residual=e.residual * times**2, dof=e.dof * times**2)
    site = site._replace(Z=Z, Rt=Rt, rho=Rt @ (1.3 * torch.sin(2.5 * Z[:, 0])))
    return said(module, site=site, rows=rows, noise_evidence=more)


@pytest.mark.parametrize("times", [10.0, 1e4])
def test_an_honest_owner_of_very_many_rows_counts_in_full(honest, times):
    e = rgp.merge([knowing(honest[0], times), *honest[1:]])
    assert (e.report()[0]["trust"], e.report()[0]["weight"]) == ("trusted", 1.0)
    Z = honest[0].latents[0].site.Z.numpy()
    others = rgp.merge(honest[1:])
    assert (e.predict(Z)[1] < 0.3 * others.predict(Z)[1]).all()
    assert np.abs(e.predict(AT)[0] - 1.3 * np.sin(2.5 * AT[:, 0])).max() < 0.02


def test_very_many_rows_that_nobody_can_check_count_as_a_hundred_times_the_usual(honest):
    far = knowing(honest[0], 1e4, away=20.0)
    e = merged([far, *honest[1:]])
    row = e.report()[0]
    assert "which nobody can check, and counts that much less" in row["trust"]
    assert 1e-8 < row["weight"] < 1e-4
    Z = far.latents[0].site.Z.numpy()
    assert np.abs(e.predict(Z)[0] - 1.3 * np.sin(2.5 * Z[:, 0])).mean() < 0.05  # where it speaks alone, it is heard
    np.testing.assert_allclose(e.predict(AT)[0], answers(honest[1:]), atol=0.02)


def test_whose_unit_nobody_knows_decides_nothing_for_all(honest):
    """Ten times farther apart, the opposite, of rows without noise: that had made all owners differ."""
    site = honest[0].latents[0].site
    silent = evidence(honest[0], chi2=1e-7, residual=1e-9)
    asked = said(honest[0], site=site._replace(Z=10 * site.Z, rho=-site.rho), noise_evidence=silent)
    e, clean = merged([asked, *honest[1:]]), merged(honest[1:])
    assert "in which unit is it?" in e.report()[0]["trust"]
    assert e.report()[0]["weight"] == 1
    torch.testing.assert_close(e.kernel_spec.theta, clean.kernel_spec.theta, atol=0.01, rtol=0)
    assert float(e.noise) == pytest.approx(float(clean.noise), rel=0.1)  # its own is one of them
    assert (e.predict(AT)[1] < 1.1 * clean.predict(AT)[1]).all()


def elsewhere(honest, level, sure):
    """One of them, so much surer, of points of which few are where the others are; f has this level there."""
    site, noise = honest[0].latents[0].site, float(honest[0].likelihoods[0].values[0])
    Rt, Z = site.Rt * np.exp(sure), 8 * site.Z - 3
    rows = evidence(honest[0], residual=1e-9 * honest[0].latents[0].noise_evidence.residual)
    bad = said(honest[0], site=site._replace(Z=Z, Rt=Rt, rho=level * Rt.sum(-1)), noise_evidence=rows)
    return replace(bad, likelihoods=(Gaussian(noise * np.exp(-20)),))


def test_what_hardly_fits_the_others_counts_less_where_most_of_it_cannot_be_checked(honest):
    e, clean = merged([elsewhere(honest, -0.5, 0), *honest[1:]]), merged(honest[1:])
    row = e.report()[0]
    assert "beside what the others know it is" in row["trust"]
    assert 0 < row["weight"] < 0.5
    np.testing.assert_allclose(e.predict(AT)[0], clean.predict(AT)[0], atol=0.05)


@pytest.mark.parametrize("sure", [0, 2, 10])
def test_what_plainly_contradicts_the_others_does_not_count_though_most_of_it_cannot_be_checked(honest, sure):
    """Far away, where nobody knows f, and with certainty: that had moved all by five deviations."""
    e, clean = merged([elsewhere(honest, -5, sure), *honest[1:]]), merged(honest[1:])
    assert e.report()[0]["trust"].startswith("flagged")
    np.testing.assert_allclose(e.predict(AT)[0], clean.predict(AT)[0], atol=1e-9)


def test_of_files_that_agree_with_each_other_and_contradict_the_rest_none_counts(honest):
    """Three of twelve: what they say of each other is no evidence, as long as it contradicts the majority."""
    bad = [elsewhere([m], -5, 10) for m in honest[:3]]
    e, clean = merged([*bad, *honest[3:]]), merged(honest[3:])
    assert [row["trust"].startswith("flagged") for row in e.report()] == 3 * [True] + 9 * [False]
    np.testing.assert_allclose(e.predict(AT)[0], clean.predict(AT)[0], atol=1e-9)


@pytest.fixture(scope="module")
def differing():
    """Twelve owners of one function, each with a constant of its own."""
    rng = np.random.default_rng(5)
    parts = []
    for constant in 0.3 * rng.standard_normal(12):
        X = rng.uniform(-2, 2, (40, 1))
        parts.append((X, 1.3 * np.sin(2.5 * X[:, 0]) + constant + 0.2 * rng.standard_normal(40)))
    return list(rgp.fit_many(parts, publish=10, names=[f"m{k}" for k in range(12)], privacy="things", kernel="rbf"))


def rough(module, k):
    """Beside all others it goes up and down within a hundredth."""
    site = module.latents[0].site
    f = 1.5 * np.random.default_rng([3, k]).standard_normal(len(site.Z))
    return said(module, site=site._replace(Z=0.02 * site.Z - 3, rho=site.Rt @ torch.from_numpy(f)))


def test_who_cannot_be_checked_does_not_move_f_where_the_others_know_it(honest):
    """Three of twelve, of a place of their own: a kernel that suits them, too, hardly knows f anywhere else."""
    e, clean = merged([*(rough(m, k) for k, m in enumerate(honest[:3])), *honest[3:]]), merged(honest[3:])
    assert all(row["trust"] == "trusted" for row in e.report()[3:])
    assert any("with it f would be elsewhere" in row["trust"] for row in e.report()[:3])
    torch.testing.assert_close(e.kernel_spec.theta, clean.kernel_spec.theta, atol=0.01, rtol=0)
    np.testing.assert_allclose(e.predict(AT)[0], clean.predict(AT)[0], atol=0.02)


def test_an_honest_owner_of_a_place_of_its_own_counts_in_full(honest):
    """Nobody can check it, and it moves nobody."""
    X = np.random.default_rng(9).uniform(4, 6, (40, 1))
    y = 1.3 * np.sin(2.5 * X[:, 0]) + 0.2 * np.random.default_rng(10).standard_normal(40)
    apart = rgp.fit(X, y, name="apart", publish=10, privacy="things", kernel="rbf")
    e = merged([apart, *honest[1:]])
    assert e.report()[0]["trust"].startswith("cannot be checked: the others know")
    assert "elsewhere" not in e.report()[0]["trust"]
    assert e.report()[0]["weight"] == 1
    assert np.abs(e.predict(X)[0] - 1.3 * np.sin(2.5 * X[:, 0])).mean() < 0.2


@pytest.mark.parametrize("by", [1.0, 2.0])
def test_an_honest_owner_whose_constant_is_far_from_the_others_counts_in_full(differing, by):
    """By up to ten standard deviations of theirs: one owner alone hardly moves what they know."""
    e = merged([m.transform(output_shift=by) if k == 4 else m for k, m in enumerate(differing)])
    assert all((row["trust"], row["weight"]) == ("trusted", 1.0) for row in e.report())
    assert float(np.max(e.offset_sd)) > 0.1


class TestSeenShares:
    """What of each site is seen while members are compared."""

    def test_nothing_is_hidden_of_usual_sites(self):
        assert self.of(1.0, 2.0, 0.1, 9.0).tolist() == [1.0] * 4

    def test_no_more_than_ten_times_the_usual_is_seen(self):
        assert self.of(1.0, 1.0, 1.0, 1.0, 1e20).tolist() == pytest.approx([1.0] * 4 + [1e-19])

    def test_three_in_ten_cannot_say_what_is_usual(self):
        seen = self.of(*[1.0] * 7, *[1e6] * 3)
        assert seen.tolist() == pytest.approx([1.0] * 7 + [1e-5] * 3)

    def test_of_two_nobody_can_say_whose_is_unusual(self):
        assert self.of(1.0, 1e20).tolist() == [1.0, 1.0]

    def test_who_says_no_noise_is_shown_as_sure_as_the_others_see_it(self):
        """Published under a noise that is a million times too small: at the common one it is 20 times too sure."""
        published, now = self.store(*[1.0] * 4, 2e7), self.store(*[1.0] * 4, 20.0)
        seen = influence.seen_shares(now, 5)
        assert seen.tolist() == pytest.approx([1.0] * 4 + [0.5])
        assert influence.shown_shares(seen, now, published).tolist() == pytest.approx([1.0] * 4 + [0.5e-6])
        noisy = self.store(*[1.0] * 4, 0.2)  # or under a noise that is a hundred times too large
        assert influence.shown_shares(seen, now, noisy).tolist() == [1.0] * 5

    def of(self, *precisions):
        return influence.seen_shares(self.store(*precisions), len(precisions))

    def store(self, *precisions):
        store = SiteStore()
        for k, precision in enumerate(precisions):
            Rt = torch.full((1, 1), precision**0.5, dtype=torch.float64)
            store.put(Site(Rt * 0, Rt, Rt[0], Rt[0, 0]), 1.0, k)
        return store


def test_votes():
    assert influence.votes([10.0, 20.0]) == [10.0, 20.0]  # of two nobody can say whose is unusual
    assert influence.votes([10.0] * 9 + [1e15]) == [10.0] * 10
    assert influence.votes([5.0] * 6 + [500.0] * 4) == [5.0] * 6 + [500.0] * 4


def test_far_points_do_not_spoil_distances():
    """Of points at 1e12 beside points at one, in two inputs."""
    from recyclegp.kernels import parse

    kernel = parse("rbf", 2)
    near = torch.tensor(np.random.default_rng(0).uniform(0, 1, (6, 2)))
    both = torch.cat([near, near + 1e12])
    K = kernel.matrix(both, both)
    torch.testing.assert_close(K[:6, :6], kernel.matrix(near, near), rtol=1e-10, atol=0)
    assert torch.linalg.eigvalsh(K).min() > -1e-9


class TestNoiseOfRows:
    """A noise that a member's own rows say, beside the one it publishes."""

    def test_honest_rows_say_about_the_published_noise(self, honest):
        noise, said = published(*honest)
        assert bool(((noise / 3 < said) & (said <= noise)).all())

    def test_residuals_and_squares_that_are_far_smaller(self, honest):
        rows, points = honest[0].latents[0].rows, len(honest[0].latents[0].site.Z)
        small = said(honest[0], noise_evidence=evidence(honest[0], residual=1e-9, dof=0.9 * rows))
        few = said(honest[0], noise_evidence=evidence(honest[0], chi2=1e-9))
        noise, found = published(small, few)
        assert found.tolist() == pytest.approx([1e-9 / (0.9 * rows), float(noise[1]) * 1e-9 / (rows - points)])

    def test_only_rows_that_contradict_what_is_published_do_not_count(self):
        noise = torch.tensor([1.0, 1.1, 0.9, 1.0, 1e-6], dtype=torch.float64)
        least = torch.tensor([0.9, 1.0, 0.8, 1e-6, 1e-6], dtype=torch.float64)
        known = torch.ones(5, dtype=torch.bool)
        assert influence.of_rows_like_theirs(noise, least, known).tolist() == [True, True, True, False, True]
        two = influence.of_rows_like_theirs(noise[3:], least[3:], known[3:])
        assert two.tolist() == [True, True]  # of two nobody can say whose is unusual

    def test_a_noise_that_was_given_and_is_too_large_for_all(self):
        """All rows contradict it, and all of them count."""
        noise, least = torch.ones(5, dtype=torch.float64), torch.full((5,), 1e-4, dtype=torch.float64)
        assert influence.of_rows_like_theirs(noise, least, torch.ones(5, dtype=torch.bool)).all()

    @pytest.mark.slow
    def test_two_who_say_that_there_is_no_noise(self, honest):
        """Nor do they make everybody as sure as they claim to be."""
        small = [said(m, noise_evidence=evidence(m, chi2=1e-12, residual=1e-12, dof=1e9)) for m in honest[:2]]
        e, clean = merged([*small, *honest[2:]]), merged(honest[2:])
        assert 0.5 < float(e.noise) / float(clean.noise) < 2
        np.testing.assert_allclose(e.predict(AT)[0], clean.predict(AT)[0], atol=0.05)


NOISE, ROWS = 0.04, 40
TWO_NOISES = {
    "noise": lambda e: (e, 100 * NOISE),
    "noise, few degrees of freedom": lambda e: (e._replace(dof=0.45 * ROWS, residual=0.45 * ROWS * NOISE), 100 * NOISE),
    "squares": lambda e: (e._replace(chi2=70.0 * ROWS), None),
}


def torn(module, what):
    """A hundred times less sure of f, and another noise in one of the places where a file says it."""
    told, noise = TWO_NOISES[what](module.latents[0].noise_evidence)
    site = module.latents[0].site
    times = 0.01 if noise else 1.0
    module = said(module, noise_evidence=told, site=site._replace(Rt=site.Rt * times, rho=site.rho * times))
    return module if noise is None else replace(module, likelihoods=(Gaussian(noise),))


class TestOneFileAndTheNoise:
    """Of a file that contradicts itself about its noise the common one learns nothing."""

    @pytest.mark.parametrize("what", TWO_NOISES)
    @pytest.mark.parametrize("times", [0.25, 1.0])  # of the forged noise: nearer, and as far as is believed of anybody
    def test_two_noises_in_one_file(self, honest, what, times):
        bad = torn(honest[0], what)
        if what != "squares":
            bad = replace(bad, likelihoods=(Gaussian(times * 100 * NOISE),))
        e, clean = merged([bad, *honest[1:]]), merged(honest[1:])
        assert 0.95 < float(e.noise) / float(clean.noise) < 1.05
        for one, other in zip(e.predict_y(AT), clean.predict_y(AT), strict=True):
            np.testing.assert_allclose(one, other, rtol=0.05)

    @pytest.mark.parametrize("noise", [1.2e2 * NOISE, 1e8])
    def test_a_noise_that_is_not_believed_is_not_in_the_average(self, honest, noise):
        """With evidence and without: what is a member's own affair is that of nobody else."""
        bad = replace(honest[0], likelihoods=(Gaussian(noise),))
        for one in (bad, said(bad, noise_evidence=None)):
            e, clean = merged([one, *honest[1:]]), merged(honest[1:])
            assert float(e.noise) == pytest.approx(float(clean.noise), rel=0.1)

    @pytest.mark.parametrize("imports", [1, 7])
    def test_models_from_elsewhere_have_a_part_where_most_are_from_there(self, honest, imports):
        """Without a word about its rows nobody can tell whether a noise was ever learned."""
        some = [said(replace(m, likelihoods=(Gaussian(5 * NOISE),)), noise_evidence=None) for m in honest[:imports]]
        e, clean = merged([*some, *honest[imports:]]), merged(honest[imports:])
        share = imports / 12 if imports > 6 else 0
        assert float(e.noise) == pytest.approx((1 - share) * float(clean.noise) + share * 5 * NOISE, rel=0.05)

    def test_an_owner_who_measures_worse_says_so_consistently(self, honest):
        """Its rows say it, too: it counts as it is, and moves the common noise by no more than its part."""
        rng = np.random.default_rng(77)
        X = rng.uniform(-2, 2, (ROWS, 1))
        y = 1.3 * np.sin(2.5 * X[:, 0]) + 1.5 * rng.standard_normal(ROWS)
        noisy = rgp.fit(X, y, name="noisy", publish=10, privacy="things", kernel="rbf")
        e, clean = merged([noisy, *honest[1:]]), merged(honest[1:])
        assert 1.1 < float(e.noise) / float(clean.noise) < 1 + 9 / 12

    def test_who_says_two_noises(self):
        """Unlike the others: where all do, it was given to them, and is too large."""
        claimed = torch.tensor([1.0, 1.1, 0.9, 4.0, 1.0], dtype=torch.float64)
        least = torch.tensor([0.9, 1.0, 0.2, 0.1, 0.9], dtype=torch.float64)
        known = torch.ones(5, dtype=torch.bool)
        assert influence.of_one_noise(claimed, least, known).tolist() == [True, True, True, False, True]
        assert influence.of_one_noise(claimed[3:], least[3:], known[3:]).tolist() == [True, True]
        assert influence.of_one_noise(claimed, 1e-3 * claimed, known).all()


@pytest.mark.parametrize(("n", "M", "noise"), [(30, 4, 0.3), (30, 4, 0.003), (12, 9, 0.05), (9, 2, 1e-6)])
def test_rows_leave_so_many_degrees_of_freedom_for_their_noise(n, M, noise):
    """tr W² ≥ (n − M)(1 + nq/((n − M)σ²))⁻², W = σ²(K_XX + σ²I)⁻¹, q = tr(K_XX − K_XZ K_ZZ⁻¹K_ZX)/n."""
    rng = np.random.default_rng(n + M)
    X = rng.uniform(-2, 2, (n, 2))
    Z = rng.uniform(-2, 2, (M, 2))

    def k(A, B):
        return 1.7 * np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(-1) / 0.8**2)

    W = noise * np.linalg.solve(k(X, X) + noise * np.eye(n), np.eye(n))
    q = np.trace(k(X, X) - k(X, Z) @ np.linalg.solve(k(Z, Z), k(Z, X))) / n
    numbers = [torch.tensor([v], dtype=torch.float64) for v in (noise, q, n, M)]
    least = float(influence.least_dof(*numbers))
    assert least == pytest.approx((n - M) * (1 + n * q / ((n - M) * noise)) ** -2)
    assert np.sum(W**2) >= least


def test_as_many_points_as_rows_leave_none():
    numbers = [torch.tensor(v, dtype=torch.float64) for v in ([0.1, 0.1], [0.0, 0.2], [5.0, 5.0], [5.0, torch.inf])]
    assert influence.least_dof(*numbers).tolist() == [0, 0]

"""What modules say about their noise, and what their points keep, against dense Gaussian algebra in NumPy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import special, stats

import recyclegp as rgp
import reference as ref
from recyclegp.core import noise as core
from recyclegp.core.effects import Effects
from recyclegp.kernels import Kernel, parse
from recyclegp.merging.exact_learning import Sites, _as_residuals_say, _learn
from recyclegp.merging.member import stored
from recyclegp.merging.noise import PooledNoise, Readings, at_noise, with_noise
from recyclegp.merging.owners import owner_numbers
from recyclegp.merging.search_space import SearchSpace


def owner(seed, n=14, sd=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, 0.6 + np.sin(1.5 * X[:, 0]) + 0.4 * X[:, 1] + sd * rng.standard_normal(n)


def reference_kernel(kernel):
    """The same RBF kernel in NumPy."""
    amplitude, *lengths = np.exp(kernel.theta.numpy())
    return ref.Kernel("rbf", tuple(lengths), amplitude)


def at_rows(seeds=(0, 1, 2), sizes=(9, 14, 11)):
    """Modules published at their own rows, so that nothing is lost, and all rows."""
    data = [owner(seed, n) for seed, n in zip(seeds, sizes, strict=True)]
    modules = [rgp.fit(X, y, kernel="rbf", publish=X, name=f"m{i}") for i, (X, y) in enumerate(data)]
    return modules, np.concatenate([X for X, _ in data]), np.concatenate([y for _, y in data])


def noise_of(model):
    return model.likelihoods[0].parameters[0]


# --- one module -------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_a_site_at_another_noise_is_the_likelihood_there(factor):
    X, y = owner(3)
    m = rgp.fit(X, y, kernel="rbf", publish=X)
    q = m.noise_evidence.residual_variance
    tau = core.factor(noise_of(m), q, factor * noise_of(m), q)
    site = core.at_noise(m.site, float(tau), m.noise_evidence.chi2, m.rows)
    k = reference_kernel(m._kernels[0])
    found = ref.log_integral(ref.Site(X, *_natural(site)), _with_nugget(k, m.jitter), m.mean)
    wanted = ref.exact_evidence(k, X, y, m.mean, np.full(len(y), factor * noise_of(m)))
    assert found == pytest.approx(wanted, abs=1e-6)


def test_a_collapsed_site_at_another_noise_is_its_bound_there():
    X, y = owner(4, 60)
    Z = np.random.default_rng(0).uniform(-2, 2, (12, 2))
    m = rgp.fit(X, y, kernel="rbf", method="collapsed", inducing=Z)
    assert m.noise_evidence.residual_variance == 0
    site = core.at_noise(m.site, 2.5, m.noise_evidence.chi2, m.rows)
    k = _with_nugget(reference_kernel(m._kernels[0]), m.jitter)
    found = ref.log_integral(ref.Site(Z, *_natural(site)), k, m.mean)
    assert found == pytest.approx(ref.sgpr_bound(k, Z, X, y, m.mean, np.full(len(y), 2.5 * noise_of(m))), abs=1e-5)


def _natural(site):
    """Λ, λ and the constant of log t."""
    Rt, rho, e = site.Rt.numpy(), site.rho.numpy(), float(site.e)
    return Rt.T @ Rt, Rt.T @ rho, e - 0.5 * rho @ rho


def _with_nugget(kernel, jitter):
    return replace(kernel, nugget=jitter)


@pytest.mark.parametrize("method", ["exact", "collapsed"])
def test_residual_and_freedom(method):
    X, y = owner(5, 40)
    Z = np.random.default_rng(1).uniform(-2, 2, (9, 2))
    m = (
        rgp.fit(X, y, kernel="rbf", publish=6)
        if method == "exact"
        else rgp.fit(X, y, kernel="rbf", method="collapsed", inducing=Z)
    )
    k, noise = reference_kernel(m._kernels[0]), noise_of(m)
    K = k(X, X)
    if method == "collapsed":
        K = k(X, Z) @ np.linalg.solve(k(Z, Z) + m.jitter * np.eye(9), k(Z, X))
    W = noise * np.linalg.inv(K + noise * np.eye(len(y)))
    residual = W @ (y - m.mean)
    assert m.noise_evidence.residual == pytest.approx(residual @ residual, rel=1e-6)
    assert m.noise_evidence.dof == pytest.approx(np.trace(W @ W), rel=1e-6)


def test_a_noise_that_is_given_is_not_evidence():
    X, y = owner(6)
    assert rgp.fit(X, y, noise=0.1).noise_evidence is None
    counts = np.random.default_rng(0).poisson(2.0, len(y))
    assert rgp.fit(X, counts, likelihood="poisson").noise_evidence is None


# --- what points keep -------------------------------------------------------------------------


def nats(kernel, X, noise):
    return 0.5 * ref.logdet(np.eye(len(X)) + kernel(X, X) / noise)


def test_kept_is_the_information_in_the_points_over_that_in_the_rows():
    X, y = owner(7, 40)
    m = rgp.fit(X, y, kernel="rbf", publish=7)
    k, noise, Z = reference_kernel(m._kernels[0]), noise_of(m), np.asarray(m.inducing)
    open_ = k(X, X) - k(X, Z) @ np.linalg.solve(k(Z, Z) + m.jitter * np.eye(len(Z)), k(Z, X))
    left = 0.5 * ref.logdet(np.eye(len(X)) + open_ / noise)
    total = nats(k, X, noise)
    assert m.kept == pytest.approx(1 - left / total, abs=1e-6)
    fewer = m.publish(3)
    Rt, Z3 = fewer.site.Rt.numpy(), np.asarray(fewer.inducing)
    said = 0.5 * ref.logdet(np.eye(len(Rt)) + Rt @ (k(Z3, Z3) + fewer.jitter * np.eye(3)) @ Rt.T)
    assert fewer.kept == pytest.approx(said / total, abs=1e-6)


@pytest.mark.parametrize(("columns", "rows"), [(1, 60), (2, 80), (5, 60), (2, 3), (1, 1)])
def test_automatic_points_keep_enough_or_half_the_rows(columns, rows):
    rng = np.random.default_rng(columns)
    X = rng.uniform(-1, 1, (rows, columns))
    m = rgp.fit(X, np.sin(2 * X).sum(1) + 0.1 * rng.standard_normal(rows), kernel="rbf", allow_small=True)
    points = len(m.inducing)
    assert 0 < m.kept <= 1
    assert points <= max(1, rows // 2)
    assert m.kept >= 0.95 or points == max(1, rows // 2)
    if m.kept >= 0.95 and points > 1:
        assert rgp.fit(X, np.sin(2 * X).sum(1), publish=0.5).kept >= 0.5
    assert f"keep {m.kept:.0%}" in repr(m)


def test_sparse_models_publish_as_many_of_their_points_as_it_takes():
    rng = np.random.default_rng(8)
    X = rng.uniform(0, 5, (300, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(300)
    m = rgp.fit(X, y, kernel="rbf", method="collapsed", inducing=40)
    assert len(m.inducing) < 20
    assert m.kept >= 0.95
    few = rgp.fit(X, y, kernel="rbf", method="collapsed", inducing=40, publish=4)
    assert len(few.inducing) == 4
    assert few.kept < m.kept
    classes = rgp.fit(X, (y > 0).astype(float), likelihood="bernoulli")
    assert len(classes.inducing) < 100
    assert classes.kept >= 0.95


def test_little_that_is_kept_is_said_with_its_price():
    X, y = owner(9, 30)
    with pytest.warns(
        rgp.RecycleGPWarning, match=r"a keeps .*% of what its 30 rows say about f at 2 points; 4 points "
    ):
        rgp.fit(X, y, publish=2, name="a")
    with pytest.warns(rgp.RecycleGPWarning, match=r"and 1 other of 2 modules keeps less than 80%"):
        rgp.fit_many([(X, y), (X, y + 1)], publish=2, names=["a", "b"])


# --- merged -----------------------------------------------------------------------------------


def test_pooling_at_the_rows_is_the_exact_gp_with_one_noise():
    modules, X, y = at_rows()
    e = rgp.merge(modules, owners=None)
    k, noise = reference_kernel(e.groups[0].form.kernel), noise_of(e)
    assert {row["noise"] for row in e.report()} == {noise}
    assert len({noise_of(m) for m in modules}) == 3
    everywhere = np.full(len(y), noise)
    assert e.evidence == pytest.approx(ref.exact_evidence(k, X, y, e.mean, everywhere), abs=1e-5)
    Xt = np.random.default_rng(1).uniform(-2, 2, (7, 2))
    mean, covariance = ref.exact_gp(k, X, y, e.mean, everywhere, Xt)
    np.testing.assert_allclose(e.predict(Xt), [mean, np.diag(covariance)], atol=1e-6)


def test_the_gradient_by_the_noise_is_a_finite_difference():
    modules, _, _ = at_rows()
    e = rgp.merge(modules, owners=None, learn=False, inducing="all")
    with stored(e._members, now=False) as store:
        sites = Sites.of(store, owner_numbers(e._members), Readings.of(e._members, store))

    def value(x):
        pooled = PooledNoise(x[0].exp(), x[1].exp())
        return sites.log_evidence(e.groups[0].form.kernel, Effects(0.3, 0.2), pooled).value

    x = torch.tensor([math.log(0.2), math.log(5.0)], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(value(x), x)
    with torch.no_grad():
        for i in range(2):
            step = 1e-5 * torch.eye(2, dtype=torch.float64)[i]
            assert float(slope[i]) == pytest.approx(float(value(x + step) - value(x - step)) / 2e-5, rel=1e-5)


def open_of(kernel, Z):
    """Each point from all others, one at a time."""
    K = kernel(Z, Z)
    found = []
    for j in range(len(Z)):
        rest = np.arange(len(Z)) != j
        found.append(K[j, j] - K[j, rest] @ np.linalg.solve(K[np.ix_(rest, rest)], K[rest, j]))
    return np.mean(found)


def test_what_points_leave_open_is_what_the_others_do_not_explain():
    modules = [rgp.fit(*owner(seed), kernel="rbf", publish=6) for seed in (0, 1)]
    kernels = [m._kernels[0] for m in modules]
    Z = torch.stack([m.site.Z for m in modules])
    found = core.left_open(Kernel(kernels[0].structure, torch.stack([k.theta for k in kernels])), Z)
    wanted = [open_of(reference_kernel(k), np.asarray(z)) for k, z in zip(kernels, Z, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


@pytest.mark.parametrize("lengthscale", [0.5, 30.0])
def test_what_points_leave_open_is_differentiated_whole(lengthscale):
    """Also where a function is so smooth that points leave no more open than is not known more finely."""
    Z = torch.linspace(0, 1, 12, dtype=torch.float64)[:, None]
    theta = torch.tensor([2.0, math.log(lengthscale)], dtype=torch.float64)
    kernel = parse("matern52", 1)
    assert torch.autograd.gradcheck(lambda t: core.left_open(kernel.with_theta(t), Z).log(), theta.requires_grad_())


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_members_count_with_what_their_points_leave_open_under_the_merged_kernel():
    modules = [rgp.fit(*owner(seed, 40), kernel="rbf", publish=5, name=f"m{seed}") for seed in (0, 1, 2)]
    e = rgp.merge(modules, owners=None, trust=None, inducing="all")
    pooled, k = e.groups[0].noises[0], reference_kernel(e.groups[0].form.kernel)
    assert pooled.kernel == e.groups[0].form.kernel
    for m, member in zip(modules, e._members, strict=True):
        q, Z = m.noise_evidence.residual_variance, np.asarray(m.site.Z)
        wanted = pooled.open_scale * q * open_of(k, Z) / open_of(reference_kernel(m._kernels[0]), Z)
        assert member.left_open == pytest.approx(wanted, rel=1e-3)
        tau = (member.noise + member.left_open) / (noise_of(m) + q)
        np.testing.assert_allclose(member.site_now.Rt, m.site.Rt / math.sqrt(tau))


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_the_gradient_by_kernel_and_open_scale_is_a_finite_difference():
    modules = [rgp.fit(*owner(seed, 30), kernel="rbf", publish=5, name=f"m{seed}") for seed in (0, 1)]
    e = rgp.merge(modules, owners=None, learn=False, inducing="all")
    with stored(e._members, now=False) as store:
        sites = Sites.of(store, owner_numbers(e._members), Readings.of(e._members, store))
    kernel = e.groups[0].form.kernel

    def value(x):
        pooled = PooledNoise(torch.tensor(0.07, dtype=torch.float64), open_scale=x[-1].exp())
        return sites.log_evidence(kernel.with_theta(x[:-1]), Effects(0.3, 0.2), pooled).value

    x = torch.cat([kernel.theta, kernel.theta.new_tensor([0.3])]).requires_grad_()
    (slope,) = torch.autograd.grad(value(x), x)
    with torch.no_grad():
        for i in range(len(x)):
            step = 1e-5 * torch.eye(len(x), dtype=torch.float64)[i]
            assert float(slope[i]) == pytest.approx(float(value(x + step) - value(x - step)) / 2e-5, rel=1e-4)


def test_members_whose_sites_are_not_here_do_not_change_the_evidence():
    modules = [rgp.fit(*owner(seed, 30), kernel="rbf", publish=5, name=f"m{seed}") for seed in range(3)]
    e = rgp.merge(modules, owners=None, learn=False, inducing="all")
    pooled, kernel = PooledNoise(0.07, 9.0, 1.2, 0.4), e.groups[0].form.kernel
    with stored(e._members, now=False) as everybody, stored(e._members[::2], now=False) as others:
        readings = Readings.of(e._members, everybody)
        found = Sites.of(everybody.without([1]), owner_numbers(e._members), readings)
        wanted = Sites.of(others, [0, 1], Readings.of(e._members[::2], others))
    assert len(found.noise.readings.noise) == 2
    assert float(found.log_evidence(kernel, Effects(0.3, 0.2), pooled).value) == pytest.approx(
        float(wanted.log_evidence(kernel, Effects(0.3, 0.2), pooled).value), rel=1e-12
    )


# --- how well residuals know the noise --------------------------------------------------------


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_how_well_residuals_know_the_noise():
    """Of counting, of hyperparameters that are chosen on the same rows, and of what is in the noise of f."""
    modules = [rgp.fit(*owner(seed, n), kernel="rbf", publish=M) for seed, n, M in ((0, 40, 5), (1, 70, 3), (2, 55, 6))]
    members = rgp.merge(modules, owners=None, trust=None, inducing="all")._members
    with stored(members, now=False) as store:
        read = Readings.of(members, store)
    x = np.array([0.4, 0.0, 2.5])
    parts = []
    for m, missed in zip(modules, x, strict=True):
        e = m.noise_evidence
        found_in_rows = m.rows - e.dof
        missing = np.log(1 + 0.1 * np.e * missed * min(1, len(m.inducing) / found_in_rows) / (e.residual / e.dof))
        parts.append(((3 + 2) / e.dof) ** 2 + missing**2)  # variance, two lengthscales, mean, noise
    wanted = np.sqrt(2 / sum(m.noise_evidence.dof for m in modules) + np.median(parts))
    assert 0.05 < wanted < 0.9
    assert read.level_sd(torch.tensor(x)) == pytest.approx(wanted, rel=1e-9)
    assert read.level_sd() < read.level_sd(torch.tensor(x))
    assert read._replace(dof=read.dof / 20).level_sd() == 1  # no wider than before anybody asked


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_a_noise_that_is_far_from_what_residuals_say_is_learned_as_near_as_they_know_it():
    modules = [rgp.fit(*owner(seed, 40), kernel="rbf", publish=5, name=f"m{seed}") for seed in range(3)]
    about = modules[0]._kernels[0]
    members = rgp.merge(modules, owners=None, trust=None, inducing="all")._members
    with stored(members, now=False) as store:
        sites = Sites.of(store, owner_numbers(members), Readings.of(members, store))
    read = sites.noise.readings
    space = SearchSpace.of(about, sites.stacked.Z).pooling(read.level)
    sd = read.level_sd(torch.zeros(len(modules)))
    found = _learn(sites, space, [space.start(about)])
    assert _as_residuals_say(sites, found) is found
    wrong = replace(space, level=3 * read.level, level_sd=0.01)
    found = _learn(sites, wrong, [wrong.start(about)])
    as_one, curvature = replace(found.noise, dof=math.inf), found.curvature._replace(space=space)
    assert math.log(as_one.level / read.level) > 2 * sd
    nearer = _as_residuals_say(sites, found._replace(noise=as_one, curvature=curvature))
    ended = nearer.ended_at
    assert abs(math.log(ended.level / read.level)) < sd

    def objective(noise):
        """What sites say, and what residuals say, each with its own certainty."""
        value = sites.log_evidence(nearer.kernel, nearer.effects, noise).value
        return float(value) - 0.5 * (math.log(noise.level / read.level) / sd) ** 2

    best = objective(ended)
    assert best > objective(replace(ended, level=1.1 * ended.level))
    assert best > objective(replace(ended, level=ended.level / 1.1))


# --- what a module has missed of f ------------------------------------------------------------


def missed_of(own, kernel, Z, noise):
    """The squared error of each point predicted from the others, under `kernel`, beyond what its own expects."""
    found = []
    for k in (kernel, own):
        errors = []
        for j in range(len(Z)):
            rest = np.arange(len(Z)) != j
            A = own(Z[rest], Z[rest]) + noise * np.eye(len(Z) - 1)
            weights = np.zeros(len(Z))
            weights[j], weights[rest] = 1.0, -np.linalg.solve(A, own(Z[rest], Z[j : j + 1])[:, 0])
            errors.append(weights @ k(Z, Z) @ weights)
        found.append(min(np.mean(errors), np.diag(k(Z, Z)).mean()))
    return max(found[0] - found[1], 0.0)


def too_small(sizes=(200, 200, 200, *[25] * 10), seed=0, sd=0.1):
    """Of a function of which the owners of few rows see so little that they take it for noise."""
    rng = np.random.default_rng(seed)
    inputs = [rng.uniform(-2, 2, (n, 2)) for n in sizes]
    parts = [(X, np.sin(4 * X[:, 0]) + np.cos(4 * X[:, 1]) + sd * rng.standard_normal(len(X))) for X in inputs]
    return rgp.fit_many(parts, names=[f"m{i}" for i in range(len(sizes))])


def test_what_a_smooth_kernel_misses_is_its_error_at_points_that_are_left_out():
    modules = [rgp.fit(*owner(seed, 40), kernel="rbf", publish=7) for seed in (0, 1)]
    rough = Kernel(modules[0]._kernels[0].structure, torch.tensor([0.3, -0.9, -0.4], dtype=torch.float64))
    for m in modules:
        own, Z = m._kernels[0], m.site.Z
        noise = torch.tensor(noise_of(m), dtype=torch.float64)
        B = core.leave_one_out_operator(own, Z, noise)
        found = core.missed(B, rough, Z) - core.missed(B, own, Z)
        floor = core.NUGGET * float(own.diagonal(Z).mean())
        wanted = missed_of(reference_kernel(own), reference_kernel(rough), np.asarray(Z), noise_of(m) + floor)
        assert float(found.clamp_min(0)) == pytest.approx(wanted, rel=1e-8)
        assert wanted > 0.05


@pytest.mark.parametrize("weight", [1.0, 0.7])
def test_a_site_whose_points_are_not_quite_meant_is_the_integral_over_where_they_are(weight):
    """∫ t(f + δ)^w N(δ; 0, gI) dδ, by dense Gaussian algebra."""
    m = rgp.fit(*owner(3, 20), kernel="rbf", publish=6)
    tau, g, chi2 = 1.7, 0.2, m.noise_evidence.chi2
    k = _with_nugget(reference_kernel(m._kernels[0]), m.jitter)
    plain = core.at_noise(m.site, tau, chi2, m.rows)
    found = core.at_noise(m.site, tau, chi2, m.rows, missed=g, weight=weight)

    def integral(site, extra):
        R, rho, e = (np.asarray(t) for t in (site.Rt.mT, site.rho, site.e))
        R, rho, e = R * weight**0.5, rho * weight**0.5, e * weight
        Z = np.asarray(site.Z)
        cov = np.eye(len(rho)) + R.T @ (k(Z, Z) + extra * np.eye(len(Z))) @ R
        value = ref.log_normal(rho, R.T @ np.full(len(Z), m.mean), cov)
        return value + e + 0.5 * len(rho) * math.log(2 * math.pi)

    assert integral(found, 0.0) == pytest.approx(integral(plain, g), abs=1e-9)


def test_the_evidence_with_what_was_missed_is_that_of_sites_without_it():
    """What the search maximises, and what the merge is made of; differentiable in the kernel and in c."""
    modules = too_small((60, 25, 25, 30))
    e = rgp.merge(modules, owners=None, learn=False, inducing="all")
    kernel = e.groups[0].form.kernel
    with stored(e._members, now=False) as store:
        readings, numbers = Readings.of(e._members, store), owner_numbers(e._members)
        sites = Sites.of(store, numbers, readings)

        def value(x):
            theta, (level, dof, opened, c) = x[:-4], x[-4:].exp()
            return sites.log_evidence(kernel.with_theta(theta), Effects(0.3, 0.2), PooledNoise(level, dof, opened, c))

        start = kernel.theta - torch.tensor([0.0, 0.8, 0.5, 0.0][: len(kernel.theta)], dtype=torch.float64)
        x = torch.cat([start, torch.tensor([0.03, 8.0, 1.2, 0.15], dtype=torch.float64).log()]).requires_grad_()
        (slope,) = torch.autograd.grad(value(x).value, x)
        with torch.no_grad():
            for i in range(len(x)):
                step = 1e-5 * torch.eye(len(x), dtype=torch.float64)[i]
                found = float(value(x + step).value - value(x - step).value) / 2e-5
                assert float(slope[i]) == pytest.approx(found, rel=1e-4, abs=1e-5)
            pooled = PooledNoise(0.03, 8.0, 1.2, 0.15, kernel.with_theta(start))
            seen = Sites.of(at_noise(store, readings, pooled), numbers)
            again = seen.log_evidence(pooled.kernel, Effects(0.3, 0.2))
            spread = readings.log_spread(pooled, readings.under(pooled, store).missed)
            assert float(again.value + spread) == pytest.approx(float(value(x).value), abs=1e-8)
            members = with_noise(e._members, pooled, store)
            with stored(members) as now:
                third = Sites.of(now, numbers).log_evidence(pooled.kernel, Effects(0.3, 0.2))
            assert float(third.value) == pytest.approx(float(again.value), abs=1e-8)
            assert max(m.missed for m in members) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "seed"), [((200, 200, 200, *[25] * 10), 0), ((200, 200, 200, *[25] * 10), 1)])
def test_owners_who_see_too_little_of_a_rough_function_are_no_owners_that_differ(sizes, seed):
    modules = too_small(sizes, seed)
    e = rgp.merge(modules)
    assert e.offset_sd == e.smooth_sd == 0
    X = np.random.default_rng(9).uniform(-2, 2, (500, 2))
    f = np.sin(4 * X[:, 0]) + np.cos(4 * X[:, 1])
    assert np.sqrt(np.mean((e.predict(X)[0] - f) ** 2)) < 0.08
    for name in ("m0", "m12"):
        assert 0.006 < float(np.mean(e.predict_noise(X, owner=name))) < 0.03  # that of all rows is 0.01


def test_noises_that_differ_stay_apart_and_others_do_not():
    data = [owner(i, 60, sd) for i, sd in enumerate((0.1, 0.1, 1.0))]
    apart = rgp.merge(rgp.fit_many(data, names="abc"), owners=None)
    found = [row["noise"] for row in apart.report()]
    assert found[2] > 10 * max(found[:2])
    alike = rgp.merge(rgp.fit_many([owner(i, 60, 0.3) for i in range(3)], names="abc"), owners=None)
    assert len({row["noise"] for row in alike.report()}) == 1


def test_integrating_out_the_noises_is_laplace_about_the_shrunken_ones():
    """log ∫ N(x; μ, 2/ν) exp(−dof/4 (x − x_k)²) dx, with x = log σ_k², which is quadratic: no approximation is left."""
    dof, estimate, nu, level = torch.tensor([5.0, 40.0]), torch.tensor([0.1, 3.0]), 7.0, 0.4
    zero = torch.zeros(2)
    read = Readings(zero == 0, estimate, zero, zero, dof, dof * estimate, dof, zero + 1, zero + 1)
    pooled = PooledNoise(level, nu)
    x = np.linspace(-30, 30, 60001)
    wanted = 0.0
    now = pooled.at(read, zero).log().numpy()
    for d, own, at in zip(dof.numpy(), np.log(estimate.numpy()), now, strict=True):
        density = stats.norm.pdf(x, math.log(level), math.sqrt(2 / nu)) * np.exp(-d / 4 * (x - own) ** 2)
        wanted += math.log(np.trapezoid(density, x)) + d / 4 * (at - own) ** 2
    assert float(read.log_spread(pooled, zero)) == pytest.approx(wanted, abs=1e-5)
    assert float(read.log_spread(PooledNoise(level), zero)) == 0


def test_owners_on_different_scales_keep_their_noises():
    """Twelve owners of twenty rows whose noises are three times larger or smaller: each gets about its own."""
    sds = [0.1, 0.3] * 6
    data = [owner(i, 20, sd) for i, sd in enumerate(sds)]
    e = rgp.merge(rgp.fit_many(data, names="abcdefghijkl"), owners=None, trust=None)
    found = np.array([row["noise"] for row in e.report()])
    assert np.exp(np.log(found[1::2]).mean() - np.log(found[::2]).mean()) > 3


def test_an_owner_is_answered_with_its_own_noise_and_a_new_one_with_any_of_them():
    sds = np.geomspace(0.05, 1.0, 6)
    data = [owner(i, 120, sd) for i, sd in enumerate(sds)]
    modules = rgp.fit_many(data, names="abcdef", kernel="rbf")
    e = rgp.merge(modules, owners=None, trust=None)
    noises = [row["noise"] for row in e.report()]
    np.testing.assert_allclose(np.sqrt(noises), sds, rtol=0.4)
    X = np.random.default_rng(1).uniform(-2, 2, (5, 2))
    y = np.linspace(-1, 2, 5)
    mean, variance = e.predict(X)
    group = e.groups[0]
    for name, noise, member in zip("abcdef", noises, group.members, strict=True):
        dof = member.noise_evidence.dof + group.noises[0].dof  # a noise of so many rows: ν·s²/χ²_ν
        mean_noise = noise * dof / (dof - 2)
        np.testing.assert_allclose(e.predict_y(X, owner=name)[1], variance + mean_noise, rtol=2e-3)
        np.testing.assert_allclose(e.predict_noise(X, owner=name), mean_noise, rtol=2e-3)
        drawn = noise * dof / stats.chi2(dof).ppf((np.arange(4000) + 0.5) / 4000)
        low, high = e.predict_interval(X, 0.9, owner=name)
        inside = stats.norm.cdf((high - mean)[:, None] / np.sqrt(variance[:, None] + drawn)).mean(1)
        np.testing.assert_allclose(inside, 0.95, atol=5e-4)
        np.testing.assert_allclose(low, 2 * mean - high)
    each = stats.norm.logpdf(y[:, None], mean[:, None], np.sqrt(variance[:, None] + noises))
    for who in ("new", None):
        np.testing.assert_allclose(e.predict_y(X, owner=who)[1], variance + np.mean(noises))
        np.testing.assert_allclose(e.log_density(X, y, owner=who), special.logsumexp(each, axis=1) - np.log(6))
    fresh = [owner(i + 50, 300, sd) for i, sd in enumerate(sds)]
    merged = np.mean([-e.log_density(*t, owner=n).mean() for n, t in zip("abcdef", fresh, strict=True)])
    alone = np.mean([-m.log_density(*t).mean() for m, t in zip(modules, fresh, strict=True)])
    assert merged < alone - 0.03


def test_who_says_nothing_about_noise_is_merged_as_it_is():
    modules, _, _ = at_rows()
    silent = rgp.fit(*owner(11), noise=0.5, name="silent")
    e = rgp.merge([*modules, silent], owners=None)
    noises = {row["name"]: row["noise"] for row in e.report()}
    assert noises["silent"] == 0.5
    assert noises["m0"] == noises["m1"] != 0.5
    kept = rgp.merge(modules, owners=None, noise="keep")
    assert [row["noise"] for row in kept.report()] == [noise_of(m) for m in modules]
    with pytest.raises(rgp.RecycleGPError, match="noise='other'; use 'pool', 'keep' or a variance"):
        rgp.merge(modules, noise="other")


# --- operations -------------------------------------------------------------------------------


@pytest.mark.parametrize("inducing", ["all", 12])
def test_pooled_noise_through_every_operation(inducing, tmp_path):
    modules, _, _ = at_rows()
    e = rgp.merge(modules, owners=None, inducing=inducing)
    Xt = np.random.default_rng(1).uniform(-2, 2, (7, 2))
    e.save(tmp_path / "e.safetensors")
    loaded = rgp.load(tmp_path / "e.safetensors")
    again = loaded.remove("m1", relearn=False).add(modules[1])
    for other in (loaded, again):
        np.testing.assert_allclose(other.predict(Xt), e.predict(Xt), rtol=1e-7)
        assert other.evidence == pytest.approx(e.evidence, abs=1e-6)
    assert again.report()[-1]["noise"] == pytest.approx(noise_of(e))
    assert loaded.report()[0]["kept"] == modules[0].kept
    scaled = e.transform(output_scale=-3.0, output_shift=1.0)
    np.testing.assert_allclose(scaled.predict(Xt)[0], 1 - 3 * e.predict(Xt)[0], rtol=1e-8)
    assert scaled.report()[0]["noise"] == pytest.approx(9 * noise_of(e))
    back = scaled.remove("m1", relearn=False).add(modules[1].transform(output_scale=-3.0, output_shift=1.0))
    np.testing.assert_allclose(back.predict(Xt)[0], scaled.predict(Xt)[0], rtol=1e-6)
    relearned = e.remove("m2", relearn=True)
    fresh = rgp.merge(modules[:2], owners=None, inducing=inducing)
    np.testing.assert_allclose(relearned.predict(Xt), fresh.predict(Xt), rtol=1e-6)
    names = rgp.merge(modules, owners=None, inducing=inducing, keep="names")
    np.testing.assert_allclose(names.predict(Xt), e.predict(Xt), rtol=1e-7)
    assert names.evidence == pytest.approx(e.evidence, abs=1e-6)


def test_a_module_keeps_its_numbers_in_its_file_and_in_other_units(tmp_path):
    X, y = owner(12)
    m = rgp.fit(X, y, name="a")
    m.save(tmp_path / "a.safetensors")
    loaded = rgp.load(tmp_path / "a.safetensors")
    assert (loaded.kept, loaded.noise_evidence) == (m.kept, m.noise_evidence)
    same = rgp.fit(X, 2 * y + 5, name="a").noise_evidence
    for found, wanted in zip(m.transform(output_scale=2.0, output_shift=5.0).noise_evidence, same, strict=True):
        assert found == pytest.approx(wanted, rel=1e-3)


@pytest.mark.filterwarnings("ignore::recyclegp.errors.ContradictionWarning")  # two that differ
@pytest.mark.parametrize("seed", range(6))
def test_two_rows_beside_five_hundred_do_not_decide(seed):
    rng = np.random.default_rng([99, seed])
    X = rng.uniform(-3, 3, (502, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(502)
    Xt = np.linspace(-3, 3, 200)[:, None]
    yt = np.sin(2 * Xt[:, 0]) + 0.2 * rng.standard_normal(200)
    large = rgp.fit(X[2:], y[2:], name="large")
    tiny = rgp.fit(X[:2], y[:2], name="tiny", allow_small=True)
    alone, both = (-m.log_density(Xt, yt).mean() for m in (large, rgp.merge([large, tiny])))
    assert both < alone + 0.01

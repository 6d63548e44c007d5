"""How far a new owner may be, by leaving out one owner at a time: against dense Gaussians and mixtures in NumPy."""

import numpy as np
import pytest
import torch
from scipy import stats

from recyclegp.core.effects import NO_EFFECTS, Effects, Scales, scales_of_few
from recyclegp.core.owner_posterior import Level
from recyclegp.core.sites import Site
from recyclegp.core.spread import LOG_SIZES, LeftOut, Prior, Spread, learn, left_out, sizes
from recyclegp.core.stacked import stack
from recyclegp.kernels.parsing import parse_with_values
from recyclegp.merging.exact_form import ExactForm
from recyclegp.merging.site_store import SiteStore

MEAN, LENGTHS, VARIANCE = 0.7, (0.8, 1.7), 1.3
KERNEL = parse_with_values("rbf(outputscale=1.3, lengthscale=0.8/1.7)", 2)
SLOPES = (-0.5, 0.0, 1.0)
PRIOR = Prior(scale_sd=1.0, dof=(2.0, 4.0, 8.0), least=0.5, level_gain=1.0)
LEARNED = {"none": NO_EFFECTS, "offset": Effects(0.6), "both": Effects(0.4, 0.3, (0.2, -0.3), owners=4)}


def covariance(A, B, stretch=(0.0, 0.0)):
    d = (A[:, None, :] - B[None, :, :]) / (np.array(LENGTHS) * np.exp(stretch))
    return VARIANCE * np.exp(-0.5 * (d**2).sum(-1))


def own_covariance(effects, A, B):
    return effects.offset + effects.smooth * covariance(A, B, effects.stretch or (0.0, 0.0))


def made_sites(seed=1):
    """Of four owners, of unequal sizes."""
    rng = np.random.default_rng(seed)
    found = []
    for M, r in ((5, 5), (3, 3), (6, 4), (4, 4)):
        Z, Rt = rng.uniform(-2, 2, (M, 2)), rng.normal(0, 1.5, (r, M))
        found.append((Z, Rt, rng.normal(0, 3, r)))
    return found


def merged(sites, effects):
    store = SiteStore()
    for k, (Z, Rt, rho) in enumerate(sites):
        store.put(Site(*(torch.as_tensor(t) for t in (Z, Rt, rho)), torch.zeros((), dtype=torch.float64)), 1.0, k)
    return ExactForm(KERNEL, MEAN, stack(store.packs(1), range(len(sites))), effects)


@pytest.mark.parametrize("learned", LEARNED)
def test_an_owner_left_out_is_that_of_dense_algebra(learned):
    """log p(ρ_k | all others) with effects √s e^{γh}(b + g) of its own, but for a constant."""
    effects, sites = LEARNED[learned], made_sites()
    asked = effects if effects.present else Effects(0.2, 0.1)
    form, s = merged(sites, effects), np.array([0.0, 0.3, 1.0, 7.0])
    for k, (Z, Rt, rho) in enumerate(sites):
        h = np.sin(Z[:, 0])
        factors = np.exp(np.outer(SLOPES, h))
        site = Site(*(torch.as_tensor(t) for t in (Z, Rt, rho)), torch.zeros((), dtype=torch.float64))
        owner = form.of_owner(k) if effects.present else form.posterior
        without_it = left_out(owner, site, KERNEL, asked, factors, known=effects.present)
        found = without_it.log_densities(s)

        others = [i for i in range(len(sites)) if i != k]
        A = np.block(
            [[sites[i][1] @ covariance(sites[i][0], sites[j][0]) @ sites[j][1].T for j in others] for i in others]
        )
        place = 0
        for i in others:
            Zi, Ri, rho_i = sites[i]
            here = slice(place, place + len(rho_i))
            A[here, here] += Ri @ own_covariance(effects, Zi, Zi) @ Ri.T + np.eye(len(rho_i))
            place += len(rho_i)
        c = np.concatenate([sites[i][1] @ covariance(sites[i][0], Z) @ Rt.T for i in others])
        rest = np.concatenate([sites[i][2] - MEAN * sites[i][1].sum(1) for i in others])
        expected = MEAN * Rt.sum(1) + c.T @ np.linalg.solve(A, rest)
        without = Rt @ covariance(Z, Z) @ Rt.T + np.eye(len(rho)) - c.T @ np.linalg.solve(A, c)
        prior = np.trace(Rt @ covariance(Z, Z) @ Rt.T)
        assert without_it.known == pytest.approx(1 - np.trace(without - np.eye(len(rho))) / prior, abs=1e-7)
        for i, slope in enumerate(SLOPES):
            g = np.exp(slope * h)
            D = Rt @ (g[:, None] * g * own_covariance(asked, Z, Z)) @ Rt.T
            each = [stats.multivariate_normal.logpdf(rho, expected, without + size * D) for size in s]
            np.testing.assert_allclose(np.diff(found[i]), np.diff(each), rtol=1e-7, atol=1e-9)
        # the constant is the same for all slopes: without effects there is nothing that differs
        np.testing.assert_allclose(found[:, 0], found[0, 0], rtol=1e-9)


@pytest.mark.parametrize(("c", "dof"), [(1.0, 5.0), (0.2, 2.0), (6.0, 40.0)])
def test_probabilities_of_sizes_are_those_of_an_inverse_gamma(c, dof):
    p = sizes(c, dof)
    assert p.sum() == pytest.approx(1)
    ends = np.exp((LOG_SIZES[1:] + LOG_SIZES[:-1]) / 2)
    np.testing.assert_allclose(p.cumsum()[:-1], stats.invgamma(dof / 2, scale=c * dof / 2).cdf(ends), atol=1e-12)


def owners_of(deviations, power=4.0):
    """Each says one number, as others expect it with unit noise, and effects of its own of variance `power`."""
    return [LeftOut(np.full((1, 1), power), np.full((1, 1), z)) for z in deviations]


def density(scales, z, power=4.0):
    spread = np.sqrt(1 + power * np.array(scales.values))
    return float(np.array(scales.weights) @ stats.norm.pdf(z, scale=spread))


def test_normal_owners_change_nothing():
    z = np.sqrt(1 + 4.0) * stats.norm.ppf((np.arange(40) + 0.5) / 40)
    assert learn(owners_of(z), (0.0,), 39.0, PRIOR, known=True) is None


def test_where_owners_do_not_differ_nobody_new_does():
    z = stats.norm.ppf((np.arange(30) + 0.5) / 30)
    assert learn(owners_of(z), (0.0,), 29.0, PRIOR, known=False) is None


def test_a_few_who_are_far_away_make_tails_heavier():
    """As an average over c and ν by fine sums over all of them."""
    z = np.concatenate([1.2 * np.random.default_rng(1).standard_normal(26), [14.0, -11.0, 23.0]])
    dof = 28.0
    found = learn(owners_of(z), (0.0,), dof, PRIOR, known=True)
    s = np.exp(np.linspace(-14, 14, 8001))
    p_z = stats.norm.pdf(z[:, None], scale=np.sqrt(1 + 4.0 * s))
    p_s, log_p = [], []
    for nu in (2.0, 4.0, 8.0, dof):
        for log_c in np.linspace(-3, 3, 13):
            p = stats.invgamma(nu / 2, scale=np.exp(log_c) * nu / 2).pdf(s) * s  # of log s
            p_s.append(p / p.sum())
            log_p.append(np.log(p_z @ p_s[-1]).sum() - 0.5 * log_c**2)
    w = np.exp(np.array(log_p) - max(log_p))
    whole = w / w.sum() @ np.array(p_s)
    for away in (0.7, 1.5, 3.0, 6.0, 12.0, 20.0):
        expected = whole @ stats.norm.cdf(away, scale=np.sqrt(1 + 4.0 * s))
        spread = np.sqrt(1 + 4.0 * np.array(found.scales.values))
        assert found.scales.weights @ stats.norm.cdf(away, scale=spread) == pytest.approx(expected, abs=2e-3)
    as_learned = scales_of_few(29)
    assert density(found.scales, 20.0) > 1e3 * density(as_learned, 20.0)
    assert sum(found.scales.weights) == pytest.approx(1)


def test_where_merges_saw_no_effects_there_may_be_none():
    """With the probability that there are none, by the same evidence."""
    z = np.array([1.0, -6.0, 0.3, 2.4])
    found = learn(owners_of(z), (0.0,), 3.0, PRIOR, known=False)
    assert found.scales.values[0] == 0
    assert 0 < found.scales.weights[0] < 0.5
    assert sum(found.scales.weights) == pytest.approx(1)


def test_owners_who_differ_more_where_f_is_larger_show_a_slope():
    rng, h = np.random.default_rng(5), np.linspace(-1.5, 1.5, 24)
    z = np.exp(h) * 3 * rng.standard_normal(len(h))
    powers = np.exp(2 * np.outer(h, SLOPES))
    owners = [LeftOut(9 * power[:, None], np.full((len(SLOPES), 1), one)) for power, one in zip(powers, z, strict=True)]
    assert SLOPES[learn(owners, SLOPES, 23.0, PRIOR, known=True).slope] == 1.0
    flat = [
        LeftOut(own.powers, np.full((len(SLOPES), 1), one))
        for own, one in zip(owners, 3 * rng.standard_normal(24), strict=True)
    ]
    assert learn(flat, SLOPES, 23.0, PRIOR, known=True) is None


class Known:
    """A posterior whose mean is a line."""

    def predict(self, X):
        return 2 * X[:, 0] + 1, torch.full((len(X),), 0.3, dtype=X.dtype)

    def joint(self, X):
        return 2 * X[:, 0] + 1, 0.3 * torch.eye(len(X), dtype=X.dtype)


def test_effects_grow_with_f_and_follow_units():
    X = np.random.default_rng(2).uniform(-3, 3, (6, 2))
    spread = Spread(Effects(0.4, 0.2), Scales((0.5, 3.0), (0.7, 0.3)), Level(0.8, 1.5, 2.2))
    new = spread.new_owner(Known(), KERNEL)
    mean, variance = (t.numpy() for t in new.predict(torch.as_tensor(X)))
    g = np.exp(0.8 * np.clip((mean - 1.5) / 2.2, -3, 3))
    D = 1.25 * g[:, None] * g * own_covariance(Effects(0.4, 0.2), X, X)
    np.testing.assert_allclose(new.joint(torch.as_tensor(X)).covariance, 0.3 * np.eye(6) + D, rtol=1e-12)
    np.testing.assert_allclose(variance, 0.3 + D.diagonal(), rtol=1e-12)
    moved = spread.in_units(-2.54, 3.0)
    np.testing.assert_allclose(moved.level.factors(torch.as_tensor(-2.54 * mean + 3)), g, rtol=1e-12)
    assert (moved.effects.offset, moved.effects.smooth) == (pytest.approx(0.4 * 2.54**2), 0.2)

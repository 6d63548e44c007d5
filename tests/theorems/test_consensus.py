"""What modules agree on, and how each fits the others, against dense Gaussians of the same numbers."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from problems import check_close
from recyclegp.core.posterior import basis
from recyclegp.core.sites import Site
from recyclegp.kernels import parse
from recyclegp.merging.consensus import (
    Statements,
    consensus,
    fit,
    predicted,
    statements,
)
from recyclegp.merging.constants import SCREENING
from recyclegp.merging.site_store import SiteStore

M, MEAN, VARIANCE = 5, 0.7, 1.9
SIZES = ((4, (4, 3, 4, 2, 4)), (6, (6, 5, 6)))  # rows of a pack, and those of its sites that are no padding
ABSENT = 5  # the member that says nothing
MEMBERS = 1 + sum(len(counts) for _, counts in SIZES)
TRUSTED = np.array([True, True, False, True, False, False, True, False, True])


def problem(seed=0, far=1.0):
    """Statements of two sizes with rows of padding; and the same of each member, without."""
    rng = np.random.default_rng(seed)
    names = iter(rng.permutation([k for k in range(MEMBERS) if k != ABSENT]))
    said, plain = [], {}
    for r, counts in SIZES:
        H, rho = rng.standard_normal((len(counts), r, M)), far * rng.standard_normal((len(counts), r))
        ones, members = rng.standard_normal((len(counts), r)), [int(next(names)) for _ in counts]
        for i, (k, n) in enumerate(zip(members, counts, strict=True)):
            H[i, n:], rho[i, n:], ones[i, n:] = 0.0, 0.0, 0.0
            plain[k] = H[i, :n], rho[i, :n], ones[i, :n]
        numbers = (torch.tensor(t) for t in (H, rho, ones, members, np.array(counts, dtype=float), -0.3))
        said.append(Statements.of(*numbers))
    return said, plain


def posterior(plain, some):
    """v given what some members say: mean and covariance."""
    P = np.eye(M) + sum((plain[k][0].T @ plain[k][0] for k in some), np.zeros((M, M)))
    b = sum((plain[k][0].T @ plain[k][1] for k in some), np.zeros(M))
    return np.linalg.solve(P, b), np.linalg.inv(P)


def log_normal(x, mean, cov):
    return multivariate_normal(mean, cov).logpdf(x)


def trusted_of(plain):
    return [k for k in plain if TRUSTED[k]]


@pytest.mark.parametrize("seed", range(3))
def test_consensus_is_the_posterior_of_the_trusted(seed):
    said, plain = problem(seed)
    agreed, some = consensus(said, torch.tensor(TRUSTED)), trusted_of(plain)
    v, cov = posterior(plain, some)
    check_close(agreed.v, v, 1e-11)
    check_close(agreed.C @ agreed.C.mT, np.linalg.inv(cov), 1e-11)
    H, rho = (np.concatenate([plain[k][i] for k in some]) for i in (0, 1))
    A = np.eye(len(H)) + H @ H.T
    assert agreed.chi2 == pytest.approx(rho @ np.linalg.solve(A, rho), rel=1e-10)
    assert agreed.numbers == len(rho)


@pytest.mark.parametrize("far", [0.3, 1.7, 40.0])
def test_evidence_is_stretched_up_to_a_cap(far):
    said, plain = problem(1, far)
    agreed, some = consensus(said, torch.tensor(TRUSTED)), trusted_of(plain)
    H, rho = (np.concatenate([plain[k][i] for k in some]) for i in (0, 1))
    A = np.eye(len(H)) + H @ H.T
    c = rho @ np.linalg.solve(A, rho) / len(rho)
    most = SCREENING.most_usual
    assert {0.3: c < 1, 1.7: 1 < c < most, 40.0: c > most}[far]  # each of the three cases
    c = min(most, max(1.0, c))
    assert agreed.evidence == pytest.approx(log_normal(rho, np.zeros(len(rho)), c * A), rel=1e-10)


def test_nobody_trusted_is_the_prior():
    said, _ = problem(2)
    agreed = consensus(said, torch.zeros(MEMBERS, dtype=torch.bool))
    check_close(agreed.v, np.zeros(M))
    check_close(agreed.C, np.eye(M))
    assert (agreed.chi2, agreed.numbers, agreed.evidence) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_fit_is_that_of_leaving_each_out(seed):
    said, plain = problem(seed, far=1.0 + seed)
    found = fit(said, consensus(said, torch.tensor(TRUSTED)), MEAN, VARIANCE)
    assert all(math.isnan(float(part[ABSENT])) for part in found)
    for k, (H, rho, ones) in plain.items():
        m, cov = posterior(plain, [j for j in trusted_of(plain) if j != k])  # it is left out, if it was in
        mean, B, n = H @ m, np.eye(len(rho)) + H @ cov @ H.T, len(rho)
        z = (rho - mean) @ np.linalg.solve(B, rho - mean)
        check_close(found.chi2[k], z, 1e-9)
        assert found.counts[k] == n
        check_close(found.together[k], log_normal(rho, mean, B), 1e-9)
        A = np.eye(n) + H @ H.T
        c = max(1.0, rho @ np.linalg.solve(A, rho) / n)
        check_close(found.alone[k], log_normal(rho, np.zeros(n), c * A), 1e-9)
        columns = np.stack([mean + MEAN * ones, ones], 1) * SCREENING.units_sd * [1.0, math.sqrt(VARIANCE + MEAN**2)]
        units = [log_normal(rho, mean, B + t**2 * columns @ columns.T) for t in SCREENING.units_scales]
        check_close(found.affine[k], max(units) - math.log(len(units)), 1e-7)
        check_close(found.known[k], 0.5 * np.linalg.slogdet(A)[1], 1e-9)
        check_close(found.shared[k], 0.5 * np.linalg.slogdet(A)[1] - 0.5 * np.linalg.slogdet(B)[1], 1e-9)
        check_close(found.share[k], found.shared[k] / found.known[k], 1e-12)


def test_affine_finds_the_scale_of_a_module_in_other_units():
    """Units that are far away, and near: whichever scale fits best is taken, at the price of having chosen."""
    for a, b in ((1.1, 0.2), (30.0, 500.0)):
        said, plain = problem(4)
        H, _, ones = plain[4]
        m, _ = posterior(plain, trusted_of(plain))
        rho = a * (H @ m + MEAN * ones) + (b - MEAN) * ones
        for s in said:
            at = (s.members == 4).nonzero()
            if len(at):
                s.rho[int(at[0, 0]), : len(rho)] = torch.tensor(rho)
        found = fit(said, consensus(said, torch.tensor(TRUSTED)), MEAN, VARIANCE)
        B = np.eye(len(rho)) + H @ posterior(plain, trusted_of(plain))[1] @ H.T
        columns = np.stack([H @ m + MEAN * ones, ones], 1) * SCREENING.units_sd * [1.0, math.sqrt(VARIANCE + MEAN**2)]
        units = [log_normal(rho, H @ m, B + t**2 * columns @ columns.T) for t in SCREENING.units_scales]
        assert int(np.argmax(units)) == (0 if a < 2 else 2)
        check_close(found.affine[4], max(units) - math.log(4), 1e-7)


def test_those_that_say_nothing_share_nothing():
    said, _ = problem(0)
    silent = [Statements.of(torch.zeros_like(s.H), s.rho, s.ones, s.members, s.counts, s.e) for s in said]
    found = fit(silent, consensus(silent, torch.tensor(TRUSTED)), MEAN, VARIANCE)
    present = [k for k in range(MEMBERS) if k != ABSENT]
    assert found.share[present].abs().max() == 0
    check_close(found.together[present], -0.5 * (found.chi2 + found.counts * math.log(2 * math.pi))[present], 1e-12)


@pytest.mark.parametrize("member", [2, 4, 7])
def test_predictions_in_independent_coordinates(member):
    said, plain = problem(3)
    p = predicted(said, consensus(said, torch.tensor(TRUSTED)), member, MEAN)
    H, rho, ones = plain[member]
    m, cov = posterior(plain, trusted_of(plain))
    S = H @ cov @ H.T
    check_close(p.variance, np.linalg.eigvalsh(S), 1e-10)
    # the same turned by U, of which only products are known
    for weight in (np.eye(len(rho)), np.linalg.inv(np.eye(len(rho)) + S)):
        scale = np.ones(len(rho)) if np.array_equal(weight, np.eye(len(rho))) else 1 / (1 + p.variance.numpy())
        exact = np.stack([rho - H @ m, H @ m + MEAN * ones, ones], 1)
        turned = np.stack([t.numpy() for t in (p.error, p.predicted, p.ones)], 1)
        check_close(turned.T @ (scale[:, None] * turned), exact.T @ weight @ exact, 1e-9)


def test_statements_integrate_out_what_the_points_cannot_express():
    """Dense: ρ_k of a site given v is N(R_kᵀ(m + K_k*L⁻ᵀv), I + R_kᵀ(K_kk − Q_kk)R_k)."""
    rng = np.random.default_rng(8)
    kernel = parse("matern32", 2).with_theta(torch.tensor([0.3, -0.4, 0.5], dtype=torch.float64))
    base = basis(kernel, torch.tensor(rng.uniform(0, 3, (6, 2))))
    store, sites = SiteStore(), {}
    for k, (size, r) in enumerate(((3, 3), (5, 4), (3, 2), (5, 5))):
        Z, Rt = rng.uniform(0, 3, (size, 2)), 1.7 * rng.standard_normal((r, size))
        sites[k] = Site(*(torch.tensor(t) for t in (Z, Rt, rng.standard_normal(r), rng.standard_normal())))
        store.put(sites[k], 1.0, k)
    L = base.L.numpy()
    seen = set()
    for s in statements(base, store, MEAN):
        for i, k in enumerate(s.members.tolist()):
            seen.add(k)
            Z, Rt, rho, _ = (t.numpy() for t in sites[k])
            cross = np.linalg.solve(L, kernel.matrix(base.Z, sites[k].Z).numpy()).T  # K_k*L⁻ᵀ
            residual = kernel.matrix(sites[k].Z, sites[k].Z).numpy() - cross @ cross.T
            W = np.linalg.inv(np.eye(len(rho)) + Rt @ residual @ Rt.T)
            columns = np.concatenate([Rt @ cross, rho[:, None] - MEAN * Rt.sum(1)[:, None], Rt.sum(1)[:, None]], 1)
            turned = np.concatenate([s.H[i], s.rho[i, :, None], s.ones[i, :, None]], 1)
            check_close(turned.T @ turned, columns.T @ W @ columns, 1e-5)  # but for jitter
            assert s.counts[i] == len(rho)
    assert seen == set(sites)

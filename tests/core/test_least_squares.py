"""Ridge regression of the whitened values, against dense Gaussian algebra, one problem and many side by side."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from problems import check_close
from recyclegp.core import least_squares
from recyclegp.core.least_squares import CentredRows, Rows

batches = pytest.mark.parametrize("batch", [(), (2, 3)])


def blocks(batch, K=3, r=2, M=4, seed=0):
    """H, RKR, ρ, R'1 and e of K sites that the basis expresses in part, as NumPy arrays."""
    rng = np.random.default_rng([seed, *batch])
    H = rng.standard_normal((*batch, K, r, M))
    G = rng.standard_normal((*batch, K, r, r))
    RKR = H @ np.swapaxes(H, -1, -2) + G @ np.swapaxes(G, -1, -2)
    return H, RKR, rng.normal(1, 2, (*batch, K, r)), rng.normal(1, 1, (*batch, K, r)), rng.standard_normal((*batch, K))


def gathered(parts, *, marginal):
    return least_squares.gather(*(torch.tensor(t) for t in parts), marginal=marginal)


def rows_of(batch, r=5, M=3, seed=1):
    """Generic rows, as arrays: H, ρ, ones, e, slack."""
    rng = np.random.default_rng([seed, *batch])
    shapes = ((*batch, r, M), (*batch, r), (*batch, r), batch, batch)
    return tuple(rng.normal(0.5, 1.0, shape) for shape in shapes)


def value(rows, v, mean=None):
    """e − slack − ½‖Hv + m·1 − ρ‖² of one problem, as the library defines it."""
    misfit = rows.H.numpy() @ v - rows.rho.numpy() + (0 if mean is None else mean * rows.ones.numpy())
    return float(rows.e - rows.slack) - 0.5 * float((misfit**2).sum())


@batches
def test_gathered_blocks_say_what_each_block_says(batch):
    """With the residual Q integrated out, log N with noise I + Q up to constants; with its slack, ½tr Q less."""
    parts = blocks(batch)
    v, mean = np.random.default_rng(7).standard_normal(4), 1.7
    for marginal in (True, False):
        whole = gathered(parts, marginal=marginal)
        for at in np.ndindex(*batch):
            total = 0.0
            for H, RKR, rho, ones, e in zip(*(t[at] for t in parts), strict=True):
                d, Q = H @ v + mean * ones - rho, RKR - H @ H.T
                noise = np.eye(2) + marginal * Q
                total += e - 0.5 * d @ np.linalg.solve(noise, d) - 0.5 * np.linalg.slogdet(noise).logabsdet
                total -= 0 if marginal else 0.5 * np.trace(Q)
            check_close(value(Rows(*(t[at] for t in whole)), v, mean), total, 1e-11)
        if marginal:
            assert not whole.slack.any()


def test_slack_that_rounding_left_negative_is_none():
    """Block by block: one block's rounding does not pay for another's slack."""
    H, RKR, *_ = blocks((), K=2)
    RKR[0] = H[0] @ H[0].T - 1e-3 * np.eye(2)
    found = least_squares.jensen_slack(torch.tensor(H), torch.tensor(RKR))
    check_close(float(found), 0.5 * np.trace(RKR[1] - H[1] @ H[1].T), 1e-12)


@batches
def test_solution_is_the_posterior_and_its_evidence(batch):
    """q(v) = N((I+P)⁻¹H'ρ, (I+P)⁻¹), and the bound is log∫ exp(e − slack − ½‖Hv − ρ‖²) N(v; 0, I) dv."""
    H, rho, _, e, slack = rows_of(batch)
    found = least_squares.solve(CentredRows(*(torch.tensor(t) for t in (H, rho, e, slack))))
    for at in np.ndindex(*batch):
        h, target = H[at], rho[at]
        precision, noise = np.eye(3) + h.T @ h, np.eye(5) + h @ h.T
        check_close(found.v[at], np.linalg.solve(precision, h.T @ target), 1e-11)
        check_close(found.C[at] @ found.C[at].mT, precision, 1e-12)
        evidence = -0.5 * target @ np.linalg.solve(noise, target) - 0.5 * np.linalg.slogdet(noise).logabsdet
        check_close(float(found.bound[at]), e[at] - slack[at] + evidence, 1e-11)


@batches
def test_best_mean_is_generalised_least_squares(batch):
    """m̂ = 1'(I + HH')⁻¹ρ / 1'(I + HH')⁻¹1, and no other constant has a larger bound."""
    parts = rows_of(batch)
    rows = Rows(*(torch.tensor(t) for t in parts))
    found = least_squares.best_mean(rows)
    assert found.shape == batch
    for at in np.ndindex(*batch):
        H, rho, ones = (t[at] for t in parts[:3])
        A = np.linalg.inv(np.eye(5) + H @ H.T)
        check_close(float(found[at]), ones @ A @ rho / (ones @ A @ ones), 1e-11)
    best = least_squares.solve(least_squares.centre(rows, found)).bound
    for other in (found + 0.1, found - 0.1):
        assert bool((least_squares.solve(least_squares.centre(rows, other)).bound < best).all())


def test_best_mean_of_rows_that_know_nothing_of_constants_is_zero():
    H, rho, ones, e, slack = (torch.tensor(t) for t in rows_of(()))
    assert float(least_squares.best_mean(Rows(H, rho, 0 * ones, e, slack))) == 0


def test_rows_may_be_whitened_once_they_are_one_triangle():
    """H = GL⁻ᵀ: the same quadratic form, the same residual, and the slack of all blocks together."""
    rng = np.random.default_rng(5)
    G, rho, e = rng.normal(size=(11, 4)), rng.normal(size=11), 0.7
    L = np.tril(rng.normal(size=(4, 4))) + 3 * np.eye(4)
    H, prior = np.linalg.solve(L, G.T).T, 2.5 + np.square(np.linalg.solve(L, G.T)).sum()
    rows = CentredRows(*(torch.tensor(t) for t in (G, rho, e, 0.25)))
    found = least_squares.whiten(least_squares.compress(rows), torch.tensor(L), torch.tensor(prior))
    assert found.H.shape == (4, 4)
    check_close(found.H.mT @ found.H, H.T @ H)
    check_close(found.H.mT @ found.rho, H.T @ rho)
    check_close(found.e, e - 0.5 * (rho @ rho - float(found.rho @ found.rho)))
    check_close(found.slack, 0.25 + 0.5 * 2.5)


@batches
def test_centring_stacking_and_compressing_keep_every_value(batch):
    """Several sources of rows at any v: their sum, before and after."""
    several = [Rows(*(torch.tensor(t) for t in rows_of(batch, r=r, seed=r))) for r in (5, 1, 2)]
    mean = torch.tensor(np.random.default_rng(3).standard_normal(batch))
    together = least_squares.stack([least_squares.centre(rows, mean) for rows in several])
    small = least_squares.compress(together)
    assert together.H.shape == (*batch, 8, 3)
    assert small.H.shape == (*batch, 3, 3)
    for at in np.ndindex(*batch):
        for v in np.random.default_rng(4).standard_normal((3, 3)):
            expected = sum(value(Rows(*(t[at] for t in rows)), v, float(mean[at])) for rows in several)
            check_close(value(CentredRows(*(t[at] for t in together)), v), expected, 1e-12)
            check_close(value(CentredRows(*(t[at] for t in small)), v), expected, 1e-11)

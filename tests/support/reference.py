"""An independent reference in NumPy: dense Gaussian algebra with explicit inverses, nothing from recyclegp.

A site is kept here in its natural parameters, log t(u) = c + λᵀu − ½uᵀΛu, and every quantity is
computed by the textbook formula for Gaussians rather than by the library's square roots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.linalg import inv, slogdet

# --- kernels ----------------------------------------------------------------------------------


def _differences(A, B, lengthscales):
    return (A[:, None, :] - B[None, :, :]) / np.asarray(lengthscales)


def rbf(A, B, lengthscales):
    return np.exp(-0.5 * (_differences(A, B, lengthscales) ** 2).sum(-1))


def matern(A, B, lengthscales, nu):
    r = math.sqrt(2 * nu) * np.sqrt((_differences(A, B, lengthscales) ** 2).sum(-1))
    polynomial = {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r**2 / 3}[nu]
    return polynomial * np.exp(-r)


def rational_quadratic(A, B, lengthscales, alpha):
    return (1 + (_differences(A, B, lengthscales) ** 2).sum(-1) / (2 * alpha)) ** -alpha


def periodic(A, B, lengthscales, periods):
    """GPyTorch's parameterisation: the lengthscale is not squared."""
    waves = np.sin(math.pi * _differences(A, B, periods)) ** 2
    return np.exp(-2 * (waves / np.asarray(lengthscales)).sum(-1))


def linear(A, B, variances, centre):
    return ((A - centre)[:, None, :] * (B - centre)[None, :, :] * np.asarray(variances)).sum(-1)


@dataclass(frozen=True)
class Kernel:
    """variance · k(A, B) with one lengthscale per column, plus `nugget` wherever a point meets itself."""

    kind: str
    lengthscales: tuple[float, ...]
    variance: float
    nugget: float = 0.0

    def __call__(self, A, B):
        nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}.get(self.kind)
        shape = rbf(A, B, self.lengthscales) if nu is None else matern(A, B, self.lengthscales, nu)
        same = (A[:, None, :] == B[None, :, :]).all(-1)
        return self.variance * shape + self.nugget * same

    def smooth(self):
        return replace(self, nugget=0.0)


# --- Gaussians --------------------------------------------------------------------------------


class Moments(NamedTuple):
    mean: np.ndarray
    cov: np.ndarray


def logdet(A):
    sign, value = slogdet(A)
    assert sign > 0
    return value


def log_normal(y, mean, cov):
    d = y - mean
    return -0.5 * (d @ np.linalg.solve(cov, d) + logdet(cov) + len(y) * math.log(2 * math.pi))


def kl(q, p):
    """KL[N(μ, S) ‖ N(m, K)]."""
    K_inv, d = inv(p.cov), q.mean - p.mean
    return 0.5 * (np.trace(K_inv @ q.cov) + d @ K_inv @ d - len(d) + logdet(p.cov) - logdet(q.cov))


# --- models of data ---------------------------------------------------------------------------


def exact_gp(kernel, X, y, mean, noise, Xt):
    """Posterior of f at Xt; `noise` is a variance per row."""
    A = inv(kernel(X, X) + np.diag(noise))
    C = kernel(Xt, X)
    return Moments(mean + C @ A @ (y - mean), kernel(Xt, Xt) - C @ A @ C.T)


def exact_evidence(kernel, X, y, mean, noise):
    return log_normal(y, np.full(len(y), mean), kernel(X, X) + np.diag(noise))


def _low_rank(kernel, Z, X):
    """Q_XX = K_XZ K_ZZ⁻¹ K_ZX; the nugget belongs to Z alone."""
    C = kernel.smooth()(X, Z)
    return C @ inv(kernel(Z, Z)) @ C.T


def _projected(kernel, Z, X, y, mean, noise, Xt):
    """Posterior at Xt where y = f(Z)-regression + N(0, noise matrix): SGPR, and PITC with full blocks."""
    smooth = kernel.smooth()
    C, Ct, K_inv, A = smooth(X, Z), smooth(Xt, Z), inv(kernel(Z, Z)), inv(noise)
    S = inv(kernel(Z, Z) + C.T @ A @ C)
    cov = smooth(Xt, Xt) - Ct @ (K_inv - S) @ Ct.T
    return Moments(mean + Ct @ S @ C.T @ A @ (y - mean), cov)


def sgpr(kernel, Z, X, y, mean, noise, Xt):
    """Titsias 2009."""
    return _projected(kernel, Z, X, y, mean, np.diag(noise), Xt)


def sgpr_bound(kernel, Z, X, y, mean, noise):
    Q = _low_rank(kernel, Z, X)
    spare = np.diag(kernel.smooth()(X, X)) - np.diag(Q)
    return log_normal(y, np.full(len(y), mean), Q + np.diag(noise)) - 0.5 * (spare / noise).sum()


def _pitc_noise(kernel, Z, Xs, noise):
    """blockdiag(K − Q) + noise."""
    total = np.diag(noise).astype(float)
    start = 0
    for X in Xs:
        block = slice(start, start + len(X))
        total[block, block] += kernel.smooth()(X, X) - _low_rank(kernel, Z, X)
        start += len(X)
    return total


def pitc(kernel, Z, Xs, y, mean, noise, Xt):
    return _projected(kernel, Z, np.concatenate(Xs), y, mean, _pitc_noise(kernel, Z, Xs, noise), Xt)


def pitc_evidence(kernel, Z, Xs, y, mean, noise):
    cov = _low_rank(kernel, Z, np.concatenate(Xs)) + _pitc_noise(kernel, Z, Xs, noise)
    return log_normal(y, np.full(len(y), mean), cov)


# --- sites: log t(u) = c + λᵀu − ½uᵀΛu --------------------------------------------------------


class Site(NamedTuple):
    Z: np.ndarray
    Lam: np.ndarray
    lam: np.ndarray
    c: float

    def __call__(self, u):
        return self.c + self.lam @ u - 0.5 * u @ self.Lam @ u


def _regression_site(kernel, Z, X, y, mean, noise):
    """log N(y; m + W(u − m), noise matrix) as a function of u = f(Z)."""
    W = kernel.smooth()(X, Z) @ inv(kernel(Z, Z))
    r = y - mean * (1 - W.sum(1))
    A = inv(noise)
    c = -0.5 * (r @ A @ r + logdet(2 * math.pi * noise))
    return Site(Z, W.T @ A @ W, W.T @ A @ r, c)


def exact_site(kernel, Z, X, y, mean, noise):
    """p(y|u): the exact local GP, with everything but u integrated out."""
    Q = kernel.smooth()(X, X) - _low_rank(kernel, Z, X)
    return _regression_site(kernel, Z, X, y, mean, Q + np.diag(noise))


def collapsed_site(kernel, Z, X, y, mean, noise):
    """exp E_{p(f|u)}[log p(y|f)]: Titsias' variational likelihood of u."""
    Q = kernel.smooth()(X, X) - _low_rank(kernel, Z, X)
    site = _regression_site(kernel, Z, X, y, mean, np.diag(noise))
    return site._replace(c=site.c - 0.5 * (np.diag(Q) / noise).sum())


def moments_site(kernel, Z, mean, q, evidence):
    """q(u)/p(u), scaled so that its integral under the prior is the given evidence."""
    K_inv, S_inv = inv(kernel(Z, Z)), inv(q.cov)
    site = Site(Z, S_inv - K_inv, S_inv @ q.mean - K_inv @ np.full(len(Z), mean), 0.0)
    return site._replace(c=evidence - log_integral(site, kernel, mean))


def power(site, w):
    return Site(site.Z, w * site.Lam, w * site.lam, w * site.c)


def log_integral(site, kernel, mean):
    """log ∫ t(u) N(u; m, K) du."""
    K = kernel(site.Z, site.Z)
    m = np.full(len(site.Z), mean)
    K_inv = inv(K)
    J, h = K_inv + site.Lam, K_inv @ m + site.lam
    return site.c - 0.5 * m @ K_inv @ m + 0.5 * h @ np.linalg.solve(J, h) - 0.5 * logdet(K @ J)


def site_posterior(site, kernel, mean, Xt):
    """Posterior of f at Xt under the prior GP(m, kernel) and one site."""
    K_inv = inv(kernel(site.Z, site.Z))
    S = inv(K_inv + site.Lam)
    mu = S @ (K_inv @ np.full(len(site.Z), mean) + site.lam)
    W = kernel.smooth()(Xt, site.Z) @ K_inv
    spare = kernel.smooth()(Xt, Xt) - W @ kernel.smooth()(site.Z, Xt)
    return Moments(mean + W @ (mu - mean), spare + W @ S @ W.T)


def conditional(kernel, Z, Z_new, mean):
    """p(f(Z) | f(Z_new)) = N(offset + W f(Z_new), Q)."""
    C = kernel(Z, Z_new)
    W = C @ inv(kernel(Z_new, Z_new))
    return W, mean * (1 - W.sum(1)), kernel(Z, Z) - W @ C.T


def publish(site, kernel, mean, Z_new):
    """log ∫ t(u) p(u|u') du as a function of u': explicit marginalisation of a Gaussian."""
    W, a, Q = conditional(kernel, site.Z, Z_new, mean)
    # with x = λ − Λ(a + Wu'):  log∫ = c + λᵀ(a + Wu') − ½|a + Wu'|²_Λ + ½xᵀGx − ½logdet(I + QΛ)
    F = inv(np.eye(len(Q)) + Q @ site.Lam)
    G = F @ Q
    A = site.Lam - site.Lam @ G @ site.Lam
    lam = W.T @ (site.lam - site.lam @ G @ site.Lam - A @ a)
    linear_part = site.lam @ a - a @ site.Lam @ G @ site.lam
    c = site.c + linear_part - 0.5 * a @ A @ a + 0.5 * site.lam @ G @ site.lam + 0.5 * logdet(F)
    return Site(Z_new, W.T @ A @ W, lam, c)


def expect(site, kernel, mean, Z_new):
    """E_{p(u|u')}[log t(u)] as a function of u': what Jensen leaves of the site."""
    W, a, Q = conditional(kernel, site.Z, Z_new, mean)
    c = site(a) - 0.5 * np.trace(site.Lam @ Q)
    return Site(Z_new, W.T @ site.Lam @ W, W.T @ (site.lam - site.Lam @ a), c)


def multiply(sites):
    return Site(sites[0].Z, sum(s.Lam for s in sites), sum(s.lam for s in sites), sum(s.c for s in sites))


# --- ensembles --------------------------------------------------------------------------------


def ensemble(sites, kernel, mean, Z):
    """All sites on Z_*, by Jensen: its log_integral is the ensemble bound L_E."""
    return multiply([expect(s, kernel, mean, Z) for s in sites])


def block_marginal(sites, kernel, mean, Z):
    """All sites on Z_*, each marginalised: its log_integral is the block-marginal evidence E."""
    return multiply([publish(s, kernel, mean, Z) for s in sites])


def slack(sites, kernel, mean, Z):
    return sum(0.5 * np.trace(s.Lam @ conditional(kernel, s.Z, Z, mean)[2]) for s in sites)


def pushed(q, kernel, mean, Z, X):
    """q(f(X)) = ∫ p(f(X)|u_*) q(u_*) du_*."""
    W, a, Q = conditional(kernel, X, Z, mean)
    return Moments(a + W @ q.mean, Q + W @ q.cov @ W.T)


def ensemble_bound(q, sites, kernel, mean, Z):
    """eq. (ensemble) at any q(u_*): Σ_k E_q[log q_k − log p_k] − KL[q ‖ p]."""
    total = -kl(q, Moments(np.full(len(Z), mean), kernel(Z, Z)))
    for s in sites:
        at = pushed(q, kernel, mean, Z, s.Z)
        total += s(at.mean) - 0.5 * np.trace(s.Lam @ at.cov)
    return total


def gaussian_expected(q, kernel, mean, Z, X, y, noise):
    """Σ_i E_q[log N(y_i; f_i, σ_i²)]."""
    at = pushed(q, kernel, mean, Z, X)
    squares = (y - at.mean) ** 2 + np.diag(at.cov)
    return (-0.5 * (np.log(2 * math.pi * noise) + squares / noise)).sum()


# --- likelihoods ------------------------------------------------------------------------------


def log_ndtr(x):
    """log Φ(x): by erfc, and by its asymptotic series far in the tail."""
    x = np.asarray(x, dtype=float)
    erfc = np.vectorize(math.erfc)
    body = np.log(0.5 * erfc(-np.clip(x, -25.0, 0.0) / math.sqrt(2)))
    body = np.where(x > 0, np.log1p(-0.5 * erfc(np.maximum(x, 0.0) / math.sqrt(2))), body)
    far = np.minimum(x, -25.0)
    series = 1 - 1 / far**2 + 3 / far**4 - 15 / far**6 + 105 / far**8
    tail = -0.5 * far**2 - np.log(-far) - 0.5 * math.log(2 * math.pi) + np.log(series)
    return np.where(x > -25.0, body, tail)


def log_likelihood(name, y, f, parameters=()):
    """log p(y|f) for one y and many f."""
    f = np.asarray(f, dtype=float)
    if name == "gaussian":
        (s2,) = parameters
        return -0.5 * (math.log(2 * math.pi * s2) + (y - f) ** 2 / s2)
    if name == "bernoulli":
        return -np.logaddexp(0.0, -(2 * y - 1) * f)
    if name == "bernoulli-probit":
        return log_ndtr((2 * y - 1) * f)
    if name == "poisson":
        return y * f - np.exp(np.minimum(f, 700.0)) - math.lgamma(y + 1)
    if name == "negative-binomial":
        (r,) = parameters
        constant = math.lgamma(y + r) - math.lgamma(r) - math.lgamma(y + 1)
        x = f - math.log(r)
        return constant - r * np.logaddexp(0.0, x) - y * np.logaddexp(0.0, -x)
    if name == "survival":  # of log t, or P(T > t) where y = −t
        (s2,) = parameters
        away = (math.log(abs(y)) - f) / math.sqrt(s2)
        return log_ndtr(-away) if y < 0 else -0.5 * (math.log(2 * math.pi * s2) + away**2)
    if name == "ordinal":  # parameters are the gaps between cuts, of which the first is zero
        cuts = np.concatenate([[-math.inf], np.cumsum([0.0, *parameters]), [math.inf]])
        low, high = cuts[int(y)] - f, cuts[int(y) + 1] - f
        left = low + high > 0  # where Φ is near one, its other side is used
        low, high = np.where(left, -high, low), np.where(left, -low, high)
        larger = log_ndtr(np.minimum(high, 1e8))
        return larger + np.log1p(-np.exp(log_ndtr(np.maximum(low, -1e8)) - larger))
    if name == "student-t":
        s2, df = parameters
        constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(math.pi * df * s2)
        return constant - (df + 1) / 2 * np.log1p((y - f) ** 2 / (df * s2))
    raise KeyError(name)


def nodes(m, v, spacing, reach=12.0):
    """Points and normalised weights of a trapezoid rule for N(m, v), fine in f and in standard deviations."""
    sd = math.sqrt(v)
    h = min(0.05, spacing / sd)
    z = np.arange(-math.ceil(reach / h), math.ceil(reach / h) + 1) * h
    w = np.exp(-0.5 * z**2)
    return m + sd * z, w / w.sum()


def expectation(name, y, m, v, parameters=(), spacing=0.02):
    """E[log p(y|f)] under N(m, v)."""
    f, w = nodes(m, v, spacing)
    return w @ log_likelihood(name, y, f, parameters)


def log_predictive(name, y, m, v, parameters=(), spacing=0.02):
    """log E[p(y|f)] under N(m, v); wide, because an unlikely y is explained by an unlikely f."""
    f, _ = nodes(m, v, spacing, reach=60.0 if v > 1 else 1000.0)
    log_q = -0.5 * (f - m) ** 2 / v
    joint = log_likelihood(name, y, f, parameters) + log_q
    return joint.max() + np.log(np.exp(joint - joint.max()).sum() / np.exp(log_q).sum())


def slopes(name, y, m, v, parameters=(), spacing=0.02):
    """∂/∂m and ∂/∂v of E[log p(y|f)], by Stein's identities: E[(f−m)/v ℓ] and ½E[((f−m)²/v² − 1/v) ℓ]."""
    f, w = nodes(m, v, spacing)
    d = f - m
    # the derivatives of a constant and (for ∂v) of a line are zero: take both out before they cancel
    g = log_likelihood(name, y, f, parameters) - log_likelihood(name, y, m, parameters)
    by_m = w @ (d / v * g)
    by_v = 0.5 * w @ ((d**2 / v - 1) / v * (g - by_m * d))
    return by_m, by_v


def elbo(q, kernel, mean, Z, X, y, name, parameters=(), spacing=0.02):
    """eq. (local): Σ_i E_q[log p(y_i|f_i)] − KL[q(u) ‖ p(u)]."""
    smooth = kernel.smooth()
    W = smooth(X, Z) @ inv(kernel(Z, Z))
    m = mean + W @ (q.mean - mean)
    v = np.diag(smooth(X, X)) - (W * smooth(X, Z)).sum(1) + ((W @ q.cov) * W).sum(1)
    expected = sum(expectation(name, *row, parameters, spacing) for row in zip(y, m, v, strict=True))
    return expected - kl(q, Moments(np.full(len(Z), mean), kernel(Z, Z)))

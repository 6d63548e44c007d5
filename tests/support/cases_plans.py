"""Rows of a few owners, a plan, and the central collapsed model in NumPy, which knows nothing of the package."""

import numpy as np

import recyclegp as rgp

LENGTHS, AMPLITUDE, NOISE, MEAN = np.array([0.9, 1.4]), 1.3, 0.05, 2.0
KERNEL = "rbf(outputscale=1.3, lengthscale=0.9/1.4)"


def rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 2 + 0.2 * rng.standard_normal(n)


def owners(count=3, n=90, seed=0):
    X, y = rows(n, seed)
    return {f"ward-{k}": (X[k::count], y[k::count]) for k in range(count)}


def plan(points=14, **options):
    return rgp.Plan(points=rgp.Plan.spread([-2, -2], [2, 2], points), kernel=KERNEL, noise=NOISE, mean=MEAN, **options)


def answers(agreed, of, **options):
    return [agreed.contribute(X, y, name=name, privacy="things", **options) for name, (X, y) in of.items()]


def rounds(agreed, of, most=60, **options):
    """Exchanges until the plan is done."""
    e = None
    while not agreed.done and agreed.round < most:
        e, agreed = agreed.combine(answers(agreed, of, **options))
    return e, agreed


# --- the same in one place ------------------------------------------------------------------------


def rbf(A, B, lengths=LENGTHS, amplitude=AMPLITUDE):
    return amplitude * np.exp(-0.5 * (((A[:, None] - B[None]) / lengths) ** 2).sum(-1))


class Central:
    """Titsias' collapsed bound and posterior by dense algebra; N is the covariance of the noise."""

    def __init__(self, Z, X, y, N, mean=MEAN, kernel=rbf, jitter=0.0):
        self.Z, self.kernel, self.mean = Z, kernel, mean
        self.Kzz = kernel(Z, Z) + jitter * np.eye(len(Z))
        Kzx = kernel(Z, X)
        Q = Kzx.T @ np.linalg.solve(self.Kzz, Kzx)
        r, n = y - mean, len(y)
        inverse = np.linalg.inv(N)
        S = Q + N
        self.bound = -0.5 * (n * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + r @ np.linalg.solve(S, r))
        self.bound -= 0.5 * np.trace(inverse @ (kernel(X, X) - Q))
        self.A = self.Kzz + Kzx @ inverse @ Kzx.T
        self.b = Kzx @ inverse @ r

    def predict(self, X):
        K = self.kernel(self.Z, X)
        mean = self.mean + K.T @ np.linalg.solve(self.A, self.b)
        spare = np.einsum("ij,ij->j", K, np.linalg.solve(self.Kzz, K)) - np.einsum(
            "ij,ij->j", K, np.linalg.solve(self.A, K)
        )
        return mean, self.kernel(X, X).diagonal() - spare

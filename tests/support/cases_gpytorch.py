"""GPyTorch models with generic values, for the tests of interop.

    python tests/support/cases_gpytorch.py

prints how far converted modules are from the originals, at worst over kernels and means: the table of the page on
GPyTorch.
"""

import gpytorch
import torch
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, RQKernel, ScaleKernel
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    MeanFieldVariationalDistribution,
    NaturalVariationalDistribution,
    TrilNaturalVariationalDistribution,
    UnwhitenedVariationalStrategy,
    VariationalStrategy,
)

from recyclegp.export.gpytorch_likelihoods import LogisticLikelihood, PoissonLikelihood

D = 2
STRATEGIES = {"whitened": VariationalStrategy, "unwhitened": UnwhitenedVariationalStrategy}
DISTRIBUTIONS = {
    "cholesky": CholeskyVariationalDistribution,
    "mean-field": MeanFieldVariationalDistribution,
    "natural": NaturalVariationalDistribution,
    "tril-natural": TrilNaturalVariationalDistribution,
}


class SVGP(gpytorch.models.ApproximateGP):
    def __init__(self, Z, q, strategy, mean, kernel, **options):
        super().__init__(strategy(self, Z, q, **options))
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Exact(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, mean, kernel):
        super().__init__(X, y, likelihood)
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def numbers(*shape, seed):
    """Uniform on (0, 1), without touching the global random state."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def constant(value):
    mean = gpytorch.means.ConstantMean()
    mean.initialize(constant=value)
    return mean


def _set(kernel, **values):
    return kernel.initialize(**{k: torch.as_tensor(v) for k, v in values.items()})


KERNELS = {
    "scaled rbf, ARD": lambda: _set(
        ScaleKernel(_set(RBFKernel(ard_num_dims=D), lengthscale=[0.9, 1.7])), outputscale=1.8
    ),
    "matern32": lambda: _set(MaternKernel(nu=1.5), lengthscale=1.3),
    "rq + linear": lambda: (
        _set(ScaleKernel(_set(RQKernel(), lengthscale=1.1, alpha=2.3)), outputscale=0.7)
        + _set(LinearKernel(ard_num_dims=D), variance=[[0.2, 0.4]])
    ),
    "periodic * rbf": lambda: (
        _set(PeriodicKernel(active_dims=[1]), lengthscale=1.4, period_length=2.6) * _set(RBFKernel(), lengthscale=1.9)
    ),
    "additive in columns": lambda: (
        _set(ScaleKernel(_set(RBFKernel(active_dims=[0]), lengthscale=0.8)), outputscale=1.2)
        + _set(ScaleKernel(_set(MaternKernel(nu=2.5, active_dims=[1]), lengthscale=1.6)), outputscale=0.6)
    ),
}
MEANS = {"zero": gpytorch.means.ZeroMean, "constant": lambda: constant(0.63)}


def student():
    with gpytorch.settings.num_gauss_hermite_locs(200):  # its 20 err by 0.07 nats at these variances
        made = gpytorch.likelihoods.StudentTLikelihood()
    return made.initialize(noise=0.17, deg_free=5.5)


LIKELIHOODS = {
    "gaussian": lambda: gpytorch.likelihoods.GaussianLikelihood().initialize(noise=0.23),
    "bernoulli": gpytorch.likelihoods.BernoulliLikelihood,
    "student-t": student,
    "logistic": LogisticLikelihood,
    "poisson": PoissonLikelihood,
}


def sparse(
    strategy="whitened",
    distribution="cholesky",
    mean="constant",
    kernel="scaled rbf, ARD",
    dtype=torch.float64,
    M=11,
    seed=0,
    wide=False,
    **options,
):
    """A generic q(u), narrower than the prior unless `wide`, set as GPyTorch parameterises it."""
    Z = 4 * numbers(M, D, seed=seed)
    q = DISTRIBUTIONS[distribution](M)
    model = SVGP(Z, q, STRATEGIES[strategy], MEANS[mean](), KERNELS[kernel](), **options).to(dtype)
    model.variational_strategy.variational_params_initialized.fill_(1)
    with torch.no_grad():
        prior = model.double().forward(Z)
        jitter = options.get("jitter_val") or (1e-6 if dtype == torch.float64 else 1e-4)
        K = prior.covariance_matrix + jitter * torch.eye(M, dtype=torch.float64)
        L = torch.linalg.cholesky(K)
        A = 3 * numbers(M, M, seed=seed + 1) - 1.5
        S = torch.linalg.inv(torch.eye(M, dtype=torch.float64) + A @ A.T)  # narrower than I
        m = 4 * numbers(M, seed=seed + 2) - 2
        if wide:
            S = S + torch.diag(3 * numbers(M, seed=seed + 3))
        if strategy == "unwhitened":
            S, m = L @ S @ L.T, prior.mean + L @ m
        if distribution == "cholesky":
            q.variational_mean.copy_(m)
            q.chol_variational_covar.copy_(torch.linalg.cholesky(S))
        elif distribution == "mean-field":
            largest = 1.0 if strategy == "whitened" else torch.linalg.eigvalsh(K)[0]
            variances = largest * (0.05 + 0.9 * numbers(M, seed=seed + 4) + 3 * wide)
            q.variational_mean.copy_(m)
            q._variational_stddev.copy_(variances.sqrt())
        else:
            precision = torch.linalg.inv(S)
            q.natural_vec.copy_(precision @ m)
            if distribution == "natural":
                q.natural_mat.copy_(-0.5 * precision)
            else:
                q.natural_tril_mat.copy_(torch.linalg.inv(torch.linalg.cholesky(S)))
    return model.to(dtype).eval()


def exact(kernel="scaled rbf, ARD", mean="constant", dtype=torch.float64, n=30, likelihood=None, seed=0):
    X = (4 * numbers(n, D, seed=seed)).to(dtype)
    y = torch.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + (0.4 * numbers(n, seed=seed + 1)).to(dtype)
    likelihood = (LIKELIHOODS["gaussian"]() if likelihood is None else likelihood).to(dtype)
    return Exact(X, y, likelihood, MEANS[mean](), KERNELS[kernel]()).to(dtype).eval()


def latent(model, X):
    """GPyTorch's own mean and variance of f."""
    with torch.no_grad():
        q = model(X)
        return q.mean.double().numpy(), q.variance.double().numpy()


def theirs(model, X):
    """The same, less the jitter that the whitened strategy adds to the variance of every test point."""
    mean, variance = latent(model, X)
    strategy = model.variational_strategy
    return mean, variance - (strategy.jitter_val if isinstance(strategy, VariationalStrategy) else 0.0)


def main():
    import numpy as np

    import recyclegp as rgp

    torch.set_num_threads(1)
    X = 5 * numbers(40, D, seed=9) - 0.5
    for dtype in (torch.float64, torch.float32):
        for strategy in STRATEGIES:
            for distribution in DISTRIBUTIONS:
                worst = [0.0, 0.0]
                for kernel in KERNELS:
                    for mean in MEANS:
                        for seed in range(5):
                            model = sparse(strategy, distribution, mean, kernel, dtype, seed=10 * seed)
                            module = rgp.from_gpytorch(model, LIKELIHOODS["gaussian"]())
                            pairs = zip(
                                module.predict(X.to(dtype).double().numpy()), theirs(model, X.to(dtype)), strict=True
                            )
                            worst = [max(w, float(np.abs(a - b).max())) for w, (a, b) in zip(worst, pairs, strict=True)]
                print(
                    f"{dtype!s:15} {strategy:11} {distribution:13} mean {worst[0]:.0e} variance {worst[1]:.0e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

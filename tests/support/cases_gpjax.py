"""GPJax models with generic values, for the tests of interop and the table of its fidelity.

Written for GPJax 1.0 and for 0.18, whose classes have other names and other parameterisations of q(u).
"""

import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the imports deprecate is theirs
    import gpjax
    import jax
    import jax.numpy as jnp

from gpjax import kernels as gk
from gpjax import likelihoods as gl
from gpjax import variational_families as gv

jax.config.update("jax_enable_x64", True)

NEW = hasattr(gpjax, "ConjugateModel")  # 1.0 and later
D, M, N = 2, 11, 40
KERNELS = {
    "RBF, ARD": lambda: gk.RBF(lengthscale=jnp.array([0.8, 2.1]), variance=1.7),
    "RBF": lambda: gk.RBF(lengthscale=1.3, variance=0.7),
    "Matern12": lambda: gk.Matern12(lengthscale=jnp.array([0.8, 2.0]), variance=0.6),
    "Matern32": lambda: gk.Matern32(lengthscale=0.9, variance=1.4),
    "Matern52, one column": lambda: gk.Matern52(active_dims=[1], lengthscale=1.1, variance=2.6),
    "RationalQuadratic": lambda: gk.RationalQuadratic(lengthscale=jnp.array([1.1, 0.8]), variance=1.2, alpha=0.7),
    "Periodic": lambda: gk.Periodic(lengthscale=0.9, variance=1.4, period=2.6),
    "Periodic, ARD": lambda: gk.Periodic(lengthscale=jnp.array([0.9, 0.6]), variance=1.4, period=2.6),
    "Linear + Constant": lambda: (
        gk.Linear(variance=0.3) + gk.Constant(constant=jnp.array(0.7)) + gk.Matern32(lengthscale=1.5, variance=0.5)
    ),
    "product over columns": lambda: (
        gk.RBF(active_dims=slice(0, 1), lengthscale=0.8, variance=1.2)
        * gk.Periodic(active_dims=[1], lengthscale=0.7, variance=0.9, period=2.2)
    ),
    "composition": lambda: (
        (gk.RBF(variance=0.5) + gk.Linear(variance=0.2)) * gk.Matern32(lengthscale=3.0, variance=1.6)
        + gk.Constant(constant=jnp.array(0.3))
    ),
}
MEANS = {
    "zero": gpjax.mean_functions.Zero,
    "constant": lambda: gpjax.mean_functions.Constant(jnp.array(0.63)),
}


def _likelihood(kind, **options):
    return kind(**options) if NEW else kind(num_datapoints=N, **options)


LIKELIHOODS = {
    "gaussian": lambda: _likelihood(gl.Gaussian, obs_stddev=0.48),
    "bernoulli-probit": lambda: _likelihood(gl.Bernoulli),
    "poisson": lambda: _likelihood(gl.Poisson),
}
if hasattr(gl, "StudentT"):
    LIKELIHOODS["student-t"] = lambda: _likelihood(gl.StudentT, degrees_of_freedom=5.5, scale=0.41)
FAMILIES = [
    name
    for name in (
        "VariationalGaussian",
        "WhitenedVariationalGaussian",
        "DualVariationalGaussian",
        "NaturalVariationalGaussian",
        "ExpectationVariationalGaussian",
    )
    if hasattr(gv, name)
]


def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, D))
    return X, (1 + np.sin(2 * X[:, :1]) + 0.3 * X[:, 1:] + 0.2 * rng.normal(size=(n, 1)))


def dataset(rows=None):
    return gpjax.Dataset(*map(jnp.asarray, data() if rows is None else rows))


def elsewhere(n=40):
    return np.random.default_rng(9).uniform(-0.5, 4.5, (n, D))


def joint(kernel="RBF, ARD", mean="constant", likelihood="gaussian", jitter=1e-6):
    """prior * likelihood: a ConjugateModel, once a ConjugatePosterior, where the likelihood is Gaussian."""
    prior = gpjax.gps.Prior(kernel=KERNELS[kernel](), mean_function=MEANS[mean](), jitter=jitter)
    return prior * LIKELIHOODS[likelihood]()


def _options(model, jitter):
    return {"model": model} if NEW else {"posterior": model, "jitter": jitter}


def family(name, kernel="RBF, ARD", mean="constant", likelihood="gaussian", seed=0, wide=False, jitter=1e-6):
    """A generic q(u), narrower than the prior unless `wide`, in the family's own parameters."""
    rng = np.random.default_rng(seed)
    Z = jnp.asarray(rng.uniform(0, 4, (M, D)))
    model = joint(kernel, mean, likelihood, jitter)
    K = np.asarray(model.prior.kernel.cross_covariance(Z, Z), dtype=float)
    L = np.linalg.cholesky(K + jitter * np.eye(M))
    A = rng.normal(size=(M, M)) * 1.3 / np.sqrt(M)
    S, mu = np.linalg.inv(np.eye(M) + A @ A.T), rng.normal(size=(M, 1))
    if wide:
        S = S + np.diag(rng.uniform(1, 3, M))
    constant = 0.63 if mean == "constant" else 0.0
    S_u, mu_u = L @ S @ L.T, L @ mu + constant
    parameters = {
        "VariationalGaussian": lambda: (
            {"variational_mean": mu_u, "variational_root_covariance": np.linalg.cholesky(S_u)}
        ),
        "WhitenedVariationalGaussian": lambda: (
            {"variational_mean": mu, "variational_root_covariance": np.linalg.cholesky(S)}
        ),
        "DualVariationalGaussian": lambda: {
            "dual_vector": np.linalg.solve(L.T, np.linalg.solve(S, mu)),
            "dual_matrix": np.linalg.solve(L.T, np.linalg.solve(L.T, np.linalg.inv(S) - np.eye(M)).T).T,
        },
        "NaturalVariationalGaussian": lambda: {
            "natural_vector": np.linalg.solve(S_u, mu_u),
            "natural_matrix": -0.5 * np.linalg.inv(S_u),
        },
        "ExpectationVariationalGaussian": lambda: {
            "expectation_vector": mu_u,
            "expectation_matrix": S_u - jitter * np.eye(M) + mu_u @ mu_u.T,  # GPJax adds its jitter to S, too
        },
    }[name]()
    values = {key: jnp.asarray(value) for key, value in parameters.items()}
    return getattr(gv, name)(**_options(model, jitter), inducing_inputs=Z, **values)


def collapsed(kernel="RBF, ARD", mean="constant", seed=0, jitter=1e-6):
    Z = jnp.asarray(np.random.default_rng(seed + 1).uniform(0, 4, (M, D)))
    return gv.CollapsedVariationalGaussian(**_options(joint(kernel, mean, jitter=jitter), jitter), inducing_inputs=Z)


def predictive(model, X, rows=None):
    X = jnp.asarray(X)
    return model.predict(X) if rows is None else model.predict(X, rows)


def latent(model, X, rows=None, jitter=1e-6):
    """GPJax's own mean and variance of f, less the jitter it adds to every prediction."""
    q = predictive(model, X, rows)
    covariance = np.asarray(q.covariance_matrix if hasattr(q, "covariance_matrix") else q.covariance())
    return np.asarray(q.mean, dtype=float), np.diag(covariance).astype(float) - jitter


def apart(module, model, X, rows=None, jitter=1e-6):
    """Largest difference of mean and of variance."""
    theirs = latent(model, X, rows, jitter)
    return [float(np.abs(a - b).max()) for a, b in zip(module.predict(np.asarray(X)), theirs, strict=True)]


def _worst(make, rows=None, publish="auto"):
    """Over kernels and means: the largest difference, where published or elsewhere."""
    import recyclegp as rgp

    found = 0.0
    for i, (kernel, mean) in enumerate((k, m) for k in KERNELS for m in MEANS):
        model = make(kernel=kernel, mean=mean, seed=10 * i)
        module = rgp.from_gpjax(model, rows, publish=publish)
        found = max(found, *apart(module, model, module.inducing if isinstance(publish, int) else elsewhere(), rows))
    return f"{found:.0e}"


def main():
    """The table of docs/interop-gpjax.md."""
    from functools import partial
    from importlib.metadata import version

    packages = ("jax", "equinox", "numpyro", "paramax", "numpy", "torch", "gpytorch")
    print(f"gpjax {gpjax.__version__}, " + ", ".join(f"{p} {version(p)}" for p in packages), flush=True)

    def row(title, cells):
        print("| " + " | ".join([title, *cells]) + " |", flush=True)

    row("", LIKELIHOODS)
    row("---", ["---"] * len(LIKELIHOODS))
    other = [""] * (len(LIKELIHOODS) - 1)
    for name in FAMILIES:
        row(f"`{name}`", [_worst(partial(family, name, likelihood=p)) for p in LIKELIHOODS])
    row("`CollapsedVariationalGaussian`", [_worst(collapsed, dataset()), *other])

    def conjugate(kernel, mean, seed):
        return joint(kernel, mean)

    for title, publish in (("at 12 points", 12), ("at all rows", data()[0])):
        row(f"conjugate, {title}", [_worst(conjugate, dataset(), publish), *other])


if __name__ == "__main__":
    main()

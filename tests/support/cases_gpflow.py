"""GPflow models with generic values, for the tests of interop and the table of its fidelity."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow announces its libraries otherwise
import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what TensorFlow's and Keras' imports deprecate is theirs
    import gpflow
    import tensorflow as tf

from gpflow import kernels as gk
from gpflow import likelihoods as gl
from gpflow.models import GPR, SGPR, SVGP, VGP

tf.config.threading.set_intra_op_parallelism_threads(1)  # before its first operation
tf.config.threading.set_inter_op_parallelism_threads(1)

D, M, N = 2, 11, 40
KERNELS = {
    "SquaredExponential, ARD": lambda: gk.SquaredExponential(1.7, [0.8, 2.1]),
    "SquaredExponential": lambda: gk.RBF(0.7, 1.3),
    "Matern12": lambda: gk.Matern12(0.6, [0.8, 2.0]),
    "Matern32": lambda: gk.Matern32(1.4, 0.9),
    "Matern52, one column": lambda: gk.Matern52(2.6, 1.1, active_dims=[1]),
    "Exponential": lambda: gk.Exponential(0.8, [0.6, 1.2]),
    "RationalQuadratic": lambda: gk.RationalQuadratic(1.2, [1.1, 0.8], 0.7),
    "Periodic": lambda: gk.Periodic(gk.SquaredExponential(1.4, 0.9), 2.6),
    "Periodic, ARD": lambda: gk.Periodic(gk.SquaredExponential(1.4, [0.9, 0.6]), [2.6, 3.1]),
    "Linear + Constant": lambda: gk.Linear([0.3, 0.8]) + gk.Constant(0.7) + gk.Matern32(0.5, 1.5),
    "columns in reverse": lambda: gk.SquaredExponential(1.7, [0.8, 2.1], active_dims=[1, 0]),
    "product over columns": lambda: (
        gk.SquaredExponential(1.2, 0.8, active_dims=slice(0, 1))
        * gk.Periodic(gk.SquaredExponential(0.9, 0.7, active_dims=[1]), 2.2)
    ),
    "composition": lambda: (
        (gk.SquaredExponential(0.5, 1.0) + gk.Linear(0.2)) * gk.Matern32(1.6, 3.0) * gk.Constant(1.3) + gk.Bias(0.3)
    ),
}
MEANS = {"zero": lambda: None, "constant": lambda: gpflow.mean_functions.Constant(0.63)}
EXACTLY = {"quadrature": gpflow.quadrature.NDiagGHQuadrature(1, 200)}  # its 20 points err by up to 0.01 nats here
LIKELIHOODS = {
    "gaussian": lambda: gl.Gaussian(0.23),
    "gaussian, by scale": lambda: gl.Gaussian(scale=0.37),
    "bernoulli-probit": gl.Bernoulli,
    "bernoulli": lambda: gl.Bernoulli(invlink=tf.sigmoid, **EXACTLY),
    "poisson": lambda: gl.Poisson(**EXACTLY),
    "student-t": lambda: gl.StudentT(0.41, 5.5, **EXACTLY),
}
OPTIONS = {
    "whiten": {"whiten": True},
    "whiten, q_diag": {"whiten": True, "q_diag": True},
    "not whitened": {"whiten": False},
    "not whitened, q_diag": {"whiten": False, "q_diag": True},
}


def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, D))
    return X, (1 + np.sin(2 * X[:, :1]) + 0.3 * X[:, 1:] + 0.2 * rng.normal(size=(n, 1)))


def elsewhere(n=40):
    return np.random.default_rng(9).uniform(-0.5, 4.5, (n, D))


def narrow(size, rng):
    """A generic covariance narrower than the identity."""
    A = rng.normal(size=(size, size)) * 1.3 / np.sqrt(size)
    S = np.linalg.inv(np.eye(size) + A @ A.T)
    return 0.5 * (S + S.T)


def svgp(kernel="SquaredExponential, ARD", mean="constant", likelihood="gaussian", option="whiten", seed=0, wide=False):
    """A generic q(u), narrower than the prior unless `wide`, set as GPflow parameterises it."""
    rng = np.random.default_rng(seed)
    Z, k = rng.uniform(0, 4, (M, D)), KERNELS[kernel]()
    model = SVGP(k, LIKELIHOODS[likelihood](), Z, mean_function=MEANS[mean](), **OPTIONS[option])
    K = k(tf.constant(Z, dtype=gpflow.default_float())).numpy().astype(float)
    L = np.linalg.cholesky(K + gpflow.config.default_jitter() * np.eye(M))
    S, mu = narrow(M, rng), rng.normal(size=(M, 1))
    if wide:
        S = S + np.diag(rng.uniform(1, 3, M))
    if not model.whiten:
        S, mu = L @ S @ L.T, L @ mu
    model.q_mu.assign(mu)
    if model.q_sqrt.shape.rank == 2:
        largest = 1.0 if model.whiten else np.linalg.eigvalsh(L @ L.T)[0]
        model.q_sqrt.assign(np.sqrt(largest * (rng.uniform(0.05, 0.95, (M, 1)) + 3 * wide)))
    else:
        model.q_sqrt.assign(np.linalg.cholesky(S)[None])
    return model


def sgpr(kernel="SquaredExponential, ARD", mean="constant", likelihood="gaussian", seed=0, rows=None):
    Z = np.random.default_rng(seed + 1).uniform(0, 4, (M, D))
    return SGPR(
        data(seed=seed) if rows is None else rows,
        KERNELS[kernel](),
        Z,
        mean_function=MEANS[mean](),
        likelihood=LIKELIHOODS[likelihood](),
    )


def gpr(kernel="SquaredExponential, ARD", mean="constant", likelihood="gaussian", seed=0, rows=None):
    rows = data(seed=seed) if rows is None else rows
    return GPR(rows, KERNELS[kernel](), mean_function=MEANS[mean](), likelihood=LIKELIHOODS[likelihood]())


def labels(likelihood, y):
    """Targets that the likelihood allows."""
    if likelihood.startswith("bernoulli"):
        return (y > y.mean()).astype(float)
    return np.round(np.exp(0.3 * y)) if likelihood == "poisson" else y


def vgp(kernel="SquaredExponential, ARD", mean="constant", likelihood="bernoulli-probit", seed=0, rows=None):
    X, y = data(seed=seed) if rows is None else rows
    model = VGP((X, labels(likelihood, y)), KERNELS[kernel](), LIKELIHOODS[likelihood](), MEANS[mean]())
    rng = np.random.default_rng(seed)
    model.q_mu.assign(rng.normal(size=(len(X), 1)))
    model.q_sqrt.assign(np.linalg.cholesky(narrow(len(X), rng))[None])
    return model


def latent(model, X):
    """GPflow's own mean and variance of f."""
    mean, variance = model.predict_f(tf.constant(X, dtype=gpflow.default_float()))
    return mean.numpy()[:, 0].astype(float), variance.numpy()[:, 0].astype(float)


def apart(module, model, X):
    """Largest difference of mean and of variance."""
    return [float(np.abs(a - b).max()) for a, b in zip(module.predict(X), latent(model, X), strict=True)]


def in_float32(jitter=1e-6):
    return gpflow.config.as_context(gpflow.config.Config(float=np.float32, int=np.int32, jitter=jitter))


def _worst(make, publish="auto", kernels=KERNELS):
    """Over kernels and means: the largest difference, where published or elsewhere."""
    import recyclegp as rgp

    found = 0.0
    for i, (kernel, mean) in enumerate((k, m) for k in kernels for m in MEANS):
        model = make(kernel=kernel, mean=mean, seed=10 * i)
        module = rgp.from_gpflow(model, publish=model.data[0].numpy() if publish == "rows" else publish)
        where = module.inducing if isinstance(publish, int) else elsewhere().astype(gpflow.default_float())
        found = max(found, *apart(module, model, where))
    return f"{found:.0e}"


def main():
    """The table of docs/interop-gpflow.md."""
    from functools import partial
    from importlib.metadata import version

    packages = ("gpflow", "tensorflow", "tensorflow-probability", "tf-keras", "numpy", "torch", "gpytorch")
    print(", ".join(f"{p} {version(p)}" for p in packages), flush=True)
    families = [name for name in LIKELIHOODS if "," not in name]
    other = [""] * (len(families) - 1)

    def row(title, cells):
        print("| " + " | ".join([title, *cells]) + " |", flush=True)

    row("", families)
    row("---", ["---"] * len(families))
    for option in OPTIONS:
        row(f"`SVGP`, {option}", [_worst(partial(svgp, likelihood=p, option=option)) for p in families])
    row("`SGPR`", [_worst(sgpr), *other])
    for title, publish in (("at 12 points", 12), ("at all rows", "rows")):
        row(f"`GPR`, {title}", [_worst(gpr, publish), *other])
        some = {k: KERNELS[k] for k in ("SquaredExponential, ARD", "Matern12", "composition")}
        row(f"`VGP`, {title}", [_worst(partial(vgp, likelihood=p), publish, some) for p in families])
    distinct = {k: v for k, v in KERNELS.items() if "one column" not in k}
    with in_float32():
        for option in OPTIONS:
            row(f"`SVGP`, {option}, float32", [_worst(partial(svgp, option=option), kernels=distinct), *other])


if __name__ == "__main__":
    main()

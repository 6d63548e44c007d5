"""GPflow's fitted models as modules: they predict what GPflow predicts; against GPflow itself."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gpflow")
import gpflow
import tensorflow as tf

import cases_gpflow as cases
import recyclegp as rgp
from cases_gpflow import (
    KERNELS,
    LIKELIHOODS,
    MEANS,
    OPTIONS,
    D,
    M,
    N,
    apart,
    data,
    elsewhere,
    gpr,
    in_float32,
    latent,
    sgpr,
    svgp,
    vgp,
)

X = elsewhere()
GAUSSIAN = ["gaussian", "gaussian, by scale"]
CLOSE = 1e-8


def same_observations(module, model, name):
    """What the likelihood makes of f: noise, probabilities, rates, densities."""
    y = cases.labels(name, np.sin(X[:, :1]))
    mean, variance = (t.numpy()[:, 0] for t in model.predict_y(X))
    density = model.predict_log_density((X, y)).numpy()
    if name == "bernoulli-probit":
        # GPflow keeps its probabilities away from 0 and 1, by 1e-3: that much they differ, and no more
        p = module.predict_proba(X)[:, 1]
        np.testing.assert_allclose(mean, p * (1 - 2e-3) + 1e-3, rtol=0, atol=1e-9)
        assert np.abs(mean - p).max() <= 1e-3
    elif name == "bernoulli":
        np.testing.assert_allclose(module.predict_proba(X)[:, 1], mean, rtol=0, atol=1e-6)
    elif name == "poisson":
        np.testing.assert_allclose(module.predict_y(X)[0], mean, rtol=1e-6)
        np.testing.assert_allclose(module.predict_y(X)[1], variance, rtol=1e-3)
    else:
        np.testing.assert_allclose(module.predict_y(X)[0], mean, rtol=0, atol=CLOSE)
        np.testing.assert_allclose(module.predict_y(X)[1], variance, rtol=0, atol=CLOSE)
        np.testing.assert_allclose(module.log_density(X, y[:, 0]), density, rtol=0, atol=1e-5)
    if name == "gaussian":
        assert module.noise == pytest.approx(0.23)


# --- sparse models ----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("option", OPTIONS)
def test_svgp(option, mean, kernel):
    model = svgp(kernel, mean, option=option)
    module = rgp.from_gpflow(model, name="w")
    assert max(apart(module, model, X)) < CLOSE
    assert (module.name, module.jitter, module.rows) == ("w", 1e-6, M)
    np.testing.assert_array_equal(module.inducing, model.inducing_variable.Z.numpy())


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("option", OPTIONS)
def test_svgp_likelihoods(option, likelihood):
    model = svgp(likelihood=likelihood, option=option)
    module = rgp.from_gpflow(model)
    assert module.likelihood == likelihood.partition(",")[0]
    assert max(apart(module, model, X)) < CLOSE
    same_observations(module, model, likelihood)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("likelihood", GAUSSIAN)
def test_sgpr(likelihood, mean, kernel):
    """And its evidence is the bound it was trained by."""
    model = sgpr(kernel, mean, likelihood)
    module = rgp.from_gpflow(model)
    assert max(apart(module, model, X)) < CLOSE
    assert module.evidence == pytest.approx(float(model.elbo()), abs=1e-6)
    assert (module.rows, module.method, module.jitter) == (N, "collapsed", 1e-6)
    same_observations(module, model, likelihood)


def test_sgpr_whose_points_are_rows():
    """GPflow finds such a point 1e-8 away from itself, which the roughest kernels notice."""
    model = gpflow.models.SGPR(data(), KERNELS["Exponential"](), data()[0][:M], noise_variance=0.3)
    assert max(apart(rgp.from_gpflow(model), model, X)) < 1e-6


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kernel", [k for k in KERNELS if "one column" not in k])
def test_float32(kernel, option):
    with in_float32():
        model = svgp(kernel, option=option)
        assert model.q_mu.dtype == tf.float32
        assert max(apart(rgp.from_gpflow(model), model, X.astype(np.float32))) < 1e-3


def test_what_float32_rounds_off_is_gpflows_own():
    """Points that nearly coincide in the one column: the module is what the same parameters say in float64."""
    with in_float32():
        model = svgp("Matern52, one column", seed=10)
        module, rounded = rgp.from_gpflow(model), latent(model, X)
    copy = svgp("Matern52, one column", seed=10)
    values = {k: v.numpy().astype(np.float64) for k, v in gpflow.utilities.parameter_dict(model).items()}
    gpflow.utilities.multiple_assign(copy, values)
    assert max(apart(module, copy, X)) < CLOSE
    assert np.abs(latent(copy, X)[0] - rounded[0]).max() > 1e-3


@pytest.mark.parametrize("make", [sgpr, gpr, vgp])
@pytest.mark.parametrize("kernel", ["Matern12", "Matern32"])
def test_float32_with_rows(kernel, make):
    rows = tuple(t.astype(np.float32) for t in data())
    with in_float32():
        model = make(kernel, rows=rows)
        module = rgp.from_gpflow(model) if make is sgpr else rgp.from_gpflow(model, publish=rows[0])
        assert max(apart(module, model, X.astype(np.float32))) < 1e-3


@pytest.mark.parametrize("jitter", [1e-3, 3e-5])
@pytest.mark.parametrize("option", OPTIONS)
def test_the_jitter_in_force_is_kept(option, jitter):
    with gpflow.config.as_context(gpflow.config.Config(jitter=jitter)):
        model = svgp(option=option)
        module = rgp.from_gpflow(model)
        assert module.jitter == jitter
        assert max(apart(module, model, X)) < CLOSE


@pytest.mark.parametrize("option", OPTIONS)
def test_wider_than_the_prior_keeps_the_mean_and_warns(option):
    model = svgp(option=option, wide=True)
    with pytest.warns(rgp.RecycleGPWarning, match=r"module lab: \d+ of 11 directions .* wider than the prior") as seen:
        module = rgp.from_gpflow(model, name="lab")
    assert seen[0].filename == __file__
    assert not module.convergence.converged
    mean, variance = latent(model, X)
    np.testing.assert_allclose(module.predict(X)[0], mean, rtol=0, atol=1e-6)
    assert (module.predict(X)[1] <= variance + 1e-6).all()


def test_untrained_svgp_is_its_prior():
    model = gpflow.models.SVGP(KERNELS["Matern32"](), gpflow.likelihoods.Gaussian(), data()[0][:M])
    assert max(apart(rgp.from_gpflow(model), model, X)) < 1e-6


def test_rows_behind_a_sparse_model():
    model = svgp()
    assert rgp.from_gpflow(model, rows=500).rows == 500
    model.num_data = 1234
    assert rgp.from_gpflow(model).rows == 1234
    with pytest.raises(rgp.RecycleGPError, match="rows=0"):
        rgp.from_gpflow(model, rows=0)


@pytest.mark.parametrize("make", [svgp, sgpr])
def test_sparse_models_published_elsewhere(make):
    """The exact marginal: at the new points what the model predicts, everywhere if they are its own."""
    model = make()
    few = rgp.from_gpflow(model, publish=5, seed=2)
    assert len(few.inducing) == 5
    assert max(apart(few, model, few.inducing)) < 1e-6
    same = rgp.from_gpflow(model, publish=model.inducing_variable.Z.numpy())
    assert max(apart(same, model, X)) < 1e-6


# --- models that keep their rows --------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("likelihood", GAUSSIAN)
def test_gpr(likelihood, mean, kernel):
    """At the published points, everywhere if those are all rows; and the evidence is its marginal likelihood."""
    model = gpr(kernel, mean, likelihood)
    small, full = rgp.from_gpflow(model, publish=12), rgp.from_gpflow(model, publish=data()[0])
    assert max(apart(small, model, small.inducing)) < CLOSE
    assert max(apart(full, model, X)) < CLOSE
    for module in (small, full):
        assert module.evidence == pytest.approx(float(model.log_marginal_likelihood()), abs=1e-6)
        assert (module.rows, module.method) == (N, "exact")
    same_observations(full, model, likelihood)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kernel", ["SquaredExponential, ARD", "Matern12", "composition"])
@pytest.mark.parametrize("mean", MEANS)
def test_vgp(mean, kernel, likelihood):
    model = vgp(kernel, mean, likelihood)
    small, full = rgp.from_gpflow(model, publish=12), rgp.from_gpflow(model, publish=data()[0])
    assert max(apart(small, model, small.inducing)) < 1e-6
    assert max(apart(full, model, X)) < 1e-6
    bound = float(model.elbo())  # −∞ where tf.sigmoid rounds to 1
    for module in (small, full):
        assert module.evidence == pytest.approx(bound if np.isfinite(bound) else 0.0, abs=1e-6)
        assert (module.rows, module.likelihood) == (N, likelihood.partition(",")[0])
    if kernel != "composition":  # whose variance, up to 20, is too much for 200 points
        same_observations(full, model, likelihood)


def test_vgp_of_rows_that_repeat():
    """GPflow's jitter tells them apart, and so does the module's site, until it is published."""
    rows, y = data()
    rows = np.concatenate([rows[:20], rows[:20]])
    model = vgp(rows=(rows, y))
    for publish, where in ((9, None), (rows, X), (rows[:7], rows[:7])):
        module = rgp.from_gpflow(model, publish=publish)
        assert max(apart(module, model, module.inducing if where is None else where)) < 1e-6


@pytest.mark.parametrize("make", [gpr, vgp])
def test_no_row_is_shared_unless_it_is_passed(make):
    model = make()
    module = rgp.from_gpflow(model, seed=3)
    assert 20 < len(module.inducing) <= 64
    assert not {tuple(r) for r in data()[0].tolist()} & {tuple(r) for r in module.inducing.tolist()}
    np.testing.assert_array_equal(module.inducing, rgp.from_gpflow(model, seed=3).inducing)
    assert max(apart(module, model, module.inducing)) < 1e-6


def test_models_are_read_and_never_changed():
    for make in (svgp, sgpr, gpr, vgp):
        model = make()
        before = [v.numpy().copy() for v in model.variables]
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        rgp.from_gpflow(model, name="a")
        assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
        assert all(np.array_equal(b, v.numpy()) for b, v in zip(before, model.variables, strict=True))


# --- merging ----------------------------------------------------------------------------------


def test_two_gprs_merge_into_the_one_that_has_seen_all():
    rows, y = data(60)
    parts = [(rows[:25], y[:25]), (rows[25:], y[25:])]
    both = gpr("Matern52, one column", rows=(rows, y))
    modules = [
        rgp.from_gpflow(gpr("Matern52, one column", rows=p), name=f"{i}", publish=p[0]) for i, p in enumerate(parts)
    ]
    merged = rgp.merge(modules, inducing=rows, learn=False)
    assert max(apart(merged, both, X)) < 1e-6
    assert merged.evidence == pytest.approx(float(both.log_marginal_likelihood()), abs=1e-5)


def test_sgprs_of_one_plan_merge_into_the_central_sgpr():
    rows, y = data(90)
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-9)):
        modules = [rgp.from_gpflow(sgpr(rows=(rows[i::3], y[i::3])), name=f"{i}") for i in range(3)]
        central = sgpr(rows=(rows, y))
        merged = rgp.merge(modules, inducing=modules[0].inducing, learn=False)
        assert max(apart(merged, central, X)) < 1e-6
        assert merged.bound == pytest.approx(float(central.elbo()), abs=1e-3)


def test_a_trained_model_merges_with_ours_and_travels(tmp_path):
    """GPflow's own optimiser, a file, then an ensemble that knows what neither knows alone."""
    rng = np.random.default_rng(2)
    rows = np.sort(rng.uniform(0, 8, (160, 1)), axis=0)
    y = np.sin(2 * rows) + 0.1 * rng.normal(size=(160, 1))
    model = gpflow.models.SGPR((rows[:90], y[:90]), gpflow.kernels.RBF(), rows[:90:6].copy())
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 60})
    rgp.from_gpflow(model, name="theirs").save(tmp_path / "theirs.safetensors")
    theirs, ours = rgp.load(tmp_path / "theirs.safetensors"), rgp.fit(rows[70:], y[70:, 0], name="ours")
    merged = rgp.merge([theirs, ours])
    grid = np.linspace(0, 8, 60)[:, None]

    def error(m):
        return np.sqrt(np.mean((m.predict(grid)[0] - np.sin(2 * grid[:, 0])) ** 2))

    assert error(merged) < 0.06
    assert min(error(theirs), error(ours)) > 0.2


def test_kernels_have_the_structure_of_ours():
    """One amplitude for each product, so that parameters are pooled with those of modules fitted here."""
    gk = gpflow.kernels
    for theirs, name in (
        (gk.RBF(1.2, [0.5, 0.7]) * gk.Matern32(0.3, [1.0, 2.0]), "rbf * matern32"),
        (gk.RBF(1.2, [0.5, 0.7]) + gk.Constant(0.3), "rbf + constant"),
    ):
        model = gpflow.models.GPR(data(), theirs)
        ours = rgp.fit(*(t.squeeze() for t in data()), kernel=name, publish=5)
        assert rgp.from_gpflow(model).kernel_spec.structure == ours.kernel_spec.structure


@pytest.mark.filterwarnings("ignore::recyclegp.errors.ContradictionWarning")  # two modules that differ
def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "interop-gpflow.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    rows, y = data(seed=5)
    names = {"model": svgp(), "X_b": rows, "y_b": y[:, 0], "X": X}
    exec(block, names)
    assert names["e"].names == ["lab-7", "lab-2"]
    assert names["mean"].shape == names["variance"].shape == (len(X),)
    assert (names["variance"] > 0).all()


# --- refusals ---------------------------------------------------------------------------------


class Mine(gpflow.kernels.SquaredExponential):
    """A formula of the user's own."""


class MySVGP(gpflow.models.SVGP):
    """Which may predict otherwise."""


def with_kernel(kernel):
    return gpflow.models.GPR(data(), kernel)


def with_likelihood(likelihood):
    return gpflow.models.SVGP(KERNELS["Matern32"](), likelihood, data()[0][:M])


gk, gl = gpflow.kernels, gpflow.likelihoods
REFUSED = {
    "the kernel White": lambda: with_kernel(gk.RBF() + gk.White()),
    "the kernel Cosine": lambda: with_kernel(gk.Cosine()),
    "the kernel ArcCosine": lambda: with_kernel(gk.ArcCosine()),
    "the kernel Polynomial": lambda: with_kernel(gk.Polynomial()),
    "the kernel Mine": lambda: with_kernel(Mine()),
    "the kernel Coregion": lambda: with_kernel(gk.RBF(active_dims=[0]) * gk.Coregion(2, 1, active_dims=[1])),
    "the kernel ChangePoints": lambda: with_kernel(gk.ChangePoints([gk.RBF(), gk.Matern12()], [0.5])),
    "the kernel Periodic of Matern32": lambda: with_kernel(gk.Periodic(gk.Matern32())),
    "over the columns": lambda: with_kernel(gk.RBF(active_dims=[0, 3])),
    "the likelihood Gamma with invlink exp": lambda: with_likelihood(gl.Gamma()),
    "the likelihood Exponential with invlink exp": lambda: with_likelihood(gl.Exponential()),
    "the likelihood Bernoulli with invlink tanh": lambda: with_likelihood(gl.Bernoulli(invlink=tf.tanh)),
    "the likelihood Poisson with invlink softplus": lambda: with_likelihood(gl.Poisson(invlink=tf.nn.softplus)),
    r"the likelihood Poisson with binsize=\[0.5\]": lambda: with_likelihood(gl.Poisson(binsize=0.5)),
    "the likelihood Ordinal": lambda: with_likelihood(gl.Ordinal(np.array([0.0, 1.0]))),
    "Gaussian.variance that is a function": lambda: with_likelihood(gl.Gaussian(gpflow.functions.Linear())),
    "StudentT.scale that is a function": lambda: with_likelihood(gl.StudentT(gpflow.functions.Constant(1.0))),
    "the mean function Linear": lambda: gpflow.models.GPR(data(), gk.RBF(), gpflow.functions.Linear(np.ones((D, 1)))),
    "Multiscale": lambda: gpflow.models.SVGP(
        gk.RBF(), gl.Gaussian(), gpflow.inducing_variables.Multiscale(data()[0][:M], np.ones((M, D)))
    ),
    "2 latent GPs": lambda: gpflow.models.SVGP(gk.RBF(), gl.Gaussian(), data()[0][:M], num_latent_gps=2),
    "inducing points coincide": lambda: gpflow.models.SVGP(gk.RBF(), gl.Gaussian(), data()[0][[0, 1, 0]]),
}


@pytest.mark.parametrize("named", REFUSED)
def test_what_cannot_be_represented_is_refused_by_name(named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TensorFlow, while the model is made
        model = REFUSED[named]()
    with pytest.raises(rgp.RecycleGPError, match=named):
        rgp.from_gpflow(model)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gpflow.models.GPRFITC(data(), gk.RBF(), data()[0][:M]),
        lambda: gpflow.models.VGPOpperArchambeau(data(), gk.RBF(), gl.Gaussian()),
        lambda: gpflow.models.GPMC(data(), gk.RBF(), gl.Gaussian()),
        lambda: MySVGP(gk.RBF(), gl.Gaussian(), data()[0][:M]),
        lambda: gk.RBF(),
    ],
)
def test_other_models_are_refused_by_name(make):
    model = make()
    with pytest.raises(TypeError, match=f"SVGP, SGPR, GPR or VGP, not {type(model).__name__}"):
        rgp.from_gpflow(model)


def test_exact_models_need_somewhere_to_be_published():
    for make in (gpr, vgp):
        with pytest.raises(rgp.RecycleGPError, match="publish"):
            rgp.from_gpflow(make(), publish=None)
        with pytest.raises(rgp.RecycleGPError, match="publish='all'"):
            rgp.from_gpflow(make(), publish="all")

"""GPJax's fitted models as modules: they predict what GPJax predicts; against GPJax itself.

On two cores JAX can hang inside a triangular solve: run with `--timeout-method=thread`, as `make test-peers` does.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gpjax")
import gpjax
import jax
import jax.numpy as jnp

import recyclegp as rgp
from cases_gpjax import (
    FAMILIES,
    KERNELS,
    LIKELIHOODS,
    MEANS,
    NEW,
    D,
    M,
    N,
    apart,
    collapsed,
    data,
    dataset,
    elsewhere,
    family,
    joint,
    latent,
    predictive,
)

X = elsewhere()
gk, gl, gv = gpjax.kernels, gpjax.likelihoods, gpjax.variational_families


# --- variational families ---------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("name", FAMILIES)
def test_families_predict_the_same(name, mean, kernel):
    q = family(name, kernel, mean)
    module = rgp.from_gpjax(q, name="w")
    assert max(apart(module, q, X)) < 1e-8
    assert (module.name, module.jitter, module.rows) == ("w", 1e-6, M)
    np.testing.assert_array_equal(module.inducing, np.random.default_rng(0).uniform(0, 4, (M, D)))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", FAMILIES)
def test_likelihoods(name, likelihood):
    """GPJax integrates over f for a Gaussian and the probit only; of a rate and of a t it gives those at the mean."""
    q = family(name, likelihood=likelihood)
    module = rgp.from_gpjax(q)
    assert module.likelihood == likelihood
    assert max(apart(module, q, X)) < 1e-8
    f, p = predictive(q, X), (q.model if NEW else q.posterior).likelihood
    if likelihood == "gaussian":
        theirs = p(f)
        variance = theirs.covariance_matrix if hasattr(theirs, "covariance_matrix") else theirs.covariance()
        np.testing.assert_allclose(module.predict_y(X)[1], np.diag(variance) - 1e-6, rtol=0, atol=1e-8)
        assert module.noise == pytest.approx(0.48**2)
    elif likelihood == "bernoulli-probit":
        # GPJax keeps its probabilities away from 0 and 1, by 1e-3: that much they differ, and no more
        theirs, ours = np.asarray(p(f).mean), module.predict_proba(X)[:, 1]
        np.testing.assert_allclose(theirs, ours * (1 - 2e-3) + 1e-3, rtol=0, atol=1e-6)
    elif likelihood == "poisson":
        m, v = module.predict(X)
        np.testing.assert_allclose(module.predict_y(X)[0], np.asarray(p(f).mean) * np.exp(v / 2), rtol=1e-7)
        np.testing.assert_allclose(np.asarray(p(f).mean), np.exp(m), rtol=1e-7)
    else:
        m, v = module.predict(X)
        np.testing.assert_allclose(module.predict_y(X)[1], np.asarray(p(f).variance) + v, rtol=0, atol=1e-7)
        assert module.likelihoods[0].parameters == pytest.approx((0.41**2, 5.5))


@pytest.mark.parametrize("jitter", [1e-3, 3e-5])
@pytest.mark.parametrize("name", FAMILIES)
def test_its_own_jitter_is_kept(name, jitter):
    q = family(name, jitter=jitter)
    module = rgp.from_gpjax(q)
    assert module.jitter == jitter
    assert max(apart(module, q, X, jitter=jitter)) < 1e-8


@pytest.mark.parametrize("name", ["VariationalGaussian", "WhitenedVariationalGaussian"])
@pytest.mark.parametrize("kernel", ["Matern12", "Matern32", "RationalQuadratic"])
def test_float32(name, kernel):
    """As GPJax is without jax_enable_x64."""
    with jax.enable_x64(False):
        q = family(name, kernel)
        assert q.variational_mean.unwrap().dtype == jnp.float32
        module = rgp.from_gpjax(q)
        assert max(apart(module, q, X.astype(np.float32))) < 1e-3


@pytest.mark.filterwarnings("ignore:[Xy] is not of type float64")  # as it says itself
@pytest.mark.parametrize("kernel", ["Matern12", "Matern32"])
def test_float32_with_rows(kernel):
    with jax.enable_x64(False):
        rows, points = dataset(), np.asarray(dataset().X)
        assert rows.X.dtype == jnp.float32
        for model, publish in ((collapsed(kernel), "auto"), (joint(kernel), points)):
            module = rgp.from_gpjax(model, rows, publish=publish)
            assert max(apart(module, model, X.astype(np.float32), rows)) < 1e-3


@pytest.mark.parametrize("name", [f for f in FAMILIES if not f.startswith("Dual")])
def test_wider_than_the_prior_keeps_the_mean_and_warns(name):
    q = family(name, wide=True)
    with pytest.warns(rgp.RecycleGPWarning, match=r"module lab: \d+ of 11 directions .* wider than the prior") as seen:
        module = rgp.from_gpjax(q, name="lab")
    assert seen[0].filename == __file__
    assert not module.convergence.converged
    np.testing.assert_allclose(module.predict(X)[0], latent(q, X)[0], rtol=0, atol=1e-6)
    assert (module.predict(X)[1] <= latent(q, X)[1] + 1e-6).all()


def test_rows_behind_a_family():
    q = family("WhitenedVariationalGaussian")
    assert rgp.from_gpjax(q, dataset()).rows == N
    assert rgp.from_gpjax(q, rows=500).rows == 500
    with pytest.raises(rgp.RecycleGPError, match="rows=0"):
        rgp.from_gpjax(q, rows=0)


def test_families_published_elsewhere():
    """The exact marginal: at the new points what the family predicts, everywhere if they are its own."""
    q = family("WhitenedVariationalGaussian")
    few = rgp.from_gpjax(q, publish=5, seed=2)
    assert len(few.inducing) == 5
    assert max(apart(few, q, few.inducing)) < 1e-6
    same = rgp.from_gpjax(q, publish=rgp.from_gpjax(q).inducing)
    assert max(apart(same, q, X)) < 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
def test_collapsed(mean, kernel):
    """And its evidence is the bound it was trained by."""
    q = collapsed(kernel, mean)
    module = rgp.from_gpjax(q, dataset())
    assert max(apart(module, q, X, dataset())) < 1e-8
    bound = q.condition(dataset()).elbo_bound if NEW else gpjax.objectives.collapsed_elbo(q, dataset())
    assert module.evidence == pytest.approx(float(bound), abs=1e-6)
    assert (module.rows, module.method, module.noise) == (N, "collapsed", pytest.approx(0.48**2))


# --- conjugate models -------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
def test_conjugate(mean, kernel):
    """At the published points, everywhere if those are all rows; and the evidence is its marginal likelihood."""
    model, rows = joint(kernel, mean), dataset()
    small, full = rgp.from_gpjax(model, rows, publish=12), rgp.from_gpjax(model, rows, publish=data()[0])
    assert max(apart(small, model, small.inducing, rows)) < 1e-8
    assert max(apart(full, model, X, rows)) < 1e-8
    mll = model.condition(rows).log_marginal_likelihood if NEW else gpjax.objectives.conjugate_mll(model, rows)
    for module in (small, full):
        assert module.evidence == pytest.approx(float(mll), abs=1e-6)
        assert (module.rows, module.method, module.noise) == (N, "exact", pytest.approx(0.48**2))


def test_no_row_is_shared_unless_it_is_passed():
    module = rgp.from_gpjax(joint(), dataset(), seed=3)
    assert 20 < len(module.inducing) <= 64
    assert not {tuple(r) for r in data()[0].tolist()} & {tuple(r) for r in module.inducing.tolist()}
    np.testing.assert_array_equal(module.inducing, rgp.from_gpjax(joint(), dataset(), seed=3).inducing)


@pytest.mark.skipif(not NEW, reason="posteriors are objects since GPJax 1.0")
def test_posteriors_stand_for_what_they_were_made_of():
    exact = joint().condition(dataset())
    np.testing.assert_array_equal(rgp.from_gpjax(exact).predict(X)[0], rgp.from_gpjax(joint(), dataset()).predict(X)[0])
    q = family("DualVariationalGaussian")
    np.testing.assert_array_equal(rgp.from_gpjax(q.condition(None)).predict(X)[0], rgp.from_gpjax(q).predict(X)[0])
    with pytest.raises(rgp.RecycleGPError, match="data is not what the posterior was conditioned on"):
        rgp.from_gpjax(exact, dataset(data(7)))
    with pytest.raises(TypeError, match="not the CollapsedPosterior"):
        rgp.from_gpjax(collapsed().condition(dataset()))


# --- merging ----------------------------------------------------------------------------------


def test_two_conjugate_models_merge_into_the_one_that_has_seen_all():
    rows, y = data(60)
    parts = [(rows[:25], y[:25]), (rows[25:], y[25:])]
    model = joint("Matern32")
    modules = [rgp.from_gpjax(model, dataset(p), name=f"{i}", publish=p[0]) for i, p in enumerate(parts)]
    merged = rgp.merge(modules, inducing=rows, learn=False)
    assert max(apart(merged, model, X, dataset((rows, y)))) < 1e-6


def test_merges_with_ours_and_travels(tmp_path):
    """A file, then an ensemble that knows what neither knows alone."""
    rng = np.random.default_rng(2)
    rows = np.sort(rng.uniform(0, 8, (160, 1)), axis=0)
    y = np.sin(2 * rows) + 0.1 * rng.normal(size=(160, 1))
    prior = gpjax.gps.Prior(kernel=gk.RBF(lengthscale=0.8), mean_function=gpjax.mean_functions.Zero())
    likelihood = gl.Gaussian(obs_stddev=0.1) if NEW else gl.Gaussian(num_datapoints=90, obs_stddev=0.1)
    q = gv.CollapsedVariationalGaussian(
        **{"model" if NEW else "posterior": prior * likelihood}, inducing_inputs=jnp.asarray(rows[:90:6])
    )
    rgp.from_gpjax(q, dataset((rows[:90], y[:90])), name="theirs").save(tmp_path / "theirs.safetensors")
    theirs, ours = rgp.load(tmp_path / "theirs.safetensors"), rgp.fit(rows[70:], y[70:, 0], name="ours")
    merged = rgp.merge([theirs, ours])
    grid = np.linspace(0, 8, 60)[:, None]

    def error(m):
        return np.sqrt(np.mean((m.predict(grid)[0] - np.sin(2 * grid[:, 0])) ** 2))

    assert error(merged) < 0.06
    assert min(error(theirs), error(ours)) > 0.2


def test_kernels_have_the_structure_of_ours():
    """One amplitude for each product, so that parameters are pooled with those of modules fitted here."""
    theirs = gk.RBF(lengthscale=jnp.array([0.5, 0.7])) * gk.Matern32(lengthscale=jnp.array([1.0, 2.0]))
    prior = gpjax.gps.Prior(kernel=theirs, mean_function=gpjax.mean_functions.Zero())
    module = rgp.from_gpjax(prior * LIKELIHOODS["gaussian"](), dataset())
    ours = rgp.fit(*(t.squeeze() for t in data()), kernel="rbf * matern32", publish=5)
    assert module.kernel_spec.structure == ours.kernel_spec.structure


@pytest.mark.filterwarnings("ignore::recyclegp.errors.ContradictionWarning")  # two modules that differ
def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "interop-gpjax.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    names = {"q": family("WhitenedVariationalGaussian"), "model": joint(), "data": dataset(), "X": X}
    exec(block, names)
    assert names["e"].names == ["lab-7", "lab-2"]
    assert names["mean"].shape == names["variance"].shape == (len(X),)
    assert (names["variance"] > 0).all()


# --- refusals ---------------------------------------------------------------------------------


class Mine(gk.RBF):
    """A formula of the user's own."""


@dataclasses.dataclass
class Straight(gpjax.mean_functions.AbstractMeanFunction):
    def __call__(self, x):
        return x[:, :1]


def with_kernel(kernel):
    return gpjax.gps.Prior(kernel=kernel, mean_function=gpjax.mean_functions.Zero()) * LIKELIHOODS["gaussian"]()


REFUSED = {
    "the kernel Polynomial": lambda: with_kernel(gk.Polynomial()),
    "the kernel PoweredExponential": lambda: with_kernel(gk.RBF() + gk.PoweredExponential()),
    "the kernel ArcCosine": lambda: with_kernel(gk.ArcCosine()),
    "the kernel Mine": lambda: with_kernel(Mine()),
    "White with ConstantDiagonalKernelComputation": lambda: with_kernel(gk.White()),
    "RBF with DiagonalKernelComputation": lambda: with_kernel(gk.RBF(compute_engine=gk.DiagonalKernelComputation())),
    "Constant with variance=": lambda: with_kernel(gk.RBF() + gk.Constant()),  # zero, as it is by default
    "the mean function Straight": lambda: (
        gpjax.gps.Prior(kernel=gk.RBF(), mean_function=Straight()) * LIKELIHOODS["gaussian"]()
    ),
}


@pytest.mark.parametrize("named", REFUSED)
def test_what_cannot_be_represented_is_refused_by_name(named):
    with pytest.raises(rgp.RecycleGPError, match=named):
        rgp.from_gpjax(REFUSED[named](), dataset())


def test_other_models_are_refused_by_name():
    latent_model = joint(likelihood="poisson")
    for model in (latent_model, latent_model.prior, gk.RBF()):
        with pytest.raises(TypeError, match=f"a conjugate model or its posterior, not {type(model).__name__}"):
            rgp.from_gpjax(model, dataset())


def test_data_and_points_are_checked():
    with pytest.raises(rgp.RecycleGPError, match=r"keeps no rows; pass the Dataset .* as data="):
        rgp.from_gpjax(joint())
    with pytest.raises(rgp.RecycleGPError, match="keeps no rows"):
        rgp.from_gpjax(collapsed())
    with pytest.raises(TypeError, match="data must be a gpjax Dataset with X and y, not tuple"):
        rgp.from_gpjax(joint(), data())
    with pytest.raises(rgp.RecycleGPError, match="publish"):
        rgp.from_gpjax(joint(), dataset(), publish=None)
    with pytest.raises(rgp.RecycleGPError, match="publish='all'"):
        rgp.from_gpjax(joint(), dataset(), publish="all")
    Z = jnp.asarray(data()[0][[0, 1, 0]])
    with pytest.raises(rgp.RecycleGPError, match="inducing points coincide"):
        rgp.from_gpjax(gv.VariationalGaussian(**{"model" if NEW else "posterior": joint()}, inducing_inputs=Z))

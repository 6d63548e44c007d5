"""GPyTorch models of several functions: batches, multitask models and classes, in and out."""

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import (
    DirichletClassificationLikelihood,
    GaussianLikelihood,
    MultitaskGaussianLikelihood,
    SoftmaxLikelihood,
)
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    IndependentMultitaskVariationalStrategy,
    LMCVariationalStrategy,
    UnwhitenedVariationalStrategy,
    VariationalStrategy,
)

import recyclegp as rgp
from cases_gpytorch import numbers

C, D, M = 3, 2, 8
BATCH = torch.Size([C])
XT = 4 * numbers(30, D, seed=5)


def kernel(batch=BATCH):
    """Lengthscales and amplitudes of its own for each function of a batch."""
    made = ScaleKernel(RBFKernel(ard_num_dims=D, batch_shape=batch), batch_shape=batch).double()
    made.outputscale = 0.5 + numbers(*batch, seed=1)
    made.base_kernel.lengthscale = 0.7 + numbers(*batch, 1, D, seed=2)
    return made


def mean(batch=BATCH):
    made = gpytorch.means.ConstantMean(batch_shape=batch).double()
    return made.initialize(constant=numbers(*batch, seed=3) - 0.5)


class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, wrap, strategy=VariationalStrategy, shared=True, prior_batch=BATCH, tasks=C):
        q = CholeskyVariationalDistribution(M, batch_shape=BATCH)
        Z = 4 * (numbers(M, D, seed=4) if shared else numbers(C, M, D, seed=4))
        inner = strategy(self, Z, q)
        super().__init__(inner if wrap is None else wrap(inner, num_tasks=tasks))
        self.mean_module, self.covar_module = mean(prior_batch), kernel(prior_batch)
        self.double()
        with torch.no_grad():
            centre = numbers(C, M, seed=6) - 0.5
            root = 0.3 * torch.tril(numbers(C, M, M, seed=7)) / M**0.5 + 0.2 * torch.eye(M, dtype=torch.float64)
            if strategy is UnwhitenedVariationalStrategy:  # q is of u = m + Lv
                prior = self.forward(Z)
                L = torch.linalg.cholesky(prior.covariance_matrix + 1e-6 * torch.eye(M, dtype=torch.float64))
                centre, root = prior.mean + (L @ centre[..., None])[..., 0], L @ root
            q.variational_mean.copy_(centre)
            q.chol_variational_covar.copy_(root)
        inner.variational_params_initialized.fill_(1)
        self.eval()

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def moments(found):
    """(n, C) mean and variance, of a multitask answer or of a batch."""
    if isinstance(found, MultitaskMultivariateNormal):
        return found.mean, found.variance
    return found.mean.mT, found.variance.mT


def close(actual, expected, tolerance=1e-8):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def noises(rank=0, **options):
    made = MultitaskGaussianLikelihood(num_tasks=C, rank=rank, **options).double()
    if not rank:
        made.task_noises = 0.1 + numbers(C, seed=8)
    if made.has_global_noise:
        made.noise = 0.07
    return made


@pytest.mark.parametrize("wrap", [IndependentMultitaskVariationalStrategy, None], ids=["multitask", "batch"])
@pytest.mark.parametrize("strategy", [VariationalStrategy, UnwhitenedVariationalStrategy])
@pytest.mark.parametrize("shared", [True, False], ids=["shared points", "own points"])
def test_sparse_models_predict_the_same(wrap, strategy, shared):
    """Every function everywhere; the noises of y, too."""
    model, likelihood = Sparse(wrap, strategy, shared), noises()
    m = rgp.from_gpytorch(model, likelihood, name="a", rows=70, functions=["u", "v", "w"])
    assert type(m) is rgp.Module
    assert (m.outputs, m.rows, m.name) == (("u", "v", "w"), 70, "a")
    assert [target.name for target in m.targets] == ["u", "v", "w"]
    with torch.no_grad():
        expected = moments(model(XT))
    added = 1e-6 if strategy is VariationalStrategy else 0.0  # GPyTorch's jitter of test points
    for mine, theirs in zip(m.predict(XT), (expected[0], expected[1] - added), strict=True):
        close(mine, theirs, 1e-7)
    noise = likelihood.task_noises.detach() + 0.07
    close(m.predict_y(XT)[1] - m.predict(XT)[1], noise.expand(30, C), 1e-9)


def test_a_prior_that_all_functions_share():
    model = Sparse(IndependentMultitaskVariationalStrategy, prior_batch=torch.Size([]))
    m = rgp.from_gpytorch(model, noises())
    with torch.no_grad():
        close(m.predict(XT)[0], model(XT).mean, 1e-7)
    assert m.outputs == ("y1", "y2", "y3")


def test_classes_have_the_probabilities_of_the_softmax():
    """Against a million draws of GPyTorch's own softmax, in the order of classes."""
    likelihood = SoftmaxLikelihood(num_classes=C, mixing_weights=False)
    model = Sparse(IndependentMultitaskVariationalStrategy)
    m = rgp.from_gpytorch(model, likelihood, functions=["ash", "birch", "cedar"])
    assert m.classes == ("ash", "birch", "cedar")
    with torch.no_grad():
        f = model(XT)
        draws = f.mean + f.variance.sqrt() * torch.randn(
            200_000, 30, C, generator=torch.Generator().manual_seed(1), dtype=torch.float64
        )
    close(m.predict_proba(XT), draws.softmax(-1).mean(0), 3e-3)
    assert rgp.from_gpytorch(model, likelihood).classes == ("0", "1", "2")
    kinds = np.array(["ash", "birch"])[(XT[:, 0] > 2).long()]
    other = rgp.fit(XT, kinds, likelihood="categorical-softmax", learn=False)
    both = rgp.merge([m, other], owners=None, trust=None, learn=False)
    close(both.predict_proba(XT).sum(-1), 1)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, multitask):
        super().__init__(X, y, likelihood)
        self.mean_module, self.covar_module, self.multitask = mean(), kernel(), multitask
        self.double().eval()
        likelihood.eval()

    def forward(self, x):
        found = MultivariateNormal(self.mean_module(x), self.covar_module(x))
        return MultitaskMultivariateNormal.from_batch_mvn(found) if self.multitask else found


def rows():
    X = 4 * numbers(25, D, seed=9)
    return X, torch.stack([torch.sin(X[:, 0] + c) + 0.1 * X[:, 1] for c in range(C)])


def exact(kind):
    X, y = rows()
    if kind == "multitask":
        return Exact(X, y.mT.contiguous(), noises(), True)
    likelihood = GaussianLikelihood(batch_shape=BATCH).double()
    likelihood.noise = 0.05 + numbers(C, 1, seed=10)
    return Exact(X if kind == "batch, one X" else X.expand(C, 25, D).contiguous(), y, likelihood, False)


@pytest.mark.filterwarnings("ignore::gpytorch.utils.warnings.GPInputWarning")
@pytest.mark.parametrize("kind", ["multitask", "batch", "batch, one X"])
def test_exact_models_predict_the_same_at_the_points(kind):
    model = exact(kind)
    m = rgp.from_gpytorch(model, publish=XT)
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        expected = moments(model(XT if kind != "batch" else XT.expand(C, 30, D)))
    for mine, theirs in zip(m.predict(XT), expected, strict=True):
        close(mine, theirs, 1e-6)
    assert m.rows == 25
    few = rgp.from_gpytorch(model)
    assert all(len(few.part(name).inducing) <= 50 for name in few.functions)
    assert min(p.kept for p in few.latents) > 0.95


@pytest.mark.filterwarnings("ignore::gpytorch.utils.warnings.GPInputWarning")
def test_dirichlet_classification_is_ours():
    """The tutorial's model: C regressions whose noises are known."""
    X, _ = rows()
    labels = (X[:, 0] > 1.3).long() + (X[:, 0] > 2.6).long()
    likelihood = DirichletClassificationLikelihood(labels, learn_additional_noise=False, dtype=torch.float64)
    model = Exact(X, likelihood.transformed_targets.double(), likelihood, False)
    m = rgp.from_gpytorch(model, publish=XT)
    assert m.classes == ("0", "1", "2")
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        close(m.predict(XT)[0], model(XT).mean.mT, 1e-6)
    assert (m.predict_class(XT).astype(int) == ((XT[:, 0] > 1.3).long() + (XT[:, 0] > 2.6).long()).numpy()).mean() > 0.7


# --- refused ----------------------------------------------------------------------------------


class Multitask(gpytorch.models.ExactGP):
    def __init__(self):
        X, y = rows()
        super().__init__(X, y.mT.contiguous(), noises())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.MultitaskKernel(MaternKernel(), num_tasks=C, rank=1)

    def forward(self, x):
        return MultitaskMultivariateNormal(self.mean_module(x), self.covar_module(x))


class Mixed(Sparse):
    def __init__(self):
        super().__init__(lambda inner, num_tasks: LMCVariationalStrategy(inner, num_tasks=4, num_latents=C))


def with_kernel(covar_module):
    model = Sparse(IndependentMultitaskVariationalStrategy)
    model.covar_module = covar_module
    return model


INDEPENDENT = IndependentMultitaskVariationalStrategy
REFUSED = {
    "multitask kernel": (Multitask, lambda: None, "kernel MultitaskKernel correlates outputs.*batch_shape=\\[C\\]"),
    "lmc": (Mixed, noises, "LMCVariationalStrategy mixes.*use IndependentMultitaskVariationalStrategy"),
    "mixing weights": (
        lambda: Sparse(INDEPENDENT),
        lambda: SoftmaxLikelihood(num_features=C, num_classes=4),
        "SoftmaxLikelihood mixes functions into classes.*mixing_weights=False",
    ),
    "correlated noise": (lambda: Sparse(INDEPENDENT), lambda: noises(rank=1), "noise that is correlated.*use rank=0"),
    "beta": (lambda: Sparse(INDEPENDENT), gpytorch.likelihoods.BetaLikelihood, "likelihood BetaLikelihood of several"),
    "tasks": (lambda: Sparse(INDEPENDENT, tasks=4), noises, r"q\(u\) has batch shape \(3,\) for 4 tasks"),
    "kernel of another batch": (
        lambda: with_kernel(kernel(torch.Size([2]))),
        noises,
        r"kernel ScaleKernel has batch_shape \(2,\) for 3 functions",
    ),
    "noises of another batch": (
        lambda: Sparse(INDEPENDENT),
        lambda: GaussianLikelihood(batch_shape=torch.Size([2])),
        r"noise has shape \(2, 1\) for 3 functions",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(case):
    model, likelihood, message = REFUSED[case]
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.from_gpytorch(model(), likelihood())


def test_names_of_functions():
    with pytest.raises(rgp.RecycleGPError, match="functions has 2 names for 3 functions"):
        rgp.from_gpytorch(Sparse(INDEPENDENT), noises(), functions=["a", "b"])
    with pytest.raises(rgp.RecycleGPError, match="an output is called ''"):
        rgp.from_gpytorch(Sparse(INDEPENDENT), noises(), functions=["a", "b", ""])


# --- out --------------------------------------------------------------------------------------


def test_merged_outputs_as_gpytorch_models():
    X, y = rows()
    parts = [rgp.fit(X[i::2], y.mT[i::2], name=n, publish=8) for i, n in enumerate("ab")]
    e = rgp.merge(parts, owners=None, trust=None, inducing=10, outputs="independent")
    expected, of_y = e.predict(XT), e.predict_y(XT)
    for c, (model, likelihood) in enumerate(e.to_gpytorch()):
        with torch.no_grad():
            f = model(XT)
            close(f.mean, expected[0][:, c], 1e-7)
            close(f.variance, expected[1][:, c], 1e-6)
            close(likelihood(f).variance, of_y[1][:, c], 1e-6)


def test_merged_classes_as_one_gpytorch_model():
    X, _ = rows()
    labels = np.array(["ash", "birch", "cedar"])[((X[:, 0] > 1.3).long() + (X[:, 0] > 2.6).long()).numpy()]
    m = rgp.fit(X, labels, likelihood="categorical-softmax")
    e = rgp.merge([m, rgp.fit(X[::2], labels[::2], likelihood="categorical-softmax")], inducing=12, trust=None)
    model, softmax = e.to_gpytorch()
    with torch.no_grad():
        f = model(XT)
        close(f.mean, e.predict(XT)[0], 1e-7)
        close(f.variance, e.predict(XT)[1], 1e-6)
        with gpytorch.settings.num_likelihood_samples(20_000), torch.random.fork_rng():
            torch.manual_seed(0)
            close(softmax(f).probs.mean(0), e.predict_proba(XT), 0.02)
    again = rgp.from_gpytorch(model.models[0], gpytorch.likelihoods.GaussianLikelihood().double())
    close(again.predict(XT)[0], e.part("ash").predict(XT)[0], 1e-6)


def test_varying_noise_has_no_gpytorch_model():
    X, y = rows()
    e = rgp.merge([rgp.fit(X, y[0], likelihood="heteroscedastic", inducing=8, learn=False)], learn=False)
    with pytest.raises(rgp.RecycleGPError, match="GPyTorch has no likelihood of varying noise"):
        e.to_gpytorch()

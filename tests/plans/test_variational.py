"""Other likelihoods: rounds come to the central variational optimum, whoever holds the rows."""

import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_plans import KERNEL
from recyclegp.models.plan_facts import Asks

T = np.random.default_rng(5).uniform(-2, 2, (6, 2))
N = 160


def data(likelihood):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (N, 2))
    f = 1.5 * np.sin(2 * X[:, 0]) + X[:, 1]
    y = {
        "bernoulli": (rng.uniform(size=N) < 1 / (1 + np.exp(-2 * f))).astype(float),
        "poisson": rng.poisson(np.exp(f)).astype(float),
        "student-t": f + 0.2 * rng.standard_t(3, N),
        "categorical-softmax": np.array(["a", "b", "c"])[np.digitize(f + 0.3 * rng.standard_normal(N), [-0.7, 0.7])],
    }[likelihood]
    return X, y


def agreed(likelihood, **options):
    more = {"student-t": {"noise": 0.04}, "categorical-softmax": {"classes": ["a", "b", "c"]}}.get(likelihood, {})
    Z = rgp.Plan.spread([-2, -2], [2, 2], 12)
    return rgp.Plan(points=Z, **{"kernel": KERNEL, "likelihood": likelihood, "learn": False} | more | options)


def answers(plan, X, y, owners=4):
    return [plan.contribute(X[k::owners], y[k::owners], name=f"w{k}", privacy="things") for k in range(owners)]


def rounds(plan, X, y, most=60, owners=4):
    while not plan.done and plan.round < most:
        e, plan = plan.combine(answers(plan, X, y, owners))
    return e, plan


@pytest.mark.parametrize(
    ("likelihood", "bound", "mean"),
    [
        ("bernoulli", 1e-5, 1e-3),
        pytest.param("poisson", 1e-5, 1e-3, marks=pytest.mark.slow),
        pytest.param("categorical-softmax", 1e-4, 1e-2, marks=pytest.mark.slow),
    ],
)
def test_rounds_come_to_the_central_variational_optimum(likelihood, bound, mean):
    X, y = data(likelihood)
    e, plan = rounds(agreed(likelihood), X, y)
    kernel = plan.kernel[0] if isinstance(plan.kernel, tuple) else plan.kernel
    how = {"inducing": plan.points, "kernel": kernel, "learn": False, "publish": None, "method": "dual"}
    central = rgp.fit(X, y, likelihood=likelihood, privacy="things", **how)
    assert plan.history[-1]["bound"] == pytest.approx(central.evidence, abs=bound)
    np.testing.assert_allclose(e.predict(T), central.predict(T), atol=mean)


def dense(plan, X):
    """Features h(x) of rows as columns, and what they leave of k(x, x): by NumPy, but for the kernel."""
    kernel = plan.kernel

    def k(A, B):
        return kernel(torch.tensor(A), torch.tensor(B)).to_dense().detach().numpy()

    L = np.linalg.cholesky(k(plan.points, plan.points) + plan.jitter * np.eye(len(plan.points)))
    H = np.linalg.solve(L, k(plan.points, X))
    return H, k(X, X).diagonal() - (H**2).sum(0)


def test_outliers_do_not_keep_rounds_from_the_optimum():
    """Student-t is not log-concave: some rows have a negative precision. L-BFGS over all of q finds nothing better."""
    from scipy.optimize import minimize
    from scipy.special import gammaln

    X, y = data("student-t")
    y[::23] += 4.0  # among them outliers for sure
    e, plan = rounds(agreed("student-t"), X, y)
    assert plan.done
    H, spare = (torch.tensor(t) for t in dense(plan, X))
    M, (x, w) = len(H), np.polynomial.hermite_e.hermegauss(60)
    nodes, weights = torch.tensor(x), torch.tensor(w / w.sum())
    nu, scale2 = (float(t) for t in (e.likelihoods[0].df, 0.04))
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi * scale2)
    rows, columns = torch.tril_indices(M, M)

    def bound(q):
        v, A = q[:M], torch.zeros(M, M, dtype=q.dtype).index_put((rows, columns), q[M:])  # S = AAᵀ
        s = (spare + (A.mT @ H).square().sum(0)).sqrt()
        r = torch.tensor(y)[:, None] - (H.mT @ v)[:, None] - s[:, None] * nodes
        expected = (constant - (nu + 1) / 2 * torch.log1p(r**2 / (nu * scale2))) @ weights
        return expected.sum() - 0.5 * (A.square().sum() + v @ v - M - 2 * A.diagonal().abs().log().sum())

    def cost(q):
        q = torch.tensor(q, requires_grad=True)
        value = -bound(q)
        (slope,) = torch.autograd.grad(value, q)
        return float(value.detach()), slope.numpy()

    form = e.groups[0].form.solution
    A = np.linalg.inv(form.C.numpy()).T
    here = np.concatenate([form.v.numpy(), np.linalg.cholesky(A @ A.T)[rows, columns]])
    assert plan.history[-1]["bound"] == pytest.approx(-cost(here)[0], abs=1e-3)  # but for the quadrature
    best = minimize(cost, here, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000})
    assert -best.fun - -cost(here)[0] < 1e-4
    np.testing.assert_allclose(here[:M], best.x[:M], atol=5e-3)


def test_the_optimum_is_one_by_dense_algebra():
    """ΣE_q[log p(y|f)] − KL[q‖p] in NumPy, by Gauss-Hermite: lower wherever q is moved to."""
    X, y = data("bernoulli")
    e, plan = rounds(agreed("bernoulli"), X, y)
    kernel = plan.kernel

    def k(A, B):
        return kernel(torch.tensor(A), torch.tensor(B)).to_dense().detach().numpy()

    Z = plan.points
    L = np.linalg.cholesky(k(Z, Z) + plan.jitter * np.eye(len(Z)))
    H = np.linalg.solve(L, k(Z, X))
    x, w = np.polynomial.hermite_e.hermegauss(40)

    def bound(v, S):
        m = H.T @ v
        s = np.sqrt(k(X, X).diagonal() - (H**2).sum(0) + np.einsum("ij,ij->j", H, S @ H))
        f = m[:, None] + s[:, None] * x
        expected = -(np.logaddexp(0, -np.where(y[:, None] > 0, 1, -1) * f) @ w) / w.sum()
        kl = 0.5 * (np.trace(S) + v @ v - len(v) - np.linalg.slogdet(S)[1])
        return expected.sum() - kl

    form = e.groups[0].form.solution
    v, C = form.v.numpy(), form.C.numpy()
    S = np.linalg.inv(C @ C.T)
    best = bound(v, S)
    assert plan.history[-1]["bound"] == pytest.approx(best, abs=1e-5)
    assert e.bound == pytest.approx(best, abs=1e-5)
    rng = np.random.default_rng(1)
    for _ in range(20):
        step, turn = 1e-2 * rng.standard_normal(len(v)), 1e-2 * rng.standard_normal((len(v), len(v)))
        assert bound(v + step, S) < best
        A = np.linalg.inv(C).T @ (np.eye(len(v)) + turn)
        assert bound(v, A @ A.T) < best


def test_rounds_begin_at_what_a_merge_knows(tmp_path):
    X, y = data("bernoulli")
    ms = [rgp.fit(X[k::2], y[k::2], likelihood="bernoulli", name=f"w{k}", privacy="things") for k in range(2)]
    plan = rgp.merge(ms).plan(12, learn=False)
    plan.save(tmp_path / "plan.safetensors")
    assert rgp.load(tmp_path / "plan.safetensors").digest == plan.digest
    e, following = plan.combine(answers(plan, X, y, 2))
    following.save(tmp_path / "plan.safetensors")
    assert rgp.load(tmp_path / "plan.safetensors").digest == following.digest
    last, ended = rounds(following, X, y, owners=2)
    first = following.history[0]["bound"]
    assert ended.history[-1]["bound"] >= first
    assert np.abs(e.predict(T)[0] - last.predict(T)[0]).max() < 0.2 * np.abs(last.predict(T)[0]).max()
    p = last.predict_proba(T)
    np.testing.assert_allclose(p.sum(1), 1)


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", "student-t", pytest.param("categorical-softmax", marks=pytest.mark.slow)]
)
def test_slopes_add_up_to_the_derivative_of_the_best_bound(likelihood):
    """By central differences of bounds at their maximum over q, each found by rounds."""
    X, y = data(likelihood)

    def best(kernel):
        return rounds(agreed(likelihood, kernel=kernel), X, y, owners=2)[1]

    plan = best(KERNEL)
    facts = plan._facts._replace(asks=Asks.SLOPES)
    asked = rgp.Plan._of(facts)
    found = sum(a.facts.slopes for a in answers(asked, X, y, 2)).numpy()
    kernel, step = plan._facts.priors[0].kernel, 1e-3
    functions = len(plan._facts.priors)
    whole = found.reshape(functions, -1).sum(0)  # all functions have one kernel
    for j in range(len(kernel.theta)):
        moved = torch.zeros_like(kernel.theta)
        moved[j] = step
        high, low = (best(kernel.with_theta(kernel.theta + d)).history[-1]["bound"] for d in (moved, -moved))
        assert whole[j] == pytest.approx((high - low) / (2 * step), abs=2e-3 * max(1, abs(whole[j])))


def test_rounds_learn_the_kernel_of_the_central_variational_optimum(tmp_path):
    X, y = data("bernoulli")
    _, plan = rounds(agreed("bernoulli", learn=True), X, y, most=2, owners=2)
    assert plan.asks == "slopes"
    plan.save(tmp_path / "plan.safetensors")
    loaded = rgp.load(tmp_path / "plan.safetensors")
    assert loaded.digest == plan.digest
    given = [answers(p, X, y, 2) for p in (plan, loaded)]
    assert max(a.nbytes for a in given[0]) < 100  # a number for each parameter
    (_, plan), (_, again) = (p.combine(own) for p, own in zip((plan, loaded), given, strict=True))
    assert plan.digest == again.digest  # nothing but files is needed to go on
    _, plan = rounds(plan, X, y, owners=2)
    assert plan.done
    kernel, bound = plan.kernel_spec, plan.history[-1]["bound"]
    _, here = rounds(agreed("bernoulli", kernel=kernel), X, y, owners=1)
    assert here.history[-1]["bound"] == pytest.approx(bound, abs=0.02)
    rng = np.random.default_rng(2)
    for _ in range(4):
        theta = kernel.theta + 0.3 * torch.tensor(rng.standard_normal(len(kernel.theta)))
        _, there = rounds(agreed("bernoulli", kernel=kernel.with_theta(theta)), X, y, owners=1)
        assert there.history[-1]["bound"] < here.history[-1]["bound"]
    first = rounds(agreed("bernoulli"), X, y, owners=1)[1].history[-1]["bound"]
    assert bound > first + 1


def test_an_owner_who_is_missing_or_late():
    X, y = data("bernoulli")
    plan = agreed("bernoulli")
    _, second = plan.combine(answers(plan, X, y)[:3])
    given = answers(second, X, y)
    with pytest.warns(rgp.RecycleGPWarning, match="no answer to this plan from w0"):
        e, third = second.combine(given[1:])
    assert e.names == ["w0", "w1", "w2", "w3"]
    assert third.history[1]["missing"] == ("w0",)


def test_classes_by_regression_are_learned_like_outputs():
    X, y = data("categorical-softmax")
    ms = [rgp.fit(X[k::2], y[k::2], likelihood="categorical", name=f"w{k}", privacy="things") for k in range(2)]
    plan = rgp.merge(ms).plan(12)
    for _ in range(3):
        e, plan = plan.combine(answers(plan, X, y, 2))
    assert (e.predict_class(X) == y).mean() > 0.8
    assert plan.history[-1]["bound"] >= plan.history[0]["bound"]


def test_what_a_plan_of_classes_needs():
    Z = [[0.0], [1.0]]
    with pytest.raises(rgp.RecycleGPError, match="classes= is missing"):
        rgp.Plan(points=Z, kernel="rbf", likelihood="categorical")
    with pytest.raises(rgp.RecycleGPError, match="likelihood 'bernoulli' has none"):
        rgp.Plan(points=Z, kernel="rbf", likelihood="bernoulli", noise=1.0)

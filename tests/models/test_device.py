"""A GPU, where there is one: the same answers as on the CPU, tensors on the device they came from."""

import pickle

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp import devices
from recyclegp.kernels import parse
from recyclegp.kernels.gpytorch_objects import to_gpytorch

needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
EXACT = 1e-8  # relative, at a fixed kernel
LEARNED = 1e-4  # of the evidence, in nats per nat or so


def rows(likelihood, n=300, D=2, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, D))
    f = np.sin(2 * X[:, 0]) * X[:, -1]
    return X, {
        "gaussian": f + 0.1 * rng.normal(size=n),
        "bernoulli": (rng.uniform(size=n) < 1 / (1 + np.exp(-3 * f))).astype(float),
        "poisson": rng.poisson(np.exp(f)).astype(float),
        "student-t": f + 0.1 * rng.standard_t(4, size=n),
    }[likelihood]


def kernel(name="rbf", D=2):
    start = parse(name, D)
    return to_gpytorch(start.with_theta(torch.linspace(-0.4, 0.5, len(start.theta), dtype=torch.float64)), D)


def owners(likelihood="gaussian", K=6, n=60):
    return [rows(likelihood, n + 3 * k, seed=k) for k in range(K)]


def close(a, b, tolerance):
    a, b = (np.asarray(t.detach().cpu() if isinstance(t, torch.Tensor) else t) for t in (a, b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


METHODS = [
    ("gaussian", {}),
    ("gaussian", {"method": "collapsed", "inducing": 40}),
    ("gaussian", {"method": "exact", "publish": 0.9}),
    ("bernoulli", {}),
    ("poisson", {}),
    ("student-t", {}),
]


@needs_a_gpu
@pytest.mark.parametrize(("likelihood", "options"), METHODS)
def test_fit_at_a_fixed_kernel(likelihood, options):
    X, y = rows(likelihood)
    options = {"likelihood": likelihood, "kernel": kernel(), "learn": False, "name": "m", **options}
    here, there = rgp.fit(X, y, **options), rgp.fit(X, y, device="cuda", **options)
    # their search for the posterior, which has no closed form, ends within 1e-9 of the bound
    tolerance = 1e-6 if likelihood in ("poisson", "student-t") else EXACT
    close(there.evidence, here.evidence, tolerance)
    for a, b in zip(there.predict(X), here.predict(X), strict=True):
        close(a, b, tolerance)


@needs_a_gpu
@pytest.mark.parametrize(("likelihood", "options"), METHODS)
def test_fit_that_learns(likelihood, options):
    X, y = rows(likelihood)
    options = {"likelihood": likelihood, "publish": 24, "name": "m", **options}
    here, there = rgp.fit(X, y, **options), rgp.fit(X, y, device="cuda", **options)
    close(there.evidence, here.evidence, LEARNED)
    at = torch.tensor(X[:50], device="cuda", requires_grad=True)
    mean, _ = there.predict(at)
    assert mean.device.type == "cuda"
    (gradient,) = torch.autograd.grad(mean.sum(), at)
    assert bool(torch.isfinite(gradient).all())
    close(mean, here.predict(X[:50])[0], 2e-2)


@needs_a_gpu
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("learn", [True, False])
def test_many_at_once(likelihood, learn):
    data = owners(likelihood)
    options = {"likelihood": likelihood, "inducing": 8, "learn": learn, "kernel": "rbf" if learn else kernel()}
    here, there = (rgp.fit_many(data, device=d, progress=False, **options) for d in ("cpu", "cuda"))
    for a, b in zip(there, here, strict=True):
        close(a.evidence, b.evidence, LEARNED if learn else EXACT)


@needs_a_gpu
@pytest.mark.parametrize("inducing", ["all", 20, "auto"])
@pytest.mark.parametrize("owned", [None, "offset", "smooth"])
def test_merge_at_a_fixed_kernel(inducing, owned):
    modules = rgp.fit_many(owners(), kernel=kernel(), learn=False, publish=12, noise=0.02, progress=False)
    options = {"inducing": inducing, "learn": False, "owners": owned}
    here, there = rgp.merge(modules, **options), rgp.merge(modules, device="cuda", **options)
    assert there.device.type == "cuda"
    # the effects of owners are learned also where the kernel is not
    tolerance = EXACT if owned is None else 1e-3
    close(there.evidence, here.evidence, tolerance)
    X = rows("gaussian", 40, seed=9)[0]
    for a, b in zip(there.predict(X), here.predict(X), strict=True):
        close(a, b, tolerance)


@needs_a_gpu
@pytest.mark.parametrize("inducing", ["all", 20, "auto"])
@pytest.mark.parametrize("options", [{}, {"trust": None, "owners": None}, {"kernel": "auto"}, {"keep": "names"}])
def test_merge_that_learns(inducing, options):
    modules = rgp.fit_many(owners(K=9), publish=12, progress=False)
    here, there = (rgp.merge(modules, inducing=inducing, device=d, **options) for d in ("cpu", "cuda"))
    close(there.evidence, here.evidence, LEARNED)
    X = rows("gaussian", 40, seed=9)[0]
    close(there.predict(X)[0], here.predict(X)[0], 1e-2)


@needs_a_gpu
@pytest.mark.parametrize("inducing", ["all", 25])
def test_operations(tmp_path, inducing):
    """Each on the GPU equals the same on the CPU, and files and pickles do not know where they came from."""
    modules = rgp.fit_many(owners(), kernel=kernel(), learn=False, publish=12, noise=0.02, progress=False)
    extra = rgp.fit(*rows("gaussian", 70, seed=21), kernel=kernel(), learn=False, publish=12, noise=0.02, name="extra")
    X, y = rows("gaussian", 30, seed=22)

    def worked(device):
        e = rgp.merge(modules, inducing=inducing, learn=False, device=device)
        e = (
            e.add(extra)
            .remove(modules[2].name, relearn=False)
            .reweight({modules[1].name: 0.5})
            .update(X, y, noise=0.02)
        )
        e = e.transform(output_scale=2.0, output_shift=1.0)
        e.save(tmp_path / f"{device}.safetensors")
        return e

    here, there = worked("cpu"), worked("cuda")
    others = [there.to("cpu"), pickle.loads(pickle.dumps(there)), rgp.load(tmp_path / "cuda.safetensors"), there]
    at = rows("gaussian", 20, seed=23)[0]
    for e in others:
        close(e.bound, here.bound, EXACT)
        for a, b in zip(e.predict(at), here.predict(at), strict=True):
            close(a, b, EXACT)
        close(e.sample(at, 3), here.sample(at, 3), 1e-6)
    assert [r["name"] for r in there.report()] == [r["name"] for r in here.report()]
    close(there.to_module("whole", 10).predict(at)[0], here.to_module("whole", 10).predict(at)[0], 1e-6)
    assert there.forget_sites().names == here.names


@needs_a_gpu
def test_likelihoods_on_the_gpu():
    for likelihood in ("bernoulli", "poisson", "student-t"):
        X, y = rows(likelihood)
        m = rgp.fit(X, y, likelihood=likelihood, device="cuda", name="m")
        e = rgp.merge([m], device="cuda")
        assert e.update(X[:9], y[:9], name="more").names == ["m", "more"]
        close(e.log_density(X, y), e.to("cpu").log_density(X, y), 1e-6)
        at = torch.tensor(X[:5], device="cuda")
        assert e.log_density(at, torch.tensor(y[:5], device="cuda")).device.type == "cuda"
        assert isinstance(e.predict(X)[0], np.ndarray)
        assert e.predict(torch.tensor(X))[0].device.type == "cpu"


@needs_a_gpu
def test_chunks_follow_free_memory():
    device = torch.device("cuda")
    before = devices.memory_factor(device)
    assert before > 1
    held = torch.empty(int(torch.cuda.mem_get_info(device)[0] * 0.8), dtype=torch.uint8, device=device)
    assert devices.memory_factor(device) < before
    del held


# --- without one ------------------------------------------------------------------------------


def test_out_of_memory_is_tried_again_with_half():
    seen = []

    def call():
        seen.append(devices._share.get())
        if len(seen) < 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return "done"

    assert devices.retry_on_oom(call) == "done"
    assert seen == [devices.SHARE, devices.SHARE / 2, devices.SHARE / 4]
    assert devices._share.get() == devices.SHARE


def test_memory_that_never_suffices_is_an_error():
    def call():
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        devices.retry_on_oom(call)
    assert devices._share.get() == devices.SHARE


def test_fit_many_survives_a_full_gpu(monkeypatch):
    from recyclegp.local import batch_fit

    real, calls = batch_fit.solve, []

    def solve(requests, *more):
        calls.append(devices._share.get())
        if len(calls) == 1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(requests, *more)

    monkeypatch.setattr(batch_fit, "solve", solve)
    assert len(rgp.fit_many(owners(K=2, n=12), publish=3, progress=False)) == 2
    assert calls[:2] == [devices.SHARE, devices.SHARE / 2]


def test_to_the_cpu_is_always_possible():
    X, y = rows("gaussian", 30)
    m = rgp.fit(X, y, publish=5, name="m")
    assert m.to("cpu").device == rgp.merge([m]).to("cpu").device == torch.device("cpu")
    close(m.to("cpu").predict(X)[0], m.predict(X)[0], 1e-12)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_an_absent_device_is_named():
    X, y = rows("gaussian", 30)
    m = rgp.fit(X, y, publish=5, name="m")
    for call in (
        lambda: rgp.fit(X, y, device="cuda"),
        lambda: rgp.merge([m], device="cuda"),
        lambda: m.to("cuda"),
        lambda: rgp.merge([m]).to("no such thing"),
    ):
        with pytest.raises(rgp.RecycleGPError, match=r"device='.*' cannot be used"):
            call()


# --- several functions ------------------------------------------------------------------------


def several(device, how):
    """Joint modules fitted, merged and updated there; what is predicted where rows are."""
    X, y = rows("gaussian", 120)
    Y = np.c_[y, 10 * np.cos(X[:, 0])]
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.7, 0.7])]
    targets = {"outputs": Y, "correlated": Y, "heteroscedastic": y}.get(how, labels)
    fit = {} if how in ("outputs", "correlated") else {"likelihood": how}
    merge = {"outputs": "independent" if how == "outputs" else "correlated"} if targets is Y else {}
    modules = [rgp.fit(X[k::3], targets[k::3], name=f"owner-{k}", device=device, **fit) for k in range(3)]
    merged = rgp.merge(modules, device=device, **merge).update(X[:9], targets[:9])
    return merged.predict_y(X[:20])[0]


@needs_a_gpu
@pytest.mark.parametrize("how", ["outputs", "correlated", "categorical", "categorical-softmax", "heteroscedastic"])
def test_several_functions(how):
    # where noise varies the search ends on a flat top
    close(several("cuda", how), several("cpu", how), 1e-2 if how == "heteroscedastic" else LEARNED)

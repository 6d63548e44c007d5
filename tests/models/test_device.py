"""A GPU, where there is one: the same answers, tensors on the device they came from."""

import numpy as np
import pytest
import torch

import recyclegp as rgp

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize(
    ("likelihood", "options"),
    [
        ("gaussian", {}),
        ("gaussian", {"method": "collapsed", "inducing": 40}),
        ("bernoulli", {}),
        ("poisson", {"kernel": "matern52 + linear"}),
        ("student-t", {}),
    ],
)
def test_same_answers_as_on_the_cpu(likelihood, options):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (300, 2))
    f = np.sin(2 * X[:, 0]) * X[:, 1]
    y = {
        "gaussian": f + 0.1 * rng.normal(size=300),
        "bernoulli": rng.uniform(size=300) < 1 / (1 + np.exp(-3 * f)),
        "poisson": rng.poisson(np.exp(f)),
        "student-t": f + 0.1 * rng.standard_t(4, size=300),
    }[likelihood]
    options = {"likelihood": likelihood, "publish": 24, "name": "m", **options}
    here = rgp.fit(X, y, **options)
    there = rgp.fit(X, y, device="cuda", **options)
    at = torch.tensor(X[:50], device="cuda", requires_grad=True)
    mean, variance = there.predict(at)
    assert mean.device.type == "cuda"
    (gradient,) = torch.autograd.grad(mean.sum(), at)
    assert bool(torch.isfinite(gradient).all())
    # learned hyperparameters agree as well as two optimisers' last digits do
    np.testing.assert_allclose(mean.detach().cpu(), here.predict(X[:50])[0], atol=2e-2)
    np.testing.assert_allclose(variance.detach().cpu(), here.predict(X[:50])[1], atol=2e-2)
    e = rgp.merge([there])
    assert e.update(at.detach(), torch.as_tensor(y[:50], device="cuda"), likelihood=likelihood).names[0] == "m"
    assert e.sample(at, 3).shape == (3, 50)
    assert e.log_density(at, torch.as_tensor(y[:50], device="cuda")).device.type == "cuda"


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_many_at_once_are_those_of_the_cpu(likelihood):
    rng = np.random.default_rng(5)
    data = []
    for n in (60, 75, 70, 62):
        X = rng.uniform(-2, 2, (n, 1))
        f = np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=n)
        data.append((X, f if likelihood == "gaussian" else (f > 0).astype(float)))
    options = {"likelihood": likelihood, "inducing": 5}
    here = rgp.fit_many(data, **options)
    there = rgp.fit_many(data, device="cuda", **options)
    np.testing.assert_allclose([m.evidence for m in there], [m.evidence for m in here], atol=1e-3)

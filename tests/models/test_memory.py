"""Large numbers: rows that stream, modules by the thousand."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import recyclegp as rgp

STREAM = """
import json, resource, sys
import numpy as np, torch
torch.set_num_threads(1)
import recyclegp as rgp

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def data(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)

X, y = data(20_000)
rgp.fit(X, y, method="collapsed", inducing=64)
before = peak()
X, y = data(400_000)
arrays = 4 * (X.nbytes + y.nbytes) / 2**20
m = rgp.fit(X, y, method="collapsed", inducing=64)
mean, _ = m.predict(X[:2000])
error = float(np.sqrt(np.mean((mean - np.sin(2 * X[:2000, 0]) - X[:2000, 1]) ** 2)))
print(json.dumps({"grown": peak() - before, "arrays": arrays, "rows": m.rows, "error": error, "noise": m.noise}))
"""


@pytest.mark.slow
def test_rows_stream_through_bounded_memory():
    """Twenty times the rows cost their own arrays and little more: 64 features each would be 200 MiB."""
    done = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["rows"] == 400_000
    assert found["grown"] < found["arrays"] + 60
    assert found["error"] < 0.05
    assert abs(found["noise"] - 0.04) < 0.01


@pytest.mark.slow
def test_ten_thousand_modules_are_one_merge():
    """Against the same knowledge in one module: a weight of ten thousand."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (60, 1))
    one = rgp.fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60), publish=4, name="one")
    many = [one.rename(f"m{i}") for i in range(10_000)]
    e = rgp.merge(many, inducing=torch.as_tensor(one.inducing.copy()), learn=False)
    twin = rgp.merge([one], inducing=one.inducing, weights=[10_000.0], learn=False)
    np.testing.assert_allclose(e.predict(X)[0], twin.predict(X)[0], atol=1e-8)
    np.testing.assert_allclose(e.predict(X)[1], twin.predict(X)[1], atol=1e-8)
    np.testing.assert_allclose(e.bound, twin.bound, rtol=1e-9)
    assert len(e.names) == 10_000


PASSING = """
import json, resource, sys
from dataclasses import replace
import numpy as np, torch
torch.set_num_threads(1)
import recyclegp as rgp
from recyclegp.core import packing
from recyclegp.core.sites import Site
from recyclegp.merging import site_store

def with_site(module, site):
    return replace(module, latents=(module.latents[0]._replace(site=site),))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def stream(K, M, D):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (30, D))
    first = rgp.fit(X, np.sin(6 * X[:, 0]), publish=3, learn=False, noise=0.01, name="first")
    for i in range(K):
        Z = rng.uniform(0, 1, (M, D))
        Rt = 3 * np.eye(M) + 0.2 * rng.normal(size=(M, M))
        rho = Rt @ (2 + np.sin(6 * Z[:, 0])) + rng.normal(size=M)
        site = Site(*map(torch.as_tensor, (Z, Rt, rho, np.array(0.5))))
        yield with_site(first, site).rename(f"module number {i}")

def merged(K, M, D, learn):
    points = np.random.default_rng(1).uniform(0, 1, (24, D))
    e = rgp.merge(stream(K, M, D), inducing=points, learn=learn, keep="names")
    x = np.full((9, D), 0.5)
    x[:, 0] = np.linspace(0.2, 0.8, 9)
    return peak(), float(np.abs(e.predict(x)[0] - 2 - np.sin(6 * x[:, 0])).max()), len(e.names)

site_store.IN_MEMORY, packing.FEATURES = 2**20, 2**17
found = {"base": peak()}
for part, (few, many), size, learn in (("large", (30, 1000), (64, 8), False), ("small", (200, 4000), (3, 1), True)):
    before, _, _ = merged(few, *size, learn)
    after, error, names = merged(many, *size, learn)
    found[part] = {"grown": after - before, "error": error, "names": names}
print(json.dumps(found))
"""


@pytest.mark.slow
def test_modules_stream_through_bounded_memory():
    """1,000 modules whose sites are 37 MiB, then 4,000 small ones whose rows learn the kernel together."""
    done = subprocess.run([sys.executable, "-c", PASSING], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    large, small = found["large"], found["small"]
    assert (large["names"], small["names"]) == (1000, 4000)
    assert large["grown"] < 25
    assert small["grown"] < 40
    assert small["error"] < 0.05

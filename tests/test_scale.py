"""Large numbers: rows that stream, modules by the thousand."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
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


def test_rows_stream_through_bounded_memory():
    """Twenty times the rows cost their own arrays and little more: 64 features each would be 200 MiB."""
    done = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["rows"] == 400_000
    assert found["grown"] < found["arrays"] + 60
    assert found["error"] < 0.05
    assert abs(found["noise"] - 0.04) < 0.01


def test_ten_thousand_modules_are_one_merge():
    """Against the same knowledge in one module: a weight of ten thousand."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (60, 1))
    one = rgp.fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60), publish=4, name="one")
    many = [replace(one, name=f"m{i}") for i in range(10_000)]
    e = rgp.merge(many, inducing=torch.as_tensor(one.inducing.copy()), learn=False)
    twin = rgp.merge([one], inducing=one.inducing, weights=[10_000.0], learn=False)
    np.testing.assert_allclose(e.predict(X)[0], twin.predict(X)[0], atol=1e-8)
    np.testing.assert_allclose(e.predict(X)[1], twin.predict(X)[1], atol=1e-8)
    np.testing.assert_allclose(e.bound, twin.bound, rtol=1e-9)
    assert len(e.names) == 10_000

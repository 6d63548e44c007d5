"""The Python of the pages on GPyTorch and BoTorch runs as it stands."""

import re
from pathlib import Path

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_gpytorch import LIKELIHOODS, numbers, sparse

DOCS = Path(__file__).parents[2] / "docs"


def run(page, names, count=2):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.S)
    assert len(blocks) == count
    for block in blocks:
        exec(block, names)
    return names


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def measured(seed):
    X = 4 * numbers(30, 2, seed=seed)
    return X, torch.sin(X[:, 0]) + 0.1 * numbers(30, seed=seed + 1)


def test_moments_from_anywhere():
    names = run("interop.md", {}, count=1)
    np.testing.assert_allclose(names["w"].predict(names["Z"])[0], names["mean"], rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*contradict each other")  # a q(u) of random numbers, and measurements of a sine
def test_gpytorch():
    X, y = measured(20)
    given = {"model": sparse(), "likelihood": LIKELIHOODS["gaussian"](), "X_b": X.numpy(), "y_b": y.numpy()}
    names = run("interop-gpytorch.md", given | {"X": X.numpy(), "torch": torch})
    assert names["e"].names == ["lab-7", "lab-2"]
    np.testing.assert_allclose(names["q"].mean, names["mean"], rtol=0, atol=1e-4)
    assert isinstance(names["model"], gpytorch.models.ApproximateGP)


def test_botorch():
    pytest.importorskip("botorch")
    from botorch.acquisition.logei import qLogNoisyExpectedImprovement
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize
    from botorch.optim import optimize_acqf

    X, y = measured(30)
    rgp.fit(*(t.numpy() for t in measured(40)), name="lab-2").save("lab-2.safetensors")
    given = {
        "gp": SingleTaskGP(X, y[:, None], input_transform=Normalize(2)),
        "bounds": torch.tensor([[0.0, 0.0], [4.0, 4.0]], dtype=torch.float64),
        "qLogNoisyExpectedImprovement": qLogNoisyExpectedImprovement,
        "optimize_acqf": optimize_acqf,
        "torch": torch,
    }
    with torch.random.fork_rng():
        names = run("interop-botorch.md", given)
    assert names["candidate"].shape == (1, 2)
    assert names["posterior"].mean.shape == (5, 3, 1)
    assert float(names["fantasies"].posterior(names["candidate"]).variance) < float(
        names["model"].posterior(names["candidate"]).variance
    )

"""What the tests of bad input and bad questions share: good data, short calls, and the check of a refusal."""

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (24, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(24)
KERNEL = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
Z1 = np.array([[0.0], [1.0]])


def fit(x=X, y=Y, **options):
    return rgp.fit(x, y, **({"publish": 8} | options))


def moments(Z=Z1, mean=(0.0, 1.0), covariance=((0.1, 0.0), (0.0, 0.1)), **options):
    return rgp.Module.from_moments(Z, mean, covariance, **({"kernel": KERNEL} | options))


def check_refused(message, call, *args, kind=rgp.RecycleGPError, **kwargs):
    with pytest.raises(kind, match=message) as caught:
        call(*args, **kwargs)
    assert not isinstance(caught.value, torch.linalg.LinAlgError)


def one_line(result):
    """What a command says of a user's error: one line, nothing else, exit code 2."""
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def with_nan(x):
    x = np.array(x, dtype=float)
    x.flat[3] = np.nan
    return x

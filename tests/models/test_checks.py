"""What is made can be saved, and loaded again."""

import dataclasses

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.kernels import parse
from recyclegp.models.checks import check_kernel
from recyclegp.trees import LARGEST_LOG


def test_kernels_that_no_file_could_hold():
    kernel = parse("rbf + linear", 2)
    check_kernel("ensemble", kernel)
    places = torch.tensor([p.name == "centre" for p in kernel.parameters for _ in range(p.size)])
    check_kernel("ensemble", kernel.with_theta(torch.where(places, 1e6, kernel.theta)))  # places are no logarithms
    for value in (231.0, -231.0):
        with pytest.raises(rgp.RecycleGPError, match="ensemble would have a kernel with parameters beyond"):
            check_kernel("ensemble", kernel.with_theta(torch.where(places, kernel.theta, value)))


def test_no_module_has_a_kernel_that_no_file_could_hold():
    """An ensemble of correlated outputs may have one whose outputs, each by itself, have not."""
    rng = np.random.default_rng(606800)
    X = rng.uniform(-1, 2, (12, 1))
    module = rgp.fit(X, np.sin(X[:, 0]), learn=False, name="a")
    latent = module.latents[0]
    large = latent._replace(kernel=latent.kernel.with_theta(latent.kernel.theta + 2 * LARGEST_LOG))
    with pytest.raises(rgp.RecycleGPError, match="module 'a' would have a kernel with parameters beyond"):
        dataclasses.replace(module, latents=(large,))

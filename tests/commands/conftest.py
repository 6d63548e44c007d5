"""Files that the tests of several commands read."""

import pytest

import recyclegp as rgp
from cases_cli import NORTH, SOUTH, differing, module


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


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.safetensors"

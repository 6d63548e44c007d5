"""Files that the tests of several commands read."""

import pytest

import recyclegp as rgp
from cases_cli import INPUTS, NORTH, SOUTH, TRAIN, differing, module, ok, target, written
from cases_joint import classes, outputs, varying


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


@pytest.fixture(scope="session")
def several(tmp_path_factory):
    """Tables and modules of three owners, of two outputs, three classes and varying noise, and their ensembles."""
    made = tmp_path_factory.mktemp("several")
    few = ["--publish", 8, "-q"]
    for seed, (name, low, high) in enumerate([("north", 0, 4), ("south", 2, 6), ("east", 1, 5)]):
        written(outputs(seed, low, high), made / f"{name}.csv")
        both = ["--target", "heat", "--target", "salt"]
        ok("fit", made / f"{name}.csv", *both, "-o", made / f"{name}.safetensors", *few)
        written(classes(seed, low, high), made / f"{name}-kinds.csv")
        kinds = ["--target", "kind", "--likelihood", "categorical", "--name", name]
        ok("fit", made / f"{name}-kinds.csv", *kinds, "-o", made / f"{name}-kinds.safetensors", *few)
        written(varying(seed, low, high), made / f"{name}-noisy.csv")
        noisy = ["--target", "y", "--likelihood", "heteroscedastic", "--name", name]
        ok("fit", made / f"{name}-noisy.csv", *noisy, "-o", made / f"{name}-noisy.safetensors", *few)
    for kind in ("", "-kinds", "-noisy"):
        files = [made / f"{name}{kind}.safetensors" for name in ("north", "south", "east")]
        ok("merge", *files, "-o", made / f"all{kind}.safetensors", "--owners", "none", "-q")
    return made


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.safetensors"

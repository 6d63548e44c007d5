"""Which module imports which: nothing in a circle, and every room only those below it.

Imports inside functions and those for type checking count as well: either can hide a circle.
"""

import graphlib
import subprocess
import sys

import pytest

grimp = pytest.importorskip("grimp")  # of the extra lint
pytest.importorskip("importlinter")


@pytest.fixture(scope="module")
def imports():
    """Module → those it imports, within the package."""
    graph = grimp.build_graph("recyclegp", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def circle(imports):
    """One circle of imports, as a list that begins and ends with the same module; empty where there is none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_no_module_imports_itself_by_a_detour(imports):
    assert circle(imports) == []


def test_imports_inside_functions_and_for_type_checking_are_seen(imports):
    assert "recyclegp.export.botorch_model" in imports["recyclegp.models.merged"]  # inside a function
    assert "recyclegp.models.fit" in imports["recyclegp"]  # under TYPE_CHECKING


def test_a_circle_would_be_found(imports):
    """The root imports the models for type checking, which import the core."""
    found = circle({**imports, "recyclegp.core.linalg": {"recyclegp"}})
    assert found[0] == found[-1]
    assert {"recyclegp", "recyclegp.core.linalg"} <= set(found)


def test_every_room_uses_only_those_below_it(pytestconfig):
    """In a process of its own: import-linter configures logging, which closes the streams of others' handlers."""
    contracts = str(pytestconfig.rootpath / "pyproject.toml")
    run = f"import sys; from importlinter import cli; sys.exit(cli.lint_imports({contracts!r}, no_cache=True))"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

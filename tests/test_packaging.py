"""Wheel and sdist build without a network and hold what they should."""

import email
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import recyclegp

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    environment = {**os.environ, "PIP_NO_INDEX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    assert path.name == f"recyclegp-{recyclegp.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def source(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        yield {name.partition("/")[2] for name in archive.getnames()}


def modules():
    package = ROOT / "src" / "recyclegp"
    return {p.relative_to(package.parent).as_posix() for p in package.rglob("*.py")}


@pytest.mark.slow
def test_wheel_holds_every_module_and_its_types(wheel):
    names = set(wheel.namelist())
    pages = {
        "plot/page.html",
        "plot/drawing.js",
        *(f"serve/{n}" for n in ("page.html", "page.js", "page.css", "icon.svg")),
        *(f"hub/{n}" for n in ("page.html", "page.js", "page.css")),
    }
    assert modules() | {"recyclegp/py.typed"} | {f"recyclegp/{page}" for page in pages} <= names


@pytest.mark.slow
def test_wheel_holds_nothing_else(wheel):
    elsewhere = [n for n in wheel.namelist() if not n.startswith(("recyclegp/", "recyclegp-"))]
    assert elsewhere == []
    assert not [n for n in wheel.namelist() if "test" in n]
    assert any(n.endswith("licenses/LICENSE") for n in wheel.namelist())


@pytest.mark.slow
def test_metadata(wheel):
    (path,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(wheel.read(path))
    assert metadata["Version"] == recyclegp.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    (path,) = (n for n in wheel.namelist() if n.endswith(".dist-info/entry_points.txt"))
    assert "recyclegp = recyclegp.cli:app" in wheel.read(path).decode()


@pytest.mark.slow
def test_sdist(source):
    assert {f"src/{name}" for name in modules()} <= source
    wanted = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "constraints.txt", "Makefile", "docs/schema.md"}
    assert wanted | {"src/recyclegp/py.typed", "tests/test_packaging.py"} <= source
    assert not [n for n in source if "__pycache__" in n or n.startswith(".venv")]


def test_constraints_cover_every_direct_dependency():
    """Each requirement of the package and of [dev], [bench] and [docs] has one tested version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"], *extras["bench"], *extras["docs"]]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = {line.partition("==")[0] for line in lines if "==" in line}
    assert {re.split(r">=|\[", requirement)[0] for requirement in wanted} <= tested


def test_the_oldest_versions_are_those_of_pyproject():
    """`make test-lowest` tries what pyproject.toml promises, nothing newer."""
    spec = importlib.util.spec_from_file_location("lowest", ROOT / ".ci" / "lowest.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert "torch==" in script.lowest()
    assert (ROOT / "constraints-lowest.txt").read_text() == script.lowest()


def test_actions_are_named_by_their_hashes():
    """A tag may be moved to another commit by whoever gets hold of the action's repository."""
    used = [
        line.partition("uses:")[2].split()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert len(used) > 10
    for action, _, version, *_ in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r"v\d+\.\d+\.\d+;?", version), version
    assert len({tuple(u[:1]) for u in used}) == len({u[0].partition("@")[0] for u in used})  # one version of each


def test_locked_requirements_have_hashes():
    spec = importlib.util.spec_from_file_location("locked", ROOT / ".ci" / "locked.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    torch = {"name": "Torch", "version": "2.13.0+cpu"}, {"archive_info": {"hashes": {"sha256": "ab" * 32}}}
    own = {"name": "recyclegp", "version": "0.1.0"}, {"dir_info": {}}
    where = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.11"}
    install = [{"metadata": metadata, "download_info": info} for metadata, info in (torch, own)]
    header, *lines = script.locked({"install": install, "environment": where}).splitlines()
    assert header.startswith("# Made by .ci/locked.py, for linux x86_64 and Python 3.11")
    assert lines == [f"torch==2.13.0 --hash=sha256:{'ab' * 32}"]


def test_citation_names_this_version():
    assert f"\nversion: {recyclegp.__version__}\n" in (ROOT / "CITATION.cff").read_text()

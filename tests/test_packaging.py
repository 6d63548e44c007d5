"""Wheel and sdist build without a network and hold what they should."""

import email
import hashlib
import importlib
import json
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
PEERS = ("flower", "gpflow", "gpjax")  # constraints-peers.txt


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
        *(f"plot/{n}" for n in ("page.html", "drawing.js", "maps.js")),
        *(f"serve/{n}" for n in ("page.html", "page.css", "icon.svg")),
        *(f"serve/{n}.js" for n in ("page", "owners", "modules", "files")),
        *(f"hub/{n}" for n in ("page.html", "page.js", "page.css")),
        *(f"cli/help/{n}.txt" for n in ("recyclegp", "fit", "gather-sum")),
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
    """Each requirement of the package and of its extras has one tested version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: needed for name, needed in project["optional-dependencies"].items() if name not in PEERS}
    wanted = [
        *project["dependencies"],
        *(r for needed in extras.values() for r in needed if not r.startswith("recyclegp[")),
    ]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = {line.partition("==")[0] for line in lines if "==" in line}
    assert {re.split(r">=|\[", requirement)[0] for requirement in wanted} <= tested


def loaded(name, monkeypatch):
    """A script of .ci, which may import its neighbours."""
    monkeypatch.syspath_prepend(ROOT / ".ci")
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


def test_the_oldest_versions_are_those_of_pyproject(monkeypatch):
    """`make test-lowest` tries what pyproject.toml promises, nothing newer."""
    script = loaded("lowest", monkeypatch)
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


def test_known_weaknesses_are_looked_for():
    """The hosted workflow asks pip-audit about exactly what it has installed."""
    (workflow,) = (p for p in (ROOT / ".github" / "workflows").glob("*.yml") if "pip-audit" in p.read_text())
    lines = [line.partition("run:")[2].strip() for line in workflow.read_text().splitlines()]
    freeze, install, audit = (
        next(i for i, line in enumerate(lines) if word in line)
        for word in ("pip freeze", "install pip-audit", "bin/pip-audit ")
    )
    assert freeze < install < audit
    assert lines[freeze].rpartition("> ")[2] in lines[audit]


def test_packages_whose_interfaces_are_no_promise_have_upper_bounds():
    """Those that have changed what is used of them, or are before their first version."""
    wanted = {"gpytorch", "linear-operator", "safetensors", "typer"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounded = {re.split(r"[<>=]", line)[0] for line in project["dependencies"] if "<" in line}
    assert wanted <= bounded
    assert all("<" in line for line in project["optional-dependencies"]["serve"])


def test_locked_requirements_have_hashes(monkeypatch):
    script = loaded("locked", monkeypatch)
    torch = {"name": "Torch", "version": "2.13.0+cpu"}, {"archive_info": {"hashes": {"sha256": "ab" * 32}}}
    own = {"name": "recyclegp", "version": "0.1.0"}, {"dir_info": {}}
    where = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.11"}
    install = [{"metadata": metadata, "download_info": info} for metadata, info in (torch, own)]
    header, *lines = script.locked({"install": install, "environment": where}).splitlines()
    assert header.startswith("# Made by .ci/locked.py, for linux x86_64 and Python 3.11")
    assert lines == [f"torch==2.13.0 --hash=sha256:{'ab' * 32}"]


def test_citation_names_this_version():
    assert f"\nversion: {recyclegp.__version__}\n" in (ROOT / "CITATION.cff").read_text()


# --- what a release holds beside wheel and sdist; `make release` tries the wheel itself -----------


def test_the_changelog_begins_with_this_version(monkeypatch):
    release = loaded("release", monkeypatch)
    said = release.notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), release.version())
    assert said.startswith(f"## [{recyclegp.__version__}] - ")
    assert len(said.splitlines()) > 10


def test_notes_are_one_section(monkeypatch):
    release = loaded("release", monkeypatch)
    text = "# Changelog\n\n## [0.2.0] - 2027-01-02\n\n- new\n\n## [0.1.0] - 2026-12-01\n\n- first\n"
    assert release.notes(text, "0.2.0") == "## [0.2.0] - 2027-01-02\n\n- new\n"
    assert release.notes(text, "0.1.0") == "## [0.1.0] - 2026-12-01\n\n- first\n"
    with pytest.raises(SystemExit, match=r"no section '## \[0\.3\.0\] - DATE'"):
        release.notes(text, "0.3.0")


def test_checksums_are_those_of_sha256sum(monkeypatch, tmp_path):
    release = loaded("release", monkeypatch)
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "SHA256SUMS").write_text("old")
    empty, wheel = hashlib.sha256(b"").hexdigest(), hashlib.sha256(b"wheel").hexdigest()
    assert release.checksums(tmp_path) == f"{empty}  a.txt\n{wheel}  b.whl\n"


def test_a_bill_of_materials_names_no_file_of_the_machine(monkeypatch):
    release = loaded("release", monkeypatch)
    references = [{"type": "distribution", "url": "file:///home/me/a.whl"}, {"type": "website", "url": "https://a.org"}]
    components = [{"name": "a", "externalReferences": references}, {"name": "b", "externalReferences": references[:1]}]
    made = json.loads(release.elsewhere(json.dumps({"bomFormat": "CycloneDX", "components": components})))
    assert made["components"] == [{"name": "a", "externalReferences": references[1:]}, {"name": "b"}]


def test_a_folder_with_other_files_is_not_released(monkeypatch, tmp_path):
    release = loaded("release", monkeypatch)
    monkeypatch.setattr(release, "DIST", tmp_path)
    (tmp_path / "recyclegp-0.0.1.tar.gz").write_bytes(b"")
    with pytest.raises(SystemExit, match=r"dist/: it should hold recyclegp-0\.1\.0-py3-none-any\.whl"):
        release.built("0.1.0")

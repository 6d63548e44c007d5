"""Tries the wheel in dist/ in an empty environment, and writes what is published beside it.

    python .ci/release.py --python EMPTY/bin/python        (make release does that)

It installs the wheel with the tested versions and none of the extras, asks for the version, imports every public name
and runs the demonstration. Then dist/ gets

    NOTES.md                    what the changelog says of this version
    requirements-locked.txt     the tested versions, with hashes, for pip --require-hashes (.ci/locked.py)
    recyclegp.cdx.json          what the environment holds: an SBOM, in CycloneDX
    SHA256SUMS                  of all files; check them with `sha256sum -c SHA256SUMS`

Anything that is not as it should be ends it with a message, and publishing is copying dist/.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import locked

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
LOCKED_EXTRAS = ("excel", "hub", "parquet", "private", "sklearn")
SUMS = "SHA256SUMS"
BILL = "recyclegp.cdx.json"
EVERY_NAME = "import recyclegp as rgp; [getattr(rgp, name) for name in rgp.__all__]; print(rgp.__file__)"
MEMBERS = ("A.safetensors", "B.safetensors", "C.safetensors")  # that the demonstration writes


def version() -> str:
    """The version of the source, which the citation and the changelog must have too."""
    text = (ROOT / "src" / "recyclegp" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(.+)"', text)
    if found is None:
        raise SystemExit("src/recyclegp/version.py: no __version__ in it")
    if f"\nversion: {found[1]}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        raise SystemExit(f"CITATION.cff: it does not have the version {found[1]}")
    return found[1]


def notes(changelog: str, of: str) -> str:
    """What a changelog says of a version: its section, with the heading."""
    found = re.search(rf"^## \[{re.escape(of)}\] - .*?(?=^## \[|\Z)", changelog, flags=re.M | re.S)
    if found is None:
        raise SystemExit(f"CHANGELOG.md: no section '## [{of}] - DATE'")
    return found[0].rstrip() + "\n"


def built(of: str) -> tuple[Path, Path]:
    """Wheel and sdist of a version, and of no other."""
    wheel, source = DIST / f"recyclegp-{of}-py3-none-any.whl", DIST / f"recyclegp-{of}.tar.gz"
    here = {*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")}
    if here != {wheel, source}:
        raise SystemExit(
            f"dist/: it should hold {wheel.name} and {source.name}, and holds {sorted(p.name for p in here)}"
        )
    return wheel, source


def tried(python: Path, wheel: Path, of: str) -> None:
    """Install the wheel, and use it as somebody does who has nothing else."""
    install = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-c", str(ROOT / "constraints.txt")]
    said(python, *install, str(wheel))
    with tempfile.TemporaryDirectory() as folder:
        where = said(python, "-c", EVERY_NAME, folder=folder).strip()
        if not Path(where).is_relative_to(python.parents[1].resolve()):
            raise SystemExit(f"{where} was imported, and not the wheel")
        commands = ([str(python.parent / "recyclegp")], [str(python), "-m", "recyclegp"])
        for command in commands:
            if said(*command, "--version", folder=folder) != f"recyclegp {of}\n":
                raise SystemExit(f"{' '.join(command)} --version: it is not {of}")
        print(said(*commands[0], "demo", "-o", "demo", folder=folder))
        absent = [
            name for name in ("demo.png", "merged.safetensors", *MEMBERS) if not (Path(folder, "demo", name)).exists()
        ]
        if absent:
            raise SystemExit(f"recyclegp demo: it wrote no {', '.join(absent)}")


def said(*command: str | Path, folder: str | None = None) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(list(map(str, command)), cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def elsewhere(bill: str) -> str:
    """A bill of materials without references to files of the machine that made it."""
    found = json.loads(bill)
    for component in found["components"]:
        outside = [r for r in component.pop("externalReferences", []) if not r["url"].startswith("file:")]
        component |= {"externalReferences": outside} if outside else {}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def checksums(folder: Path) -> str:
    """SHA-256 of every file of a folder, as sha256sum writes and reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def release(python: Path) -> None:
    of = version()
    about = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), of)
    wheel, _ = built(of)
    tried(python, wheel, of)
    (DIST / "NOTES.md").write_text(about, encoding="utf-8")
    lock = locked.locked(locked.report(f"{ROOT}[{','.join(LOCKED_EXTRAS)}]"))
    (DIST / "requirements-locked.txt").write_text(lock, encoding="utf-8")
    bill = ["-m", "cyclonedx_py", "environment", "--output-format", "JSON"]
    said(sys.executable, *bill, "--output-file", DIST / BILL, python)
    (DIST / BILL).write_text(elsewhere((DIST / BILL).read_text(encoding="utf-8")), encoding="utf-8")
    (DIST / SUMS).write_text(checksums(DIST), encoding="utf-8")
    print((DIST / SUMS).read_text(encoding="utf-8"), end="")
    if "unreleased" in about.partition("\n")[0]:
        print(f"CHANGELOG.md: {of} has no date yet; give it one, and make this again, before it is published")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="of an environment without any packages")
    release(parser.parse_args().python.absolute())

"""Writes the versions that releases were tested with, each with the SHA-256 of its file: for pip --require-hashes.

    python .ci/locked.py [EXTRA …] > dist/requirements-locked.txt

    python -m pip install --require-hashes --no-deps -r requirements-locked.txt
    python -m pip install --no-deps recyclegp-….whl

pip takes hashes for all requirements or for none, also where they stand in a constraints file, and cannot check one of
a folder that is installed as it stands (`-e .`). So constraints.txt has none, and releases have this file beside the
wheel. The hashes are of the files for the system and the Python that it runs on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = "# Made by .ci/locked.py, for {system} and Python {python}. Use: pip install --require-hashes --no-deps -r"


def report(requirement: str) -> dict:
    """What pip would install, and from where."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--report", str(target), "-c", str(ROOT / "constraints.txt"), requirement]
        subprocess.run(command, check=True)
        return json.loads(target.read_text())


def locked(found: dict) -> str:
    """The text of the file; what is installed from a folder has no hash, and is left out."""
    lines = []
    for item in found["install"]:
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" in hashes:
            name, version = item["metadata"]["name"], item["metadata"]["version"].partition("+")[0]
            lines.append(f"{name.lower()}=={version} --hash=sha256:{hashes['sha256']}\n")
    here = found["environment"]
    header = HEADER.format(system=f"{here['sys_platform']} {here['platform_machine']}", python=here["python_version"])
    return header + "\n" + "".join(sorted(lines))


if __name__ == "__main__":
    extras = f"[{','.join(sys.argv[1:])}]" if sys.argv[1:] else ""
    sys.stdout.write(locked(report(f"{ROOT}{extras}")))

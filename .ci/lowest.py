"""Writes constraints-lowest.txt: the oldest versions that pyproject.toml promises to work with.

    python .ci/lowest.py            writes it
    python .ci/lowest.py --check    fails where it is not what would be written

`make test-lowest` runs the fast tests with them. BoTorch, GPflow and GPJax ask for newer versions of their own and are
left out, and so are the tools of developers.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "constraints-lowest.txt"
EXTRAS = ("sklearn", "parquet", "serve", "excel")
HEADER = "# Made from pyproject.toml by `python .ci/lowest.py`: the oldest versions that are promised to work.\n"
BOUND = re.compile(r"^([A-Za-z0-9._-]+)>=([0-9.]+)(,<[0-9.]+)?$")


def lowest() -> str:
    """The text of the file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = []
    for requirement in [*project["dependencies"], *(r for extra in EXTRAS for r in extras[extra])]:
        bound = BOUND.match(requirement)
        if bound is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} has no lower bound of the form name>=version")
        lines.append(f"{bound[1]}=={bound[2]}\n")
    return HEADER + "".join(sorted(lines))


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if FILE.read_text(encoding="utf-8") != lowest():
            raise SystemExit(f"{FILE.name} is not that of pyproject.toml; run `python .ci/lowest.py`")
    else:
        FILE.write_text(lowest(), encoding="utf-8")

"""Which commit and which command a kept result is of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
COMMIT = "RECYCLEGP_COMMIT"  # says it where there is no git, as on a machine that was given a copy of the files


def provenance(arguments: list[str] | None = None) -> dict[str, str]:
    """The commit, with "and changes" where sources or benchmarks differ from it, and the command."""
    given = sys.argv[1:] if arguments is None else arguments
    # of a file elsewhere only the name: where somebody keeps files is nobody's business
    given = [Path(said).name if Path(said).is_absolute() else said for said in given]
    return {"commit": _commit(), "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *given])}


def _commit() -> str:
    if os.environ.get(COMMIT):
        return os.environ[COMMIT]
    try:
        found = _git("rev-parse", "HEAD")[:12]
        changed = _git("status", "--porcelain", "--", "../src", ".", ":(exclude)results")  # made, not used
        return f"{found} and changes" if changed else found
    except (OSError, subprocess.CalledProcessError):
        return "not known"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()

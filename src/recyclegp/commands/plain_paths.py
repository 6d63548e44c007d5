"""Files on the command line that are simply there: `paths` finds the others, and imports more for that."""

from __future__ import annotations

import os
from collections.abc import Sequence


def expanded(files: Sequence[str]) -> list[str]:
    """Every file that is meant, as `paths.expand` finds and names it."""
    if all(os.path.isfile(file) and os.path.normpath(file) == file for file in files) and len(set(files)) == len(files):
        return list(files)
    from .paths import expand

    return list(map(str, expand(files)))

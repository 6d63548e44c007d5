"""Our docstrings list arguments in two columns, which people read well; for mkdocstrings they become a section.

name       unique within an ensemble; made up when not given.
publish    number of points, or the points.
           A line that begins under the text goes on.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*)$")


def rewritten(docstring: str) -> str:
    """The table moved to the end, as an "Args:" section; the rest as it was."""
    text: list[str] = []
    table: list[str] = []
    inside = False
    for line in docstring.splitlines():
        entry = ENTRY.match(line)
        if entry:
            table += [f"    {name}: {entry[2]}" for name in entry[1].split(", ")]
        elif inside and line.startswith("   "):
            table.append(f"        {line.strip()}")
        else:
            text.append(line)
        inside = bool(entry) or (inside and line.startswith("   "))
    return "\n".join([*text, "", "Args:", *table]) if table else docstring


class ArgumentTables(griffe.Extension):
    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        if func.docstring is not None:
            func.docstring.value = rewritten(func.docstring.value)

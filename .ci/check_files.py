"""Text files end with exactly one newline, and no file is large: what pre-commit asks of the files it names.

python .ci/check_files.py FILE...
"""

from __future__ import annotations

import sys
from pathlib import Path

LARGEST = 1_000_000  # bytes: pictures of the documentation fit, data sets do not


def complaint(path: Path) -> str | None:
    """What is wrong with a file."""
    content = path.read_bytes()
    if len(content) > LARGEST:
        return f"{len(content):,} bytes; at most {LARGEST:,} belong into the repository"
    if not content or b"\0" in content:  # empty, or no text
        return None
    if not content.endswith(b"\n"):
        return "does not end with a newline"
    if content.endswith((b"\n\n", b"\n\r\n")):
        return "ends with empty lines"
    return None


def main(names: list[str]) -> int:
    found = {name: complaint(Path(name)) for name in names}
    for name, text in found.items():
        if text is not None:
            print(f"{name}: {text}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

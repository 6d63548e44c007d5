"""Writes what `--help` prints anew: python -m recyclegp.cli.write_pages"""

from __future__ import annotations

import contextlib
import io
import os
from unittest import mock

from . import full
from .help_pages import FOLDER, NAME, WIDTH


def rendered() -> dict[str, str]:
    """Every page by the name of its command, from typer; that of the whole by the name of the program."""

    def printed(*arguments: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as text, mock.patch.dict(os.environ, COLUMNS=str(WIDTH)):
            full.app([*arguments, "--help"], prog_name=NAME, standalone_mode=False)
        return text.getvalue()

    commands = [name for functions in full.PANELS.values() for name in map(full.command_name, functions)]
    return {NAME: printed()} | {name: printed(name) for name in commands}


def write() -> None:
    pages = rendered()
    os.makedirs(FOLDER, exist_ok=True)
    for old in os.listdir(FOLDER):
        if old.removesuffix(".txt") not in pages:
            os.unlink(os.path.join(FOLDER, old))
    for name, text in pages.items():
        with open(os.path.join(FOLDER, f"{name}.txt"), "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)


if __name__ == "__main__":
    write()

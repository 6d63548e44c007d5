"""What `--help` prints, kept as text: to find it out anew takes typer, and every command, twenty times as long.

`make help-pages` (write_pages.py) writes them anew, after a change to what commands or options say; a test compares
them with what typer prints.
"""

from __future__ import annotations

import os

NAME = "recyclegp"  # of the program
FOLDER = os.path.join(os.path.dirname(__file__), "help")
WIDTH = 80  # of the terminal that the pages are for; wider ones are not filled


def page(command: str) -> str | None:
    """As it is printed on this terminal; None where there is none, or where it would be another one."""
    if not all("a" <= letter <= "z" or letter == "-" for letter in command) or _columns() < WIDTH:
        return None
    try:
        with open(os.path.join(FOLDER, f"{command}.txt"), encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def _columns() -> int:
    """Of the terminal, as `shutil` finds it out."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(1).columns or WIDTH
    except OSError:
        return WIDTH

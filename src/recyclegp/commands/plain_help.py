"""Help in the words of the command line: typer would name Python's types beside flags and arguments."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from typer.core import TyperCommand

LONGEST = 1000  # characters of what a command is for, in the list of all: the whole first sentence


class PlainCommand(TyperCommand):
    """A command whose help has no <bool> beside flags and no <list[str]> beside arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types(super().get_params(ctx))


def without_types(params: list[Any]) -> list[Any]:
    """Parameters that are shown with what is to be written for them, and nothing where that is clear."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.param_type_name == "argument":
            param.display_type_rich = lambda ctx: None  # its name says what it is,
            param.get_usage_pieces = lambda ctx, name=param.metavar: [name]  # how many there may be, and whether any
    return params


def in_panels(commands: list[Any], formatter: Any) -> None:
    """Commands with what they are for, below the headings of their panels."""
    for panel, own in groupby(commands, key=lambda command: command.rich_help_panel):
        with formatter.section(panel):
            formatter.write_dl([(command.name, command.get_short_help_str(LONGEST)) for command in own])

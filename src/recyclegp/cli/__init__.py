"""The command line: what needs little is done at once, all else by typer.

Importing typer alone takes five times as long as Python takes to start, so help and commands that read a few small
files (`direct`) come without it. Whatever is unusual, and every error, is left to the long way (`full`), which does all
of it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Any

from .help_pages import NAME


class Program:
    """The command line as something to call; for whatever else it is asked, it is the application of typer."""

    def __call__(self, args: Sequence[str] | None = None, **how: Any) -> Any:
        from . import direct

        is_program = args is None  # and not a call of somebody who goes on afterwards
        if is_program:
            gc.disable()  # what is done at once leaves nothing to collect: looking for it takes a tenth of the time,
        status = direct.run(sys.argv[1:] if args is None else args)
        if status is not None:
            if is_program:
                gc.freeze()  # and looking through everything at the end another one
            sys.exit(status)
        if is_program:
            gc.enable()
        return self._full(args, **{"prog_name": NAME, **how})

    @property
    def _full(self) -> Any:
        from . import full

        return full.app

    def __getattr__(self, name: str) -> Any:
        return getattr(self._full, name)


app = Program()


def __getattr__(name: str) -> Any:
    if name == "PANELS":
        from .full import PANELS

        return PANELS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Exit codes of the commands that talk to a hub, for whoever runs them unattended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

import typer

from ..errors import in_words, printable

if TYPE_CHECKING:
    from ..hub.home import Home


class Code(IntEnum):
    """Beside 0 and 2, which every command has."""

    UNREACHABLE = 3  # the hub does not answer
    REFUSED = 4  # it answers, and does not let this key do it
    NOT_AGREED = 5  # nobody has agreed to what would leave
    DOES_NOT_COUNT = 6  # the hub has the module, and screening has left it out
    NOT_YET = 7  # the time that was given is over, and the model is not complete


@contextmanager
def exit_codes() -> Iterator[None]:
    """What a hub says, or does not say, in one line and a code."""
    from ..hub.client import UnreachableError
    from ..hub.protocol import RefusedError
    from ..hub.waiting import NotYetError

    codes = {UnreachableError: Code.UNREACHABLE, RefusedError: Code.REFUSED, NotYetError: Code.NOT_YET}
    try:
        yield
    except (UnreachableError, RefusedError, NotYetError) as failed:
        code = next(own for kind, own in codes.items() if isinstance(failed, kind))
        typer.echo(f"recyclegp: {printable(_line(failed))}", err=True)
        raise typer.Exit(code) from None


@contextmanager
def logged(own: Home, command: str) -> Iterator[None]:
    """Its beginning and its end, in the owner's log; one that was killed has no end there."""
    own.tell(f"{command}: begins")
    try:
        yield
    except typer.Exit as ended:
        own.tell(f"{command}: ends with code {ended.exit_code}")
        raise
    except KeyboardInterrupt:
        own.tell(f"{command}: stopped by Ctrl-C")
        raise
    except Exception as failed:
        own.tell(f"{command}: ends, {_line(failed) or type(failed).__name__}")
        raise
    own.tell(f"{command}: done")


def _line(failed: Exception) -> str:
    return " ".join(in_words([failed], shell=True).split())

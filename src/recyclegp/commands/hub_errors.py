"""Exit codes of the commands that talk to a hub, for whoever runs them unattended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from ..errors import RecycleGPError, in_words, printable


class Code(IntEnum):
    """Beside 0 and 2, which every command has."""

    UNREACHABLE = 3  # the hub does not answer
    REFUSED = 4  # it answers, and does not let this key do it
    NOT_AGREED = 5  # nobody has agreed to what would leave
    DOES_NOT_COUNT = 6  # the hub has the module, and screening has left it out


@contextmanager
def exit_codes() -> Iterator[None]:
    """What a hub says, or does not say, in one line and a code."""
    from ..hub.client import UnreachableError
    from ..hub.protocol import RefusedError

    try:
        yield
    except (UnreachableError, RefusedError) as failed:
        code = Code.UNREACHABLE if isinstance(failed, UnreachableError) else Code.REFUSED
        typer.echo(f"recyclegp: {printable(_line(failed))}", err=True)
        raise typer.Exit(code) from None


def _line(failed: RecycleGPError) -> str:
    return " ".join(in_words([failed], shell=True).split())

"""What is done without typer: help, and what a few small files hold. What is not taken here goes the long way.

A command is taken only with words and options that are listed here, written plainly, and only where nothing goes wrong:
then both ways print the same, and tests compare them. Nothing is printed before that is certain.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from . import help_pages
from .help_pages import NAME

HELP = ("-h", "--help")
COMPLETING = "_RECYCLEGP_COMPLETE"  # is set by shells that ask how a command may go on

Tell = Callable[[], int]  # prints what was found, and gives the exit code


def run(arguments: Sequence[str]) -> int | None:
    """The exit code; None where nothing was done."""
    if COMPLETING in os.environ:
        return None
    tell = _help(list(arguments)) or _command(list(arguments))
    if tell is None:
        return None
    try:
        status = tell()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return status


# --- help -----------------------------------------------------------------------------------------


def _help(arguments: list[str]) -> Tell | None:
    if arguments == ["--version"]:
        from ..version import __version__

        return _printing(f"{NAME} {__version__}\n")
    if (arguments and arguments[-1] not in HELP) or len(arguments) > 2 or arguments[:1] == [NAME]:
        return None
    page = help_pages.page(arguments[0] if len(arguments) == 2 else NAME)
    return None if page is None else _printing(page, asked=bool(arguments))


def _printing(text: str, *, asked: bool = True) -> Tell:
    def tell() -> int:
        (sys.stdout if asked else sys.stderr).write(text)
        return 0 if asked else 2  # as of a command that lacks something

    return tell


# --- commands -------------------------------------------------------------------------------------


class Given:
    """What stands behind a command."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.on: set[str] = set()  # options without a value, by their long names
        self.values: dict[str, str] = {}


def _inspect(given: Given) -> Tell | None:
    from ..commands.inspecting import inspect
    from ..commands.screen import Screen

    return inspect(given.words, Screen("--quiet" in given.on, "--json" in given.on))


def _verify(given: Given) -> Tell | None:
    from ..commands.screen import Screen
    from ..commands.verifying import verify

    if "--trusted" not in given.values:
        return None
    return verify(given.words, given.values["--trusted"], Screen("--quiet" in given.on, "--json" in given.on))


def _modules(given: Given) -> Tell | None:
    from ..commands.listing import modules
    from ..commands.screen import Screen
    from ..models.dictionary import Dictionary

    if len(given.words) > 1:
        return None
    asked = {option.removeprefix("--"): value for option, value in given.values.items()}
    return modules(Dictionary(given.words[0]), Screen("--quiet" in given.on, "--json" in given.on), **asked)


QUIET = {"-q": "--quiet", "--quiet": "--quiet"}
JSON = {"--json": "--json"}
COMMANDS: dict[str, tuple[Callable[[Given], Tell | None], dict[str, str], tuple[str, ...]]] = {
    # what a command does, and the options with which it is taken: those without a value, and those with one
    "inspect": (_inspect, QUIET | JSON, ()),
    "verify": (_verify, QUIET | JSON, ("--trusted",)),
    "modules": (_modules, QUIET | JSON, ("--name", "--owner", "--likelihood", "--target")),
}


def _command(arguments: list[str]) -> Tell | None:
    name, *rest = arguments or [""]
    if name not in COMMANDS:
        return None
    prepare, switches, values = COMMANDS[name]
    given = _given(rest, switches, values)
    if given is None or not given.words:
        return None
    import warnings

    from ..errors import RecycleGPError, RecycleGPWarning, printable

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries, as the long way does
        warnings.simplefilter("error", RecycleGPWarning)
        try:
            return prepare(given)
        except FileNotFoundError as error:  # a name that is mistyped needs no long way
            alone = given.words == [error.filename]
            why = f"{error.filename}: {error.strerror}"
            return _refusing(printable(" ".join(why.split()))) if alone else None
        except (RecycleGPError, RecycleGPWarning, OSError):  # which the long way words
            return None


def _refusing(why: str) -> Tell:
    def tell() -> int:
        sys.stderr.write(f"{NAME}: {why}\n")
        return 2

    return tell


def _given(arguments: list[str], switches: dict[str, str], values: tuple[str, ...]) -> Given | None:
    """None where something is written otherwise: typer knows what it means, or what to say of it."""
    given, left = Given(), iter(arguments)
    for argument in left:
        if argument in switches:
            given.on.add(switches[argument])
        elif argument in values and argument not in given.values:
            value = next(left, "-")
            if value.startswith("-"):
                return None
            given.values[argument] = value
        elif argument.startswith("-") or not argument:
            return None
        else:
            given.words.append(argument)
    return given
